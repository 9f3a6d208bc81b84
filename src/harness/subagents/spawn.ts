import { childReport } from "../../agent/loop/child-outcome.ts";
import type { TaskRun } from "../../agent/loop/task-run.ts";
import type { ToolContext } from "../../agent/tool/context.ts";
import { ToolFailure } from "../../agent/tool/tool.ts";
import type { Block } from "../../protocol/message.ts";
import { isTerminal } from "../../protocol/task.ts";
import { subagentErrors } from "../prompts.ts";
import { type Child, childrenOf } from "./children.ts";
import type { Roster, RosterEntry } from "./roster.ts";

/** How long a call waits for a child by default. */
export const defaultWaitMs = 30_000;

/** Runs a child for a call and returns its report for the model. */
export async function runSubagent(
  { ref, record }: TaskRun,
  context: ToolContext,
  entry: RosterEntry,
  { sessionId, agentKey, label }: Child,
  options: { readonly isKnown: boolean; readonly prompt: string; readonly seconds?: number },
): Promise<{ readonly content: readonly Block[] }> {
  const { declaration } = entry;
  const { userId, depth } = record;
  const agent = await entry.agentFor({
    agentKey,
    task: { taskId: context.callId, rootTaskId: ref.rootTaskId, sessionId },
    depth: depth + 1,
    ...(userId !== undefined && { userId }),
  });
  const timeoutMs =
    (options.seconds === undefined ? undefined : options.seconds * 1_000) ??
    context.get<number>("subagentTimeoutMs") ??
    declaration?.timeoutMs ??
    defaultWaitMs;
  const isSync = timeoutMs > 0;
  const outcome = await context.runChild(agent, options.prompt, {
    agentId: entry.name,
    mode: isSync ? "sync" : "background",
    ...(isSync && { timeoutMs }),
    ...(label !== undefined && { label }),
    child: { sessionId, agentKey, isKnown: options.isKnown },
    ...(declaration?.output && { output: declaration.output }),
  });
  const isOpen = outcome.status === "queued" || outcome.status === "in_progress";
  const isPromoted = isSync && outcome.mode === "background" && isOpen;
  const promoted = isPromoted ? (["timeout_promoted"] as const) : [];
  const { header, said } = childReport(outcome, ...promoted);
  if (outcome.status === "failed") throw new ToolFailure("child_failed", header);
  return { content: [{ type: "text", text: header }, ...outcome.cited, ...said] };
}

/** Finds an agent type; throws `unknown_agent`. */
export async function findEntry(roster: Roster, name: string): Promise<RosterEntry> {
  const entry = await roster.find(name);
  if (entry) return entry;
  const names = (await roster.entries()).map((candidate) => candidate.name);
  throw new ToolFailure("unknown_agent", subagentErrors.unknownAgent(name, names));
}

/** Creates the ids of a new child. */
export function newChild(task: TaskRun, { name }: RosterEntry, label: string | undefined): Child {
  const uuid = task.settings.ids.uuid();
  return {
    agentKey: `agent:${name}:${uuid}`,
    agentId: name,
    sessionId: `sub-${uuid}`,
    ...(label !== undefined && { label }),
  };
}

/** Throws `label_taken` if another child of the session has the label. */
export async function checkLabel(
  { conversation, ref }: TaskRun,
  context: ToolContext,
  label: string,
): Promise<void> {
  if (await conversation.store.task(context.callId)) return; // the child of this call has it
  const children = await childrenOf(conversation.store, ref.sessionId, context.messages);
  if (children.some((child) => child.label === label)) throw labelTaken(label);
}

/** Finds the child of this session with a key or a label. */
export async function findChild(
  { conversation, ref }: TaskRun,
  context: ToolContext,
  key: string | undefined,
  label: string | undefined,
): Promise<Child> {
  if ((key === undefined) === (label === undefined)) {
    throw new ToolFailure("no_address", subagentErrors.noAddress);
  }
  const children = await childrenOf(conversation.store, ref.sessionId, context.messages);
  const found = children.find((child) =>
    key === undefined ? child.label === label : child.agentKey === key,
  );
  if (found) return found;
  const { unknownKey, unknownLabel } = subagentErrors;
  const message = key === undefined ? unknownLabel(label ?? "") : unknownKey(key);
  throw new ToolFailure("unknown_child", message);
}

/** Limits of delegation. */
export interface SubagentLimits {
  /** Levels below the root; defaults to 3, which is the maximum. */
  readonly maxSpawnDepth?: number;
  /** Children that one task may start; defaults to 32. */
  readonly childrenPerTask?: number;
  /** Children that may be unfinished at once; defaults to 8. */
  readonly parallelChildren?: number;
}

/** The default limits. */
export const subagentLimits: Required<SubagentLimits> = {
  maxSpawnDepth: 3,
  childrenPerTask: 32,
  parallelChildren: 8,
};

/** A call that starts a child, reserved before the store has a record of the child. */
type Reservation = { readonly callId: string; readonly label?: string; isDone: boolean };
/** `decided` resolves when the last call was admitted or refused. */
const reservations = new WeakMap<TaskRun, { held: Reservation[]; decided: Promise<unknown> }>();

/** Reserves a child for a call while `start` runs; admits parallel calls in order and throws `ToolFailure` over a limit. */
export async function withReservation<T>(
  task: TaskRun,
  callId: string,
  label: string | undefined,
  limits: Required<SubagentLimits>,
  start: () => Promise<T>,
): Promise<T> {
  const taken = reservations.get(task) ?? { held: [], decided: Promise.resolve() };
  reservations.set(task, taken);
  const { held } = taken;
  const own: Reservation = { callId, label, isDone: false };
  const decision = taken.decided.then(async () => {
    if (label !== undefined && held.some((child) => child.label === label)) throw labelTaken(label);
    await checkLimits(task, callId, held, limits);
    held.push(own);
  });
  taken.decided = decision.catch(() => {});
  await decision;
  try {
    return await start();
  } catch (error) {
    held.splice(held.indexOf(own), 1);
    throw error;
  } finally {
    own.isDone = true;
  }
}

async function checkLimits(
  { record: { depth }, ref, conversation }: TaskRun,
  callId: string,
  held: readonly Reservation[],
  { maxSpawnDepth, childrenPerTask, parallelChildren }: Required<SubagentLimits>,
): Promise<void> {
  if (depth >= maxSpawnDepth) {
    throw new ToolFailure("too_deep", subagentErrors.tooDeep(depth, maxSpawnDepth));
  }
  const records = await conversation.store.tasks({ parentSessionId: ref.sessionId });
  if (records.some((record) => record.taskId === callId)) return; // the call already has its child
  const own = records.filter((record) => record.parentTaskId === ref.taskId);
  const recorded = new Set(own.map((record) => record.taskId));
  const starting = held.filter((child) => !recorded.has(child.callId) && !child.isDone);
  if (own.length + starting.length >= childrenPerTask) {
    throw new ToolFailure("too_many_children", subagentErrors.tooManyChildren(childrenPerTask));
  }
  const open = records.filter((record) => !isTerminal(record.status)).length;
  if (open + starting.length >= parallelChildren) {
    throw new ToolFailure("too_many_at_once", subagentErrors.tooManyAtOnce(parallelChildren));
  }
}

function labelTaken(label: string): ToolFailure {
  return new ToolFailure("label_taken", subagentErrors.labelTaken(label));
}
