import { describe, expect, it } from "vitest";
import type { LogEvent } from "../../protocol/event.ts";
import type { Commit } from "../../protocol/store.ts";
import { LogWriter } from "./log-writer.ts";

const customEvent = (name: string) => ({ type: "task.custom", name }) as unknown as LogEvent;
const namesIn = ({ events = [] }: Pick<Commit, "events">) =>
  events.map((event) => (event as unknown as { name: string }).name);
const tick = () => new Promise((resolve) => setImmediate(resolve));

describe("LogWriter", () => {
  /** A writer that records its writes; each write ends on demand. */
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

  it("writes events in the next turn of the event loop, or with the next change", async () => {
    const { writer, writes, end } = slowWriter();
    writer.append(customEvent("a"));
    writer.append(customEvent("b"));
    expect(writes).toEqual([]);
    await tick();
    expect(writes).toEqual([["a", "b"]]);
    writer.append(customEvent("c"));
    const step = writer.commit({ tasks: [] });
    writer.append(customEvent("d")); // after the change, so not in its commit
    end();
    await tick();
    expect(writes.slice(1)).toEqual([["c", "tasks"]]);
    end();
    await step;
    await tick();
    expect(writes.slice(2)).toEqual([["d"]]);
  });

  it("writes blobs before the events that name them", async () => {
    const steps: string[] = [];
    const stored = Promise.withResolvers<number>();
    const put = async (path: string) => {
      steps.push(path);
      return stored.promise;
    };
    const write = async () => void steps.push("events");
    const writer = new LogWriter("t", write, undefined, { put });
    const url = writer.addBlob("c", Buffer.from("hello"));
    writer.append(customEvent("a"));
    await tick();
    const name = "sha256-2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    expect([url, steps]).toEqual([`task://c/blobs/${name}`, [`blobs/c/${name}`]]);
    stored.resolve(1);
    await writer.flush();
    expect(steps).toEqual([`blobs/c/${name}`, "events"]);
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
    expect(writes).toEqual([["a"]]);
  });
});
