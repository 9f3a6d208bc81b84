import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Lease } from "../../../src/contract/store.ts";
import { postgresStore } from "../../../src/postgres.ts";
import {
  acquire,
  commitOnce,
  deltas,
  range,
  record,
} from "../../../src/testing/store-contract/samples.ts";
import { hasPostgres, type PostgresServer, startPostgres } from "../../support/postgres-server.ts";
import { newSchema } from "./create-postgres-store.ts";

describe.skipIf(!hasPostgres())("many processes on PostgreSQL", () => {
  let server: PostgresServer;
  let admin: pg.Client;
  beforeAll(async () => {
    server = await startPostgres();
    admin = new pg.Client(server.url);
    await admin.connect();
  }, 60_000);
  afterAll(async () => {
    await admin.end();
    await server.remove();
  });
  const opened = (count: number, schema: string) =>
    range(0, count).map(() =>
      postgresStore({ url: server.url, schema, pool: { writers: 1, readers: 1 } }),
    );
  const claim = { agents: [{ agentId: "assistant" }] };

  it("take up 1,000 lost conversations within 3 s, none twice", async () => {
    const schema = newSchema();
    const stores = opened(20, schema);
    const [first] = stores as [(typeof stores)[0]];
    await Promise.all(
      range(0, 1_000).map((n) =>
        first.enqueue(record({ taskId: `task_${n}`, sessionId: `sess_${n}`, status: "queued" })),
      ),
    );
    // Owners that died long ago.
    await admin.query(`UPDATE ${schema}.conversations SET held = true, ttl = 10, fence = 1`);
    await Promise.all(stores.map((store) => store.last("task_1")));
    const started = performance.now();
    const taken = await Promise.all(
      stores.map(async (store, n) => {
        const leases: Lease[] = [];
        for (;;) {
          const more = (await store.claim?.(`worker ${n}`, 60_000, 10, claim)) ?? [];
          if (more.length === 0) return leases;
          leases.push(...more);
        }
      }),
    );
    const ms = performance.now() - started;
    const leases = taken.flat();
    expect(new Set(leases.map(({ sessionId }) => sessionId)).size).toBe(1_000);
    expect(leases).toHaveLength(1_000);
    expect(new Set(leases.map(({ fence }) => fence)).size).toBe(1_000);
    expect(leases.every(({ losses }) => losses === 1)).toBe(true);
    console.log(`1,000 conversations claimed by 20 processes in ${Math.round(ms)} ms`);
    expect(ms).toBeLessThan(3_000);
    await Promise.all(stores.map((store) => store.close()));
  });

  it("find one conversation that they can run behind 10,000 that they cannot", async () => {
    const schema = newSchema();
    const [store] = opened(1, schema) as [ReturnType<typeof postgresStore>];
    await store.last("task_1");
    await admin.query(`INSERT INTO ${schema}.conversations (conv, work, agent, place)
      SELECT 'sess_' || n, true, CASE WHEN n % 2 = 0 THEN 'assistant' ELSE 'other' END,
        CASE WHEN n % 2 = 0 THEN 'disk ' || n ELSE '' END
      FROM generate_series(1, 10000) n; ANALYZE ${schema}.conversations`);
    const times: number[] = [];
    for (const n of range(0, 5)) {
      const task = { taskId: `task_${n}`, sessionId: `zzz_${n}`, status: "queued" } as const;
      await store.enqueue(record(task));
      const started = performance.now();
      const leases = await store.claim?.("a", 60_000, 10, claim);
      times.push(performance.now() - started);
      expect(leases?.map(({ sessionId }) => sessionId)).toEqual([`zzz_${n}`]);
    }
    const fastest = Math.min(...times);
    console.log(`claimed behind 10,000 in ${fastest.toFixed(1)} ms`);
    await store.close();
  });

  it("get growing fences when 20 connections race for one conversation", async () => {
    const schema = newSchema();
    const stores = opened(20, schema);
    await Promise.all(stores.map((store) => store.last("task_1")));
    let last = 0;
    for (const round of range(0, 30)) {
      const asked = await Promise.all(
        stores.map((store, n) => store.acquire("sess_1", `owner ${n}`, 60_000)),
      );
      const [lease, ...others] = asked.filter((one) => one !== undefined);
      expect(others).toEqual([]);
      if (lease === undefined) throw new Error(`Nobody got the lease in round ${round}.`);
      expect(lease.fence).toBeGreaterThan(last);
      last = lease.fence;
      await stores[round % 20]?.release(lease);
    }
    await Promise.all(stores.map((store) => store.close()));
  });

  it("agree about leases although their clocks are an hour apart", async () => {
    const schema = newSchema();
    const [one, two] = opened(2, schema) as [
      ReturnType<typeof postgresStore>,
      ReturnType<typeof postgresStore>,
    ];
    const { now } = Date;
    try {
      Date.now = () => now() - 3_600_000;
      const lease = await acquire(one, "sess_1", { ttlMs: 60_000 });
      Date.now = () => now() + 3_600_000;
      expect(await two.acquire("sess_1", "b", 1_000)).toBeUndefined();
      expect((await two.owner("sess_1"))?.leftMs).toBeGreaterThan(30_000);
      await one.commit({ lease, log: "task_1", events: deltas(1) });
    } finally {
      Date.now = now;
    }
    await Promise.all([one.close(), two.close()]);
  });

  it("take over after a lease has ended, and refuse its late owner", async () => {
    const schema = newSchema();
    const [one, two] = opened(2, schema) as [
      ReturnType<typeof postgresStore>,
      ReturnType<typeof postgresStore>,
    ];
    const lost = await acquire(one, "sess_1", { ttlMs: 30 });
    await one.commit({ lease: lost, log: "task_1", events: deltas(1), tasks: [record()] });
    let taken: Lease | undefined;
    while (taken === undefined) taken = await two.acquire("sess_1", "b", 60_000);
    const late = Promise.allSettled(
      range(0, 5).map((n) => one.commit({ lease: lost, log: "task_1", events: deltas(1, n) })),
    );
    await two.commit({ lease: taken, log: "task_1", events: deltas(1, 1) });
    for (const result of await late) {
      expect(result).toMatchObject({ status: "rejected", reason: { code: "fenced" } });
    }
    expect(await two.last("task_1")).toBe(1);
    await Promise.all([one.close(), two.close()]);
  });

  it("do not take leases that ended while the server was down, before their owners can renew", async () => {
    const schema = newSchema();
    const [store] = opened(1, schema) as [ReturnType<typeof postgresStore>];
    await store.enqueue(record({ status: "queued" }));
    const ttlMs = 4_000;
    await acquire(store, "sess_1", { ttlMs });
    await admin.end();
    await server.stop("fast");
    await new Promise((resolve) => setTimeout(resolve, ttlMs));
    await server.start();
    admin = new pg.Client(server.url);
    await admin.connect();
    expect(await store.owner("sess_1")).toBeUndefined();
    expect(await store.expired(10)).toEqual([]);
    expect(await store.claim?.("b", 1_000, 10, claim)).toEqual([]);
    await commitOnce(store, {}, "sess_1");
    await store.close();
  });
});
