// The laws "one tree" and "source at the origin" on generated trees: however a log reaches a reader, it folds to the same
// tree, and that tree is what the sender knows to be true.

import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  emptyTree,
  type LogEvent,
  materialize,
  prependSource,
  reduce,
  type SourceRef,
  snapshotOf,
  type TaskSnapshot,
  TaskTree,
  type Tree,
} from "../../src/protocol.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { legalInterleaving, reconnects, withDuplicates } from "../support/deliveries.ts";
import { type SeededTree, treeArbitrary } from "../support/generate-tree.ts";
import { type Lens, lens } from "../support/lens.ts";
import { type Random, seededRandom } from "../support/random.ts";

const numRuns = isDeep ? 100_000 : 300;
const trees = treeArbitrary({ maxEvents: isDeep ? 500 : 100 });
/** Trees with more than one task, for what says nothing about a single one. */
const families = trees.filter(({ truth }) => Object.keys(truth.tasks).length > 1);
const timeout = isDeep ? 6 * 3_600_000 : 300_000;

/** Every cut of a small tree; of a large one both ends and eighteen between them. In order. */
function cuts({ events, seed }: SeededTree): readonly number[] {
  if (!isDeep) return events.map((_, index) => index).concat(events.length);
  const random = seededRandom(seed);
  const between = Array.from({ length: 18 }, () => random.int(0, events.length));
  return [0, ...between.toSorted((one, other) => one - other), events.length];
}

/** Fails with the first task that differs, which says more than two whole trees. */
function same(actual: Tree, expected: Tree, what: string): void {
  const view = ({ rootId, safeCursor, gaps, ahead, unknown, ignored, tasks }: Tree) => ({
    rootId,
    safeCursor,
    gaps,
    ahead,
    unknown,
    ignored,
    tasks,
  });
  if (isDeepStrictEqual(view(actual), view(expected))) return;
  for (const id of Object.keys(expected.tasks)) {
    expect(actual.tasks[id], `${what}: task ${id}`).toEqual(expected.tasks[id]);
  }
  expect(view(actual), what).toEqual(view(expected));
}

const fold = (events: readonly LogEvent[]) => reduce(emptyTree(), events);

describe("a log folds to one tree in any delivery", () => {
  it("one by one, in a batch and in place, at every prefix", { timeout }, () => {
    fc.assert(
      fc.property(trees, ({ events }) => {
        let tree = emptyTree();
        const inPlace = new TaskTree();
        const watched = new TaskTree();
        for (const event of events) {
          tree = reduce(tree, event);
          inPlace.apply(event);
          same(watched.apply(event).tree, tree, "read after every event");
        }
        same(fold(events), tree, "in a batch");
        same(inPlace.tree, tree, "in place");
        expect(tree.safeCursor).toBe(events.length - 1);
        expect(tree).toMatchObject({ ignored: 0, unknown: 0, gaps: [], ahead: [] });
      }),
      { numRuns },
    );
  });

  it("cut anywhere: read again with overlap, or a snapshot of every task and then the tail", {
    timeout,
  }, () => {
    fc.assert(
      fc.property(trees, (generated) => {
        const { events, seed } = generated;
        const random = seededRandom(seed);
        const whole = fold(events);
        let before = emptyTree();
        let read = 0;
        for (const cut of cuts(generated)) {
          before = reduce(before, events.slice(read, cut));
          read = cut;
          if (before.safeCursor !== cut - 1) expect(before.safeCursor).toBe(cut - 1);
          const again = events.slice(Math.max(0, cut - random.int(0, 5)));
          same(reduce(before, again), whole, `cut at ${cut}`);
          const joined = reduce(emptyTree(), [...snapshots(before, cut - 1), ...events.slice(cut)]);
          if (cut < events.length) same(joined, whole, `snapshot at ${cut}`);
          else {
            // Nothing has come after the snapshots yet that would say they were all.
            expect(joined).toMatchObject({ safeCursor: -1, snapshotCursor: cut - 1 });
            same({ ...joined, safeCursor: cut - 1 }, whole, "snapshot at the end");
          }
        }
      }),
      { numRuns },
    );
  });

  it("repeated, interleaved, child before parent, over many connections", { timeout }, () => {
    fc.assert(
      fc.property(families, ({ events, seed }) => {
        const random = seededRandom(seed);
        const whole = fold(events);
        same(fold(events.flatMap((event) => [event, event])), whole, "all twice");
        same(fold(withDuplicates(random, events)), whole, "some twice");
        same(fold(reconnects(random, events).flat()), whole, "reconnects");
        same(fold(legalInterleaving(random, events)), whole, "interleaved");
        same(fold(withDuplicates(random, legalInterleaving(random, events))), whole, "both");
        same(fold(childrenFirst(events)), whole, "children first");
        same(fold(events.toReversed()), whole, "backwards: everything waits");
        expect(materialize(fold(legalInterleaving(random, events)))).toEqual(materialize(whole));
      }),
      { numRuns },
    );
  });

  it("reports a lost event as a gap before which the safe cursor stops", { timeout }, () => {
    fc.assert(
      fc.property(trees, fc.nat(), ({ events }, at) => {
        const lost = at % events.length;
        const rest = events.filter((_, index) => index !== lost);
        const tree = fold(rest);
        expect(tree.safeCursor).toBe(lost - 1);
        const isLastOfTask = !rest.some(
          (event, index) => index >= lost && event.task_id === events[lost]?.task_id,
        );
        expect(tree.gaps.length).toBe(isLastOfTask ? 0 : 1);
        same(reduce(tree, events.slice(tree.safeCursor + 1)), fold(events), "healed");
      }),
      { numRuns },
    );
  });

  it("survives JSON at any point", { timeout }, () => {
    fc.assert(
      fc.property(trees, fc.nat(), ({ events }, at) => {
        const cut = at % (events.length + 1);
        const stored = JSON.parse(JSON.stringify(fold(events.slice(0, cut)))) as Tree;
        same(reduce(stored, events.slice(cut)), fold(events), `stored at ${cut}`);
      }),
      { numRuns },
    );
  });

  it("a filtered stream has no false gaps and folds to a part of the tree", {
    timeout,
  }, () => {
    fc.assert(
      fc.property(families, fc.nat(3), ({ events }, depth) => {
        const whole = fold(events);
        const shallow = reduce(emptyTree(), lens(events, { depth }), { filtered: true });
        expect(shallow.gaps).toEqual([]);
        for (const task of Object.values(whole.tasks)) {
          if ((task.source?.depth ?? 0) > depth) continue;
          expect(shallow.tasks[task.id]).toEqual(task);
        }
        const types = ["reasoning", "tool_call"] as const;
        const few = reduce(emptyTree(), lens(events, { exclude: types }), { filtered: true });
        expect(few.gaps).toEqual([]);
        expect(few.safeCursor).toBe(lens(events, { exclude: types }).at(-1)?.sequence_number);
        for (const task of Object.values(whole.tasks)) {
          const kept = task.output.filter((item) => item.type === "message");
          const seen = few.tasks[task.id]?.output.filter((item) => item.type === "message");
          expect(seen).toEqual(kept);
        }
      }),
      { numRuns },
    );
  });

  it("a filtered stream that reconnects after the safe cursor misses nothing", {
    timeout,
  }, () => {
    fc.assert(
      fc.property(families, (generated) => {
        const { events, seed } = generated;
        const random = seededRandom(seed);
        const through = randomLens(random, events);
        const view = (tail: readonly LogEvent[], from = emptyTree()) =>
          reduce(from, tail, { filtered: true });
        const sent = lens(events, through);
        const whole = view(sent);
        expect(whole).toMatchObject({ gaps: [], ahead: [], ignored: 0 });
        shown(whole, fold(events), through);
        const cut = random.int(0, sent.length);
        const { safeCursor } = view(sent.slice(0, cut));
        const rest = sent.filter((event) => event.sequence_number > safeCursor);
        same(view(rest, view(sent.slice(0, cut))), whole, `cut at ${cut}`);
        const lost = random.int(0, sent.length - 1);
        const holed = view(sent.toSpliced(lost, 1));
        const isLastOfTask = !sent
          .slice(lost + 1)
          .some((event) => event.task_id === sent[lost]?.task_id);
        expect(holed.gaps.length).toBe(isLastOfTask ? 0 : 1);
        // Two tasks may share a path: in a view without the root, whichever came first stands in for it.
        const { rootId } = through.path === undefined ? view(sent, holed) : whole;
        const healed = { ...view(sent, holed), rootId };
        if (!isLastOfTask) same(healed, whole, `${lost} lost and sent again`);
      }),
      { numRuns },
    );
  });
});

function randomLens(random: Random, events: readonly LogEvent[]): Lens {
  const some = () =>
    (["reasoning", "tool_call", "tool_result", "message"] as const).filter(() =>
      random.chance(0.5),
    );
  const { source } = random.pick(events);
  const kinds: readonly Lens[] = [
    { depth: random.int(0, 3) },
    { include: some() },
    { exclude: some() },
    { depth: random.int(0, 3), exclude: some() },
    ...(source === undefined
      ? []
      : [{ path: source.path }, { path: source.path, include: some() }]),
  ];
  return random.pick(kinds);
}

/** What a lens lets through is what is there; the place of what it does not is kept. */
function shown(view: Tree, whole: Tree, { depth, path, include, exclude }: Lens): void {
  for (const task of Object.values(whole.tasks)) {
    const own = task.source?.path ?? task.sessionId ?? "";
    const inView =
      (task.source?.depth ?? 0) <= (depth ?? 9) &&
      (path === undefined || own === path || own.startsWith(`${path}/`));
    const seen = view.tasks[task.id];
    if (!inView) {
      expect(seen?.output ?? []).toEqual([]);
      continue;
    }
    for (const [index, item] of task.output.entries()) {
      if (item.type === "discarded") continue; // The lens knew it by its type before.
      const isWanted = (include?.includes(item.type) ?? true) && !exclude?.includes(item.type);
      const there = seen?.output[index];
      if (isWanted) expect(there).toEqual(item);
      else expect(there?.type ?? "omitted").toBe("omitted");
    }
    expect(seen).toMatchObject({ status: task.status, approvals: task.approvals });
  }
}

describe("the folded tree", () => {
  it("equals the state of the sender: output, texts, children, status, mode", {
    timeout,
  }, () => {
    fc.assert(
      fc.property(trees, ({ events, truth }) => {
        const tree = fold(events);
        expect(tree.rootId).toBe(truth.rootId);
        expect(Object.keys(tree.tasks).sort()).toEqual(Object.keys(truth.tasks).sort());
        for (const [id, known] of Object.entries(truth.tasks)) {
          const task = tree.tasks[id];
          expect(task).toMatchObject({ status: known.status, agentId: known.agentId });
          expect(task?.parentTaskId).toBe(known.parentTaskId);
          expect(task?.mode).toBe(known.mode);
          expect(task?.children).toEqual(known.children);
          expect(task?.output).toEqual(known.output);
        }
      }),
      { numRuns },
    );
  });
});

describe("the origin of an event writes its source", () => {
  it("forwarders add a level in front and change nothing else", { timeout }, () => {
    fc.assert(
      fc.property(trees, ({ events }) => {
        const base: SourceRef = { agentId: "gateway", depth: 2, path: "sess-far/lead/gateway" };
        for (const event of events) {
          const forwarded = prependSource(event.source, base);
          if (event.source === undefined) {
            expect(forwarded).toBe(base);
            continue;
          }
          const { depth, path, ...born } = event.source;
          const [, ...levels] = path.split("/");
          expect(forwarded).toEqual({
            ...born,
            depth: depth + base.depth,
            path: [base.path, ...levels].join("/"),
          });
          expect(forwarded.path.split("/").length - 1).toBe(forwarded.depth);
        }
      }),
      { numRuns },
    );
  });
});

function childrenFirst(events: readonly LogEvent[]): LogEvent[] {
  return events.toSorted((one, other) => (other.source?.depth ?? 0) - (one.source?.depth ?? 0));
}

function snapshots(tree: Tree, through: number): readonly TaskSnapshot[] {
  return Object.keys(tree.tasks).flatMap((id) => {
    const frame = snapshotOf(tree, id, { sequenceNumber: through, createdAt: 1 });
    return frame ? [JSON.parse(JSON.stringify(frame)) as TaskSnapshot] : [];
  });
}
