import fc from "fast-check";
import { expect, it } from "vitest";
import { editLine, emptyLine, type Key, layOut, moveByRow } from "./line-editor.ts";
import { widthOf } from "./text.ts";

const key = (name: string, more: Partial<Key> = {}): Key => ({
  ...{ name, ctrl: false, meta: false, text: "", ...more },
});
const typed = (text: string) => [...text].map((one) => key(one, { text: one }));
const ctrl = (name: string) => key(name, { ctrl: true });
const after = (...keys: readonly Key[]) => keys.reduce(editLine, emptyLine);

it("types, moves and deletes by whole characters", () => {
  expect(after(...typed("abc"), key("left"), ...typed("X"))).toEqual({ text: "abXc", at: 3 });
  expect(after(...typed("a😀"), key("backspace"))).toEqual({ text: "a", at: 1 });
  expect(after(...typed("ab"), key("home"), key("delete"))).toEqual({ text: "b", at: 0 });
  expect(after(...typed("one two"), ctrl("w"))).toEqual({ text: "one ", at: 4 });
  expect(after(...typed("one two"), ctrl("a"), ctrl("k"))).toEqual(emptyLine);
  expect(after(...typed("ab"), key("left"), ctrl("u"))).toEqual({ text: "b", at: 0 });
});

it("ignores keys without a text", () => {
  const line = after(...typed("a"));
  for (const other of [key("f5"), ctrl("x"), key("backspace", { ctrl: true, text: "" })])
    expect(editLine(line, other)).toBe(line);
});

it("lays a line out in rows that fit, with the cursor among them", () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom("a", "水", " ", "\n", "😀"), { maxLength: 30 }),
      fc.nat(30),
      fc.integer({ min: 2, max: 12 }),
      (pieces, count, width) => {
        const text = pieces.join("");
        const at = pieces.slice(0, count).join("").length;
        const { rows, row, column } = layOut({ text, at }, width);
        expect(rows.join("")).toBe(text.replaceAll("\n", ""));
        for (const one of rows) expect(widthOf(one)).toBeLessThanOrEqual(width);
        expect(row).toBeLessThan(rows.length);
        expect(column).toBeLessThanOrEqual(width); // before a line break it may be behind the row
        const before = rows.slice(0, row).join("").length;
        expect(before).toBeLessThanOrEqual(at);
      },
    ),
  );
});

it("moves between the rows of a text, and not beyond them", () => {
  const line = { text: "one two\nthree", at: 10 };
  expect(moveByRow(line, 20, -1)).toEqual({ ...line, at: 2 });
  expect(moveByRow({ ...line, at: 7 }, 20, 1)).toEqual({ ...line, at: 13 });
  expect(moveByRow(line, 20, 1)).toBeUndefined();
  expect(moveByRow({ text: "abcdef", at: 5 }, 3, -1)).toEqual({ text: "abcdef", at: 2 });
});
