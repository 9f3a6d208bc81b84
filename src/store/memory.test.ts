import { describe, expect, it } from "vitest";
import { acquire, commitOnce, deltas, range } from "./contract/samples.ts";
import { storeContract } from "./contract.ts";
import { memoryStore } from "./memory.ts";

storeContract("memory", async ({ clock }) => ({ store: memoryStore({ clock }) }));

describe("memoryStore", () => {
  it("goes by the machine's time without a clock", async () => {
    const store = memoryStore();
    const before = Date.now();
    const lease = await acquire(store, "sess_1", { ttlMs: 1000 });
    expect(lease.expiresAt).toBeGreaterThanOrEqual(before + 1000);
    expect(lease.expiresAt).toBeLessThanOrEqual(Date.now() + 1000);
  });

  it("numbers the events it is given and hands the same ones out", async () => {
    const store = memoryStore();
    const events = deltas(3000);
    await commitOnce(store, { events: events.slice(0, 1500) });
    await commitOnce(store, { events: events.slice(1500) });
    const read = await store.read("task_1", -1, 3000);
    expect(read.every((event, i) => event === events[i])).toBe(true);
    expect(events.map((event) => event.sequence_number)).toEqual(range(0, 3000));
  });

  it("is unchanged by a commit with an event that cannot be numbered", async () => {
    const store = memoryStore();
    const lease = await acquire(store);
    const [first, second, third] = deltas(3);
    if (!first || !second || !third) throw new Error("three events were asked for");
    const events = [first, Object.freeze(second), third];
    const messages = [{ id: "msg_1", role: "user" as const, content: [] }];
    const appends = [{ sessionId: "sess_1", at: 0, messages }];
    await expect(store.commit({ lease, log: "task_1", events, appends })).rejects.toThrow(
      TypeError,
    );
    expect(await store.last("task_1")).toBe(-1);
    expect(await store.session("sess_1")).toEqual([]);
  });

  it("wakes a watcher once for the changes of one turn", async () => {
    const store = memoryStore();
    const lease = await acquire(store);
    let wakes = 0;
    store.watch({ log: "task_1" }, () => {
      wakes += 1;
    });
    await Promise.all(
      range(0, 100).map(() => store.commit({ lease, log: "task_1", events: deltas(1) })),
    );
    expect(wakes).toBe(1);
    await store.commit({ lease, log: "task_1", events: deltas(1) });
    expect(wakes).toBe(2);
  });
});
