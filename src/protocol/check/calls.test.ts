import { expect, it } from "vitest";
import type { Fields } from "../../../test/support/hand-log.ts";
import { begin, found, log, withChild } from "../../../test/support/hand-log.ts";

const call = { type: "tool_call", id: "fc_1", call_id: "call_1", name: "send" };
const called = [
  ...begin,
  [
    "output_item.added",
    { output_index: 0, item: { ...call, status: "in_progress", arguments: "" } },
  ],
  [
    "output_item.done",
    { output_index: 0, item: { ...call, status: "completed", arguments: '{"to":"ann","cc":[]}' } },
  ],
] as const;
const shown = { call_id: "call_1", name: "send", arguments: '{ "cc": [], "to": "ann" }' };

function asked(fields: Fields, kind = "tool_call") {
  const request = { approval_id: "apr_1", kind, ...shown, ...fields };
  return found(log(...called, ["approval.requested", request]), { partial: true });
}

it("reports an approval that shows another tool or other arguments than its call", () => {
  expect(asked({})).toEqual([]);
  expect(asked({ name: "erase" })).toEqual([[4, "approval"]]);
  expect(asked({ arguments: '{"to":"bob","cc":[]}' })).toEqual([[4, "approval"]]);
  expect(asked({ arguments: '{"to":"bob"' })).toEqual([[4, "approval"]]);
  expect(asked({ call_id: "call_2" })).toEqual([[4, "approval"]]);
});

it("accepts an approval of an edited call", () => {
  expect(asked({ name: "erase", arguments: "{}", edited: true })).toEqual([]);
});

it("accepts an approval for a call of the child that the call has started", () => {
  const events = withChild("call_1").slice(0, 8);
  const request = { approval_id: "apr_1", kind: "tool_call", ...shown };
  expect(found(log(...events, ["approval.requested", request]), { partial: true })).toEqual([]);
});
