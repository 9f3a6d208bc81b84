// Whatever a server sends, a reader goes on: what is damaged is ignored and counted, nothing is thrown, no event and no
// prototype changes, and the tree that comes out can be read like any other.

import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  childrenOf,
  emptyTree,
  type FoldOptions,
  type LogEvent,
  materialize,
  openItems,
  RivuletError,
  reduce,
  rootTask,
  type StreamFrame,
  snapshotOf,
  subtreeUsage,
  type Task,
  TaskTree,
  type Tree,
  waitingApprovals,
} from "../../src/protocol.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { damageSome, freeze } from "../support/damage.ts";
import { type SeededTree, treeArbitrary } from "../support/generate-tree.ts";
import { lens } from "../support/lens.ts";
import { type Random, seededRandom } from "../support/random.ts";

const numRuns = isDeep ? 100_000 : 800;
const timeout = isDeep ? 6 * 3_600_000 : 300_000;
const trees = treeArbitrary({ maxEvents: isDeep ? 120 : 60 });

type Delivery = readonly [frames: (tree: SeededTree, random: Random) => object[], FoldOptions];
const deliveries: Readonly<Record<string, Delivery>> = {
  whole: [({ events }) => structuredClone([...events]), {}],
  "without numbers": [
    ({ events }) =>
      events.flatMap(({ sequence_number, task_seq, ...event }): object[] => {
        const more = { ...event, type: "task.text.delta", delta: "more" };
        return structuredClone("block_index" in event ? [event, more] : [event]);
      }),
    { legacy: true },
  ],
  "through a lens": [
    ({ events }) => structuredClone(lens(events, { exclude: ["tool_call"] })),
    { filtered: true },
  ],
  "from snapshots on": [
    ({ events }, random) => {
      const cut = random.int(1, events.length);
      const tree = reduce(emptyTree(), events.slice(0, cut));
      const at = { sequenceNumber: cut - 1, createdAt: 1 };
      const frames = Object.keys(tree.tasks).flatMap((id) => snapshotOf(tree, id, at) ?? []);
      return structuredClone([...frames, ...events.slice(cut)]);
    },
    {},
  ],
};

describe("a damaged stream", () => {
  const prototypes = [Object.prototype, Array.prototype, Function.prototype];
  const before = prototypes.map((prototype) => Reflect.ownKeys(prototype));

  it.each(Object.keys(deliveries))("%s: is folded and read to its end", { timeout }, (name) => {
    const [framesOf, options] = deliveries[name] as Delivery;
    const property = fc.property(trees, fc.integer({ min: 1, max: 8 }), (tree, damages) => {
      const random = seededRandom(tree.seed);
      const frames = framesOf(tree, random);
      damageSome(random, frames, damages);
      foldEveryWay(freeze(frames) as StreamFrame[], options, random);
      expect(prototypes.map((prototype) => Reflect.ownKeys(prototype))).toEqual(before);
    });
    fc.assert(property, { numRuns: numRuns / 4 });
  });

  it("treats an event with damaged numbers as lost", { timeout }, () => {
    const misfits = [null, "abc", "1", {}, [], 0.5, -5, Number.NaN];
    const property = fc.property(
      trees,
      fc.nat(),
      fc.constantFrom("sequence_number", "task_seq", "prev_task_seq"),
      fc.constantFrom(...misfits),
      ({ events }, at, field, misfit) => {
        fc.pre(field !== "prev_task_seq" || misfit !== null); // Null on an optional field is absent.
        const sent = lens(events, { exclude: ["tool_call"] });
        const damaged = { ...(sent[at % sent.length] as LogEvent), [field]: misfit } as LogEvent;
        const frames = sent.with(at % sent.length, damaged);
        const options = { filtered: true };
        const without = reduce(emptyTree(), sent.toSpliced(at % sent.length, 1), options);
        same(reduce(emptyTree(), frames, options), { ...without, ignored: without.ignored + 1 });
      },
    );
    fc.assert(property, { numRuns });
  });
});

function foldEveryWay(frames: readonly StreamFrame[], options: FoldOptions, random: Random): void {
  let pure = emptyTree();
  const watched = new TaskTree(options);
  const cut = random.int(0, frames.length);
  let stored = "";
  for (const [index, frame] of frames.entries()) {
    if (index === cut) stored = JSON.stringify(pure);
    const next = reduce(pure, frame, options);
    // Without numbers a part makes its item, and with a gap filled others follow.
    const alone = !options.legacy && pure.gaps.length === 0;
    if (alone && next.ignored > pure.ignored) nothingChanged(pure, next);
    pure = next;
    same(watched.apply(frame).tree, pure);
    for (const task of Object.values(pure.tasks)) sound(pure, task);
  }
  const inPlace = new TaskTree(options).apply(frames);
  same(reduce(emptyTree(), frames, options), pure);
  same(inPlace.tree, pure);
  if (stored !== "") same(reduce(JSON.parse(stored) as Tree, frames.slice(cut), options), pure);
  read(pure);
}

function same(actual: Tree, expected: Tree): void {
  if (!isDeepStrictEqual({ ...actual }, { ...expected })) expect(actual).toEqual(expected);
}

/** An ignored event leaves its number and its source, and a task that nobody had heard of; nothing else. */
function nothingChanged(before: Tree, after: Tree): void {
  for (const task of Object.values(after.tasks)) {
    const known = Object.hasOwn(before.tasks, task.id) ? before.tasks[task.id] : undefined;
    if (known === task) continue;
    const { appliedSeq, source, status } = task;
    const was = known ?? placeholder(task.id);
    expect(task).toEqual({
      ...was,
      appliedSeq,
      source,
      ...(was.status === "unknown" && { status }),
    });
  }
}

function placeholder(id: string): Task {
  return { id, status: "unknown", output: [], children: [], approvals: [], appliedSeq: -1 };
}

function read(tree: Tree): void {
  expect(Object.getPrototypeOf(tree.tasks)).toBe(Object.prototype);
  const ids = [...Object.keys(tree.tasks), "constructor", "toString", "__proto__", "nobody"];
  for (const id of ids) {
    const known = Object.hasOwn(tree.tasks, id) ? tree.tasks[id] : undefined;
    for (const view of [{}, { seed: true }, { include: ["content"] as const }]) {
      if (known !== undefined) JSON.stringify(materialize(tree, id, view));
      else expect(() => materialize(tree, id, view)).toThrow(RivuletError);
    }
    const usage = subtreeUsage(tree, id);
    expect(Object.values(usage).every(Number.isFinite), JSON.stringify(usage)).toBe(true);
    for (const index of [0, 1, -1]) childrenOf(tree, id, index);
    const snapshot = snapshotOf(tree, id, { sequenceNumber: 9, createdAt: 1 });
    if (snapshot !== undefined && snapshot.through_task_seq >= 0) {
      expect(reduce(emptyTree(), snapshot).ignored, JSON.stringify(snapshot)).toBe(0);
    }
  }
  rootTask(tree);
  for (const { item } of openItems(tree)) expect(item.status).toBe("in_progress");
  for (const { approval } of waitingApprovals(tree)) expect(approval.approval_id).not.toBe("");
}

/** What the types promise of a task, as far as anybody walks through it. */
function sound(tree: Tree, task: Task): void {
  expect(Object.hasOwn(tree.tasks, task.id) && typeof task.id === "string" && task.id).toBeTruthy();
  for (const id of task.children) expect(tree.tasks[id]?.parentTaskId).toBe(task.id);
  expect(new Set(task.children).size).toBe(task.children.length);
  for (const item of task.output) {
    if (item.type === "tool_call") expect(item.arguments).toBeTypeOf("string");
    const lists =
      item.type === "reasoning"
        ? [item.summary, item.content ?? []]
        : item.type === "message" || item.type === "tool_result"
          ? [item.block_list]
          : [];
    for (const part of lists.flat()) {
      expect(part.type).toBeTypeOf("string");
      if (part.type !== "text" && part.type !== "reasoning_text") continue;
      expect(part.text).toBeTypeOf("string");
      if (item.type === "reasoning") continue; // Its parts have no annotations; a field of that name is unknown.
      for (const annotation of ("annotations" in part && part.annotations) || []) {
        expect(annotation.type).toBeTypeOf("string");
      }
    }
  }
}
