// A tree is plain data: it survives proxies, clones and JSON at any point, and a producer that writes null for every
// absent field folds to the same tree.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isObject } from "../../src/base/plain.ts";
import { logEvents, origin, position, snapshot } from "../../src/protocol/grammar/index.ts";
import { fieldOf, isList, type Shape, Variants } from "../../src/protocol/shape.ts";
import {
  checkStream,
  emptyTree,
  type LogEvent,
  materialize,
  reduce,
  snapshotOf,
  type TaskSnapshot,
  type Tree,
} from "../../src/protocol.ts";
import { parseEvent } from "../../src/schema.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { type SeededTree, treeArbitrary } from "../support/generate-tree.ts";

const numRuns = isDeep ? 20_000 : 200;
const timeout = isDeep ? 3_600_000 : 120_000;
const trees = treeArbitrary({ maxEvents: 100 });
const plain = (tree: Tree) => JSON.parse(JSON.stringify(tree)) as Tree;
const fold = (events: readonly LogEvent[]) => reduce(emptyTree(), events);

/** The value with null in place of every optional field that it does not have, at any depth. */
function withNulls(shape: Shape, value: unknown): unknown {
  if (isList(shape)) {
    return Array.isArray(value) ? value.map((entry) => withNulls(shape[0], entry)) : value;
  }
  if (typeof shape !== "object" || !isObject(value)) return value;
  const fields = shape instanceof Variants ? shape.fieldsOf(value.type) : shape;
  const result: Record<string, unknown> = { ...value };
  for (const [name, field] of Object.entries(fields)) {
    const { shape: inner, isRequired } = fieldOf(field);
    if (value[name] !== undefined) result[name] = withNulls(inner, value[name]);
    else if (!isRequired) result[name] = null;
  }
  return result;
}

const nullEvent = (event: LogEvent) =>
  withNulls({ ...position, ...origin, ...logEvents[event.type] }, event) as LogEvent;

describe("null on an optional field is an absent field", () => {
  it("for every optional field of every event", { timeout }, () => {
    fc.assert(
      fc.property(trees, ({ events }) => {
        const nulls = events.map(nullEvent);
        const tree = fold(nulls);
        expect(plain(tree)).toEqual(plain(fold(events)));
        expect(materialize(tree)).toEqual(materialize(fold(events)));
        expect(checkStream(nulls)).toEqual([]);
      }),
      { numRuns },
    );
  });

  it("for every optional field of a snapshot", { timeout }, () => {
    fc.assert(
      fc.property(trees, ({ events }) => {
        const tree = fold(events);
        const frames = snapshotsOf(tree);
        const nulls = frames.map((frame) => withNulls(snapshot, frame) as TaskSnapshot);
        expect(plain(reduce(emptyTree(), nulls))).toEqual(plain(reduce(emptyTree(), frames)));
        expect(checkStream(nulls)).toEqual(checkStream(frames));
      }),
      { numRuns },
    );
  });

  it("in the schemas", () => {
    const { events } = fc.sample(trees, { numRuns: 1, seed: 7 })[0] as SeededTree;
    for (const event of events) expect(parseEvent(nullEvent(event))).toEqual(parseEvent(event));
  });
});

function snapshotsOf(tree: Tree): readonly TaskSnapshot[] {
  const at = { sequenceNumber: tree.safeCursor, createdAt: 1 };
  const frames = Object.keys(tree.tasks).flatMap((id) => snapshotOf(tree, id, at) ?? []);
  return JSON.parse(JSON.stringify(frames)) as TaskSnapshot[];
}

/** A proxy as reactive libraries make it: whatever is read through it is a proxy, and differs from what is behind it. */
function reactive<T extends object>(value: T): T {
  return new Proxy(value, {
    get(target, key, receiver) {
      const read: unknown = Reflect.get(target, key, receiver);
      return typeof read === "object" && read !== null ? reactive(read) : read;
    },
  });
}

describe("a tree at any point", () => {
  const forms: readonly (readonly [string, (tree: Tree) => Tree])[] = [
    ["JSON", plain],
    ["structuredClone", structuredClone],
    ["a spread copy", (tree) => ({ ...tree })],
    ["a deep proxy", (tree) => reactive(tree)],
    ["a deep proxy of a clone", (tree) => reactive(structuredClone(tree))],
  ];

  it.each(forms)("folds on as %s", { timeout }, (_, form) => {
    fc.assert(
      fc.property(trees, fc.nat(), ({ events }, at) => {
        const cut = at % (events.length + 1);
        const whole = plain(fold(events));
        let tree = form(fold(events.slice(0, cut)));
        expect(plain(tree)).toEqual(plain(fold(events.slice(0, cut))));
        for (const event of events.slice(cut)) tree = form(reduce(tree, event));
        expect(plain(tree)).toEqual(whole);
        expect(plain(materialize(tree) as never)).toEqual(
          plain(materialize(fold(events)) as never),
        );
        expect(structuredClone(plain(tree))).toEqual(whole);
      }),
      { numRuns: Math.ceil(numRuns / 4) },
    );
  });

  it("reads like plain data behind a proxy, whatever its size", () => {
    const many = Array.from({ length: 400 }, (_, at) => ({
      type: "task.created",
      task_id: `t${at}`,
      sequence_number: 3 * at,
      task_seq: 2 * at === 0 ? 0 : at % 2,
      created_at: 1,
      task: { id: `t${at}`, object: "task", status: "queued" },
    })) as unknown as LogEvent[];
    const tree = fold(many);
    const behind = reactive(tree);
    for (const name of ["tasks", "gaps", "ahead"] as const) {
      expect(JSON.stringify(behind[name])).toBe(JSON.stringify(tree[name]));
      expect(Object.keys(behind)).toContain(name);
    }
    expect(tree.gaps).toHaveLength(200);
    expect(tree.ahead).toHaveLength(399);
    expect(plain(structuredClone(tree))).toEqual(plain(tree));
    expect(Object.getPrototypeOf(tree)).toBe(Object.prototype);
  });

  it("keeps the branches that an event does not touch, behind a proxy as well", () => {
    const { events } = fc.sample(trees, { numRuns: 1, seed: 3 })[0] as SeededTree;
    const before = fold(events.slice(0, -1));
    const { task_id } = events.at(-1) as LogEvent;
    for (const tree of [before, reactive(before)]) {
      const after = reduce(tree, events.at(-1) as LogEvent);
      for (const id of Object.keys(before.tasks)) {
        if (id !== task_id) expect(after.tasks[id]).toBe(before.tasks[id]);
      }
    }
  });
});
