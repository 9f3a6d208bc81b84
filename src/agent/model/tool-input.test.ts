import { describe, expect, it } from "vitest";
import { parseToolInput } from "./tool-input.ts";

describe("parseToolInput", () => {
  it("parses JSON, and takes no text for no arguments", () => {
    expect(parseToolInput('{"a":[1,"}"]}')).toEqual({ input: { a: [1, "}"] } });
    expect(parseToolInput("")).toEqual({ input: {} });
    expect(parseToolInput(" \n")).toEqual({ input: {} });
    expect(parseToolInput("null")).toEqual({ input: null });
  });

  it("keeps text that is not JSON", () => {
    expect(parseToolInput('{"a":')).toEqual({ input: {}, raw: '{"a":' });
  });

  it("does not parse what would run out of stack where it is stored", () => {
    const deep = "[".repeat(100_000) + "]".repeat(100_000);
    expect(parseToolInput(deep)).toEqual({ input: {}, raw: deep });
    const brackets = JSON.stringify({ text: '\\"[{'.repeat(5_000) });
    expect(parseToolInput(brackets)).not.toHaveProperty("raw");
    const wide = JSON.stringify(Array.from({ length: 5_000 }, () => [[]]));
    expect(parseToolInput(wide)).not.toHaveProperty("raw");
  });
});
