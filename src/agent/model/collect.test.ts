import { describe, expect, it } from "vitest";
import { stillDependencies } from "../../../test/support/fake-model.ts";
import { Collector, finishReasonOf, parseToolInput, type StreamPart } from "./collect.ts";
import type { TurnSink } from "./turn.ts";

/** A collector after these parts, and its close() calls. */
function collected(parts: readonly StreamPart[]) {
  const closed: unknown[][] = [];
  let opened = 0;
  const sink: TurnSink = {
    open: () => ++opened,
    delta() {},
    close: (...call) => closed.push(call),
    block() {},
    source() {},
    discard() {},
  };
  const collector = new Collector(sink, stillDependencies().ids);
  for (const part of parts) collector.accept(part);
  return { collector, closed };
}
const thought: readonly StreamPart[] = [
  { type: "reasoning-start", id: "0" },
  { type: "reasoning-delta", id: "0", delta: "Hm" },
  { type: "reasoning-delta", id: "0", delta: "." },
];
const half: readonly StreamPart[] = [
  ...thought,
  { type: "reasoning-end", id: "0" },
  { type: "text-delta", id: "0", delta: "Half " },
  { type: "tool-input-start", id: "c", toolName: "act" },
  { type: "tool-input-delta", id: "c", delta: '{"a"' },
  { type: "text-delta", id: "0", delta: "of it" },
];

describe("Collector", () => {
  it("closes a part with its whole text", () => {
    const { closed } = collected([
      ...half,
      { type: "tool-input-delta", id: "c", delta: ":1}" },
      { type: "tool-call", toolCallId: "c", toolName: "act", input: '{ "a": 1 }' },
      { type: "text-end", id: "0" },
    ]);
    expect(closed).toEqual([
      [1, "Hm.", false],
      [3, '{"a":1}'], // as it was streamed
      [2, "Half of it", false],
    ]);
  });

  it("closes open text as cut once and drops calls when the turn is interrupted", () => {
    const { collector, closed } = collected(half);
    const partial = [
      { type: "thinking", text: "Hm." },
      { type: "text", text: "Half of it" },
    ];
    expect(collector.partial()).toEqual(partial);
    expect(collector.partial()).toEqual(partial);
    expect(closed).toEqual([
      [1, "Hm.", false],
      [2, "Half of it", true],
    ]);
  });

  it("closes parts that the provider left open when the turn completes", () => {
    const { collector, closed } = collected([
      ...thought,
      { type: "text-delta", id: "0", delta: "a" },
    ]);
    expect(collector.complete("stop").content).toEqual([
      { type: "thinking", text: "Hm." },
      { type: "text", text: "a" },
    ]);
    expect(closed.map(([, ...told]) => told)).toEqual([
      ["Hm.", false],
      ["a", false],
    ]);
  });
});

describe("finishReasonOf", () => {
  it.each([
    ["stop", "stop"],
    ["tool-calls", "tool-calls"],
    ["unknown", "cut"],
    [{ unified: "length", raw: "max_tokens" }, "length"],
    [{ unified: "other", raw: "pause_turn" }, "other"],
    [{ unified: "other", raw: undefined }, "cut"],
    [{ unified: "error", raw: undefined }, "error"],
  ] as const)("%j is %s", (reason, finish) => {
    expect(finishReasonOf(reason)).toBe(finish);
  });
});

describe("parseToolInput", () => {
  it("parses JSON, and reads an empty text as no arguments", () => {
    expect(parseToolInput('{"a":[1,"}"]}')).toEqual({ input: { a: [1, "}"] } });
    expect(parseToolInput("")).toEqual({ input: {} });
    expect(parseToolInput(" \n")).toEqual({ input: {} });
    expect(parseToolInput("null")).toEqual({ input: null });
  });

  it("keeps text that is not JSON", () => {
    expect(parseToolInput('{"a":')).toEqual({ input: {}, raw: '{"a":' });
  });

  it("does not parse values that are nested too deeply", () => {
    const deep = "[".repeat(100_000) + "]".repeat(100_000);
    expect(parseToolInput(deep)).toEqual({ input: {}, raw: deep });
    const brackets = JSON.stringify({ text: '\\"[{'.repeat(5_000) });
    expect(parseToolInput(brackets)).not.toHaveProperty("raw");
    const wide = JSON.stringify(Array.from({ length: 5_000 }, () => [[]]));
    expect(parseToolInput(wide)).not.toHaveProperty("raw");
  });
});
