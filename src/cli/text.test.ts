import fc from "fast-check";
import { expect, it } from "vitest";
import { column, cutTo, joinFitting, printable, widthOf, wrap } from "./text.ts";

const piece = fc.constantFrom(
  "a",
  "word",
  " ",
  "  ",
  "水",
  "😀",
  "e\u0301",
  "\n",
  "👩‍👩‍👧",
  "ö",
  "-".repeat(30),
);
const texts = fc.array(piece, { maxLength: 40 }).map((pieces) => pieces.join(""));

it("measures wide, combined and styled characters", () => {
  expect(["abc", "水", "e\u0301", "😀", "\x1b[31mred\x1b[0m", ""].map(widthOf)).toEqual([
    3, 2, 1, 2, 3, 0,
  ]);
});

it("wraps to rows that fit and loses no character", () => {
  fc.assert(
    fc.property(texts, fc.integer({ min: 2, max: 50 }), (text, width) => {
      const rows = wrap(text, width);
      for (const row of rows) expect(widthOf(row)).toBeLessThanOrEqual(width);
      expect(rows.join("").replace(/\s/g, "")).toBe(text.replace(/\s/g, ""));
    }),
  );
});

it("breaks at spaces, keeps the indent of a line, and keeps empty lines", () => {
  expect(wrap("one two three", 8)).toEqual(["one two", "three"]);
  expect(wrap("  one two three", 9)).toEqual(["  one two", "  three"]);
  expect(wrap("a\n\nb", 8)).toEqual(["a", "", "b"]);
  expect(wrap("12345678", 8)).toEqual(["12345678"]);
});

it("cuts and fills to a width", () => {
  fc.assert(
    fc.property(texts, fc.integer({ min: 0, max: 30 }), (text, width) => {
      const line = text.replaceAll("\n", "");
      expect(widthOf(cutTo(line, width))).toBeLessThanOrEqual(width);
      expect(widthOf(column(line, width))).toBe(width);
    }),
  );
  expect(cutTo("rivers", 4)).toBe("riv…");
});

it("removes what could control the terminal", () => {
  expect(printable("a\x1b[2Jb\u0007\u202ec\td\ne")).toBe("a[2Jbc d\ne");
});

it("joins the first parts that fit", () => {
  expect(joinFitting(["one", "two", "three"], 20)).toBe("one · two · three");
  expect(joinFitting(["one", "two", "three"], 12)).toBe("one · two");
  expect(joinFitting(["one", "two"], 2)).toBe("");
});
