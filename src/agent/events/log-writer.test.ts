import { describe, expect, it, vi } from "vitest";
import type { Commit, Store } from "../../contract/store.ts";
import type { LogEvent } from "../../protocol/event.ts";
import { FlushQueue } from "./flush-queue.ts";
import { LogWriter } from "./log-writer.ts";

const customEvent = (name: string) => ({ type: "task.custom", name }) as unknown as LogEvent;
const namesIn = ({ events = [] }: Pick<Commit, "events">) =>
  events.map((event) => (event as unknown as { name: string }).name);
/** A store that keeps its data outside the memory of its process. */
const durable = { files: {} } as Store;
const tick = () => new Promise((resolve) => setImmediate(resolve));

describe("LogWriter", () => {
  const inMemory = new FlushQueue();
  const onDisk = new FlushQueue({ isDurable: true });
  /** A writer that records its writes; each write ends on demand, with the number of written steps. */
  function slowWriter(store?: Store) {
    const writes: string[][][] = [];
    const ends: PromiseWithResolvers<number>[] = [];
    const writer = new LogWriter(
      "t",
      (steps) => {
        const isTasks = (key: string) => key === "tasks";
        writes.push(steps.map((step) => [...namesIn(step), ...Object.keys(step).filter(isTasks)]));
        const end = Promise.withResolvers<number>();
        ends.push(end);
        return end.promise;
      },
      store,
      store ? onDisk : inMemory,
    );
    return {
      writer,
      writes,
      end: (written = writes.at(-1)?.length ?? 1) => ends.shift()?.resolve(written),
      fail: () => ends.shift()?.reject(new Error("no")),
    };
  }

  it("writes events in the next turn of the event loop, or with the next change", async () => {
    const { writer, writes, end } = slowWriter();
    writer.append(customEvent("a"));
    writer.append(customEvent("b"));
    expect(writes).toEqual([]);
    await tick();
    expect(writes).toEqual([[["a", "b"]]]);
    writer.append(customEvent("c"));
    const step = writer.commit({ tasks: [] });
    writer.append(customEvent("d")); // after the change, so not in its commit
    end();
    await tick();
    expect(writes.slice(1)).toEqual([[["c", "tasks"]]]);
    end();
    await step;
    await tick();
    expect(writes.slice(2)).toEqual([[["d"]]]);
  });

  it("writes the steps that waited together, in order, and the rest of a list again", async () => {
    const { writer, writes, end } = slowWriter();
    const settled: string[] = [];
    const step = (name: string) => {
      writer.append(customEvent(name));
      return writer.commit({ tasks: [] }).then(() => settled.push(name));
    };
    const steps = [step("a"), step("b"), step("c")];
    await tick();
    expect(writes).toEqual([
      [
        ["a", "tasks"],
        ["b", "tasks"],
        ["c", "tasks"],
      ],
    ]);
    steps.push(step("d"));
    await tick();
    expect(writes).toHaveLength(1);
    end(2); // the store has written a and b
    await tick();
    expect(settled).toEqual(["a", "b"]);
    expect(writes.slice(1)).toEqual([
      [
        ["c", "tasks"],
        ["d", "tasks"],
      ],
    ]);
    end();
    await Promise.all(steps);
    expect(settled).toEqual(["a", "b", "c", "d"]);
  });

  it("writes events of many flushes as one step, unless a change is between them", async () => {
    const { writer, writes, end } = slowWriter();
    const flushed: string[] = [];
    const flush = (name: string) => {
      writer.append(customEvent(name));
      return writer.flush().then(() => flushed.push(name));
    };
    const flushes = [flush("a"), flush("b")];
    await tick();
    expect(writes).toEqual([[["a", "b"]]]);
    flushes.push(flush("c"), flush("d")); // not into the step that the store has
    const step = writer.commit({ tasks: [] });
    flushes.push(flush("e"), flush("f"));
    end();
    await Promise.all(flushes.slice(0, 2));
    expect(flushed).toEqual(["a", "b"]);
    await tick();
    expect(writes.slice(1)).toEqual([[["c", "d"], ["tasks"], ["e", "f"]]]);
    end(2);
    await step;
    flushes.push(flush("g")); // not into the step that the store did not write
    await tick();
    expect(writes.slice(2)).toEqual([[["e", "f"], ["g"]]]);
    end();
    await Promise.all(flushes);
    expect(flushed).toEqual(["a", "b", "c", "d", "e", "f", "g"]);
  });

  it("holds the events of durable logs for a step or for each other", async () => {
    vi.useFakeTimers();
    try {
      const [one, two] = [slowWriter(durable), slowWriter(durable)];
      one.writer.append(customEvent("a"));
      await vi.advanceTimersByTimeAsync(10);
      two.writer.append(customEvent("b"));
      expect([one.writes, two.writes]).toEqual([[], []]);
      await vi.advanceTimersByTimeAsync(10);
      await vi.advanceTimersToNextTimerAsync();
      expect([one.writes, two.writes]).toEqual([[[["a"]]], [[["b"]]]]);
      two.end();
      two.writer.append(customEvent("c"));
      void two.writer.commit({ tasks: [] });
      await vi.advanceTimersByTimeAsync(1);
      expect(two.writes.slice(1)).toEqual([[["c", "tasks"]]]);
    } finally {
      vi.useRealTimers();
    }
  });

  it("flushes all logs in memory with one timer", async () => {
    const timers = vi.spyOn(globalThis, "setImmediate");
    try {
      const writers = [slowWriter(), slowWriter(), slowWriter()];
      for (const { writer } of writers) writer.append(customEvent("a"));
      expect(timers).toHaveBeenCalledTimes(1);
      await tick();
      expect(writers.map(({ writes }) => writes)).toEqual([[[["a"]]], [[["a"]]], [[["a"]]]]);
    } finally {
      timers.mockRestore();
    }
  });

  it("writes blobs before the events that name them", async () => {
    const steps: string[] = [];
    const stored = Promise.withResolvers<number>();
    const put = async (path: string) => {
      steps.push(path);
      return stored.promise;
    };
    const write = async () => {
      steps.push("events");
      return 1;
    };
    const writer = new LogWriter("t", write, { files: { put } } as unknown as Store);
    const earlier = writer.commit({ tasks: [] });
    const url = writer.addBlob("c", Buffer.from("hello"));
    writer.append(customEvent("a"));
    const flushed = writer.flush();
    await earlier;
    const name = "sha256-2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    const blob = `blobs/c/${name}`;
    expect([url, steps]).toEqual([`task://c/blobs/${name}`, [blob, "events"]]);
    stored.resolve(1);
    await flushed;
    expect(steps).toEqual([blob, "events", "events"]);
  });

  it("makes the loop wait while too many events are not durable", async () => {
    const { writer, end } = slowWriter();
    for (let count = 0; count < 511; count++) writer.append(customEvent("x"));
    expect(writer.catchUp()).toBeUndefined();
    writer.append(customEvent("x"));
    const order: string[] = [];
    setImmediate(() => order.push("the event loop"));
    const caughtUp = writer.catchUp()?.then(() => order.push("the loop"));
    await tick();
    end();
    await caughtUp;
    expect(order).toEqual(["the event loop", "the loop"]);
    expect(writer.catchUp()).toBeUndefined();
  });

  it("writes nothing after a failure, since the log would have a gap", async () => {
    const { writer, writes, fail } = slowWriter();
    writer.append(customEvent("a"));
    const failed = writer.commit({});
    const next = writer.commit({ tasks: [] });
    const both = Promise.all([
      expect(failed).rejects.toThrow("no"),
      expect(next).rejects.toThrow("no"),
    ]);
    await tick();
    fail();
    await both;
    writer.append(customEvent("b"));
    await expect(writer.flush()).rejects.toThrow("no");
    expect(writes).toEqual([[["a"], ["tasks"]]]);
  });

  it("keeps the steps that were written before a refused one", async () => {
    const { writer, writes, end, fail } = slowWriter();
    const outcomes = Promise.allSettled([1, 2, 3].map(() => writer.commit({ tasks: [] })));
    await tick();
    end(1); // the store refuses the second step
    await tick();
    fail();
    expect((await outcomes).map(({ status }) => status)).toEqual([
      ...["fulfilled", "rejected", "rejected"],
    ]);
    expect(writes.map((steps) => steps.length)).toEqual([3, 2]);
  });
});
