import type { Message, Store } from "../../contract/index.ts";
import { differs, firstDifference } from "./difference.ts";
import type { Player } from "./player.ts";
import { ownMessages, type RecordedTask, type RunRecording } from "./recording.ts";

/** Throws if a run with live models took another course: an agent ended otherwise, or called something else. */
export async function compareLive(
  { agent, tasks }: RunRecording,
  store: Store,
  player: Player,
  isFresh: boolean,
): Promise<void> {
  for (const task of tasks) {
    const isRoot = task.parentTaskId === undefined;
    if (isFresh && !isRoot) continue; // a fresh run may have other subagents
    const place = placeOf(task, tasks, agent);
    const record = await store.task(player.liveId(task.taskId));
    if (record === undefined) throw differs(place, undefined, "did not run");
    const { status, error } = record;
    if (status !== task.status && !(isFresh && status === "completed"))
      throw differs(
        place,
        undefined,
        `is ${status} and not ${task.status}${error ? `: ${error.message}` : ""}`,
      );
    if (isFresh) continue;
    const then = callsOf(task.messages);
    const now = callsOf(ownMessages(await store.session(record.sessionId), record.taskId));
    for (const step of [...new Set([...then.keys(), ...now.keys()])].sort((a, b) => a - b)) {
      const difference = firstDifference(then.get(step) ?? [], now.get(step) ?? []);
      if (difference) throw differs(place, step, `has other calls: ${difference}`);
    }
  }
}

/** The names of the agents above a recorded task and its own. */
function placeOf(task: RecordedTask, tasks: readonly RecordedTask[], root: string): string {
  const parent = tasks.find(({ taskId }) => taskId === task.parentTaskId);
  if (parent === undefined) return root;
  return `${placeOf(parent, tasks, root)}/${task.path.slice(task.path.lastIndexOf("/") + 1)}`;
}

/** The calls of each step. */
function callsOf(messages: readonly Message[]): ReadonlyMap<number, readonly unknown[]> {
  const calls = new Map<number, unknown[]>();
  for (const { content, metadata } of messages)
    for (const block of content) {
      if (block.type !== "tool_use") continue;
      const step = Number(metadata?.iteration);
      calls.set(step, [...(calls.get(step) ?? []), { name: block.name, input: block.input }]);
    }
  return calls;
}
