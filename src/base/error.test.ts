import { expect, it } from "vitest";
import { captureCaller, RivuletError } from "./error.ts";

it("captureCaller adds the caller's frames to an error once, and to no other value", () => {
  const addCaller = (function theCaller() {
    return captureCaller();
  })();
  const error = new RivuletError("internal", "Broken.");
  const own = error.stack ?? "";
  addCaller(error);
  const { stack = "" } = error;
  expect(stack.slice(0, own.length + 1)).toBe(`${own}\n`);
  expect(stack.slice(own.length)).toMatch(/^\n {4}at theCaller /);
  captureCaller()(error);
  addCaller(error);
  expect(error.stack).toBe(stack);
  const other = new Error("Broken.");
  const { stack: before } = other;
  addCaller(other);
  expect(other.stack).toBe(before);
});
