import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it, vi } from "vitest";
import type { TaskEvent } from "../protocol/event.ts";
import {
  acquire,
  commitOnce,
  deltas,
  postRow,
  range,
  record,
} from "../testing/store-contract/samples.ts";
import { sizeOfEvent } from "./event-size.ts";
import { memoryStore } from "./memory.ts";

describe("memoryStore", () => {
  it("uses the system clock by default", async () => {
    const store = memoryStore();
    const before = Date.now();
    const lease = await acquire(store, "sess_1", { ttlMs: 1000 });
    expect(lease.expiresAt).toBeGreaterThanOrEqual(before + 1000);
    expect(lease.expiresAt).toBeLessThanOrEqual(Date.now() + 1000);
  });

  it("numbers the given events and returns equal ones", async () => {
    const store = memoryStore();
    const events = deltas(3000);
    await commitOnce(store, { events: events.slice(0, 1500) });
    await commitOnce(store, { events: events.slice(1500) });
    const read = await store.read("task_1", -1, 3000);
    expect(read).toEqual(events);
    expect(events.map((event) => event.sequence_number)).toEqual(range(0, 3000));
  });

  it("finds unfinished tasks and rows among 10,000 ended tasks without a scan", async () => {
    const store = memoryStore();
    await commitOnce(store, {
      tasks: range(0, 10_000).map((i) => record({ taskId: `task_${i}`, status: "completed" })),
    });
    await commitOnce(store, { tasks: [record({ taskId: "task_next" })] });
    await store.post([postRow()]);
    const status = ["queued", "in_progress", "suspended"] as const;
    const started = performance.now();
    for (const _ of range(0, 1_000)) {
      expect(await store.tasks({ conversation: "sess_1", status })).toHaveLength(1);
      expect(await store.tasks({ sessionId: "sess_1", status })).toHaveLength(1);
      expect(await store.posts({ conversation: "sess_1" })).toHaveLength(1);
    }
    // With a scan it takes about ten seconds.
    expect(performance.now() - started).toBeLessThan(1_000);
  });

  it("writes nothing when an event is frozen", async () => {
    const store = memoryStore();
    const lease = await acquire(store);
    const [first, second, third] = deltas(3);
    if (!first || !second || !third) throw new Error("deltas(3) must return three events");
    const events = [first, Object.freeze(second), third];
    const messages = [{ id: "msg_1", role: "user" as const, content: [] }];
    const appends = [{ sessionId: "sess_1", at: 0, messages }];
    await expect(store.commit({ lease, log: "task_1", events, appends })).rejects.toThrow(
      TypeError,
    );
    expect(await store.last("task_1")).toBe(-1);
    expect(await store.session("sess_1")).toEqual([]);
  });

  it("wakes a watcher once for concurrent commits", async () => {
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

  it("reports the size of a log before and after a trim", async () => {
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

  it("trims short logs before the commit that ends a log returns", async () => {
    const store = memoryStore({ retention: { logs: { maxBytes: 0 } } });
    const end = async (taskId: string, count: number) => {
      const sessionId = `sess_${taskId}`;
      const lease = await acquire(store, sessionId);
      const tasks = [record({ taskId, rootTaskId: taskId, sessionId, status: "completed" })];
      const committed = store.commit({ lease, log: taskId, events: deltas(count), tasks });
      const kept = store.memory?.logBytes("task_1");
      await committed;
      return kept;
    };
    expect(await end("task_1", 50)).toBeGreaterThan(0); // the log that ended last stays
    expect(await end("task_2", 5_000)).toBe(0);
    expect((await store.snapshot("task_1"))?.through).toBe(49);
    await expect(store.read("task_1", -1, 10)).rejects.toThrow("task_1");
    await end("task_3", 50);
    expect(store.memory?.logBytes("task_2")).toBeGreaterThan(0); // a long log waits for the background
    await vi.waitFor(() => expect(store.memory?.logBytes("task_2")).toBe(0));
  });

  it("releases trimmed events", async () => {
    const store = memoryStore();
    const lease = await acquire(store);
    const events = deltas(1500);
    const held = events.map((event) => new WeakRef(event));
    await store.commit({ lease, log: "task_1", events });
    events.length = 0;
    await store.trim("task_1", { through: 1200, tasks: [] });
    await collectGarbage();
    expect(held.slice(0, 1201).filter((ref) => ref.deref() !== undefined)).toHaveLength(1);
  });
});

/** Runs the garbage collector. */
async function collectGarbage(): Promise<void> {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  for (let round = 0; round < 3; round++) {
    await new Promise((resolve) => setImmediate(resolve));
    collect();
  }
}
