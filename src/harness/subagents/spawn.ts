import {
  childReport,
  keptFor,
  type TaskRun,
  type ToolContext,
  ToolFailure,
  taskBehind,
} from "../../agent/index.ts";
import { agentKeyOf } from "../../base/id.ts";
import { isObject } from "../../base/plain.ts";
import { nextTurn } from "../../base/time.ts";
import type { Block, Input, Message, ToolUseBlock } from "../../contract/index.ts";
import { subagentErrors } from "../prompts.ts";
import { type Child, childIndexOf, labelOf } from "./children.ts";
import type { Roster, RosterEntry } from "./roster.ts";

/** How long a call waits for a child by default. */
export const defaultWaitMs = 30_000;

/** Runs a child for a call and returns its report for the model. */
export async function runSubagent(
  context: ToolContext,
  entry: RosterEntry,
  { sessionId, agentKey, label }: Child,
  options: {
    readonly isKnown: boolean;
    readonly input: Input;
    readonly seconds?: number | undefined;
    readonly maxParallel: number;
  },
): Promise<{ readonly content: readonly Block[] }> {
  const { declaration } = entry;
  const { isKnown, input, seconds, maxParallel } = options;
  const { identity, state } = taskBehind(context);
  const { ref } = identity;
  const { userId, depth } = state.record;
  const agent = await entry.agentFor({
    agentKey,
    task: { taskId: context.callId, rootTaskId: ref.rootTaskId, sessionId },
    depth: depth + 1,
    ...(userId !== undefined && { userId }),
  });
  const timeoutMs =
    (seconds === undefined ? undefined : seconds * 1_000) ??
    (await context.get<number>("subagentTimeoutMs")) ??
    declaration?.timeoutMs ??
    defaultWaitMs;
  const isSync = timeoutMs > 0;
  const outcome = await context.runChild(agent, input, {
    agentId: entry.name,
    mode: isSync ? "sync" : "background",
    ...(isSync && { timeoutMs }),
    ...(label !== undefined && { label }),
    child: { sessionId, agentKey, isKnown },
    maxParallel,
    ...(declaration?.output && { output: declaration.output }),
  });
  const isOpen = outcome.status === "queued" || outcome.status === "in_progress";
  const isPromoted = isSync && outcome.mode === "background" && isOpen;
  const promoted = isPromoted ? (["timeout_promoted"] as const) : [];
  const { header, said } = childReport(outcome, ...promoted);
  if (outcome.status === "failed") throw new ToolFailure("child_failed", header);
  return { content: [{ type: "text", text: header }, ...said] };
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
    agentKey: agentKeyOf(name, uuid),
    agentId: name,
    sessionId: `sub-${uuid}`,
    ...(label !== undefined && { label }),
  };
}

/** How many children of a task start in one turn of the event loop. */
const startsPerTurn = 64;

/** The starts of a task so far, and the turn in which the next one has a place. */
const startsKey = Symbol("starts");

/** Resolves in a turn of the event loop that has a place for another start; first come, first served. */
function placeInTurn(parent: TaskRun): Promise<void> {
  const last = keptFor(parent, startsKey, () => ({ count: 0, turn: Promise.resolve() }));
  last.count += 1;
  if (last.count % startsPerTurn === 0) last.turn = last.turn.then(nextTurn);
  return last.turn;
}

/** Throws `ToolFailure` if a call may not start a child: over a limit, or with a label that is taken. */
export async function checkSpawn(
  parent: TaskRun,
  { callId, messages }: ToolContext,
  { maxSpawnDepth, childrenPerTask }: Required<SubagentLimits>,
  label?: string,
): Promise<void> {
  const { conversation, identity, state } = parent;
  await placeInTurn(parent);
  const root = await conversation.store.task(identity.ref.rootTaskId);
  const depth = state.record.depth + (root?.origin?.via?.depth ?? 0);
  if (depth >= maxSpawnDepth) {
    throw new ToolFailure("too_deep", subagentErrors.tooDeep(depth, maxSpawnDepth));
  }
  const { childCalls } = parent.output;
  if (childCalls.has(callId)) return; // the call has its child
  const before = callsBefore(parent, callId, messages);
  if (childCalls.size + before.starting >= childrenPerTask) {
    throw new ToolFailure("too_many_children", subagentErrors.tooManyChildren(childrenPerTask));
  }
  if (label === undefined) return;
  const { byLabel } = await childIndexOf(parent);
  if (!before.hasLabel(label) && !byLabel.has(label)) return;
  throw new ToolFailure("label_taken", subagentErrors.labelTaken(label));
}

/** The calls of one reply that start children. */
interface Delegations {
  readonly calls: readonly ToolUseBlock[];
  readonly placeOf: ReadonlyMap<string, number>;
  /** The ids of the calls with a label, in order. */
  readonly byLabel: ReadonlyMap<string, readonly string[]>;
  /** The calls before this place have their children. */
  started: number;
}

const delegationsKey = Symbol("delegations");

function delegationsIn(parent: TaskRun, reply: Message): Delegations {
  const delegations = keptFor(parent, delegationsKey, () => new Map<Message, Delegations>());
  const read = delegations.get(reply);
  if (read) return read;
  const calls = reply.content.filter(
    (block): block is ToolUseBlock =>
      block.type === "tool_use" && /^agent_(spawn|send)$/.test(block.name),
  );
  const byLabel = new Map<string, string[]>();
  for (const { id, input } of calls) {
    const label = labelOf(isObject(input) && input.label);
    if (label === undefined) continue;
    const ids = byLabel.get(label) ?? [];
    byLabel.set(label, ids);
    ids.push(id);
  }
  const placeOf = new Map(calls.map(({ id }, place) => [id, place]));
  const index = { calls, placeOf, byLabel, started: 0 };
  delegations.set(reply, index);
  return index;
}

/**
 * The calls before this one that have no result: their children may not be stored yet. They are in the same reply,
 * because a model is called only when all calls have results. Each call looks at the few that started just before it.
 */
function callsBefore(parent: TaskRun, callId: string, messages: readonly Message[]) {
  const { childCalls, openResults } = parent.output;
  const isIn = (message: Message) => delegationsIn(parent, message).placeOf.has(callId);
  const reply = messages.findLast(isIn);
  if (reply === undefined) return { starting: 0, hasLabel: () => false };
  const index = delegationsIn(parent, reply);
  const { calls, placeOf, byLabel } = index;
  const place = placeOf.get(callId) ?? 0;
  while (index.started < place && childCalls.has(calls[index.started]?.id ?? ""))
    index.started += 1;
  const isStarting = ({ id }: ToolUseBlock) => openResults.has(id) && !childCalls.has(id);
  const isPending = (id: string) => openResults.has(id) && (placeOf.get(id) ?? 0) < place;
  return {
    starting: calls.slice(index.started, place).filter(isStarting).length,
    hasLabel: (label: string) => byLabel.get(label)?.some(isPending) === true,
  };
}

/** Finds the child of this session with a key or a label. */
export async function findChild(
  parent: TaskRun,
  key: string | undefined,
  label: string | undefined,
): Promise<Child> {
  if ((key === undefined) === (label === undefined)) {
    throw new ToolFailure("no_address", subagentErrors.noAddress);
  }
  const { byKey, byLabel } = await childIndexOf(parent);
  const found = key === undefined ? byLabel.get(label ?? "") : byKey.get(key);
  if (found) return found;
  const { unknownKey, unknownLabel } = subagentErrors;
  const message = key === undefined ? unknownLabel(label ?? "") : unknownKey(key);
  throw new ToolFailure("unknown_child", message);
}

/** Limits of delegation. */
export interface SubagentLimits {
  /** Levels below the root, counted across servers; defaults to 3, at most 16. */
  readonly maxSpawnDepth?: number;
  /** Children that one task may start; defaults to 32. */
  readonly childrenPerTask?: number;
  /** Children of a session that may be at work at once; more wait in a queue. Defaults to 8. */
  readonly parallelChildren?: number;
}

/** The most levels that `maxSpawnDepth` allows. */
export const deepestSpawn = 16;

/** The default limits. */
export const subagentLimits: Required<SubagentLimits> = {
  maxSpawnDepth: 3,
  childrenPerTask: 32,
  parallelChildren: 8,
};
