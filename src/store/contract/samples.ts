import type { TaskEvent, TextDelta } from "../../protocol/event.ts";
import type { Message } from "../../protocol/message.ts";
import type { Commit, Lease, Post, Store, TaskRecord } from "../../protocol/store.ts";

/** A lease that must be had. */
export async function acquire(
  store: Store,
  sessionId = "sess_1",
  { owner = "owner", ttlMs = 60_000 } = {},
): Promise<Lease> {
  const lease = await store.acquire(sessionId, owner, ttlMs);
  if (!lease) throw new Error(`The lease on ${sessionId} was refused.`);
  return lease;
}

/** One commit under a fresh lease that is released after it. */
export async function commitOnce(
  store: Store,
  commit: Partial<Commit>,
  sessionId = "sess_1",
): Promise<void> {
  const lease = await acquire(store, sessionId);
  await store.commit({ lease, log: "task_1", ...commit });
  await store.release(lease);
}

/** A text delta that can be told from the others by its text; its number is the store's business. */
export function delta(text: string, taskId = "task_1"): TextDelta {
  return {
    type: "task.text.delta",
    task_id: taskId,
    sequence_number: -1,
    task_seq: 0,
    created_at: 0,
    item_id: "msg_1",
    output_index: 0,
    block_index: 0,
    delta: text,
  };
}

/** `count` deltas whose texts are their numbers, counted from `from`. */
export function deltas(count: number, from = 0, taskId = "task_1"): TextDelta[] {
  return Array.from({ length: count }, (_, i) => delta(String(from + i), taskId));
}

/** What `delta` put into an event. */
export function textOfEvent(event: TaskEvent): string {
  return (event as TextDelta).delta;
}

/** The number that the store gave an event. */
export function numberOf(event: TaskEvent): number {
  return (event as TextDelta).sequence_number;
}

/** What a user said. */
export function message(text: string, id = `msg_${text.slice(0, 20)}`): Message {
  return { id, role: "user", content: [{ type: "text", text }] };
}

/** A record of a root task on `sess_1`, with what the case changes in it. */
export function record(changes: Partial<TaskRecord> = {}): TaskRecord {
  const taskId = changes.taskId ?? "task_1";
  return {
    taskId,
    rootTaskId: taskId,
    agentId: "assistant",
    agentName: "assistant",
    agentKey: `agent:assistant:${taskId}`,
    sessionId: "sess_1",
    depth: 0,
    path: "sess_1",
    createdAt: 1,
    mode: "sync",
    status: "in_progress",
    committedOutput: 0,
    ...changes,
  };
}

/** A record of a child of `task_1` on a session of its own. */
export function childRecord(changes: Partial<TaskRecord> = {}): TaskRecord {
  return record({
    taskId: "call_1",
    rootTaskId: "task_1",
    parentTaskId: "task_1",
    parentItemId: "fco_1",
    sessionId: "sub-1",
    parentSessionId: "sess_1",
    depth: 1,
    path: "sess_1/assistant",
    ...changes,
  });
}

/** A row for the inbox of `sess_1`. */
export function postRow(changes: Partial<Post> = {}): Post {
  return { id: "post_1", kind: "input", sessionId: "sess_1", message: message("hi"), ...changes };
}

/** The ids of a list of rows. */
export function ids(rows: readonly { readonly id: string }[]): string[] {
  return rows.map((row) => row.id);
}

/** Texts that a store may trip over: beyond U+FFFF, half a pair, NUL, separators, escapes. */
export const awkwardTexts: readonly string[] = [
  "👩‍👩‍👧‍👦 family",
  "half \ud83d and \udc69 pairs",
  "NUL \u0000 inside",
  "\u2028 and \u2029",
  "שלום مرحبا 你好",
  "e\u0301 is not é",
  "'; DROP TABLE events; --",
  '\\ " \b \f \n \r \t \u007f \u001b',
  "\ufeffmarked",
  "",
];

/** Follows a log as a reader does: watch, then read until nothing is new, then wait for a wake. */
export async function* follow(
  store: Store,
  log: string,
  { after = -1, limit = 100 } = {},
): AsyncGenerator<TaskEvent, never> {
  let change = Promise.withResolvers<void>();
  const stop = store.watch({ log }, () => change.resolve());
  try {
    for (let cursor = after; ; ) {
      const events = await store.read(log, cursor, limit);
      for (const event of events) {
        cursor = numberOf(event);
        yield event;
      }
      if (events.length > 0) continue;
      await change.promise;
      change = Promise.withResolvers();
    }
  } finally {
    stop();
  }
}

/** The first `count` events that a reader gets. */
export async function take(events: AsyncIterable<TaskEvent>, count: number): Promise<TaskEvent[]> {
  const taken: TaskEvent[] = [];
  if (count > 0) {
    for await (const event of events) if (taken.push(event) === count) break;
  }
  return taken;
}

/** `[from, from + 1, … to - 1]`. */
export function range(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
}

/** Whether the long variants run. */
export const deep = process.env.RIVULET_DEEP === "1";
