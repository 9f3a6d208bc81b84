import { describe, expect, it } from "vitest";
import { editLines, writeLines } from "./diff.tsx";

const shown = (lines: ReturnType<typeof editLines>) =>
  lines.map(
    ({ kind, number, text }) => `${number} ${{ same: " ", add: "+", del: "-" }[kind]} ${text}`,
  );

describe("editLines", () => {
  const file = "one\ntwo\nthe delta grows\nfour\nfive\nsix";

  it("shows whole lines with their numbers and two lines around", () => {
    expect(shown(editLines(file, "delta grows", "delta shrinks\ntoday"))).toEqual([
      "1   one",
      "2   two",
      "3 - the delta grows",
      "3 + the delta shrinks",
      "4 + today",
      "5   four",
      "6   five",
    ]);
  });

  it("shows the texts alone if the file is not known", () => {
    expect(shown(editLines(undefined, "a\nb", "a\nc"))).toEqual(["1   a", "2 - b", "2 + c"]);
  });

  const marked = (lines: ReturnType<typeof editLines>) =>
    lines.flatMap(({ text, marks = [] }) => marks.map((mark) => text.slice(...mark)));

  it("marks the words that differ", () => {
    const lines = editLines("x\nThe delta grows.", "The delta", "Where strong, the delta");
    expect(marked(lines)).toEqual(["The", "Where strong, the"]);
    expect(marked(editLines(undefined, "a b c d", "a x c y"))).toEqual(["b", "d", "x", "y"]);
  });

  it("does not mark words that only stand on another line", () => {
    const lines = editLines(
      undefined,
      "The delta grows far into the sea.",
      "A delta grows far\ninto the sea.",
    );
    expect(marked(lines)).toEqual(["The", "A"]);
  });
});

it("shows a new file as added lines, and a rewritten one by its changes", () => {
  expect(shown(writeLines(undefined, "a\nb\n"))).toEqual(["1 + a", "2 + b"]);
  expect(shown(writeLines("a\nb\n", "a\nc\n"))).toEqual(["1   a", "2 - b", "2 + c"]);
});
