import fc from "fast-check";
import { expect, it } from "vitest";
import type { WireBlock } from "../protocol/task.ts";
import { SaidBefore } from "./said-before.ts";

const image = (url: string): WireBlock => ({ type: "image", image_url: { url } });
const text = (words: string): WireBlock => ({ type: "text", text: words });

it("whatever is said again is not new, however it is cut; what comes after it is", () => {
  fc.assert(
    fc.property(
      fc.string({ minLength: 1 }),
      fc.string({ minLength: 1 }),
      fc.array(fc.nat()),
      (before, after, cuts) => {
        const said = new SaidBefore([text(before)]);
        const whole = before + after;
        const at = [...new Set(cuts.map((cut) => cut % whole.length))].sort((a, b) => a - b);
        const pieces = [0, ...at].map((start, index) => whole.slice(start, at[index]));
        expect(pieces.map((piece) => said.newIn(piece)).join("")).toBe(after);
      },
    ),
  );
});

it("tells blocks by what they are, and not by their number", () => {
  const said = new SaidBefore([{ ...image("a"), reference_id: 3 }, text("b"), image("c")]);
  expect(said.has(image("a"))).toBe(true);
  expect(said.newIn("b")).toBe("");
  expect(said.has(image("c"))).toBe(true);
  expect(said.has(image("c"))).toBe(false);
});

it("is over as soon as something else is said", () => {
  const said = new SaidBefore([text("one two"), image("a")]);
  expect(said.newIn("one ")).toBe("");
  expect(said.newIn("three")).toBe("three");
  expect(said.has(image("a"))).toBe(false);
  expect(new SaidBefore([]).newIn("one")).toBe("one");
  expect(new SaidBefore([]).has(image("a"))).toBe(false);
});
