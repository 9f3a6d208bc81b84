import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, vi } from "vitest";
import type { Store } from "../../contract/store.ts";
import { memoryStore } from "../../store/memory.ts";
import { ManualClock, scriptedModel } from "../../testing.ts";
import { settingsOf } from "../loop/settings.ts";
import { processOf } from "./process.ts";

const settingsOn = (store: Store, name = "lead", leaseMs = 60_000) =>
  settingsOf({ name, model: scriptedModel([]), store, leaseMs });
const enter = (store: Store) => processOf(store).enter("s", settingsOn(store));

/** The same store as another process has it. */
const elsewhere = (store: Store): Store => ({ ...store });

describe("processOf", () => {
  it("returns one process per store object", () => {
    const store = memoryStore();
    expect(processOf(store)).toBe(processOf(store));
    expect(processOf(elsewhere(store))).not.toBe(processOf(store));
    expect(processOf(elsewhere(store)).id).not.toBe(processOf(store).id);
  });
});

describe("enter", () => {
  it("opens a conversation once for all callers, until the last one leaves", async () => {
    const store = memoryStore();
    const acquire = vi.fn(store.acquire);
    const counted = { ...store, acquire };
    const [first, second] = await Promise.all([enter(counted), enter(counted)]);
    const third = await enter(counted);
    expect(second).toBe(first);
    expect(third).toBe(first);
    expect(processOf(counted).owned("s")).toBe(first);
    expect(acquire).toHaveBeenCalledTimes(1);
    for (const conversation of [first, second]) {
      await conversation?.leave();
      expect(await store.owner("s")).toBeDefined();
    }
    await third?.leave();
    expect(await store.owner("s")).toBeUndefined();
    expect(processOf(counted).owned("s")).toBeUndefined();
  });

  it("returns undefined while another process owns the conversation", async () => {
    const store = memoryStore();
    const other = elsewhere(store);
    const owned = await enter(store);
    expect(await enter(other)).toBeUndefined();
    expect(processOf(other).owned("s")).toBeUndefined();
    await owned?.leave();
    const entered = await enter(other);
    expect(entered).toBeDefined();
    await entered?.leave();
  });

  it("returns undefined to every caller that waited for a refused lease", async () => {
    const store = memoryStore();
    await store.acquire("s", "another process", 60_000);
    expect(await Promise.all([enter(store), enter(store)])).toEqual([undefined, undefined]);
  });

  it("enters the same conversation while its scheduler takes a last look", async () => {
    const store = memoryStore();
    const first = await enter(store);
    const leaving = first?.leave();
    const second = await enter(store);
    await leaving;
    expect(second).toBe(first);
    expect(await store.owner("s")).toBeDefined();
    await second?.leave();
    expect(await store.owner("s")).toBeUndefined();
  });

  it("opens another conversation while the last one releases its lease", async () => {
    const inner = memoryStore();
    const releasing = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    const store: Store = {
      ...inner,
      async release(lease) {
        releasing.resolve();
        await released.promise;
        await inner.release(lease);
      },
    };
    const first = await enter(store);
    const leaving = first?.leave();
    await releasing.promise;
    expect(processOf(store).owned("s")).toBeUndefined();
    const entering = enter(store);
    released.resolve();
    await leaving;
    const second = await entering;
    expect(second).not.toBe(first);
    expect(processOf(store).owned("s")).toBe(second);
    expect(await store.owner("s")).toBeDefined();
    await second?.leave();
  });

  it("opens the conversation again after it was lost", async () => {
    const store = memoryStore();
    const first = await enter(store);
    first?.lose(new Error("gone"));
    expect(processOf(store).owned("s")).toBeUndefined();
    await first?.leave();
    const second = await enter(store);
    expect(second?.isOpen).toBe(true);
    expect(second).not.toBe(first);
    await second?.leave();
  });

  it("throws the error of a store that refuses to open, and tries again", async () => {
    const store = memoryStore();
    let isBroken = true;
    const broken: Store = {
      ...store,
      acquire: (...args) =>
        isBroken ? Promise.reject(new Error("locked")) : store.acquire(...args),
    };
    await expect(enter(broken)).rejects.toThrow("locked");
    isBroken = false;
    await (await enter(broken))?.leave();
  });

  it("takes the lease for the agent's leaseMs and renews it", async () => {
    const clock = new ManualClock(1);
    const store = memoryStore({ clock });
    const entered = await processOf(store).enter("s", settingsOn(store, "lead", 30));
    expect(await store.owner("s")).toEqual({ leftMs: 30 });
    await clock.advance(29);
    await vi.waitFor(async () => expect(await store.owner("s")).toEqual({ leftMs: 30 }));
    await entered?.leave();
  });
});

describe("a conversation whose lease another process has taken", () => {
  it("is lost with the next renewal", async () => {
    const clock = new ManualClock(1);
    const store = memoryStore({ clock });
    const entered = await processOf(store).enter("s", settingsOn(store, "lead", 30));
    await clock.advance(31);
    expect(await store.acquire("s", "another process", 60_000)).toBeDefined();
    await vi.waitFor(() => expect(entered?.lost.signal.aborted).toBe(true));
    expect(entered?.lost.signal.reason).toMatchObject({ code: "fenced" });
    expect(processOf(store).owned("s")).toBeUndefined();
    await entered?.leave();
    expect(await store.owner("s")).toBeDefined(); // the other process keeps its lease
  });

  it("is kept while the store fails to renew", async () => {
    const store: Store = { ...memoryStore(), renew: () => Promise.reject(new Error("busy")) };
    const entered = await processOf(store).enter("s", settingsOn(store, "lead", 9));
    await sleep(20);
    expect(entered?.isOpen).toBe(true);
    await entered?.leave();
  });
});

describe("shutDown", () => {
  it("stops and releases every conversation and enters no other", async () => {
    const store = memoryStore();
    const process = processOf(store);
    const conversations = [await enter(store), await process.enter("t", settingsOn(store))];
    const down = process.shutDown();
    await expect(enter(store)).rejects.toMatchObject({ code: "shutting_down", retryable: true });
    await Promise.all(
      conversations.map(async (conversation) => {
        await vi.waitFor(() => expect(conversation?.lost.signal.aborted).toBe(true));
        expect(conversation?.lost.signal.reason).toMatchObject({ code: "shutting_down" });
        await conversation?.leave();
      }),
    );
    await down;
    expect(await store.owner("s")).toBeUndefined();
    expect(await store.owner("t")).toBeUndefined();
  });

  it("waits for a conversation that opens at the moment", async () => {
    const store = memoryStore();
    const acquiring = Promise.withResolvers<void>();
    const slow: Store = {
      ...store,
      async acquire(...args) {
        await acquiring.promise;
        return store.acquire(...args);
      },
    };
    const entering = enter(slow).then((conversation) => conversation?.leave());
    const down = processOf(slow).shutDown();
    acquiring.resolve();
    await Promise.all([down, entering]);
    expect(await store.owner("s")).toBeUndefined();
  });
});
