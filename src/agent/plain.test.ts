import { describe, expect, it } from "vitest";
import { copyJson, copyPlain, freezePlain, frozenCopy, isSame } from "./plain.ts";

class Client {
  readonly inner = { n: 1 };
}
const client = new Client();
const sample = () => ({ list: [{ n: 1 }, null, "x"], deep: { client }, none: undefined });

describe("copies", () => {
  it("are equal and share no plain part; anything else is handed on", () => {
    const original = sample();
    const copy = copyPlain(original);
    expect(copy).toEqual(original);
    expect([copy.list === original.list, copy.list[0] === original.list[0]]).toEqual([
      false,
      false,
    ]);
    expect(copy.deep.client).toBe(client);
  });

  it("have a field named __proto__ as a field", () => {
    const copy = copyPlain(JSON.parse('{"__proto__":{"x":1}}'));
    expect(Object.keys(copy)).toEqual(["__proto__"]);
    expect(Object.getPrototypeOf(copy)).toBe(Object.prototype);
  });

  it("that are frozen leave what they were made of, and what is not plain, as it is", () => {
    const original = sample();
    const frozen = frozenCopy(original);
    expect(Object.isFrozen(original)).toBe(false);
    expect([frozen, frozen.list, frozen.list[0], frozen.deep].every(Object.isFrozen)).toBe(true);
    expect(Object.isFrozen(client.inner)).toBe(false);
    expect(freezePlain(original)).toBe(original);
  });

  it("as JSON are what JSON makes of a value", () => {
    const value = {
      date: new Date(0),
      none: undefined,
      list: [undefined, Number.NaN],
      call: () => 1,
      map: new Map([[1, 2]]),
    };
    expect(copyJson(value)).toEqual(JSON.parse(JSON.stringify(value)));
  });

  it("as JSON cannot be made of a circle or a bigint", () => {
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    expect(() => copyJson(circle)).toThrow("in a circle");
    expect(() => copyJson({ n: 1n })).toThrow("bigint");
  });
});

describe("the same", () => {
  it.each([
    [sample(), sample(), true],
    [{ a: 1 }, { a: 1, b: 2 }, false],
    [{ a: undefined }, { b: undefined }, false],
    [[1, 2], [1], false],
    [[], {}, false],
    [{ a: [{ b: "x" }] }, { a: [{ b: "y" }] }, false],
  ])("%j and %j: %s", (one, other, expected) => {
    expect(isSame(one, other)).toBe(expected);
  });
});
