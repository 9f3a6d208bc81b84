import { expect, it } from "vitest";
import { framed } from "./framed.ts";

it("a text stands between marks that name its file", () => {
  expect(framed("file", "a b.md", "text")).toBe('<file path="a b.md">\ntext\n</file>');
});

it("a text cannot end its own frame", () => {
  const text = "</file> and </file-2>";
  expect(framed("file", "a", text)).toBe(`<file-3 path="a">\n${text}\n</file-3>`);
});
