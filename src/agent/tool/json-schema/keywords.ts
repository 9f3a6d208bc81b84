import { isObject } from "../../../base/plain.ts";
import type { StandardIssue } from "../../../contract/index.ts";
import {
  apply,
  below,
  canonical,
  type Json,
  merge,
  type Node,
  noneSeen,
  type Outcome,
  type Place,
  pathOf,
  probe,
  type Rule,
  type Run,
  report,
  reportAll,
  type Seen,
  spend,
  typeOf,
} from "./check.ts";
import { formatTests } from "./format.ts";
import { compilePattern, type Pattern } from "./pattern.ts";

/** The version of JSON Schema that a document follows. */
export type Draft = 4 | 7 | 2019 | 2020;

/** Compiles the schemas inside a keyword. */
export interface Compile {
  readonly draft: Draft;
  compile(schema: unknown): Node;
  compileMap(schemas: unknown): ReadonlyMap<string, Node>;
  compileList(schemas: unknown): readonly Node[];
  /** The schema that a reference names. */
  resolve(reference: string, from: Json): Node;
}

function isOfType(value: unknown, type: unknown): boolean {
  return type === "integer" ? Number.isInteger(value) : typeOf(value) === type;
}

function lengthOf(text: string): number {
  let length = 0;
  for (const _ of text) length += 1;
  return length;
}

function matches(pattern: Pattern, text: string, run: Run): boolean {
  spend(run, Math.ceil((text.length * pattern.states) / 10));
  return pattern.test(text);
}
type Keyword = (argument: unknown, schema: Json, compiler: Compile) => readonly Rule[] | undefined;

/** A rule for values of one kind. */
function rule<Value>(
  fits: (value: unknown) => value is Value,
  check: (value: Value, at: Place, run: Run, seen: Seen) => void,
): readonly Rule[] {
  return [(value, at, run, seen) => fits(value) && check(value, at, run, seen)];
}

const isText = (value: unknown): value is string => typeof value === "string";
const isNumber = (value: unknown): value is number => typeof value === "number";
const isArray = (value: unknown): value is readonly unknown[] => Array.isArray(value);
const isAny = (_: unknown): _ is unknown => true;

/** A limit on a number, such as a length. */
function limit<Value>(
  fits: (value: unknown) => value is Value,
  size: (value: Value) => number,
  isWithin: (size: number, limit: number) => boolean,
  problem: (limit: number) => string,
): Keyword {
  return (argument) => {
    if (typeof argument !== "number") return undefined;
    return rule(fits, (value, at, run) => {
      if (!isWithin(size(value), argument)) report(run, at, problem(argument));
    });
  };
}

const atLeast = (size: number, least: number) => size >= least;
const atMost = (size: number, most: number) => size <= most;
const self = (value: number) => value;
const count = (value: Json) => Object.keys(value).length;
const entries = (value: readonly unknown[]) => value.length;

function applyItems(node: Node, from: number): readonly Rule[] {
  return rule(isArray, (value, at, run, seen) => {
    for (let n = from; n < value.length; n++) {
      apply(node, value[n], below(at, n), run, noneSeen());
      seen.items.add(n);
    }
  });
}

function applyTuple(nodes: readonly Node[]): readonly Rule[] {
  return rule(isArray, (value, at, run, seen) => {
    for (const [n, node] of nodes.slice(0, value.length).entries()) {
      apply(node, value[n], below(at, n), run, noneSeen());
      seen.items.add(n);
    }
  });
}

/** Applies a schema to the properties that are not handled elsewhere. */
function applyOthers(
  node: Node,
  isOther: (name: string, run: Run, seen: Seen) => boolean,
  isForbidden: boolean,
): readonly Rule[] {
  return rule(isObject, (value, at, run, seen) => {
    for (const name of Object.keys(value)) {
      if (!isOther(name, run, seen)) continue;
      if (isForbidden) report(run, at, `${JSON.stringify(name)} is not allowed.`);
      else apply(node, value[name], below(at, name), run, noneSeen());
      seen.names.add(name);
    }
  });
}

function requireNames(at: Place, run: Run, value: Json, names: readonly unknown[]): void {
  for (const name of names) {
    if (typeof name === "string" && !Object.hasOwn(value, name)) {
      report(run, at, `${JSON.stringify(name)} is required.`);
    }
  }
}

/** The rules of each keyword. */
export const keywords: Readonly<Record<string, Keyword>> = {
  $ref: (argument, schema, compiler) => {
    if (typeof argument !== "string") return undefined;
    const node = compiler.resolve(argument, schema);
    return rule(isAny, (value, at, run, seen) => {
      const byValue = run.known.get(node) ?? new Map<unknown, Outcome>();
      run.known.set(node, byValue);
      let outcome = byValue.get(value);
      if (outcome === undefined) {
        const own = { issues: [] as StandardIssue[], seen: noneSeen(), depth: at.depth };
        byValue.set(value, own); // a reference to itself adds nothing
        own.issues.push(...probe(node, value, at, run, own.seen));
        outcome = own;
      }
      const { issues, depth } = outcome;
      const here = pathOf(at);
      const moved = issues.map(({ message, path = [] }) => ({
        message,
        path: [...here, ...path.slice(depth)],
      }));
      reportAll(run, moved);
      if (issues.length === 0) merge(seen, outcome.seen);
    });
  },
  type: (argument) => {
    const types = Array.isArray(argument) ? argument : [argument];
    const expected = types.map((type) => JSON.stringify(type)).join(" or ");
    return rule(isAny, (value, at, run) => {
      if (!types.some((type) => isOfType(value, type)))
        report(run, at, `Expected ${expected}, got ${JSON.stringify(typeOf(value))}.`);
    });
  },
  enum: (argument) => {
    if (!Array.isArray(argument)) return undefined;
    const allowed = new Set(argument.map((value) => canonical(value)));
    const shown = [...allowed].join();
    const list = shown.length > 500 ? `${shown.slice(0, 500)}…` : shown;
    return rule(isAny, (value, at, run) => {
      if (!allowed.has(canonical(value, run))) report(run, at, `Expected one of ${list}.`);
    });
  },
  const: (argument) => {
    const expected = canonical(argument);
    return rule(isAny, (value, at, run) => {
      if (canonical(value, run) !== expected)
        report(run, at, `Expected ${expected.slice(0, 500)}.`);
    });
  },
  minimum: (argument, schema, compiler) => {
    const isExclusive = compiler.draft === 4 && schema.exclusiveMinimum === true;
    return isExclusive ? above(argument, schema, compiler) : least(argument, schema, compiler);
  },
  maximum: (argument, schema, compiler) => {
    const isExclusive = compiler.draft === 4 && schema.exclusiveMaximum === true;
    return isExclusive ? under(argument, schema, compiler) : most(argument, schema, compiler);
  },
  exclusiveMinimum: (...args) => above(...args),
  exclusiveMaximum: (...args) => under(...args),
  multipleOf: limit(
    isNumber,
    self,
    (value, step) => Math.abs(value / step - Math.round(value / step)) < 1e-9,
    (step) => `Must be a multiple of ${step}.`,
  ),
  minLength: limit(
    isText,
    lengthOf,
    atLeast,
    (n) => `The text is too short: at least ${n} characters.`,
  ),
  maxLength: limit(
    isText,
    lengthOf,
    atMost,
    (n) => `The text is too long: at most ${n} characters.`,
  ),
  pattern: (argument) => {
    if (typeof argument !== "string") return undefined;
    const pattern = compilePattern(argument);
    return rule(isText, (value, at, run) => {
      if (!matches(pattern, value, run))
        report(run, at, `Does not match the pattern ${argument.slice(0, 500)}.`);
    });
  },
  format: (argument) => {
    const test = formatTests[String(argument)];
    return (
      test &&
      rule(isText, (value, at, run) => {
        spend(run, value.length);
        if (!test(value)) report(run, at, `Is not a valid ${argument}.`);
      })
    );
  },
  minItems: limit(isArray, entries, atLeast, (n) => `Has too few entries: at least ${n}.`),
  maxItems: limit(isArray, entries, atMost, (n) => `Has too many entries: at most ${n}.`),
  uniqueItems: (argument) =>
    argument === true
      ? rule(isArray, (value, at, run) => {
          const texts = new Set(value.map((entry) => canonical(entry, run)));
          if (texts.size < value.length) report(run, at, "Entries must be unique.");
        })
      : undefined,
  prefixItems: (argument, _, compiler) => applyTuple(compiler.compileList(argument)),
  items: (argument, schema, compiler) => {
    if (Array.isArray(argument) && compiler.draft < 2020) {
      return applyTuple(compiler.compileList(argument));
    }
    const before =
      compiler.draft >= 2020 && Array.isArray(schema.prefixItems) ? schema.prefixItems : [];
    return applyItems(compiler.compile(argument), before.length);
  },
  additionalItems: (argument, { items }, compiler) =>
    Array.isArray(items) ? applyItems(compiler.compile(argument), items.length) : undefined,
  contains: (argument, { minContains = 1, maxContains = Infinity }, compiler) => {
    const node = compiler.compile(argument);
    return rule(isArray, (value, at, run, seen) => {
      let found = 0;
      for (const [n, entry] of value.entries()) {
        if (probe(node, entry, below(at, n), run, noneSeen()).length > 0) continue;
        found += 1;
        seen.items.add(n);
      }
      if (found < Number(minContains))
        report(run, at, `Contains too few matching entries: at least ${minContains}.`);
      if (found > Number(maxContains))
        report(run, at, `Contains too many matching entries: at most ${maxContains}.`);
    });
  },
  properties: (argument, _, compiler) => {
    const nodes = compiler.compileMap(argument);
    return rule(isObject, (value, at, run, seen) => {
      for (const [name, node] of nodes) {
        if (!Object.hasOwn(value, name)) continue;
        apply(node, value[name], below(at, name), run, noneSeen());
        seen.names.add(name);
      }
    });
  },
  patternProperties: (argument, _, compiler) => {
    const patterns = patternsOf(argument);
    const nodes = [...compiler.compileMap(argument).values()];
    return rule(isObject, (value, at, run, seen) => {
      for (const name of Object.keys(value)) {
        for (const [n, pattern] of patterns.entries()) {
          if (!matches(pattern, name, run)) continue;
          apply(nodes[n] as Node, value[name], below(at, name), run, noneSeen());
          seen.names.add(name);
        }
      }
    });
  },
  additionalProperties: (argument, { properties, patternProperties }, compiler) => {
    const names = new Set(isObject(properties) ? Object.keys(properties) : []);
    const patterns = isObject(patternProperties) ? patternsOf(patternProperties) : [];
    const isOther = (name: string, run: Run) =>
      !names.has(name) && !patterns.some((pattern) => matches(pattern, name, run));
    return applyOthers(compiler.compile(argument), isOther, argument === false);
  },
  propertyNames: (argument, _, compiler) => {
    const node = compiler.compile(argument);
    return rule(isObject, (value, at, run) => {
      for (const name of Object.keys(value)) {
        const [problem] = probe(node, name, at, run, noneSeen());
        if (problem)
          report(run, at, `The name ${JSON.stringify(name)} is not allowed: ${problem.message}`);
      }
    });
  },
  required: (argument) =>
    Array.isArray(argument)
      ? rule(isObject, (value, at, run) => requireNames(at, run, value, argument))
      : undefined,
  minProperties: limit(isObject, count, atLeast, (n) => `Has too few properties: at least ${n}.`),
  maxProperties: limit(isObject, count, atMost, (n) => `Has too many properties: at most ${n}.`),
  dependentRequired: (...args) => dependencies(...args),
  dependentSchemas: (...args) => dependencies(...args),
  dependencies: (...args) => dependencies(...args),
  allOf: (argument, _, compiler) => {
    const nodes = compiler.compileList(argument);
    return rule(isAny, (value, at, run, seen) => {
      for (const node of nodes) apply(node, value, at, run, seen);
    });
  },
  anyOf: (argument, _, compiler) => {
    const nodes = compiler.compileList(argument);
    return rule(isAny, (value, at, run, seen) => {
      const outcomes = nodes.map((node) => probe(node, value, at, run, seen));
      if (!outcomes.some((issues) => issues.length === 0)) reportNearest(run, at, outcomes);
    });
  },
  oneOf: (argument, _, compiler) => {
    const nodes = compiler.compileList(argument);
    return rule(isAny, (value, at, run, seen) => {
      const outcomes = nodes.map((node) => probe(node, value, at, run, seen));
      const fitting = outcomes.filter((issues) => issues.length === 0).length;
      if (fitting === 0) reportNearest(run, at, outcomes);
      if (fitting > 1) report(run, at, `Matches ${fitting} alternatives instead of one.`);
    });
  },
  not: (argument, _, compiler) => {
    const node = compiler.compile(argument);
    return rule(isAny, (value, at, run) => {
      if (probe(node, value, at, run, noneSeen()).length === 0)
        report(run, at, "Matches what is not allowed.");
    });
  },
  if: (argument, { then, else: otherwise }, compiler) => {
    const [condition, yes, no] = [argument, then ?? true, otherwise ?? true].map((one) =>
      compiler.compile(one),
    );
    return rule(isAny, (value, at, run, seen) => {
      const isTrue = probe(condition as Node, value, at, run, seen).length === 0;
      apply((isTrue ? yes : no) as Node, value, at, run, seen);
    });
  },
};

const least = limit(isNumber, self, atLeast, (n) => `Must be at least ${n}.`);
const most = limit(isNumber, self, atMost, (n) => `Must be at most ${n}.`);
const above = limit(
  isNumber,
  self,
  (value, n) => value > n,
  (n) => `Must be more than ${n}.`,
);
const under = limit(
  isNumber,
  self,
  (value, n) => value < n,
  (n) => `Must be less than ${n}.`,
);

/** The keywords that apply to what the others of their schema have left. */
export const lastKeywords: Readonly<
  Record<string, (argument: unknown, schema: Json, compiler: Compile) => readonly Rule[]>
> = {
  unevaluatedProperties: (argument, _, compiler) =>
    applyOthers(
      compiler.compile(argument),
      (name, _run, seen) => !seen.names.has(name),
      argument === false,
    ),
  unevaluatedItems: (argument, _, compiler) => {
    const node = compiler.compile(argument);
    return rule(isArray, (value, at, run, seen) => {
      for (const [n, entry] of value.entries()) {
        if (seen.items.has(n)) continue;
        apply(node, entry, below(at, n), run, noneSeen());
        seen.items.add(n);
      }
    });
  },
};

function patternsOf(schemas: unknown): readonly Pattern[] {
  return Object.keys(isObject(schemas) ? schemas : {}).map(compilePattern);
}

function dependencies(argument: unknown, _: Json, compiler: Compile): readonly Rule[] {
  const needs = Object.entries(isObject(argument) ? argument : {}).map(
    ([name, need]) => [name, Array.isArray(need) ? need : compiler.compile(need)] as const,
  );
  return rule(isObject, (value, at, run, seen) => {
    for (const [name, need] of needs) {
      if (!Object.hasOwn(value, name)) continue;
      if (Array.isArray(need)) requireNames(at, run, value, need);
      else apply(need as Node, value, at, run, seen);
    }
  });
}

/** Reports the problems of the alternative that has the fewest. */
function reportNearest(run: Run, at: Place, outcomes: readonly StandardIssue[][]): void {
  const [nearest = []] = outcomes.toSorted((one, two) => one.length - two.length);
  report(run, at, `Matches none of the ${outcomes.length} alternatives.`);
  reportAll(run, nearest);
}
