import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Store } from "../../../src/contract/store.ts";
import { postgresStore } from "../../../src/postgres.ts";
import type { Retention } from "../../../src/store/retention.ts";
import { commitOnce, deltas, range, record } from "../../../src/testing/store-contract/samples.ts";
import { hasPostgres, type PostgresServer, startPostgres } from "../../support/postgres-server.ts";
import { newSchema } from "./create-postgres-store.ts";

describe.skipIf(!hasPostgres())("retention on PostgreSQL", () => {
  let server: PostgresServer;
  let admin: pg.Client;
  let schema: string;
  let store: Store;
  beforeAll(async () => {
    server = await startPostgres();
    admin = new pg.Client(server.url);
    await admin.connect();
  }, 60_000);
  afterAll(async () => {
    await admin.end();
    await server.remove();
  });
  beforeEach(() => {
    schema = newSchema();
  });
  afterEach(() => store.close());

  async function open(logs: Retention["logs"]): Promise<Store> {
    store = postgresStore({ url: server.url, schema, ...(logs && { retention: { logs } }) });
    await store.last("task_1");
    return store;
  }

  /** Runs a task to its end, with a log of its own. */
  async function run(n: number): Promise<void> {
    const task = { taskId: `task_${n}`, sessionId: `sess_${n}` };
    const log = task.taskId;
    const events = deltas(3, 0, log);
    await commitOnce(store, { log, events, tasks: [record(task)] }, task.sessionId);
    const ended = [record({ ...task, status: "completed" })];
    await commitOnce(store, { log, tasks: ended }, task.sessionId);
  }

  async function trimmed(n: number): Promise<void> {
    while ((await store.snapshot(`task_${n}`)) === undefined)
      await new Promise((resolve) => setTimeout(resolve, 50));
  }

  const rows = async (sql: string) => (await admin.query(sql.replaceAll("S.", `${schema}.`))).rows;

  it("replaces the events of ended logs by snapshots", async () => {
    await open({ maxAgeMs: 0 });
    await run(1);
    await trimmed(1);
    await expect(store.read("task_1", -1, 10)).rejects.toMatchObject({ code: "cursor_expired" });
    expect(await store.snapshot("task_1")).toMatchObject({ through: 2 });
    expect(await store.last("task_1")).toBe(2);
  });

  it("keeps the events of a running task and of a log with a reader", async () => {
    await open({ maxAgeMs: 0 });
    const stop = store.watch({ log: "task_2" }, () => {});
    const running = { events: deltas(3), tasks: [record()] };
    await commitOnce(store, running);
    await run(2);
    await run(3);
    await trimmed(3);
    expect(await store.read("task_1", -1, 10)).toHaveLength(3);
    expect(await store.read("task_2", -1, 10)).toHaveLength(3);
    stop();
    await trimmed(2);
  });

  it("trims the oldest logs beyond a size, and keeps the newest", async () => {
    await open({ maxAgeMs: Number.POSITIVE_INFINITY, maxBytes: 1 });
    for (const n of [1, 2, 3]) await run(n);
    await trimmed(1);
    await trimmed(2);
    expect(await store.read("task_3", -1, 10)).toHaveLength(3);
  });

  it("drops a partition when all its logs are trimmed, and creates the next one ahead", async () => {
    await open({ maxAgeMs: 0 });
    await admin.query(`ALTER TABLE ${schema}.logs ALTER no RESTART WITH 16382`);
    for (const n of range(1, 5)) await run(n);
    const events = await rows(
      "SELECT tableoid::regclass::text AS t FROM S.batches WHERE log >= 16384",
    );
    expect(events.every(({ t }) => t.endsWith("batches_default"))).toBe(true);
    for (const n of range(1, 5)) await trimmed(n);
    const partitions = async () =>
      (
        await rows(
          "SELECT relname FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE inhparent = 'S.batches'::regclass",
        )
      ).map(({ relname }) => relname);
    while ((await partitions()).includes("batches_0")) {
      await run(9);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    await expect
      .poll(async () => (await partitions()).sort(), { timeout: 20_000 })
      .toEqual(["batches_2", "batches_default"]);
    await expect(store.read("task_1", -1, 10)).rejects.toMatchObject({ code: "cursor_expired" });
    expect(await store.snapshot("task_1")).toMatchObject({ through: 2 });
    await admin.query(`ALTER TABLE ${schema}.logs ALTER no RESTART WITH 32768`);
    await run(20);
    const [last] = await rows(
      "SELECT tableoid::regclass::text AS t FROM S.batches WHERE log >= 32768 LIMIT 1",
    );
    expect(last?.t).toMatch(/batches_2$/);
  });

  it("is done by one of two processes, also for logs of the other", async () => {
    await open({ maxAgeMs: 0 });
    const other = postgresStore({ url: server.url, schema, retention: { logs: { maxAgeMs: 0 } } });
    for (const n of range(1, 10)) await run(n);
    const done = [record({ taskId: "task_20", sessionId: "sess_20", status: "completed" })];
    await commitOnce(other, { log: "task_20", events: deltas(1), tasks: done }, "sess_20");
    for (const n of [...range(1, 10), 20]) await trimmed(n);
    await other.close();
  });
});
