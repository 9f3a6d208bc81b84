import { describe, expect, it } from "vitest";
import { memoryStore } from "../store/index.ts";
import { takeSlot } from "./slot.ts";

describe("takeSlot", () => {
  it("goes from hand to hand, in order", async () => {
    const store = memoryStore();
    const order: number[] = [];
    const take = async (number: number) => {
      const release = await takeSlot(store, "s", "queue");
      order.push(number);
      return release;
    };
    const [first, second, third] = [take(1), take(2), take(3)];
    (await first)();
    (await second)();
    (await third)();
    expect(order).toEqual([1, 2, 3]);
    await takeSlot(store, "s", "fail"); // free at once, with nothing in between
  });

  it("fails at once when it may not wait, and takes no place in the queue", async () => {
    const store = memoryStore();
    const release = await takeSlot(store, "s", "fail");
    await expect(takeSlot(store, "s", "fail")).rejects.toMatchObject({ code: "agent_busy" });
    release();
    (await takeSlot(store, "s", "fail"))();
  });

  it("is of one session of one store", async () => {
    const store = memoryStore();
    await takeSlot(store, "s", "fail");
    await takeSlot(store, "other", "fail");
    await takeSlot(memoryStore(), "s", "fail");
  });

  it("who leaves the queue lets nobody pass who came later", async () => {
    const store = memoryStore();
    const stop = new AbortController();
    const release = await takeSlot(store, "s", "queue");
    const left = takeSlot(store, "s", "queue", stop.signal);
    stop.abort();
    await expect(left).rejects.toMatchObject({ code: "cancelled" });
    await expect(takeSlot(store, "s", "fail")).rejects.toMatchObject({ code: "agent_busy" });
    await expect(takeSlot(store, "s", "queue", stop.signal)).rejects.toMatchObject({
      code: "cancelled",
    });
    release();
    await takeSlot(store, "s", "fail");
  });
});
