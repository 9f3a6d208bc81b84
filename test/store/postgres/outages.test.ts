import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type PostgresStoreOptions, postgresStore } from "../../../src/postgres.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import {
  acquire,
  commitOnce,
  deltas,
  message,
  postRow,
  range,
  record,
} from "../../../src/testing/store-contract/samples.ts";
import { hasPostgres, type PostgresServer, startPostgres } from "../../support/postgres-server.ts";
import { seededRandom } from "../../support/random.ts";
import { seed } from "../../support/seed.ts";
import { startProxy, type TcpProxy } from "../../support/tcp-proxy.ts";
import { newSchema } from "./create-postgres-store.ts";
import { expectWorkload, writeWorkload } from "./workload.ts";

describe.skipIf(!hasPostgres())("PostgreSQL that fails", () => {
  let server: PostgresServer;
  let proxy: TcpProxy;
  let admin: pg.Pool;
  beforeAll(async () => {
    // Recovery would wait for the disk once for each file.
    server = await startPostgres({ recovery_init_sync_method: "syncfs" });
    proxy = await startProxy(server);
    admin = new pg.Pool({ connectionString: server.url, max: 2 });
    admin.on("error", () => {});
  }, 60_000);
  afterAll(async () => {
    await admin.end();
    await proxy.close();
    await server.remove();
  });
  const quiet = { onProblem: () => {} };
  const throughProxy = (options: Partial<PostgresStoreOptions> = {}) => {
    const url = new URL(server.url);
    url.port = String(proxy.port);
    return postgresStore({ url: url.href, schema: newSchema(), ...quiet, ...options });
  };
  const random = seededRandom(seed);
  const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

  it("loses and doubles no commit when answers are lost", async () => {
    const size = { conversations: 20, commits: isDeep ? 1_000 : 60 };
    const store = throughProxy();
    await store.last("task_1");
    proxy.decide(() => (random.chance(0.02) ? "lose" : "pass"));
    await writeWorkload(store, size);
    proxy.decide(() => "pass");
    await expectWorkload(store, size);
    expect(proxy.lost()).toBeGreaterThan(5);
    await store.close();
  }, 600_000);

  it("gives up a connection that does not answer, and finds out what was written", async () => {
    const size = { conversations: 5, commits: 20 };
    const store = throughProxy({ timeoutMs: 200 });
    await store.last("task_1");
    const before = proxy.lost();
    proxy.decide(() => (random.chance(0.03) ? "hold" : "pass"));
    await writeWorkload(store, size);
    proxy.decide(() => "pass");
    await expectWorkload(store, size);
    expect(proxy.lost()).toBeGreaterThan(before);
    await store.close();
  }, 600_000);

  /** Runs a call whose first answer is lost. */
  async function withLostAnswer<Result>(call: () => Promise<Result>): Promise<Result> {
    let isLost = false;
    proxy.decide(() => {
      const fate = isLost ? "pass" : "lose";
      isLost = true;
      return fate;
    });
    const result = await call();
    expect(isLost).toBe(true);
    return result;
  }

  it("returns the same result when the first answer is lost", async () => {
    // With one writer and one reader, whose connections exist, the lost answer is that of the call.
    const store = throughProxy({ pool: { writers: 1, readers: 1 } });
    await store.release(await acquire(store, "sess_0"));
    await store.last("task_1");
    const lease = await withLostAnswer(() => acquire(store));
    expect(lease.losses).toBe(0);
    const appends = [{ sessionId: "sess_1", at: 0, messages: [message("a")] }];
    const step = { lease, log: "task_1", tasks: [record()], appends, events: deltas(2) };
    expect(await withLostAnswer(() => store.commit(step))).toBe(1);
    const events = { lease, log: "task_1", events: deltas(2, 2) };
    await store.commit(events);
    expect(await withLostAnswer(() => store.commit({ ...events, events: deltas(2, 4) }))).toBe(1);
    expect(await store.last("task_1")).toBe(5);
    expect(await store.session("sess_1")).toHaveLength(1);
    const queued = record({ taskId: "task_2", sessionId: "sess_2", status: "queued" });
    expect(await withLostAnswer(() => store.enqueue(queued, { ifIdle: true }))).toEqual(queued);
    expect(await withLostAnswer(() => store.post([postRow()]))).toEqual([postRow()]);
    expect(await store.posts({})).toHaveLength(1);
    expect(await withLostAnswer(() => store.renew([lease], 60_000))).toHaveLength(1);
    await withLostAnswer(() => store.release(lease));
    expect(await store.owner("sess_1")).toBeUndefined();
    const claim = { agents: [{ agentId: "assistant" }] };
    const taken = await withLostAnswer(async () => store.claim?.("a", 60_000, 10, claim));
    const found = taken?.map(({ sessionId, losses }) => `${sessionId} ${losses}`);
    expect(found?.sort()).toEqual(["sess_1 0", "sess_2 0"]);
    for (const one of taken ?? []) await store.release(one);
    const { files } = store;
    const created = await withLostAnswer(() =>
      files.put("a", new Uint8Array([1]), { ifVersion: 0 }),
    );
    const next = { ifVersion: created };
    const replaced = await withLostAnswer(() => files.put("a", new Uint8Array([2]), next));
    expect((await files.get("a"))?.version).toBe(replaced);
    expect(await withLostAnswer(() => files.delete("a"))).toBe(true);
    expect(await withLostAnswer(() => store.deleteSession("sess_1"))).toBe(true);
    proxy.decide(() => "pass");
    await store.close();
  });

  it("loses and doubles no commit when backends are killed and the server restarts", async () => {
    const size = isDeep
      ? { conversations: 100, commits: 2_000 }
      : { conversations: 40, commits: 100 };
    const rounds = isDeep ? 400 : 24;
    const total = size.conversations * size.commits;
    const schema = newSchema();
    const store = postgresStore({ url: server.url, schema, ...quiet });
    await store.last("task_1");
    let done = 0;
    const faults = { terminated: 0, killed: 0, restarted: 0 };
    const backends = async () => {
      const { rows } = await admin.query<{ pid: number }>(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'rivulet'",
      );
      return rows.map(({ pid }) => pid);
    };
    const isReached = (commits: number) => done >= commits;
    const disturb = async () => {
      for (const round of range(1, rounds)) {
        while (!isReached((round * total) / rounds)) await pause(5);
        try {
          const pid = random.pick(await backends());
          if (round % 8 === 7) {
            await server.stop("immediate");
            await server.start();
            faults.restarted += 1;
          } else if (round % 8 === 3) {
            process.kill(pid, "SIGKILL"); // the server ends all other backends and recovers
            faults.killed += 1;
          } else {
            await admin.query("SELECT pg_terminate_backend($1)", [pid]);
            faults.terminated += 1;
          }
        } catch {
          // The server was restarting.
        }
      }
    };
    const disturbing = disturb();
    await writeWorkload(store, size, () => {
      done += 1;
    });
    await disturbing;
    await expectWorkload(store, size);
    await store.close();
    const again = postgresStore({ url: server.url, schema, ...quiet });
    await expectWorkload(again, size);
    await again.close();
    console.log(`${total} commits under`, faults);
    expect(faults.terminated).toBeGreaterThan(5);
    expect(faults.restarted + faults.killed).toBeGreaterThan(1);
  }, 3_600_000);

  it("waits while the server is down, and rejects when its patience ends", async () => {
    const schema = newSchema();
    const patient = postgresStore({ url: server.url, schema, ...quiet });
    const hasty = postgresStore({ url: server.url, schema, patienceMs: 300, ...quiet });
    for (const store of [patient, hasty]) await store.last("task_1");
    const lease = await acquire(hasty, "sess_2");
    await server.stop("immediate");
    const waiting = commitOnce(patient, { events: deltas(1) });
    const reading = patient.last("task_9");
    await expect(hasty.commit({ lease, log: "task_2", events: deltas(1) })).rejects.toMatchObject({
      code: "store_failed",
      retryable: true,
    });
    await expect(hasty.last("task_1")).rejects.toMatchObject({ code: "store_failed" });
    await server.start();
    await waiting;
    expect(await reading).toBe(-1);
    expect(await patient.last("task_1")).toBe(0);
    await hasty.commit({ lease, log: "task_2", events: deltas(1) });
    expect(await patient.last("task_2")).toBe(0);
    await Promise.all([patient.close(), hasty.close()]);
  });

  it("can be closed while the server is down", async () => {
    const store = postgresStore({ url: server.url, schema: newSchema(), ...quiet });
    const lease = await acquire(store);
    await server.stop("immediate");
    const commit = store.commit({ lease, log: "task_1", events: deltas(1) });
    const rejected = expect(commit).rejects.toMatchObject({ code: "store_failed" });
    await store.close();
    await server.start();
    await rejected;
  });

  it("wakes watchers for changes that were made while its listener was away", async () => {
    const schema = newSchema();
    const url = new URL(server.url);
    url.port = String(proxy.port);
    const other = postgresStore({ url: server.url, schema, ...quiet });
    const store = postgresStore({ url: server.url, listenUrl: url.href, schema, ...quiet });
    await commitOnce(other, { events: deltas(1) });
    let woken = Promise.withResolvers<void>();
    store.watch({ log: "task_1" }, () => woken.resolve());
    await woken.promise;
    for (const round of range(0, 3)) {
      woken = Promise.withResolvers();
      proxy.decide(() => "lose");
      proxy.cut();
      await commitOnce(other, { events: deltas(1) });
      await woken.promise;
      expect(await store.last("task_1")).toBe(round + 1);
      proxy.decide(() => "pass");
    }
    await Promise.all([store.close(), other.close()]);
  });
});
