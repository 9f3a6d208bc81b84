import { describe, expect, it } from "vitest";
import { checkStream } from "../protocol/check.ts";
import type { LogEvent } from "../protocol/event.ts";
import { TaskTree } from "../protocol/reduce.ts";
import type { ToolResultItem } from "../protocol/task.ts";
import { ManualClock } from "../testing/index.ts";
import type { ItemPlace } from "./emit.ts";
import { TaskEmitter } from "./emit.ts";
import { ResultEmitter } from "./emit-result.ts";
import { LogWriter } from "./log-writer.ts";

/** A task with one open result, and what a reader makes of it. */
function openResult() {
  const events: LogEvent[] = [];
  const log = new LogWriter("t", async () => {});
  log.append = (event) =>
    void events.push({ ...event, sequence_number: events.length } as LogEvent);
  const emitter = new TaskEmitter("t", log, undefined, new ManualClock());
  const task = { id: "t", object: "task" } as const;
  emitter.emit({
    type: "task.created",
    task: { ...task, status: "queued", agent_id: "a", session_id: "s", created_at: 0 },
  });
  emitter.emit({ type: "task.in_progress", task: { ...task, status: "in_progress" } });
  const item = { type: "tool_result", id: "r", status: "in_progress", call_id: "c" } as const;
  const place = emitter.addItem({ ...item, block_list: [] });
  const result = (): ToolResultItem => {
    expect(checkStream(events, { partial: true })).toEqual([]);
    const tree = new TaskTree();
    tree.apply(events);
    return tree.tree.tasks.t?.output[0] as ToolResultItem;
  };
  const emit = (at: ItemPlace = place, reserve?: () => number) =>
    new ResultEmitter(emitter, at, "c", reserve);
  return { emit, place, events, result };
}
const image = (url: string) => ({ type: "image", source: { url } }) as const;
const shown = (text: string) => [{ type: "text", text }] as const;

describe("a result on the wire", () => {
  it("is what is shown at its end when nothing was streamed", () => {
    const { emit, result } = openResult();
    const emitter = emit();
    expect(emitter.hasShown).toBe(false);
    emitter.end({ status: "completed", display: shown("all") });
    expect(result()).toMatchObject({ status: "completed", block_list: [{ text: "all" }] });
  });

  it("grows with text, images and files, and has the rest after them", () => {
    const { emit, result, events } = openResult();
    const emitter = emit();
    emitter.emit("one ");
    emitter.emit({ type: "text", text: "two" });
    emitter.emit(image("https://example.com/1.png"));
    emitter.emit(image("https://example.com/2.png"));
    emitter.emit({ type: "file", source: { url: "https://example.com/f" } });
    expect(emitter.hasShown).toBe(true);
    emitter.end({ status: "completed", display: shown("rest"), referenceId: 3 });
    expect(result().block_list).toMatchObject([
      { type: "text", text: "one two", reference_id: 3 },
      { type: "image", image_url: { url: "https://example.com/2.png" }, reference_id: 3 },
      { type: "file", reference_id: 3 },
      { type: "text", text: "rest", reference_id: 3 },
    ]);
    expect(events.filter(({ type }) => type === "task.image.delta")).toHaveLength(2);
  });

  it("has the number to cite on whatever is streamed, from the start", () => {
    const { emit, place, events, result } = openResult();
    let reserved = 0;
    const emitter = emit(place, () => ++reserved);
    expect(emitter.referenceId).toBeUndefined();
    emitter.emit("one");
    emitter.emit(image("https://example.com/1.png"));
    emitter.end({ status: "completed", display: shown("rest"), referenceId: 1 });
    expect([reserved, emitter.referenceId]).toEqual([1, 1]);
    const items = events.flatMap((event) =>
      "block_index" in event && "item" in event ? [event] : [],
    );
    expect(
      items.map(({ type, item }) => [type, "reference_id" in item && item.reference_id]),
    ).toEqual([
      ["task.text.added", 1],
      ["task.text.done", 1],
      ["task.image.added", 1],
      ["task.image.delta", 1],
      ["task.image.done", 1],
      ["task.text.done", 1],
    ]);
    expect(result().block_list.map(({ reference_id }) => reference_id)).toEqual([1, 1, 1]);
  });

  it("takes a number back that came to nothing", () => {
    const { emit, place, result } = openResult();
    const emitter = emit(place, () => 1);
    emitter.emit("half");
    const error = { code: "x", message: "y", retryable: false };
    emitter.end({ status: "failed", display: [], error });
    expect(result().block_list).toEqual([{ type: "text", text: "half" }]);
  });

  it("waits for the other half of a character, and shows a half for what it is", () => {
    const { emit, result } = openResult();
    const emitter = emit();
    for (const piece of ["\ud83c", "\udf0a!", "\ud83c"]) emitter.emit(piece);
    emitter.end({ status: "completed", display: [] });
    expect(result().block_list).toMatchObject([{ text: "🌊!\uFFFD" }]);
  });

  it("that waits in between goes on after what it has shown", () => {
    const { emit, result } = openResult();
    const first = emit();
    first.emit("first");
    const place = first.pause();
    first.emit("not heard");
    const second = emit(place);
    expect(second.hasShown).toBe(false);
    second.emit("second");
    second.end({ status: "completed", display: shown("third") });
    expect(result().block_list.map((block) => (block as { text: string }).text)).toEqual([
      "first",
      "second",
      "third",
    ]);
  });

  it("of a child names it, and repeats nothing", () => {
    const { emit, events } = openResult();
    emit().end({ status: "completed", display: [], childTaskId: "c" });
    const done = events.at(-1) as { item: object };
    expect(done.item).toEqual({
      type: "tool_result",
      id: "r",
      call_id: "c",
      status: "completed",
      child_task_id: "c",
    });
  });

  it("hears nothing after its end", () => {
    const { emit, events } = openResult();
    const emitter = emit();
    emitter.progress({ progress: 1, total: 2 });
    emitter.end({
      status: "failed",
      display: [],
      error: { code: "x", message: "y", retryable: false },
    });
    const { length } = events;
    emitter.emit("late");
    emitter.progress({ progress: 2 });
    emitter.end({ status: "completed", display: [] });
    expect(events).toHaveLength(length);
  });
});
