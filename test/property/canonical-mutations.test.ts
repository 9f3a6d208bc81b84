// Every rule of the linter names the hand-made mutations of the canonical log that it finds. A mutation that no rule
// finds is legal, with a reason, or the test fails.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { checkStream } from "../../src/protocol/check/check.ts";
import {
  type Change,
  canonical,
  lateJoin,
  rejoined,
  rejoinedNewer,
  rejoinedOlder,
} from "../support/mutations/edit-log.ts";
import { kills } from "../support/mutations/kills.ts";
import { legalMutations } from "../support/mutations/legal-mutations.ts";

const cases = Object.entries(kills).flatMap(([rule, changes]) =>
  Object.entries(changes).map(([name, change]) => ({ rule, name, change })),
);
const legal = Object.entries(legalMutations).map(([name, mutation]) => ({ name, ...mutation }));

function mutate(change: Change) {
  const base = change.base ?? canonical;
  const before = JSON.stringify(base);
  const events = change(base);
  expect(JSON.stringify(base)).toBe(before);
  expect(JSON.stringify(events)).not.toBe(before);
  return checkStream(events);
}

describe("the streams that are mutated", () => {
  it.each(Object.entries({ canonical, lateJoin, rejoined, rejoinedNewer, rejoinedOlder }))(
    "%s is legal",
    (_, base) => {
      expect(checkStream(base)).toEqual([]);
    },
  );
});

describe("a rule", () => {
  it("names the mutations that it finds, and the documentation names the rule", () => {
    const document = readFileSync("docs/protocol/check-stream.md", "utf8");
    const table = document.slice(document.indexOf("## Rules"));
    const rules = [...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, rule]) => rule);
    expect(rules.toSorted()).toEqual(Object.keys(kills).toSorted());
    expect(
      Object.entries(kills).filter(([, changes]) => Object.keys(changes).length === 0),
    ).toEqual([]);
  });

  it("is tried with more than 100 mutations, each with its own name", () => {
    const names = [...cases, ...legal].map(({ name }) => name);
    expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([]);
    expect(cases.length).toBeGreaterThan(200);
  });

  it.each(cases)("$rule finds $name", ({ rule, change }) => {
    expect(mutate(change).map((problem) => problem.rule)).toContain(rule);
  });
});

describe("a legal mutation", () => {
  it.each(legal)("$name: $reason", ({ change }) => {
    expect(mutate(change)).toEqual([]);
  });
});
