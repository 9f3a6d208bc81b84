import { describe, expect, it } from "vitest";
import type { Item } from "../protocol/task.ts";
import { blockOf, contentOf, stateOf, streamedText } from "./item-content.ts";

const status = "completed";
const textPart = (text: string) => ({ type: "text", text }) as const;

describe("the content of an item", () => {
  it("is the summary of a reasoning, else its raw text", () => {
    const item: Item = { type: "reasoning", id: "r", status, summary: [] };
    const text = "Hm.";
    const raw = { ...item, content: [{ type: "reasoning_text", text }] } as const;
    const summary = { ...raw, summary: [{ type: "text", text: "In short." }] } as const;
    expect(contentOf(item)).toEqual([]);
    expect(contentOf(raw)).toEqual([{ type: "thinking", text }]);
    expect(contentOf(summary)).toEqual([{ type: "thinking", text: "In short." }]);
  });

  it("is the parsed arguments of a call, or their text when they are not JSON", () => {
    const item = { type: "tool_call", id: "c", status, call_id: "call", name: "act" } as const;
    const inputOf = (text: string) => contentOf({ ...item, arguments: text });
    expect(inputOf('{"a":1}')).toMatchObject([{ type: "tool_use", id: "call", input: { a: 1 } }]);
    expect(inputOf('{"a":')).toMatchObject([{ input: '{"a":' }]);
  });

  it("is the text and the media of a message, without wire fields", () => {
    const url = "https://example.com/a";
    expect(blockOf({ type: "text", text: "a", reference_id: 1 })).toEqual([
      { type: "text", text: "a" },
    ]);
    expect(blockOf({ type: "image", image_url: { url } })).toEqual([
      { type: "image", source: { url } },
    ]);
    for (const type of ["file", "audio", "video"] as const) {
      expect(blockOf({ type, url })).toEqual([{ type, source: { url } }]);
    }
  });

  it("streams as one text, without media and arguments", () => {
    const block_list = [
      { type: "text", text: "a" },
      { type: "image", image_url: { url: "https://example.com/a" } },
      { type: "text", text: "b" },
    ] as const;
    const call = {
      type: "tool_call",
      id: "c",
      call_id: "c",
      name: "act",
      arguments: "{}",
    } as const;
    const summary = [textPart("in "), textPart("short")];
    expect(streamedText({ type: "message", id: "m", role: "assistant", block_list })).toBe("ab");
    expect(streamedText({ type: "tool_result", id: "r", call_id: "c", block_list })).toBe("ab");
    expect(streamedText({ type: "reasoning", id: "r", summary })).toBe("in short");
    expect(streamedText(call)).toBe("");
  });

  it("has the state of its tool result", () => {
    const item = { type: "tool_result", id: "r", call_id: "c", block_list: [] } as const;
    const error = (code: string) => ({ code, message: "no", retryable: false });
    expect(stateOf({ ...item, status: "completed" })).toBe("success");
    expect(stateOf({ ...item, status: "cancelled", error: error("interrupted") })).toBe(
      "interrupted",
    );
    expect(stateOf({ ...item, status: "failed", error: error("denied") })).toBe("denied");
    expect(stateOf({ ...item, status: "failed", error: error("tool_failed") })).toBe("error");
  });
});
