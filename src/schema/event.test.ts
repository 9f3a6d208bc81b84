import { Validator } from "@cfworker/json-schema";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  changed,
  type Example,
  examples,
  freeFields,
  measureFields,
  optionalFields,
  type Place,
  placesOf,
  wordFields,
} from "../../test/support/examples.ts";
import { controlFrames, taskEventTypes } from "../protocol/grammar/index.ts";
import { isDeep } from "../testing/deep.ts";
import { streamFrame } from "./frames.ts";
import { streamDefinitions, taskStreamSchema } from "./json-schema.ts";

const validator = new Validator(structuredClone(taskStreamSchema), "2020-12");

/** What both validators say of a value; they have to say the same. */
function accepts(value: unknown, what: string): boolean {
  const zod = streamFrame.safeParse(value).success;
  const json = validator.validate(value).valid;
  expect(json, `JSON Schema, where zod says ${zod}: ${what}`).toBe(zod);
  return zod;
}

function wrong(value: unknown): unknown {
  if (Array.isArray(value)) return {};
  if (typeof value === "object" && value !== null) return [];
  return typeof value === "boolean" ? "yes" : true;
}

const cases: readonly (readonly [string, Example, readonly Place[]])[] = examples.map(
  (example, index) => [`${index + 1} ${example.type}`, example, placesOf(example)],
);

describe("the examples", () => {
  it("show every type of frame", () => {
    const types = new Set(examples.map((example) => example.type));
    expect([...types].sort()).toEqual([...taskEventTypes, ...Object.keys(controlFrames)].sort());
  });

  it("show every field that a schema names", () => {
    const named = new Set<string>();
    JSON.stringify(streamDefinitions, (key, value: unknown) => {
      if (key === "properties") for (const name of Object.keys(value as object)) named.add(name);
      return value;
    });
    for (const [, , places] of cases) {
      for (const { path } of places) named.delete(String(path[path.length - 1]));
    }
    expect([...named]).toEqual([]);
  });
});

describe.each(cases)("example %s", (_name, example, places) => {
  it("is returned unchanged, with unknown fields", () => {
    const extended = { ...example, later: { version: 2 } };
    expect(streamFrame.parse(extended)).toEqual(extended);
    expect(accepts(extended, "an unknown field")).toBe(true);
  });

  it("requires each required field and no optional one", () => {
    for (const place of places) {
      if (typeof place.path[place.path.length - 1] === "number") continue;
      const optional = optionalFields.some((pattern) => pattern.test(place.name));
      const free = freeFields.test(place.name) && place.name !== "task.custom value";
      const what = `without ${place.name}`;
      expect(accepts(changed(example, place), what), what).toBe(optional || free);
    }
  });

  it("checks the type of each field, and accepts null on optional fields", () => {
    for (const place of places) {
      const free = freeFields.test(place.name);
      const what = `wrong ${place.name}`;
      expect(accepts(changed(example, place, wrong(place.value)), what), what).toBe(free);
      const nullable = free || optionalFields.some((pattern) => pattern.test(place.name));
      expect(accepts(changed(example, place, null), `null ${place.name}`), what).toBe(nullable);
    }
  });

  it("checks the range of numbers, ids and words", () => {
    for (const place of places) {
      const bad: unknown[] = [];
      const field = place.path.findLast((key) => typeof key === "string") ?? "";
      if (typeof place.value === "number" && !measureFields.test(place.name)) {
        bad.push(-2, 0.5, 2 ** 53);
      }
      if (isId(field) && typeof place.value === "string" && place.value !== "") {
        bad.push("", "x".repeat(129), "__proto__");
      }
      if (wordFields.test(place.name)) bad.push("nonsense");
      for (const value of bad) {
        const what = `${place.name} = ${String(value).slice(0, 20)}`;
        expect(accepts(changed(example, place, value), what), what).toBe(false);
      }
    }
  });
});

function isId(field: string): boolean {
  if (field === "provider_call_id") return false;
  return /(^id|_id|_ids|Id|waiting_on)$/.test(field);
}

it("zod and JSON Schema agree on any value in any field", () => {
  const place = fc
    .nat(cases.length - 1)
    .map((index) => cases[index] as (typeof cases)[number])
    .chain(([, example, places]) =>
      fc.nat(places.length - 1).map((at) => ({ example, place: places[at] as Place })),
    );
  fc.assert(
    fc.property(place, fc.jsonValue(), ({ example, place }, value) => {
      accepts(changed(example, place, value), place.name);
    }),
    { numRuns: isDeep ? 100_000 : 2_000 },
  );
});
