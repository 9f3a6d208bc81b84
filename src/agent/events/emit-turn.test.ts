import { describe, expect, it } from "vitest";
import { createIds } from "../../base/id.ts";
import type { LogEvent } from "../../protocol/event.ts";
import { TaskTree } from "../../protocol/reduce.ts";
import type { Item } from "../../protocol/task.ts";
import { ManualClock } from "../../testing.ts";
import type { TurnPart } from "../model/turn.ts";
import { TaskEmitter } from "./emit.ts";
import { TurnEmitter, type TurnEmitterOptions } from "./emit-turn.ts";
import { LogWriter } from "./log-writer.ts";

/** An emitter, its events and their fold. */
function turn(options: Partial<TurnEmitterOptions> = {}) {
  const events: LogEvent[] = [];
  const log = new LogWriter("t", async () => 1);
  log.append = (event) => {
    events.push(event);
    return events;
  };
  const emitter = new TurnEmitter({
    emitter: new TaskEmitter("t", log, undefined, new ManualClock()),
    ids: createIds(),
    messageId: "msg_1",
    references: { target: () => undefined },
    ...options,
  });
  /** The parts by the keys that a test gives them. */
  const parts = new Map<number, ReturnType<TurnEmitter["open"]>>();
  const partOf = (key: number) => parts.get(key) as ReturnType<TurnEmitter["open"]>;
  const sink = {
    open: ({ key, ...part }: TurnPart & { readonly key: number }) =>
      parts.set(key, emitter.open(part as TurnPart)),
    delta: (key: number, text: string) => emitter.delta(partOf(key), text),
    close: (key: number, text: string, isCut?: boolean) => emitter.close(partOf(key), text, isCut),
    discard: (...args: Parameters<TurnEmitter["discard"]>) => emitter.discard(...args),
    discardCalls: () => emitter.discardCalls(),
    end: (...args: Parameters<TurnEmitter["end"]>) => emitter.end(...args),
    showWhole: (...args: Parameters<TurnEmitter["showWhole"]>) => emitter.showWhole(...args),
  };
  const output = (): readonly Item[] => {
    const tree = new TaskTree();
    tree.apply(events);
    return tree.tree.tasks.t?.output ?? [];
  };
  return { sink, events, output, types: () => output().map(({ type }) => type) };
}
const call = (key: number, callId: string) =>
  ({ key, kind: "call", callId, name: "tool" }) as const;

describe("TurnEmitter", () => {
  it("puts consecutive parts of one kind into one item", () => {
    const { sink, output } = turn();
    for (const [key, kind] of [
      [1, "thinking"],
      [2, "thinking"],
      [3, "text"],
      [4, "text"],
    ] as const) {
      sink.open({ key, kind });
      sink.delta(key, `${kind} ${key}`);
      sink.close(key, `${kind} ${key}`);
    }
    sink.end("completed");
    expect(output()).toMatchObject([
      {
        type: "reasoning",
        status: "completed",
        summary: [{ text: "thinking 1" }, { text: "thinking 2" }],
      },
      {
        type: "message",
        status: "completed",
        block_list: [{ text: "text 3" }, { text: "text 4" }],
      },
    ]);
  });

  it("emits one item for each call, with its arguments", () => {
    const { sink, output } = turn();
    for (const [key, id] of [
      [1, "a"],
      [2, "b"],
    ] as const) {
      sink.open(call(key, id));
      sink.delta(key, '{"x":');
      sink.delta(key, "1}");
      sink.close(key, '{"x":1}');
    }
    sink.end("completed");
    expect(output()).toMatchObject([
      { type: "tool_call", call_id: "a", arguments: '{"x":1}' },
      { type: "tool_call", call_id: "b", arguments: '{"x":1}' },
    ]);
  });

  it("closes an item before it opens the next one", () => {
    const { sink, events } = turn();
    sink.open({ key: 1, kind: "thinking" });
    sink.close(1, "thought");
    sink.open(call(2, "a"));
    sink.close(2, "{}");
    sink.end("completed");
    const items = events.flatMap((event) => {
      const isItem =
        event.type === "task.output_item.added" || event.type === "task.output_item.done";
      return isItem ? [`${event.item.type} ${event.type.split(".").at(-1)}`] : [];
    });
    expect(items).toEqual([
      "reasoning added",
      "reasoning done",
      "tool_call added",
      "tool_call done",
    ]);
  });

  it("keeps an item open until its parts are closed and another item opens", () => {
    const { sink, events } = turn();
    sink.open({ key: 1, kind: "thinking" });
    sink.open({ key: 2, kind: "text" }); // overlaps
    sink.delta(2, "text");
    sink.delta(1, "thought");
    const dones = () => events.filter(({ type }) => type === "task.output_item.done").length;
    expect(dones()).toBe(0);
    sink.close(1, "thought");
    expect(dones()).toBe(1);
    sink.close(2, "text");
    expect(dones()).toBe(1);
    sink.end("completed");
    expect(dones()).toBe(2);
  });

  it("never splits a surrogate pair in text, thinking or arguments", () => {
    for (const part of [
      { key: 1, kind: "text" },
      { key: 1, kind: "thinking" },
      call(1, "a"),
    ] as const) {
      const { sink, events } = turn();
      sink.open(part);
      for (const delta of ["a\ud83c", "\udf0a", "b\ud83c", ""]) sink.delta(1, delta);
      sink.close(1, "a🌊b\ud83c");
      const deltas = events.flatMap((event) => ("delta" in event ? [event.delta] : []));
      expect(deltas.join("")).toBe("a🌊b\ud83c");
      expect(deltas.every((delta) => delta === "\ud83c" || delta.isWellFormed())).toBe(true);
    }
  });

  it("discards all items, including finished ones", () => {
    const { sink, types } = turn();
    sink.open({ key: 1, kind: "thinking" });
    sink.close(1, "");
    sink.open({ key: 2, kind: "text" });
    sink.discard("fallback");
    sink.delta(2, "ignored");
    sink.open({ key: 3, kind: "text" });
    sink.delta(3, "again");
    sink.close(3, "again");
    sink.end("completed");
    expect(types()).toEqual(["discarded", "discarded", "message"]);
  });

  it("discards the calls of an interrupted turn and keeps its text", () => {
    const { sink, output } = turn();
    sink.open({ key: 1, kind: "text" });
    sink.delta(1, "half");
    sink.open(call(2, "whole"));
    sink.close(2, "");
    sink.open(call(3, "half"));
    sink.close(1, "half", true);
    sink.discardCalls();
    sink.end("cancelled");
    expect(output()).toMatchObject([
      { type: "message", status: "cancelled", block_list: [{ text: "half" }] },
      { type: "discarded" },
      { type: "discarded" },
    ]);
  });

  it("emits media and whole messages", () => {
    const { sink, output } = turn({ purpose: "summary" });
    sink.showWhole([
      { type: "thinking", text: "hm" },
      { type: "text", text: "look" },
      { type: "image", source: { url: "https://example.com/a.png" } },
      { type: "tool_use", id: "c", name: "tool", input: { a: 1 } },
    ]);
    expect(output()).toMatchObject([
      { type: "reasoning", summary: [{ text: "hm" }] },
      { type: "message", purpose: "summary", block_list: [{ text: "look" }, { type: "image" }] },
      { type: "tool_call", call_id: "c", arguments: '{"a":1}' },
    ]);
  });

  it("calls onChunk for text, thinking and retractions", () => {
    const chunks: unknown[] = [];
    const { sink, output } = turn({ onChunk: (chunk) => chunks.push(chunk) });
    sink.discard("provider_retry"); // nothing to retract yet
    for (const part of [
      { key: 1, kind: "thinking" },
      { key: 2, kind: "text" },
    ] as const) {
      sink.open(part);
      sink.delta(part.key, part.kind);
    }
    sink.delta(2, "!");
    expect(output()).toMatchObject([{ message_id: "msg_1" }, { message_id: "msg_1" }]);
    sink.discard("provider_retry");
    expect(chunks).toEqual([
      { type: "thinking", text: "thinking" },
      { type: "text", text: "text" },
      { type: "text", text: "!" },
      { type: "retracted" },
    ]);
  });
});
