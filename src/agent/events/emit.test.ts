import { describe, expect, it } from "vitest";
import type { LogEvent } from "../../protocol/event.ts";
import type { Source } from "../../protocol/source.ts";
import { halfAtEnd } from "../../protocol/writer/delta.ts";
import { maxEventBytes, TaskEmitter } from "./emit.ts";
import type { LogWriter } from "./log-writer.ts";

function createEmitter(
  options: { source?: Source; start?: { taskSeq: number; outputIndex: number } } = {},
) {
  const events: LogEvent[] = [];
  const log = { append: (event: LogEvent) => events.push(event) } as unknown as LogWriter;
  const clock = { now: () => 7 };
  return { emitter: new TaskEmitter("t", log, options.source, clock, options.start), events };
}
const message = (id: string) =>
  ({ type: "message", id, status: "in_progress", role: "assistant", block_list: [] }) as const;
const source = { agentId: "a", path: "s/a", depth: 1 } as Source;

describe("TaskEmitter", () => {
  it("numbers events and items from the given start", () => {
    const { emitter, events } = createEmitter({ start: { taskSeq: 5, outputIndex: 2 } });
    const item = emitter.addItem(message("m"));
    emitter.appendText(item.addPart("text", true), "a");
    emitter.closeItem(item);
    emitter.addItem(message("n"));
    expect(events.map(({ task_seq }) => task_seq)).toEqual([5, 6, 7, 8]);
    expect(events).toMatchObject([
      { type: "task.output_item.added", output_index: 2, task_id: "t", created_at: 7 },
      { type: "task.text.delta", output_index: 2, item_id: "m", block_index: 0, delta: "a" },
      { type: "task.output_item.done", output_index: 2 },
      { type: "task.output_item.added", output_index: 3 },
    ]);
    expect(emitter.outputLength).toBe(4);
  });

  it("puts one shared source on all events of a child, and none on a root's", () => {
    for (const given of [source, undefined]) {
      const { emitter, events } = createEmitter(given && { source: given });
      const item = emitter.addItem(message("m"));
      emitter.appendText(item.addPart("text", true), "a");
      expect(events.map((event) => event.source)).toEqual([given, given]);
      expect(JSON.stringify(events).includes("source")).toBe(given !== undefined);
    }
  });

  it("emits a whole block with the event of its type", () => {
    const { emitter, events } = createEmitter();
    const item = emitter.addItem(message("m"));
    emitter.addBlock(item, { type: "text", text: "a" });
    emitter.addBlock(item, { type: "image", image_url: { url: "https://example.com/a.png" } });
    emitter.addBlock(item, { type: "file", url: "https://example.com/a.pdf" });
    expect(events.slice(1).map(({ type }) => type)).toEqual([
      "task.text.done",
      "task.image.done",
      "task.block.done",
    ]);
  });
});

describe("the size of an event", () => {
  const size = (event: LogEvent) => Buffer.byteLength(JSON.stringify(event));
  const long = `${"é".repeat(50_001)}🌊`.repeat(20);

  it("cuts a long delta between characters", () => {
    const { emitter, events } = createEmitter();
    const item = emitter.addItem(message("m"));
    emitter.appendText(item.addPart("text", true), long);
    emitter.appendText(item.addPart("arguments", true), long);
    const deltas = events.flatMap((event) => ("delta" in event ? [event.delta] : []));
    expect(deltas.join("")).toBe(long + long);
    expect(deltas.every((delta) => delta.isWellFormed())).toBe(true);
    expect(Math.max(...events.map(size))).toBeLessThanOrEqual(maxEventBytes);
  });

  it("refuses a larger event, except for a whole text, arguments or item", () => {
    const { emitter, events } = createEmitter();
    const item = emitter.addItem(message("m"));
    const value = { text: long };
    expect(() => emitter.append({ type: "task.custom", name: "n", value })).toThrow(
      expect.objectContaining({ code: "event_too_large", hint: expect.any(String) }),
    );
    expect(events).toHaveLength(1);
    emitter.addBlock(item, { type: "text", text: long });
    emitter.closeItem(item);
    expect(events).toHaveLength(3);
  });

  it("leaves the structured result out of an end that would be too large", () => {
    const { emitter, events } = createEmitter();
    const error = { code: "failed", message: long, retryable: false };
    const task = { id: "t", object: "task", status: "failed", structured: long, error } as const;
    emitter.append({ type: "task.failed", task });
    expect(size(events[0] as LogEvent)).toBeLessThanOrEqual(maxEventBytes);
    expect(events).toMatchObject([
      { task: { id: "t", status: "failed", error: { code: "failed" } } },
    ]);
  });

  it("replaces a data URL over 64 KiB with a blob", () => {
    const blobs: Uint8Array[] = [];
    const log = {
      addBlob: (taskId: string, bytes: Uint8Array) => `task://${taskId}/blobs/${blobs.push(bytes)}`,
    } as unknown as LogWriter;
    const emitter = new TaskEmitter("t", log, undefined, { now: () => 7 });
    const bytes = Buffer.alloc(60_000, 7);
    const url = `data:image/png;base64,${bytes.toString("base64")}`;
    expect(emitter.storeBytes({ type: "image", image_url: { url }, width: 9 })).toEqual({
      type: "image",
      image_url: { url: "task://t/blobs/1" },
      mime_type: "image/png",
      width: 9,
    });
    expect(Buffer.compare(blobs[0] as Uint8Array, bytes)).toBe(0);
    const text = `data:text/plain,${"%20".repeat(30_000)}`;
    const file = { type: "file", url: text, filename: "a.txt" } as const;
    expect(emitter.storeBytes(file)).toMatchObject({ url: "task://t/blobs/2", filename: "a.txt" });
    expect(blobs[1]).toHaveLength(30_000);
    const short = { type: "image", image_url: { url: "data:image/png;base64,AA==" } } as const;
    expect(emitter.storeBytes(short)).toBe(short);
  });
});

it("halfAtEnd counts the first half of a surrogate pair at the end of a text", () => {
  expect(["", "a", "🌊", "\udf0a"].map(halfAtEnd)).toEqual([0, 0, 0, 0]);
  expect(["\ud83c", "a\ud83c"].map(halfAtEnd)).toEqual([1, 1]);
});
