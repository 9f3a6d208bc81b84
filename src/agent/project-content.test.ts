import { describe, expect, it } from "vitest";
import type { Item } from "../protocol/task.ts";
import { blockOf, contentOf } from "./project-content.ts";

const status = "completed";

describe("an item as the blocks of its message", () => {
  it("thinking: the summary, else the raw thoughts", () => {
    const item: Item = { type: "reasoning", id: "r", status, summary: [] };
    const text = "Hm.";
    const raw = { ...item, content: [{ type: "reasoning_text", text }] } as const;
    const summary = { ...raw, summary: [{ type: "text", text: "In short." }] } as const;
    expect(contentOf(item)).toEqual([]);
    expect(contentOf(raw)).toEqual([{ type: "thinking", text }]);
    expect(contentOf(summary)).toEqual([{ type: "thinking", text: "In short." }]);
  });

  it("a call: its arguments as a value, or as text while they are not JSON", () => {
    const item = { type: "tool_call", id: "c", status, call_id: "call", name: "act" } as const;
    const inputOf = (text: string) => contentOf({ ...item, arguments: text });
    expect(inputOf('{"a":1}')).toMatchObject([{ type: "tool_use", id: "call", input: { a: 1 } }]);
    expect(inputOf('{"a":')).toMatchObject([{ input: '{"a":' }]);
  });

  it("a message: its text and its media, without what is for pages only", () => {
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
});
