import { expect, it } from "vitest";
import type { ToolResultBlock, ToolUseBlock } from "../protocol/message.ts";
import { type RanCall, ranCall, ranMark } from "./ran-call.ts";

const sent: ToolUseBlock = { type: "tool_use", id: "c", name: "look", input: { a: 1 } };

/** What is read of a result that was marked so. */
function read(ran: RanCall | undefined): RanCall | undefined {
  const block = {
    type: "tool_result",
    id: "c",
    name: "look",
    output: [],
    state: "success",
  } as const;
  const result: ToolResultBlock = { ...block, metadata: { ...ranMark(sent, ran) } };
  return ranCall(sent, result);
}

it("says nothing of a call that ran as it was sent", () => {
  expect(ranMark(sent, sent)).toEqual({});
  expect(read(sent)).toBe(sent);
});

it("keeps what an edited call ran as", () => {
  const edited = { name: "look", input: { a: 2 } };
  expect(read(edited)).toEqual(edited);
  expect(read({ ...sent, name: "see" })).toEqual({ name: "see", input: sent.input });
});

it("tells when somebody else gave the result", () => {
  expect(read(undefined)).toBeUndefined();
});
