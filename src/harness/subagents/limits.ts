import type { TaskRun } from "../../agent/task-run.ts";
import { ToolFailure } from "../../agent/tool/tool-failure.ts";
import { isTerminal } from "../../protocol/task.ts";

/** How much delegation is allowed. */
export interface SubagentLimits {
  /** How many levels there may be below the root; 3 by default, and at most. */
  readonly maxSpawnDepth?: number;
  /** How many children one task may start; 32 by default. */
  readonly childrenPerTask?: number;
  /** How many of them may be unfinished at once; 8 by default. */
  readonly parallelChildren?: number;
}

/** What holds where nothing else is said. */
export const subagentLimits: Required<SubagentLimits> = {
  maxSpawnDepth: 3,
  childrenPerTask: 32,
  parallelChildren: 8,
};

/** A call that starts a child, from before anything is known of the child in the store. */
interface Place {
  readonly callId: string;
  readonly label: string | undefined;
  isDone: boolean;
}
interface Places {
  readonly held: Place[];
  /** The last call that asked for a place has its answer. */
  decided: Promise<unknown>;
}
const places = new WeakMap<TaskRun, Places>();

/**
 * Holds a place for a call's child while `start` runs. Calls of one batch come at the same time, so they get their places
 * one after the other, in the order of the calls; beyond the limits a call fails with a word to the model.
 */
export async function withPlace<T>(
  task: TaskRun,
  callId: string,
  label: string | undefined,
  limits: Required<SubagentLimits>,
  start: () => Promise<T>,
): Promise<T> {
  const taken = places.get(task) ?? { held: [], decided: Promise.resolve() };
  places.set(task, taken);
  const { held } = taken;
  const place: Place = { callId, label, isDone: false };
  const decision = taken.decided.then(async () => {
    if (label !== undefined && held.some((one) => one.label === label)) throw labelTaken(label);
    await checkLimits(task, callId, held, limits);
    held.push(place);
  });
  taken.decided = decision.catch(() => {});
  await decision;
  try {
    return await start();
  } catch (error) {
    held.splice(held.indexOf(place), 1);
    throw error;
  } finally {
    place.isDone = true;
  }
}

async function checkLimits(
  task: TaskRun,
  callId: string,
  held: readonly Place[],
  { maxSpawnDepth, childrenPerTask, parallelChildren }: Required<SubagentLimits>,
): Promise<void> {
  if (task.record.depth >= maxSpawnDepth) {
    throw new ToolFailure(
      "too_deep",
      `You are ${task.record.depth} levels below the root, and ${maxSpawnDepth} is the limit: do this yourself.`,
    );
  }
  const { store } = task.conversation;
  const records = await store.tasks({ parentSessionId: task.ref.sessionId });
  if (records.some((record) => record.taskId === callId)) return; // it has its place already
  const own = records.filter((record) => record.parentTaskId === task.ref.taskId);
  const known = new Set(own.map((record) => record.taskId));
  const starting = held.filter((place) => !known.has(place.callId) && !place.isDone);
  if (own.length + starting.length >= childrenPerTask) {
    throw new ToolFailure(
      "too_many_children",
      `This task has started ${childrenPerTask} children, which is the limit. Do the rest yourself, or send to one that exists with agent_send.`,
    );
  }
  const open = records.filter((record) => !isTerminal(record.status)).length;
  if (open + starting.length >= parallelChildren) {
    throw new ToolFailure(
      "too_many_at_once",
      `${parallelChildren} children are at work, which is the limit. Wait for one (task_wait), then try again.`,
    );
  }
}

/** A label stands for one child of a session. */
export function labelTaken(label: string): ToolFailure {
  return new ToolFailure(
    "label_taken",
    `A child of this session has the label "${label}". Send to it with agent_send, or choose another label.`,
  );
}
