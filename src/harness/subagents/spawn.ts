import { childReport } from "../../agent/child-report.ts";
import type { TaskRun } from "../../agent/task-run.ts";
import type { ChildOutcome, ToolContext } from "../../agent/tool/context.ts";
import { ToolFailure } from "../../agent/tool/tool-failure.ts";
import type { Agent } from "../../protocol/agent.ts";
import type { Block } from "../../protocol/message.ts";
import { type Child, childrenOf } from "./children.ts";
import { labelTaken } from "./limits.ts";
import type { ForChild, Roster, RosterEntry } from "./roster.ts";

/** How long a call waits for a child, unless somebody says otherwise. */
export const defaultSeconds = 30;

/** The value of the caller's context that stands for the time a call waits, when the model gives none. */
const timeoutKey = "subagentTimeoutSeconds";

/** A task for a subagent. */
export interface Order {
  readonly agent: Agent;
  readonly entry: RosterEntry;
  readonly child: Child;
  readonly isKnown: boolean;
  readonly asked: string;
  readonly timeout_seconds?: number | undefined;
}

/** Runs a subagent for a call, and tells what the model reads of it: who it is and how it stands, what it said. */
export async function runSubagent(context: ToolContext, order: Order) {
  const { agent, entry, child, isKnown, asked } = order;
  const { declaration } = entry;
  const { sessionId, agentKey, label } = child;
  const seconds =
    order.timeout_seconds ??
    context.get<number>(timeoutKey) ??
    declaration?.timeoutSeconds ??
    defaultSeconds;
  const wasSync = seconds > 0;
  const outcome = await context.runChild(agent, asked, {
    agentId: entry.name,
    mode: wasSync ? "sync" : "background",
    ...(wasSync && { timeoutMs: seconds * 1_000 }),
    ...(label !== undefined && { label }),
    child: { sessionId, agentKey, isKnown },
    ...(declaration?.output && { output: declaration.output }),
  });
  const isPromoted = wasSync && outcome.mode === "background";
  return reportOf(outcome, isPromoted);
}

/** What the model reads: who the child is and how it stands, what it cites, what it said. */
function reportOf(outcome: ChildOutcome, isPromoted: boolean): { content: readonly Block[] } {
  const isOpen = outcome.status === "queued" || outcome.status === "in_progress";
  const { header, said } = childReport(
    outcome,
    ...(isPromoted && isOpen ? (["timeout_promoted"] as const) : []),
  );
  if (outcome.status === "failed") throw new ToolFailure("child_failed", header);
  return { content: [{ type: "text", text: header }, ...outcome.cited, ...said] };
}

/** The entry of a name; another name is an error that says which there are. */
export async function findEntry(roster: Roster, name: string): Promise<RosterEntry> {
  const entry = await roster.find(name);
  if (entry) return entry;
  const names = (await roster.entries()).map((one) => one.name).join(", ");
  throw new ToolFailure("unknown_agent", `There is no subagent "${name}". There are: ${names}.`);
}

/** A new instance of a subagent. */
export function newChild(task: TaskRun, { name }: RosterEntry, label: string | undefined): Child {
  const uuid = task.settings.ids.uuid();
  return {
    agentKey: `agent:${name}:${uuid}`,
    agentId: name,
    sessionId: `sub-${uuid}`,
    ...(label !== undefined && { label }),
  };
}

/** A label stands for one child of a session. */
export async function checkLabel(
  task: TaskRun,
  context: ToolContext,
  label: string,
): Promise<void> {
  const { conversation, ref } = task;
  if (await conversation.store.task(context.callId)) return; // it is this call's own child's
  const children = await childrenOf(conversation.store, ref.sessionId, context.messages);
  if (children.some((child) => child.label === label)) throw labelTaken(label);
}

/** The child of this session that a key or a label names. */
export async function addressed(
  task: TaskRun,
  context: ToolContext,
  key: string | undefined,
  label: string | undefined,
): Promise<Child> {
  if ((key === undefined) === (label === undefined)) {
    throw new ToolFailure("no_address", "Give agent_key or label, one of them.");
  }
  const { conversation, ref } = task;
  const children = await childrenOf(conversation.store, ref.sessionId, context.messages);
  const found = children.find((one) =>
    key === undefined ? one.label === label : one.agentKey === key,
  );
  if (found) return found;
  throw new ToolFailure(
    "unknown_child",
    key === undefined
      ? `No child of this session has the label "${label}". agent_list shows them.`
      : `No child of this session has the key "${key}". Give the whole agent_key that agent_spawn returned, such as agent:researcher:0b0e…; agent_list shows them.`,
  );
}

/** For whom the agent behind a child is needed. */
export function forChild(
  { ref, record }: TaskRun,
  { agentKey, sessionId }: Child,
  callId: string,
): ForChild {
  const { userId, depth } = record;
  const task = { taskId: callId, rootTaskId: ref.rootTaskId, sessionId };
  return { agentKey, task, depth: depth + 1, ...(userId !== undefined && { userId }) };
}
