import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Store } from "../../../src/contract/store.ts";
import { postgresStore } from "../../../src/postgres.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import {
  acquire,
  delta,
  message,
  postRow,
  record,
} from "../../../src/testing/store-contract/samples.ts";
import { hasPostgres, type PostgresServer, startPostgres } from "../../support/postgres-server.ts";

/** Rows of conversations, of which one in a thousand runs. */
const count = isDeep ? 100_000 : 10_000;
const fill = `
  INSERT INTO rivulet.conversations (conv, fence, held, until, ttl, due, work, agent)
    SELECT 'sess_' || n, n, n % 1000 = 0, n, 10, n, n % 1000 = 0, 'assistant' FROM generate_series(1, ${count}) n;
  INSERT INTO rivulet.conversations (conv, work, agent, place)
    SELECT 'other_' || n, true, CASE WHEN n % 2 = 0 THEN 'assistant' ELSE 'other' END,
      CASE WHEN n % 2 = 0 THEN 'disk ' || n ELSE '' END
    FROM generate_series(1, 10000) n;
  INSERT INTO rivulet.logs (log, conv, ended_at, bytes)
    SELECT 'task_' || n, 'sess_' || n, n, 1 FROM generate_series(1, ${count}) n;
  INSERT INTO rivulet.batches (log, last, n, fence, events)
    SELECT l.no, e, 1, 1, '\\x015b7b7d5d' FROM rivulet.logs l, generate_series(0, 2) e;
  INSERT INTO rivulet.snapshots (log, tasks) SELECT no, '[]' FROM rivulet.logs;
  INSERT INTO rivulet.sessions (session_id, created_at, updated_at, messages, root_task_id, user_id, agent_id)
    SELECT 'sess_' || n, n, n, 2, 'task_' || n, 'user_' || n % 100, 'assistant' FROM generate_series(1, ${count}) n;
  INSERT INTO rivulet.messages (session, position, message)
    SELECT s.no, p, '{"id":"m","role":"user","content":[]}' FROM rivulet.sessions s, generate_series(0, 1) p;
  INSERT INTO rivulet.search (session, position, words)
    SELECT s.no, p, ('''word' || s.no % 1000 || ''':1')::tsvector FROM rivulet.sessions s, generate_series(0, 1) p;
  INSERT INTO rivulet.tasks (task_id, root_task_id, session_id, conv, status, output, record)
    SELECT 'task_' || n, 'task_' || n, 'sess_' || n, 'sess_' || n,
      CASE WHEN n % 1000 = 0 THEN 'in_progress' ELSE 'completed' END, 0, '{"taskId":"t"}'
    FROM generate_series(1, ${count}) n;
  INSERT INTO rivulet.posts (post_id, session_id, root_task_id, conv, kind, taken, post)
    SELECT 'post_' || n, 'sess_' || n, 'task_' || n, 'sess_' || n, 'input', n % 1000 > 0, '{}'
    FROM generate_series(1, ${count}) n;
  INSERT INTO rivulet.due (session_id, approval, due_at)
    SELECT 'sess_' || n, 'a', n FROM generate_series(1, ${count}) n;
  INSERT INTO rivulet.files (path, size, modified_at, data)
    SELECT 'blobs/task_' || n || '/a', 1, 0, '\\x00' FROM generate_series(1, ${count}) n;
  ANALYZE`;

/** Every call that a store makes to the database. */
const calls: Readonly<Record<string, (store: Store) => Promise<unknown>>> = {
  acquire: (store) => store.acquire("sess_5", "a", 1000),
  renew: async (store) => store.renew([await acquire(store, "sess_6")], 1000),
  release: async (store) => store.release(await acquire(store, "sess_7")),
  owner: (store) => store.owner("sess_8"),
  expired: (store) => store.expired(10),
  claim: async (store) => store.claim?.("a", 1000, 5, { agents: [{ agentId: "assistant" }] }),
  append: async (store) => {
    const lease = await acquire(store, "sess_9");
    await store.commit({ lease, log: "task_9", events: [delta("a")] });
    await store.commit({ lease, log: "task_9", events: [delta("b")] });
  },
  commit: async (store) => {
    const lease = await acquire(store, "sess_11");
    const begun = record({ taskId: "task_new", sessionId: "sess_11", userId: "user_11" });
    const appends = [{ sessionId: "sess_11", at: 2, messages: [message("word1 word2")] }];
    await store.commit({
      ...{ lease, log: "task_new", begins: "task_new", events: [delta("a")], appends },
      tasks: [begun],
      posts: [postRow({ id: "post_new", sessionId: "sess_12", kind: "hint" })],
    });
    const ended = { ...begun, status: "completed" as const };
    await store.commit({ lease, log: "task_new", tasks: [ended], taken: ["post_new"] });
  },
  enqueue: (store) =>
    store.enqueue(
      record({ taskId: "task_q", sessionId: "sess_13", userId: "user_13", status: "queued" }),
      { ifIdle: true },
    ),
  post: (store) => store.post([postRow({ id: "post_q", sessionId: "sess_14" })]),
  posts: (store) => store.posts({ conversation: "sess_15" }),
  "posts of a session": (store) => store.posts({ sessionId: "sess_15" }),
  "posts of a tree": (store) => store.posts({ rootTaskId: "task_15" }),
  "posts of all": (store) => store.posts({}),
  read: (store) => Promise.all([store.read("task_16", -1, 10), store.read("task_17", 0, 1000)]),
  last: (store) => store.last("task_16"),
  snapshot: (store) => store.snapshot("task_16"),
  trim: (store) => store.trim("task_18", { through: 1, tasks: [] }),
  session: (store) => store.session("sess_19", 1),
  sessions: (store) => store.sessions({ limit: 20 }),
  "sessions of a user": (store) => store.sessions({ userId: "user_20", limit: 20 }),
  "sessions before another": (store) =>
    store.sessions({ userId: "user_20", limit: 20, before: "sess_920" }),
  search: (store) => store.search({ text: "word7", limit: 5 }),
  task: (store) => store.task("task_21"),
  "tasks of a conversation": (store) => store.tasks({ conversation: "sess_22" }),
  "tasks of a session": (store) =>
    store.tasks({ sessionId: "sess_22", newestFirst: true, limit: 1 }),
  "tasks of a tree": (store) => store.tasks({ rootTaskId: "task_22", status: ["in_progress"] }),
  "tasks of a parent": (store) => store.tasks({ parentSessionId: "sess_22" }),
  "tasks with an approval that expires": (store) =>
    store.tasks({ status: ["suspended"], dueBy: 10 }),
  "suspended tasks": (store) => store.tasks({ status: ["suspended"] }),
  "put a file": (store) => store.files.put("a/b", new Uint8Array(1)),
  "get a file": (store) => store.files.get("a/b"),
  "list files": (store) => store.files.list("blobs/task_30/"),
  "delete a file": (store) => store.files.delete("a/b"),
  deleteSession: (store) => store.deleteSession("sess_31"),
};

describe.skipIf(!hasPostgres())(`query plans with ${count} conversations`, () => {
  let server: PostgresServer;
  let store: Store;
  beforeAll(async () => {
    server = await startPostgres({
      session_preload_libraries: "auto_explain",
      "auto_explain.log_min_duration": "0",
      "auto_explain.log_nested_statements": "on",
      "auto_explain.log_analyze": "on",
    });
    store = postgresStore(server.url);
    await store.last("task_1");
    const client = new pg.Client(server.url);
    await client.connect();
    await client.query("SET auto_explain.log_min_duration = -1");
    await client.query(fill);
    await client.end();
  }, 300_000);
  afterAll(async () => {
    await store.close();
    await server.remove();
  });

  /** The plans of all statements of a call. */
  async function plansOf(name: string, call: () => Promise<unknown>): Promise<string> {
    const before = server.log().length;
    await call();
    await store.last(`end of ${name}`);
    while (!server.log().includes(`end of ${name}`))
      await new Promise((done) => setTimeout(done, 10));
    const plans = server.log().slice(before);
    expect(plans).toContain("Query Text");
    return plans;
  }

  it("looks at no conversation that the process cannot run, of 10,000 before one that it can", async () => {
    const claim = { agents: [{ agentId: "assistant" }], places: ["disk a", "disk b"] };
    // From the sixth call on, a function uses one plan for all values.
    for (let call = 0; call < 8; call++) {
      const plans = await plansOf(`claim ${call}`, async () => {
        expect(await store.claim?.("a", 600_000, 1, claim)).toHaveLength(1);
      });
      const removed = [...plans.matchAll(/Rows Removed by [^:]*: (\d+)/g)].map(([, n]) =>
        Number(n),
      );
      expect(removed.reduce((sum, n) => sum + n, 0)).toBeLessThan(200);
    }
  });

  it.each(Object.keys(calls))("%s reads no whole table", async (name) => {
    const plans = await plansOf(name, async () => calls[name]?.(store));
    const scans = [...plans.matchAll(/Seq Scan on (\w+)/g)].map(([, table]) => table);
    // The default partition and the nodes are empty.
    expect(scans.filter((table) => !["nodes", "batches_default"].includes(table ?? ""))).toEqual(
      [],
    );
  });
});
