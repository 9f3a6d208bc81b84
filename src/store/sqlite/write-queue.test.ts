import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { conflict } from "../store-error.ts";
import type { Database } from "./database.ts";
import { createWriteQueue, type Touch } from "./write-queue.ts";

const busy = Object.assign(new Error("database is locked"), { errcode: 5 });
const full = Object.assign(new Error("database or disk is full"), { errcode: 13 });

/** A database that logs statements and fails the given ones. */
function fakeDatabase() {
  const log: string[] = [];
  const failures = new Map<string, { readonly error: Error; times: number; undoes: boolean }>();
  let isInTransaction = false;
  const database = {
    run(sql: string) {
      const failure = failures.get(sql);
      if (failure && failure.times > 0) {
        failure.times -= 1;
        if (failure.undoes) isInTransaction = false;
        log.push(`${sql} fails`);
        throw failure.error;
      }
      log.push(sql);
      if (sql.startsWith("BEGIN")) isInTransaction = true;
      if (sql === "COMMIT" || sql === "ROLLBACK") isInTransaction = false;
      return 0;
    },
    get isInTransaction() {
      return isInTransaction;
    },
    given: 0,
    assertOnDisk: () => {},
  } as unknown as Database;
  return {
    database,
    log,
    fail: (sql: string, error: Error, { times = 1, undoes = false } = {}) =>
      failures.set(sql, { error, times, undoes }),
    transactions: () => log.filter((line) => line.startsWith("BEGIN")).length,
  };
}

function setUp() {
  const fake = fakeDatabase();
  const touched: string[] = [];
  const touch: Touch = (kind, id) => {
    touched.push(`${kind} ${id}`);
    fake.log.push(`woke ${id}`);
  };
  const time = { now: 0 };
  const queue = createWriteQueue(fake.database, {
    touch,
    recordChanges: () => {},
    now: () => time.now,
  });
  const write = async <Result>(work: (touch: Touch) => Result) =>
    (await queue.writeInOrder([work]))[0] as Result;
  return { ...fake, queue, write, touched, time };
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe("writes of one turn", () => {
  it("share a transaction, in their order", async () => {
    const { write, log } = setUp();
    const writes = ["a", "b"].map((name) =>
      write(() => {
        log.push(name);
        return name;
      }),
    );
    await vi.runAllTimersAsync();
    expect(await Promise.all(writes)).toEqual(["a", "b"]);
    expect(log).toEqual(["BEGIN IMMEDIATE", "a", "b", "COMMIT"]);
  });

  it("fail individually, and a failed write wakes no watcher", async () => {
    const { write, log, touched } = setUp();
    const outcomes = Promise.allSettled([
      write((touch) => {
        touch("log", "refused");
        throw conflict("no");
      }),
      write((touch) => touch("log", "kept")),
    ]);
    await vi.runAllTimersAsync();
    expect(await outcomes).toMatchObject([
      { status: "rejected", reason: { code: "conflict" } },
      { status: "fulfilled" },
    ]);
    expect(log).toEqual([
      "BEGIN IMMEDIATE",
      "ROLLBACK",
      "BEGIN IMMEDIATE",
      "SAVEPOINT write",
      "ROLLBACK TO write",
      "RELEASE write",
      "SAVEPOINT write",
      "RELEASE write",
      "COMMIT",
      "woke kept",
    ]);
    expect(touched).toEqual(["log kept"]);
  });

  it.each([
    ["take long", ({ time }: ReturnType<typeof setUp>) => (time.now += 4)],
    [
      "are large",
      ({ database }: ReturnType<typeof setUp>) =>
        ((database as { given: number }).given += 1_500_000),
    ],
  ])(
    "share few transactions when they %s, and let the event loop turn between",
    async (_, work) => {
      const set = setUp();
      const order: number[] = [];
      const writes = Array.from({ length: 9 }, (_, n) =>
        set.write(() => {
          work(set);
          order.push(n);
        }),
      );
      const ticks: number[] = [];
      const tick = () => {
        if (ticks.push(order.length) < 9) setImmediate(tick);
      };
      tick();
      await vi.runAllTimersAsync();
      await Promise.all(writes);
      expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
      expect(set.transactions()).toBe(3);
      expect(ticks).toContain(3);
    },
  );
});

it("splits many small writes into transactions of a bounded number", async () => {
  const { write, transactions } = setUp();
  const writes = Array.from({ length: 600 }, (_, n) => write(() => n));
  await vi.runAllTimersAsync();
  expect(await Promise.all(writes)).toEqual(writes.map((_, n) => n));
  expect(transactions()).toBe(3);
});

describe("works in order", () => {
  it("run in one transaction and stop at the first that throws", async () => {
    const { queue, log, touched } = setUp();
    const work = (name: string) => (touch: Touch) => {
      log.push(name);
      touch("log", name);
      if (name === "refused") throw conflict("no");
      return name;
    };
    const outcomes = Promise.allSettled([
      queue.writeInOrder(["a", "b", "refused", "c"].map(work)),
      queue.writeInOrder(["refused", "d"].map(work)),
      queue.writeInOrder([work("e")]),
    ]);
    await vi.runAllTimersAsync();
    expect(await outcomes).toMatchObject([
      { status: "fulfilled", value: ["a", "b"] },
      { status: "rejected", reason: { code: "conflict" } },
      { status: "fulfilled", value: ["e"] },
    ]);
    expect(touched).toEqual(["log a", "log b", "log e"]);
    expect(log.filter((line) => line === "c" || line === "d")).toEqual([]);
    expect(log.filter((line) => line === "COMMIT")).toHaveLength(1);
  });

  it("end with the transaction when it is full; the caller passes the rest again", async () => {
    const { queue, time, transactions } = setUp();
    const works = [1, 2, 3, 4, 5].map((n) => () => {
      time.now += 4;
      return n;
    });
    const written = queue.writeInOrder(works);
    await vi.runAllTimersAsync();
    expect(await written).toEqual([1, 2, 3]);
    expect(transactions()).toBe(1);
  });
});

describe("a write", () => {
  it("wakes watchers after the transaction", async () => {
    const { write, log } = setUp();
    const written = write((touch) => touch("log", "task_1"));
    void written.then(() => log.push("resolved"));
    await vi.runAllTimersAsync();
    expect(log.slice(-3)).toEqual(["COMMIT", "woke task_1", "resolved"]);
  });

  it("is retried while another process holds the lock", async () => {
    const { write, fail, transactions } = setUp();
    fail("BEGIN IMMEDIATE", busy, { times: 5 });
    const first = write(() => "first");
    await vi.advanceTimersByTimeAsync(15);
    const second = write(() => "second");
    await vi.runAllTimersAsync();
    expect(await Promise.all([first, second])).toEqual(["first", "second"]);
    expect(transactions()).toBeGreaterThan(5);
  });

  it("fails when the lock is held for too long, and the next write starts again", async () => {
    const { write, fail } = setUp();
    fail("BEGIN IMMEDIATE", busy, { times: Number.POSITIVE_INFINITY });
    const written = write(() => {});
    const outcome = expect(written).rejects.toMatchObject({
      code: "store_failed",
      retryable: true,
    });
    await vi.advanceTimersByTimeAsync(11_000);
    await outcome;
    fail("BEGIN IMMEDIATE", busy, { times: 0 });
    const next = write(() => "done");
    await vi.runAllTimersAsync();
    expect(await next).toBe("done");
  });

  it("fails with all others when the commit fails, and wakes no watcher", async () => {
    const { write, fail, log, touched } = setUp();
    fail("COMMIT", full);
    const writes = [1, 2].map((n) => write((touch) => touch("log", String(n))));
    const outcomes = Promise.allSettled(writes);
    await vi.runAllTimersAsync();
    for (const outcome of await outcomes) {
      expect(outcome).toMatchObject({ status: "rejected", reason: { code: "store_failed" } });
    }
    expect(log.at(-1)).toBe("ROLLBACK");
    expect(touched).toEqual([]);
  });

  it("fails with all others when its error rolled the transaction back", async () => {
    const { write, fail, log, database } = setUp();
    fail("INSERT", full, { undoes: true });
    const outcomes = Promise.allSettled([
      write(() => "before"),
      write(() => database.run("INSERT")),
      write(() => log.push("after")),
    ]);
    await vi.runAllTimersAsync();
    const rejected = { status: "rejected", reason: { code: "store_failed" } };
    expect(await outcomes).toMatchObject([rejected, rejected, rejected]);
    expect(log).not.toContain("after");
    expect(log.at(-1)).toBe("INSERT fails");
  });
});

describe("drain", () => {
  it("resolves when everything is written", async () => {
    const { queue, write, log } = setUp();
    await queue.drain();
    void write(() => log.push("a"));
    const drained = queue.drain().then(() => log.push("drained"));
    await vi.runAllTimersAsync();
    await drained;
    expect(log.indexOf("a")).toBeGreaterThan(0);
    expect(log.at(-1)).toBe("drained");
  });

  it("resolves when the writes failed", async () => {
    const { queue, write, fail } = setUp();
    fail("COMMIT", full);
    const written = write(() => {});
    const outcome = expect(written).rejects.toMatchObject({ code: "store_failed" });
    const drained = queue.drain();
    await vi.runAllTimersAsync();
    await Promise.all([drained, outcome]);
  });
});
