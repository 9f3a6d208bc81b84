// Laws 2, 3 and 6 on generated trees: however a log reaches a reader, it folds to the same tree, and that tree is what
// the sender knows to be true.
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { LogEvent, SourceRef, TaskSnapshot, Tree } from "../../src/protocol/index.ts";
import {
  emptyTree,
  materialize,
  prependSource,
  reduce,
  snapshotOf,
  TaskTree,
} from "../../src/protocol/index.ts";
import { legalInterleaving, reconnects, withDuplicates } from "../support/deliveries.ts";
import { type SeededTree, treeArbitrary } from "../support/generate-tree.ts";
import { lens } from "../support/lens.ts";
import { seededRandom } from "../support/random.ts";

const isDeep = process.env.RIVULET_DEEP === "1";
const numRuns = isDeep ? 100_000 : 1_000;
const trees = treeArbitrary({ maxEvents: isDeep ? 500 : 100 });
const timeout = isDeep ? 6 * 3_600_000 : 300_000;

/** Every cut of a small tree; twenty of a large one. */
function cuts({ events, seed }: SeededTree): readonly number[] {
  if (!isDeep) return events.map((_, index) => index).concat(events.length);
  const random = seededRandom(seed);
  return Array.from({ length: 20 }, () => random.int(0, events.length));
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

describe("law 2: a log folds to one tree, however it arrives", () => {
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

  it("cut anywhere and read again with overlap", { timeout }, () => {
    fc.assert(
      fc.property(trees, (generated) => {
        const { events, seed } = generated;
        const random = seededRandom(seed);
        const whole = fold(events);
        for (const cut of cuts(generated)) {
          const before = fold(events.slice(0, cut));
          expect(before.safeCursor).toBe(cut - 1);
          const again = events.slice(Math.max(0, cut - random.int(0, 5)));
          same(reduce(before, again), whole, `cut at ${cut}`);
        }
      }),
      { numRuns },
    );
  });

  it("repeated, interleaved anew, child before parent, over many connections", { timeout }, () => {
    fc.assert(
      fc.property(trees, ({ events, seed }) => {
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

  it("a lost event shows as a gap, and the safe cursor leads back to it", { timeout }, () => {
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

  it("a snapshot of every task, then the tail", { timeout }, () => {
    fc.assert(
      fc.property(trees, (generated) => {
        const { events } = generated;
        const whole = fold(events);
        for (const cut of cuts(generated)) {
          if (cut === 0 || cut === events.length) continue;
          const joined = reduce(emptyTree(), [
            ...snapshots(fold(events.slice(0, cut)), cut - 1),
            ...events.slice(cut),
          ]);
          same(joined, whole, `snapshot at ${cut}`);
        }
      }),
      { numRuns: isDeep ? 10_000 : 300 },
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

  it("through a lens there is no false gap, and what is shown is what is there", {
    timeout,
  }, () => {
    fc.assert(
      fc.property(trees, fc.nat(3), ({ events }, depth) => {
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
});

describe("law 3 and the truth", () => {
  it("the tree is what the sender knows: output, texts, children, status, mode", {
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

describe("law 6: a source is written where the event is born", () => {
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
