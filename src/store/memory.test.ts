import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import type { TaskEvent } from "../protocol/event.ts";
import { acquire, commitOnce, deltas, range } from "./contract/samples.ts";
import { storeContract } from "./contract.ts";
import { sizeOfEvent } from "./event-size.ts";
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

  it("says how much memory a log takes, and takes less when it is trimmed", async () => {
    const store = memoryStore();
    const bytes = () => store.memory?.logBytes("task_1") ?? Number.NaN;
    expect(store.memory?.maxLogBytes).toBe(64 * 1024 * 1024);
    expect(memoryStore({ maxLogBytes: 7 }).memory?.maxLogBytes).toBe(7);
    expect(bytes()).toBe(0);
    const lease = await acquire(store);
    const all = deltas(2048);
    await store.commit({ lease, log: "task_1", events: all });
    const whole = bytes();
    expect(whole).toBe(all.reduce((sum, event) => sum + sizeOfEvent(event), 0));
    for (const through of [99, 1023, 1500, 2047]) {
      await store.trim("task_1", { through, tasks: [] });
      const left = all.slice(through + 1);
      expect(bytes()).toBe(left.reduce((sum, event) => sum + sizeOfEvent(event), 0));
    }
    await store.commit({ lease, log: "task_1", events: deltas(1) });
    expect(bytes()).toBe(sizeOfEvent(all[0] as TaskEvent));
    expect((await store.read("task_1", 2047, 10)).length).toBe(1);
    await store.release(lease);
    await store.deleteSession("sess_1");
    expect(bytes()).toBe(0);
  });

  it("holds nothing of what was trimmed", async () => {
    const store = memoryStore();
    const lease = await acquire(store);
    const events = deltas(1500);
    const held = events.map((event) => new WeakRef(event));
    await store.commit({ lease, log: "task_1", events });
    events.length = 0;
    await store.trim("task_1", { through: 1200, tasks: [] });
    await collectGarbage();
    expect(held.filter((ref) => ref.deref() !== undefined)).toHaveLength(299);
  });
});

/** Whatever nobody holds is gone afterwards. */
async function collectGarbage(): Promise<void> {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  for (let round = 0; round < 3; round++) {
    await new Promise((resolve) => setImmediate(resolve));
    collect();
  }
}
