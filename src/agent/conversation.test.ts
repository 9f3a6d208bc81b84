import { describe, expect, it } from "vitest";
import type { LogEvent } from "../protocol/event.ts";
import type { Commit, Store } from "../protocol/store.ts";
import { memoryStore } from "../store/index.ts";
import { ManualClock, scriptedModel } from "../testing/index.ts";
import { Conversation, LogWriter } from "./conversation.ts";
import { settingsOf } from "./settings.ts";

const event = (name: string) => ({ type: "task.custom", name }) as unknown as LogEvent;
const namesIn = ({ events = [] }: Pick<Commit, "events">) =>
  events.map((one) => (one as unknown as { name: string }).name);
const tick = () => new Promise((resolve) => setImmediate(resolve));
const never = new AbortController().signal;
const enter = (store: Store, onBusy: "queue" | "fail" = "fail", signal = never) => {
  const clock = new ManualClock();
  const settings = settingsOf({ name: "a", model: scriptedModel([]), store, clock });
  return Conversation.enter({ settings, sessionId: "s", onBusy, signal });
};

describe("a log writer", () => {
  /** A writer whose writes are noted, and end when they are told to. */
  function slowWriter() {
    const writes: string[][] = [];
    const ends: PromiseWithResolvers<void>[] = [];
    const writer = new LogWriter("t", (step) => {
      writes.push([...namesIn(step), ...Object.keys(step).filter((key) => key === "tasks")]);
      const end = Promise.withResolvers<void>();
      ends.push(end);
      return end.promise;
    });
    return {
      writer,
      writes,
      end: () => ends.shift()?.resolve(),
      fail: () => ends.shift()?.reject(new Error("no")),
    };
  }

  it("writes events soon, and all of them with the change that comes after them", async () => {
    const { writer, writes, end } = slowWriter();
    writer.append(event("a"));
    writer.append(event("b"));
    expect(writes).toEqual([]);
    await tick();
    expect(writes).toEqual([["a", "b"]]);
    writer.append(event("c"));
    const step = writer.commit({ tasks: [] });
    writer.append(event("d")); // after the change: not with it
    end();
    await tick();
    expect(writes.slice(1)).toEqual([["c", "tasks"]]);
    end();
    await step;
    await tick();
    expect(writes.slice(2)).toEqual([["d"]]);
  });

  it("makes the loop wait while too much is not durable, and others go first", async () => {
    const { writer, end } = slowWriter();
    for (let count = 0; count < 511; count++) writer.append(event("x"));
    expect(writer.catchUp()).toBeUndefined();
    writer.append(event("x"));
    const order: string[] = [];
    setImmediate(() => order.push("the event loop"));
    const caughtUp = writer.catchUp()?.then(() => order.push("the loop"));
    await tick();
    end();
    await caughtUp;
    expect(order).toEqual(["the event loop", "the loop"]);
    expect(writer.catchUp()).toBeUndefined();
  });

  it("writes nothing more after a failure: the log would have a hole", async () => {
    const { writer, writes, fail } = slowWriter();
    writer.append(event("a"));
    const failed = writer.commit({});
    const next = writer.commit({ tasks: [] });
    const both = Promise.all([
      expect(failed).rejects.toThrow("no"),
      expect(next).rejects.toThrow("no"),
    ]);
    await tick();
    fail();
    await both;
    writer.append(event("b"));
    await expect(writer.flush()).rejects.toThrow("no");
    expect(writes).toEqual([["a"]]);
  });
});

describe("a conversation", () => {
  it("is one for all who enter it, until the last has left", async () => {
    const store = memoryStore();
    const [one, other] = await Promise.all([enter(store), enter(store)]);
    expect(other).toBe(one);
    expect(one.log("t")).toBe(other.log("t"));
    await one.leave();
    expect(await store.acquire("s", "another", 1)).toBeUndefined();
    await other.leave();
    const lease = await store.acquire("s", "another", 60_000);
    expect(lease).toBeDefined();
  });

  it("can be entered again while it closes", async () => {
    const store = memoryStore();
    const first = await enter(store);
    const leaving = first.leave();
    const second = await enter(store);
    await leaving;
    expect(second).not.toBe(first);
    second.log("t").append(event("a"));
    await second.leave();
    expect(await store.last("t")).toBe(0); // what was left to write is written
  });

  it("that another process drives is waited for, or is an error at once", async () => {
    const store = memoryStore();
    const lease = await store.acquire("s", "another process", 60_000);
    await expect(enter(store, "fail")).rejects.toMatchObject({ code: "agent_busy" });
    const stop = new AbortController();
    const waiting = enter(store, "queue", stop.signal);
    await tick();
    stop.abort();
    await expect(waiting).rejects.toMatchObject({ code: "cancelled" });
    if (lease) await store.release(lease);
    await (await enter(store)).leave();
  });

  it("that is lost aborts what is driven in it, and leaving it hides nothing", async () => {
    const inner = memoryStore();
    const store: Store = {
      ...inner,
      commit: () => Promise.reject(new Error("gone")),
      release: () => Promise.reject(new Error("gone")),
    };
    const conversation = await enter(store);
    await expect(conversation.log("t").commit({})).rejects.toThrow("gone");
    expect(conversation.lost.signal.aborted).toBe(true);
    await conversation.leave();
  });
});
