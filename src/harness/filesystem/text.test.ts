import { describe, expect, it } from "vitest";
import { editText, exactText, linesOf } from "./text.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

describe("editText", () => {
  it("replaces the only occurrence", () => {
    expect(editText("one two three", "two", "2")).toEqual({ text: "one 2 three", count: 1 });
    expect(editText("a$b", "$", "$&$1")).toEqual({ text: "a$&$1b", count: 1 });
    expect(editText("ab", "ab", "")).toEqual({ text: "", count: 1 });
  });

  it("does not choose among several occurrences", () => {
    expect(editText("a a", "a", "b")).toEqual({ problem: "several" });
    expect(editText("aaa", "aa", "b")).toEqual({ problem: "several" });
    expect(editText("a a", "a", "b", { all: true })).toEqual({ text: "b b", count: 2 });
    expect(editText("abc", "x", "y", { all: true })).toEqual({ problem: "missing" });
  });

  it("refuses a result that is too long", () => {
    const text = "a".repeat(1_000_000);
    expect(editText(text, "a", text, { all: true })).toEqual({ problem: "too long" });
  });

  it("matches line ends that read_file does not show", () => {
    expect(editText("a\r\nb\r\nc", "a\nb", "x\ny\nz")).toEqual({
      text: "x\r\ny\r\nz\r\nc",
      count: 1,
    });
    expect(editText("a\nb", "a\r\nb", "x")).toEqual({ problem: "missing" });
  });
});

it("decodes text exactly, and throws for other bytes", () => {
  const text = "\ufeffé\r\n😀\0";
  expect(exactText(bytes(text), "a")).toBe(text);
  expect(() => exactText(Uint8Array.of(0xff, 0xfe), "a")).toThrow('"a" is not UTF-8 text.');
});

describe("linesOf", () => {
  it("returns lines without their line ends", () => {
    const all = (text: string) => linesOf(bytes(text), 1, 100)?.lines;
    expect(all("a\r\nb\n\r\n\nc\r")).toEqual(["a", "b", "", "", "c\r"]);
    expect(all("a\n")).toEqual(["a"]);
    expect(all("\n")).toEqual([""]);
    expect(all("")).toEqual([]);
    expect(all("\ufeffa\n\ufeffb")).toEqual(["a", "\ufeffb"]);
    expect(all("\ufeff")).toEqual([]);
    expect(all("é\n😀\u2028")).toEqual(["é", "😀\u2028"]);
  });

  it("returns the requested lines and the total", () => {
    const text = bytes("1\n2\n3\n4");
    expect(linesOf(text, 2, 2)).toEqual({ lines: ["2", "3"], total: 4 });
    expect(linesOf(text, 4, 9)).toEqual({ lines: ["4"], total: 4 });
    expect(linesOf(text, 5, 9)).toEqual({ lines: [], total: 4 });
  });

  it("returns undefined for a binary file", () => {
    expect(linesOf(Uint8Array.of(1, 0, 2), 1, 9)).toBeUndefined();
  });
});
