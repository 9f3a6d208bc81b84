import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkStream } from "../../protocol/check/check.ts";
import type { LogEvent } from "../../protocol/event.ts";
import { TaskTree } from "../../protocol/reduce.ts";
import type { ToolResultItem, WireBlock } from "../../protocol/task.ts";
import { ManualClock } from "../../testing.ts";
import { maxEventBytes, TaskEmitter } from "./emit.ts";
import { maxStreamedCharacters, RepeatedOutput, ResultEmitter } from "./emit-result.ts";
import { LogWriter } from "./log-writer.ts";

/** A task with one open result, its events and their fold. */
function openResult() {
  const events: LogEvent[] = [];
  const log = new LogWriter("t", async () => 1);
  log.append = (event) => {
    events.push({ ...event, sequence_number: events.length } as LogEvent);
    return events;
  };
  const emitter = new TaskEmitter("t", log, undefined, new ManualClock());
  const task = { id: "t", object: "task" } as const;
  emitter.append({
    type: "task.created",
    task: { ...task, status: "queued", agent_id: "a", session_id: "s", created_at: 0 },
  });
  emitter.append({ type: "task.in_progress", task: { ...task, status: "in_progress" } });
  const call = { type: "tool_call", id: "f", call_id: "c", name: "n" } as const;
  const called = emitter.addItem({ ...call, status: "in_progress", arguments: "" });
  emitter.closeItem(called, { arguments: "{}" });
  const item = { type: "tool_result", id: "r", status: "in_progress", call_id: "c" } as const;
  const opened = emitter.addItem({ ...item, block_list: [] });
  const result = (): ToolResultItem => {
    expect(checkStream(events, { partial: true })).toEqual([]);
    const tree = new TaskTree();
    tree.apply(events);
    return tree.tree.tasks.t?.output[opened.index] as ToolResultItem;
  };
  const emit = (reserve?: () => number) => new ResultEmitter(emitter, opened, reserve);
  return { emit, events, result };
}
const image = (url: string) => ({ type: "image", source: { url } }) as const;
const textBlocks = (text: string) => [{ type: "text", text }] as const;

describe("ResultEmitter", () => {
  it("emits the display blocks at the end when the tool streamed nothing", () => {
    const { emit, result } = openResult();
    const emitter = emit();
    expect(emitter.hasStreamed).toBe(false);
    emitter.end({ status: "completed", display: textBlocks("all") });
    expect(result()).toMatchObject({ status: "completed", block_list: [{ text: "all" }] });
  });

  it("streams text, images and files, and appends the display blocks", () => {
    const { emit, result } = openResult();
    const emitter = emit();
    emitter.emit("one ");
    emitter.emit({ type: "text", text: "two" });
    emitter.emit(image("https://example.com/1.png"));
    emitter.emit(image("https://example.com/2.png"));
    emitter.emit({ type: "file", source: { url: "https://example.com/f" } });
    expect(emitter.hasStreamed).toBe(true);
    emitter.end({ status: "completed", display: textBlocks("rest"), referenceId: 3 });
    expect(result().block_list).toMatchObject([
      { type: "text", text: "one two", reference_id: 3 },
      { type: "image", image_url: { url: "https://example.com/1.png" }, reference_id: 3 },
      { type: "image", image_url: { url: "https://example.com/2.png" }, reference_id: 3 },
      { type: "file", reference_id: 3 },
      { type: "text", text: "rest", reference_id: 3 },
    ]);
  });

  it("puts the reference number on every streamed block from the start", () => {
    const { emit, events, result } = openResult();
    let reserved = 0;
    const emitter = emit(() => ++reserved);
    expect(emitter.referenceId).toBeUndefined();
    emitter.emit("one");
    emitter.emit(image("https://example.com/1.png"));
    emitter.end({ status: "completed", display: textBlocks("rest"), referenceId: 1 });
    expect([reserved, emitter.referenceId]).toEqual([1, 1]);
    const items = events.flatMap((event) =>
      "block_index" in event && "item" in event ? [event] : [],
    );
    expect(
      items.map(({ type, item }) => [type, "reference_id" in item && item.reference_id]),
    ).toEqual([
      ["task.text.added", 1],
      ["task.text.done", 1],
      ["task.image.done", 1],
      ["task.text.done", 1],
    ]);
    expect(result().block_list.map(({ reference_id }) => reference_id)).toEqual([1, 1, 1]);
  });

  it("shows the place of its own child only", () => {
    const { emit, events } = openResult();
    const display = ["c", "call_other"].map((task_id) => ({ type: "task", task_id }) as const);
    emit().end({ status: "completed", display });
    expect(events.at(-1)).toMatchObject({ item: { block_list: [{ type: "task", task_id: "c" }] } });
  });

  it("stops streaming text at a limit and says so", () => {
    const { emit, result, events } = openResult();
    const emitter = emit();
    emitter.emit("x".repeat(50_000_000));
    emitter.emit("more");
    emitter.end({ status: "completed", display: [] });
    const [block] = result().block_list as [WireBlock & { type: "text" }];
    expect(block.text.length).toBeLessThan(maxStreamedCharacters + 100);
    expect(block.text).toMatch(/x\n\n\[The rest of this output is not shown\.\]$/);
    const deltas = events.filter((event) => event.type === "task.text.delta");
    expect(Math.max(...deltas.map((event) => JSON.stringify(event).length))).toBeLessThan(
      maxEventBytes,
    );
  });

  it("removes the reference number of a failed result", () => {
    const { emit, result } = openResult();
    const emitter = emit(() => 1);
    emitter.emit("half");
    const error = { code: "x", message: "y", retryable: false };
    emitter.end({ status: "failed", display: [], error });
    expect(result().block_list).toEqual([{ type: "text", text: "half" }]);
  });

  it("joins split surrogate pairs, and replaces a lone half at the end", () => {
    const { emit, result } = openResult();
    const emitter = emit();
    for (const piece of ["\ud83c", "\udf0a!", "\ud83c"]) emitter.emit(piece);
    emitter.end({ status: "completed", display: [] });
    expect(result().block_list).toMatchObject([{ text: "🌊!\uFFFD" }]);
  });

  it("continues after the streamed blocks when the call was suspended", () => {
    const { emit, result } = openResult();
    const first = emit();
    first.emit("first");
    first.pause();
    first.emit("ignored");
    const second = emit();
    expect(second.hasStreamed).toBe(false);
    second.emit("second");
    second.end({ status: "completed", display: textBlocks("third") });
    expect(result().block_list.map((block) => (block as { text: string }).text)).toEqual([
      "first",
      "second",
      "third",
    ]);
  });

  it("names the child of the call without repeating its output", () => {
    const { emit, events } = openResult();
    emit().end({ status: "completed", display: [], hasChild: true });
    const done = events.at(-1) as { item: object };
    expect(done.item).toEqual({
      type: "tool_result",
      id: "r",
      call_id: "c",
      status: "completed",
      child_task_id: "c",
    });
  });

  it("ignores everything after its end", () => {
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

describe("RepeatedOutput", () => {
  const imageBlock = (url: string): WireBlock => ({ type: "image", image_url: { url } });
  const textBlock = (text: string): WireBlock => ({ type: "text", text });

  it("drops repeated text, however it is split, and returns the text after it", () => {
    fc.assert(
      fc.property(
        fc.string({ minLength: 1 }),
        fc.string({ minLength: 1 }),
        fc.array(fc.nat()),
        (before, after, cuts) => {
          const repeated = new RepeatedOutput([textBlock(before)]);
          const whole = before + after;
          const at = [...new Set(cuts.map((cut) => cut % whole.length))].sort((a, b) => a - b);
          const pieces = [0, ...at].map((start, index) => whole.slice(start, at[index]));
          expect(pieces.map((piece) => repeated.dropFrom(piece)).join("")).toBe(after);
        },
      ),
    );
  });

  it("compares blocks without their reference number", () => {
    const numbered = { ...imageBlock("a"), reference_id: 3 };
    const repeated = new RepeatedOutput([numbered, textBlock("b"), imageBlock("c")]);
    expect(repeated.drops(imageBlock("a"))).toBe(true);
    expect(repeated.dropFrom("b")).toBe("");
    expect(repeated.drops(imageBlock("c"))).toBe(true);
    expect(repeated.drops(imageBlock("c"))).toBe(false);
  });

  it("drops nothing after the first difference", () => {
    const repeated = new RepeatedOutput([textBlock("one two"), imageBlock("a")]);
    expect(repeated.dropFrom("one ")).toBe("");
    expect(repeated.dropFrom("three")).toBe("three");
    expect(repeated.drops(imageBlock("a"))).toBe(false);
    expect(new RepeatedOutput([]).dropFrom("one")).toBe("one");
    expect(new RepeatedOutput([]).drops(imageBlock("a"))).toBe(false);
  });
});
