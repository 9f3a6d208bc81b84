// The reader, the linter and the JSON Schema agree on every event of the canonical log with any one of its fields
// changed. The reader accepts an event if it folds it, and refuses it if it counts it in `ignored`. The linter refuses an
// event if it reports `I1` or `shape` for it; the rule `word` is for words that a newer version may know, which the
// reader accepts.

import { readFileSync } from "node:fs";
import { Validator } from "@cfworker/json-schema";
import { describe, expect, it } from "vitest";
import { checkStream } from "../../src/protocol/check/check.ts";
import type { LogEvent, StreamFrame } from "../../src/protocol/event.ts";
import { emptyTree, reduce } from "../../src/protocol/reduce.ts";
import type { Tree } from "../../src/protocol/task.ts";
import { taskStreamSchema } from "../../src/schema/json-schema.ts";
import { isDeep } from "../../src/testing/deep.ts";

type Json = Readonly<Record<string, unknown>>;
interface Mutation {
  readonly name: string;
  readonly event: Json;
}

function read(name: string): readonly Json[] {
  const text = readFileSync(new URL(`../corpus/${name}`, import.meta.url), "utf8");
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Json);
}

/** A value of each type of JSON, and numbers that no index can be. */
const types: readonly unknown[] = [null, true, 7, -1, 0.5, "word", {}, [], [null], [7], [{}]];
/** Values of the right type that may be out of range. */
const ranges = {
  string: ["", "word", "__proto__", "x".repeat(129)],
  number: [7, -1, 2 ** 53],
  boolean: [true, false],
};

/** The event without each of its fields, and with a value of another type in it. */
function* typeMutations(event: Json): Generator<Mutation> {
  for (const path of pathsOf(event)) {
    const name = path.join(".");
    yield { name: `without ${name}`, event: changed(event, path) };
    const present = path.reduce<unknown>(valueAt, event);
    for (const value of types) {
      const isOtherIndex = typeof present === "number" && (value === 7 || value === -1);
      if (isOtherIndex || (typeof value === typeof present && isScalar(value))) continue;
      yield { name: `${name} = ${JSON.stringify(value)}`, event: changed(event, path, value) };
    }
  }
}

/** The event with other strings, numbers and flags in it. */
function* rangeMutations(event: Json): Generator<Mutation> {
  for (const path of pathsOf(event)) {
    const name = path.join(".");
    const present = path.reduce<unknown>(valueAt, event);
    // Another type is another event, and -1 is the number of an event that is in no log yet.
    if (name === "type" || !isScalar(present)) continue;
    for (const value of ranges[typeof present as keyof typeof ranges]) {
      if (name === "sequence_number" && value === -1) continue;
      yield { name: `${name} = ${JSON.stringify(value)}`, event: changed(event, path, value) };
    }
  }
}

function isScalar(value: unknown): boolean {
  return value !== null && typeof value !== "object" && typeof value !== "undefined";
}

function* pathsOf(value: unknown, path: readonly string[] = []): Generator<readonly string[]> {
  if (path.length > 0) yield path;
  if (typeof value !== "object" || value === null) return;
  for (const key of Object.keys(value)) yield* pathsOf(valueAt(value, key), [...path, key]);
}

function valueAt(value: unknown, key: string): unknown {
  return (value as Json)[key];
}

function changed(event: Json, path: readonly string[], ...value: readonly unknown[]): Json {
  const copy = structuredClone(event);
  const holder = path.slice(0, -1).reduce<unknown>(valueAt, copy) as Record<string, unknown>;
  const key = path.at(-1) as string;
  if (value.length > 0) holder[key] = value[0];
  else if (Array.isArray(holder)) holder.splice(Number(key), 1);
  else delete holder[key];
  return copy;
}

function rulesOf(event: Json, before: readonly Json[] = []): ReadonlySet<string> {
  const problems = checkStream([...before, event], { partial: true });
  return new Set(problems.flatMap(({ index, rule }) => (index === before.length ? [rule] : [])));
}

function isRefusedByReader(event: Json, before: Tree): boolean {
  return reduce(before, event as unknown as StreamFrame).ignored > before.ignored;
}

const $defs = structuredClone(taskStreamSchema.$defs); // The validator adds fields to its schemas.
const validators = new Map<unknown, Validator>();
function isRefusedBySchema(event: Json, type: unknown): boolean {
  let validator = validators.get(type);
  if (validator === undefined) {
    validator = new Validator({ $ref: `#/$defs/${type}`, $defs }, "2020-12");
    validators.set(type, validator);
  }
  return !validator.validate(event).valid;
}

/** Calls back with every event of a stream and the tree of the events before it. */
function walk(events: readonly Json[], visit: (event: Json, at: number, tree: Tree) => void): void {
  let tree = emptyTree();
  for (const [at, event] of events.entries()) {
    visit(event, at, tree);
    tree = reduce(tree, event as unknown as LogEvent);
  }
}

/** Frames of the transport say nothing about a task, so the reader does not look into them. */
function isFolded({ type }: Json): boolean {
  return type !== "error" && !String(type).startsWith("stream.");
}

const streams = [
  { name: "the canonical log", events: read("canonical.jsonl"), atLeast: 30_000 },
  { name: "the canonical frames", events: read("canonical.frames.jsonl"), atLeast: 6_000 },
];

describe.each(streams)("every event of $name with one field changed", ({ events, atLeast }) => {
  const timeout = isDeep ? 3_600_000 : 120_000;

  it("removed, null or of another type: reader, linter and schema agree", { timeout }, () => {
    const differences: string[] = [];
    let mutants = 0;
    let accepted = 0;
    walk(events, (event, at, tree) => {
      for (const { name, event: mutant } of typeMutations(event)) {
        mutants++;
        // Whether an event fits depends on no other event, so the linter sees the others only in a deep run.
        const rules = rulesOf(mutant, isDeep ? events.slice(0, at) : []);
        const linter = rules.has("I1") || rules.has("shape");
        const reader = isFolded(event) ? isRefusedByReader(mutant, tree) : linter;
        const schema = isRefusedBySchema(mutant, event.type);
        if (!linter) accepted++;
        if (rules.has("word") || reader !== linter || schema !== linter) {
          differences.push(`${at} ${event.type}: ${name}: ${[...rules]} ${reader} ${schema}`);
        }
      }
    });
    expect(differences).toEqual([]);
    expect(mutants).toBeGreaterThan(atLeast);
    expect(accepted).toBeGreaterThan(mutants / 100);
  });

  it("out of range: schema and linter agree, and the reader accepts newer words", {
    timeout,
  }, () => {
    const differences: string[] = [];
    walk(events, (event, at, tree) => {
      for (const { name, event: mutant } of rangeMutations(event)) {
        const rules = rulesOf(mutant);
        const isMisfit = rules.has("I1") || rules.has("shape");
        const reader = isFolded(event) ? isRefusedByReader(mutant, tree) : isMisfit;
        const schema = isRefusedBySchema(mutant, event.type);
        // An event that fits and is ignored breaks another rule, of which the linter knows.
        const isIllegal = isMisfit || (reader && rulesOf(mutant, events.slice(0, at)).size > 0);
        if (schema !== (isMisfit || rules.has("word")) || reader !== isIllegal) {
          differences.push(`${at} ${event.type}: ${name}: ${[...rules]} ${reader} ${schema}`);
        }
      }
    });
    expect(differences).toEqual([]);
  });
});
