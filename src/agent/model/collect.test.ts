import { describe, expect, it } from "vitest";
import { stillDependencies } from "../../../test/support/fake-model.ts";
import { createCollector, type StreamPart } from "./collect.ts";
import type { TurnSink } from "./turn.ts";

/** A collector that was given these parts, and what it has told of closed ones. */
function collected(parts: readonly StreamPart[]) {
  const closed: unknown[][] = [];
  const sink: TurnSink = {
    open() {},
    delta() {},
    close: (...told) => closed.push(told),
    block() {},
    source() {},
    discard() {},
  };
  let key = 0;
  const collector = createCollector(sink, stillDependencies().ids, () => ++key);
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

describe("a collector", () => {
  it("closes a part with all of its text", () => {
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

  it("of a turn that is interrupted closes the text that is open as cut, once, and keeps no call", () => {
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

  it("of a turn that is complete closes what the provider forgot to", () => {
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
