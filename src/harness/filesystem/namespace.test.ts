import fc from "fast-check";
import { expect, it } from "vitest";
import { nameProblem } from "./name.ts";
import { namespaceDirectory, namespaceOf } from "./namespace.ts";

const ids = fc.oneof(
  fc.string({ unit: "binary", minLength: 1, maxLength: 40 }),
  fc.string({ unit: fc.constantFrom("a", "A", "=", "6", "1", "-", ".", "/", "é"), minLength: 1 }),
);

it("two ids have two directories, on every disk", () => {
  const property = fc.property(ids, ids, (one, other) => {
    fc.pre(one !== other && one.length <= 128 && other.length <= 128);
    const names = [one, other].map((id) => namespaceDirectory({ scope: "user", id }));
    expect(names[0]?.toLowerCase()).not.toBe(names[1]?.toLowerCase());
    for (const name of names) {
      expect(name).toMatch(/^user-[a-z0-9_=-]+$/);
      expect(nameProblem(name)).toBeUndefined();
    }
  });
  fc.assert(property, { numRuns: 5_000 });
});

it("a plain id is its own directory, so that people find it", () => {
  expect(namespaceDirectory({ scope: "user", id: "ann-1" })).toBe("user-ann-1");
  expect(namespaceDirectory({ scope: "session", id: "Ann" })).toBe("session-=41nn");
});

it("the scope says whose the files are", () => {
  const who = { userId: "ann", sessionId: "s1", agentId: "helper" };
  expect(namespaceOf("user", who)).toEqual({ scope: "user", id: "ann" });
  expect(namespaceOf("session", who)).toEqual({ scope: "session", id: "s1" });
  expect(namespaceOf("agent", who)).toEqual({ scope: "agent", id: "helper" });
  expect(namespaceOf("global", who)).toBeUndefined();
  expect(namespaceOf("user", { sessionId: "s1", agentId: "helper" })).toBeUndefined();
});
