import { describe, expect, it } from "vitest";
import type { LogEvent } from "../protocol/event.ts";
import type { Store } from "../protocol/store.ts";
import { memoryStore } from "../store/index.ts";
import { ManualClock, scriptedModel } from "../testing/index.ts";
import { Conversation } from "./conversation.ts";
import { settingsOf } from "./settings.ts";

const event = (name: string) => ({ type: "task.custom", name }) as unknown as LogEvent;
const tick = () => new Promise((resolve) => setImmediate(resolve));
const never = new AbortController().signal;
const enter = (store: Store, onBusy: "queue" | "fail" = "fail", signal = never) => {
  const clock = new ManualClock();
  const settings = settingsOf({ name: "a", model: scriptedModel([]), store, clock });
  return Conversation.enter({ settings, sessionId: "s", onBusy, signal });
};

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
