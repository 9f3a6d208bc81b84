import { describe, expect, it } from "vitest";
import { QueuedSink, UnsentBytes } from "./sink-queue.ts";

/** A connection that takes a part only when the test says so. */
class TestSink extends QueuedSink {
  readonly response = new Response(null);
  readonly parts: Uint8Array[] = [];
  isFinished = false;
  isCut = false;
  #onSent: (() => void) | undefined;

  protected put(part: Uint8Array, onSent: () => void): void {
    this.parts.push(part);
    this.#onSent = onSent;
  }

  protected finish(): void {
    this.isFinished = true;
    this.close();
  }

  cut(): void {
    this.isCut = true;
    this.close();
  }

  /** The reader takes the part that is on its way; false: there is none. */
  take(): boolean {
    const onSent = this.#onSent;
    this.#onSent = undefined;
    onSent?.();
    return onSent !== undefined;
  }
}

const kilobyte = 1_024;
const text = (sink: TestSink) => Buffer.concat(sink.parts).toString("latin1");

describe("a queued sink", () => {
  it("gives its connection at most 32 KiB at a time, in order", () => {
    const sink = new TestSink(new UnsentBytes(1e9));
    const bytes = Buffer.from(Array.from({ length: 100 * kilobyte }, (_, n) => n % 251));
    sink.write(Buffer.from("first"));
    sink.write(bytes);
    sink.write(Buffer.from("last"));
    expect(sink.parts).toHaveLength(1);
    while (sink.take());
    expect(Math.max(...sink.parts.map(({ length }) => length))).toBe(32 * kilobyte);
    expect(text(sink)).toBe(`first${bytes.toString("latin1")}last`);
    expect(sink.buffered).toBe(0);
  });

  it("joins small writes that waited", () => {
    const sink = new TestSink(new UnsentBytes(1e9));
    for (let n = 0; n < 1_000; n++) sink.write(Buffer.from(`${n} `));
    while (sink.take());
    expect(sink.parts).toHaveLength(2);
    expect(text(sink)).toBe(Array.from({ length: 1_000 }, (_, n) => `${n} `).join(""));
  });

  it("is drained when the reader has taken everything, and ends after it", async () => {
    const unsent = new UnsentBytes(1e9);
    const sink = new TestSink(unsent);
    sink.write(Buffer.alloc(40 * kilobyte));
    let isDrained = false;
    const drained = sink.drained().then(() => {
      isDrained = true;
    });
    sink.take();
    await Promise.resolve();
    expect(isDrained).toBe(false);
    sink.end();
    sink.write(Buffer.from("ignored"));
    expect(sink.isFinished).toBe(false);
    sink.take();
    await drained;
    expect([sink.isFinished, sink.buffered, unsent.total]).toEqual([true, 0, 0]);
  });
});

describe("the unsent bytes of all connections", () => {
  it("count bytes once that several readers wait for, until the last has them", () => {
    const unsent = new UnsentBytes(1e9);
    const sinks = Array.from({ length: 10 }, () => new TestSink(unsent));
    const shared = Buffer.alloc(20 * kilobyte);
    for (const sink of sinks) sink.write(shared);
    expect(unsent.total).toBe(shared.length);
    for (const sink of sinks.slice(1)) sink.take();
    expect(unsent.total).toBe(shared.length);
    sinks[0]?.cut();
    expect(unsent.total).toBe(0);
  });

  it("stay under their limit: the readers without progress for the longest time are cut off", () => {
    const limit = 100 * kilobyte;
    const unsent = new UnsentBytes(limit);
    const [stalled, slow, newest] = [1, 2, 3].map(() => new TestSink(unsent)) as [
      TestSink,
      TestSink,
      TestSink,
    ];
    slow.write(Buffer.alloc(20 * kilobyte));
    slow.write(Buffer.alloc(20 * kilobyte));
    stalled.write(Buffer.alloc(40 * kilobyte));
    slow.take();
    newest.write(Buffer.alloc(39 * kilobyte));
    expect([stalled.isCut, slow.isCut, newest.isCut]).toEqual([false, false, false]);
    newest.write(Buffer.alloc(2 * kilobyte));
    expect([stalled.isCut, slow.isCut, newest.isCut]).toEqual([true, false, false]);
    expect(unsent.total).toBeLessThanOrEqual(limit);
  });

  it("let one reader have more than the limit, because an event may be that large", () => {
    const unsent = new UnsentBytes(100);
    const sink = new TestSink(unsent);
    sink.write(Buffer.alloc(100 * kilobyte));
    while (sink.take());
    expect([sink.isCut, sink.buffered, unsent.total]).toEqual([false, 0, 0]);
    expect(Buffer.concat(sink.parts)).toHaveLength(100 * kilobyte);
  });
});
