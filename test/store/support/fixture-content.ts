import type { Store } from "../../../src/contract/store.ts";
import {
  acquire,
  awkwardTexts,
  childRecord,
  commitOnce,
  delta,
  deltas,
  message,
  postRow,
  record,
} from "../../../src/testing/store-contract/samples.ts";

/** The time at which fixtures are written. */
export const fixtureTime = 1_700_000_000_000;

/** Writes data of every kind. */
export async function writeContent(store: Store): Promise<void> {
  const snapshot = {
    type: "task.snapshot",
    task_id: "task_2",
    through_sequence_number: 3,
    through_task_seq: 3,
    created_at: 1,
    task: { id: "task_2", object: "task", status: "completed", output: [] },
  } as const;
  await store.post([postRow({ id: "post_taken" })]);
  await commitOnce(store, {
    events: deltas(3),
    tasks: [record({ userId: "ann", label: "first" }), childRecord({ mode: "background" })],
    appends: [
      { sessionId: "sess_1", at: 0, messages: [message("hello"), message("again")] },
      { sessionId: "sub-1", at: 0, messages: awkwardTexts.map((text, i) => message(text, `${i}`)) },
    ],
    posts: [postRow({ id: "post_waiting", kind: "answer", rootTaskId: "task_1" })],
    taken: ["post_taken"],
  });
  await commitOnce(store, { events: awkwardTexts.map((text) => delta(text)) });
  await commitOnce(
    store,
    {
      log: "task_2",
      events: deltas(280, 0, "task_2"),
      tasks: [record({ taskId: "task_2", sessionId: "sess_2", status: "completed" })],
    },
    "sess_2",
  );
  await store.trim("task_2", { through: 260, tasks: [snapshot] });
  await acquire(store, "sess_owned", { ttlMs: 60_000 });
  await store.files.put(
    "folder/ü.bin",
    Uint8Array.from({ length: 256 }, (_, i) => i),
  );
  await store.files.put("gone", new Uint8Array([1]));
  await store.files.delete("gone");
}

/** Reads everything that `writeContent` writes. */
export async function readContent(store: Store) {
  return {
    first: await store.read("task_1", -1, 10_000),
    second: await store.read("task_2", 260, 10_000),
    snapshots: [await store.snapshot("task_1"), await store.snapshot("task_2")],
    last: [await store.last("task_1"), await store.last("task_2")],
    messages: [await store.session("sess_1"), await store.session("sub-1")],
    sessions: await store.sessions({ limit: 10 }),
    ofAnn: await store.sessions({ userId: "ann", limit: 10 }),
    found: await Promise.all([
      store.search({ text: "hello", limit: 10 }),
      store.search({ text: "again", userId: "ann", limit: 10 }),
      store.search({ text: "family", limit: 10 }),
    ]),
    tasks: await store.tasks({}),
    posts: await store.posts({}),
    taken: (await store.post([postRow({ id: "post_taken", kind: "hint" })]))[0],
    expired: await store.expired(10),
    owned: await store.acquire("sess_owned", "other", 1),
    file: await store.files.get("folder/ü.bin"),
    files: await store.files.list(""),
  };
}
