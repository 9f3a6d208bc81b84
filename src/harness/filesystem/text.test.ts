import { describe, expect, it } from "vitest";
import { editText, exactText, linesOf } from "./text.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

describe("editText", () => {
  it("replaces the only one there is", () => {
    expect(editText("one two three", "two", "2")).toEqual({ text: "one 2 three", count: 1 });
    expect(editText("a$b", "$", "$&$1")).toEqual({ text: "a$&$1b", count: 1 });
    expect(editText("ab", "ab", "")).toEqual({ text: "", count: 1 });
  });

  it("does not choose among several", () => {
    expect(editText("a a", "a", "b")).toEqual({ problem: "several" });
    expect(editText("aaa", "aa", "b")).toEqual({ problem: "several" });
    expect(editText("a a", "a", "b", { all: true })).toEqual({ text: "b b", count: 2 });
    expect(editText("abc", "x", "y", { all: true })).toEqual({ problem: "missing" });
  });

  it("finds lines whose ends a reader does not see", () => {
    expect(editText("a\r\nb\r\nc", "a\nb", "x\ny\nz")).toEqual({
      text: "x\r\ny\r\nz\r\nc",
      count: 1,
    });
    expect(editText("a\nb", "a\r\nb", "x")).toEqual({ problem: "missing" });
  });
});

it("exactText keeps all, and refuses what is no text", () => {
  const text = "\ufeffé\r\n😀\0";
  expect(exactText(bytes(text), "a")).toBe(text);
  expect(() => exactText(Uint8Array.of(0xff, 0xfe), "a")).toThrow('"a" is not UTF-8 text.');
});

it("linesOf gives lines without their ends", () => {
  expect(linesOf(bytes("a\r\nb\n\nc"))).toEqual(["a", "b", "", "c"]);
  expect(linesOf(bytes("a\n"))).toEqual(["a"]);
  expect(linesOf(bytes("\n"))).toEqual([""]);
  expect(linesOf(bytes(""))).toEqual([]);
  expect(linesOf(bytes("\ufeffa"))).toEqual(["a"]);
  expect(linesOf(Uint8Array.of(1, 0, 2))).toBeUndefined();
});
