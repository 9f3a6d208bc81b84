import { isObject } from "../../../base/plain.ts";
import type { StandardIssue } from "../../../contract/index.ts";

/** The work of one check, in schemas applied to values; more takes longer than a turn of the event loop should. */
const maxSteps = 1_000_000;
/** The deepest value that is checked, and the deepest schema. */
export const maxDepth = 100;
/** How many problems are reported at most. */
const maxIssues = 1_000;

/** A part of a schema or a value. */
export type Json = Readonly<Record<string, unknown>>;

/** A place in the value. */
export interface Place {
  readonly parent?: Place;
  readonly key: string;
  readonly depth: number;
}

/** The properties and entries that a schema has seen, for `unevaluatedProperties` and `unevaluatedItems`. */
export interface Seen {
  readonly names: Set<string>;
  readonly items: Set<number>;
}

/** One check of a value. */
export interface Run {
  steps: number;
  issues: StandardIssue[];
  /** The outcomes of referenced schemas: without them, nested references would be applied exponentially often. */
  readonly known: Map<Node, Map<unknown, Outcome>>;
}

/** The problems that a referenced schema found in a value, at a place of this depth. */
export interface Outcome {
  readonly issues: readonly StandardIssue[];
  readonly seen: Seen;
  readonly depth: number;
}

/** Reports the problems that one keyword has with a value. */
export type Rule = (value: unknown, at: Place, run: Run, seen: Seen) => void;

/** A compiled schema. */
export interface Node {
  readonly rules: Rule[];
  /** Applied last, because they depend on what the other rules have seen. */
  readonly lastRules: Rule[];
}

class TooMuchWork extends Error {}

/** Lists the problems of a value. */
export function check(root: Node, value: unknown): readonly StandardIssue[] {
  const run: Run = { steps: 0, issues: [], known: new Map() };
  try {
    apply(root, value, { key: "", depth: 0 }, run, noneSeen());
  } catch (error) {
    if (!(error instanceof TooMuchWork)) throw error;
    return [{ message: "The value is too large to be checked.", path: [] }];
  }
  return run.issues;
}

/** Nothing is seen yet. */
export function noneSeen(): Seen {
  return { names: new Set(), items: new Set() };
}

/** Counts work; throws beyond the limit. */
export function spend(run: Run, steps: number): void {
  run.steps += steps;
  if (run.steps > maxSteps) throw new TooMuchWork();
}

/** Applies a schema to a value. */
export function apply(node: Node, value: unknown, at: Place, run: Run, seen: Seen): void {
  spend(run, 1 + node.rules.length);
  if (at.depth > maxDepth) throw new TooMuchWork();
  for (const rule of node.rules) rule(value, at, run, seen);
  for (const rule of node.lastRules) rule(value, at, run, seen);
}

/** Applies a schema without reporting its problems; returns them. */
export function probe(
  node: Node,
  value: unknown,
  at: Place,
  run: Run,
  seen: Seen,
): StandardIssue[] {
  const { issues } = run;
  const own = noneSeen();
  run.issues = [];
  apply(node, value, at, run, own);
  const found = run.issues;
  run.issues = issues;
  if (found.length === 0) merge(seen, own);
  return found;
}

/** Adds what another schema has seen. */
export function merge(to: Seen, from: Seen): void {
  for (const name of from.names) to.names.add(name);
  for (const item of from.items) to.items.add(item);
}

/** Adds a problem. */
export function report(run: Run, at: Place, message: string): void {
  if (run.issues.length < maxIssues) run.issues.push({ message, path: pathOf(at) });
}

/** The names that lead to a place. */
export function pathOf(at: Place): string[] {
  const path: string[] = [];
  for (let place = at; place.parent; place = place.parent) path.unshift(place.key);
  return path;
}

/** The place of a property or an entry. */
export function below(parent: Place, key: string | number): Place {
  return { parent, key: String(key), depth: parent.depth + 1 };
}

/** The type of a value in the words of JSON Schema. */
export function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value;
}

/** A text that is the same for equal values. */
export function canonical(value: unknown, run?: Run): string {
  if (run) spend(run, 1);
  if (Array.isArray(value)) return `[${value.map((entry) => canonical(entry, run)).join()}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? "undefined";
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name], run)}`).join()}}`;
}

/** Adds problems that were found elsewhere. */
export function reportAll(run: Run, issues: readonly StandardIssue[]): void {
  run.issues.push(...issues.slice(0, maxIssues - run.issues.length));
}
