import { describe, expect, it } from "vitest";
import type { LogEvent } from "../../protocol/event.ts";
import type { Source } from "../../protocol/source.ts";
import { type EmitterStart, halfAtEnd, TaskEmitter } from "./emit.ts";
import type { LogWriter } from "./log-writer.ts";

function createEmitter(options: { source?: Source; start?: EmitterStart } = {}) {
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
    const place = emitter.addItem(message("m"));
    emitter.textDelta(place, 0, "a");
    emitter.closeItem(place, { ...message("m"), status: "completed" });
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
      const place = emitter.addItem(message("m"));
      emitter.textDelta(place, 0, "a");
      expect(events.map((event) => event.source)).toEqual([given, given]);
      expect(JSON.stringify(events).includes("source")).toBe(given !== undefined);
    }
  });

  it("emits a whole block with the event of its type", () => {
    const { emitter, events } = createEmitter();
    const place = emitter.addItem(message("m"));
    emitter.block(place, 0, { type: "text", text: "a" });
    emitter.block(place, 1, { type: "image", image_url: { url: "https://example.com/a.png" } });
    emitter.block(place, 2, { type: "file", url: "https://example.com/a.pdf" });
    expect(events.slice(1).map(({ type }) => type)).toEqual([
      "task.text.done",
      "task.image.done",
      "task.block.done",
    ]);
  });
});

it("halfAtEnd counts the first half of a surrogate pair at the end of a text", () => {
  expect(["", "a", "🌊", "\udf0a"].map(halfAtEnd)).toEqual([0, 0, 0, 0]);
  expect(["\ud83c", "a\ud83c"].map(halfAtEnd)).toEqual([1, 1]);
});
