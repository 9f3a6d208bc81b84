import type { Commit, Lease, Message, Post, Store, TaskRecord } from "../../contract/index.ts";
import type { TaskEvent, TextDelta } from "../../protocol/index.ts";

/** Acquires a lease or throws. */
export async function acquire(
  store: Store,
  sessionId = "sess_1",
  { owner = "owner", ttlMs = 60_000 } = {},
): Promise<Lease> {
  const lease = await store.acquire(sessionId, owner, ttlMs);
  if (!lease) throw new Error(`The lease on ${sessionId} was refused.`);
  return lease;
}

/** Acquires a lease, commits and releases it. */
export async function commitOnce(
  store: Store,
  commit: Partial<Commit>,
  sessionId = "sess_1",
): Promise<void> {
  const lease = await acquire(store, sessionId);
  await store.commit({ lease, log: "task_1", ...commit });
  await store.release(lease);
}

/** A text delta. */
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

/** `count` deltas with the texts `from`, `from + 1`, ... */
export function deltas(count: number, from = 0, taskId = "task_1"): TextDelta[] {
  return Array.from({ length: count }, (_, i) => delta(String(from + i), taskId));
}

/** The text of a delta. */
export function textOfEvent(event: TaskEvent): string {
  return (event as TextDelta).delta;
}

/** The number of an event. */
export function numberOf(event: TaskEvent): number {
  return (event as TextDelta).sequence_number;
}

/** A user message. */
export function message(text: string, id = `msg_${text.slice(0, 20)}`): Message {
  return { id, role: "user", content: [{ type: "text", text }] };
}

/** The record of a root task on `sess_1`. */
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

/** The record of a child of `task_1` on `sub-1`. */
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

/** An inbox row for `sess_1`. */
export function postRow(changes: Partial<Post> = {}): Post {
  return { id: "post_1", kind: "input", sessionId: "sess_1", message: message("hi"), ...changes };
}

/** The ids of a list of rows. */
export function ids(rows: readonly { readonly id: string }[]): string[] {
  return rows.map((row) => row.id);
}

/** Texts that are easy to store wrongly: beyond U+FFFF, lone surrogates, NUL, separators, escapes. */
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

/** Follows a log: watches it, reads to its end, waits for a wake, and so on. */
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

/** The first `count` events of an iterable. */
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
