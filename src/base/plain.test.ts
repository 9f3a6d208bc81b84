import { describe, expect, it } from "vitest";
import { copyJson, copyPlain, freezePlain, frozenCopy, isSame } from "./plain.ts";

class Client {
  readonly inner = { n: 1 };
}
const client = new Client();
const sample = () => ({ list: [{ n: 1 }, null, "x"], deep: { client }, none: undefined });

describe("copyPlain, frozenCopy and copyJson", () => {
  it("copies plain parts and shares other values", () => {
    const original = sample();
    const copy = copyPlain(original);
    expect(copy).toEqual(original);
    expect([copy.list === original.list, copy.list[0] === original.list[0]]).toEqual([
      false,
      false,
    ]);
    expect(copy.deep.client).toBe(client);
  });

  it("keeps a field named __proto__", () => {
    const copy = copyPlain(JSON.parse('{"__proto__":{"x":1}}'));
    expect(Object.keys(copy)).toEqual(["__proto__"]);
    expect(Object.getPrototypeOf(copy)).toBe(Object.prototype);
  });

  it("freezes the copy, but neither the original nor other values", () => {
    const original = sample();
    const frozen = frozenCopy(original);
    expect(Object.isFrozen(original)).toBe(false);
    expect([frozen, frozen.list, frozen.list[0], frozen.deep].every(Object.isFrozen)).toBe(true);
    expect(Object.isFrozen(client.inner)).toBe(false);
    expect(freezePlain(original)).toBe(original);
  });

  it("copyJson equals a JSON round trip", () => {
    const value = {
      date: new Date(0),
      none: undefined,
      list: [undefined, Number.NaN],
      call: () => 1,
      map: new Map([[1, 2]]),
    };
    expect(copyJson(value)).toEqual(JSON.parse(JSON.stringify(value)));
  });

  it("copyJson throws for a circular value and a bigint", () => {
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    expect(() => copyJson(circle)).toThrow("circular");
    expect(() => copyJson({ n: 1n })).toThrow("bigint");
  });
});

describe("isSame", () => {
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
