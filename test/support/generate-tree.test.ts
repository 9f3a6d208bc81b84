import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkStream } from "../../src/protocol/check/check.ts";
import type { LogEvent } from "../../src/protocol/event.ts";
import { taskEventTypes } from "../../src/protocol/grammar/index.ts";
import { emptyTree, reduce } from "../../src/protocol/reduce.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { type GeneratedTree, generateTree, treeArbitrary } from "./generate-tree.ts";
import { seededRandom } from "./random.ts";

const trees = Array.from({ length: 1000 }, (_, seed) => generateTree(seededRandom(seed)));

/** How many of the trees have an event like that. */
function count(matches: (event: LogEvent, tree: GeneratedTree) => boolean): number {
  return trees.filter((tree) => tree.events.some((event) => matches(event, tree))).length;
}

describe("generateTree", () => {
  it("returns the same tree for the same seed", () => {
    expect(generateTree(seededRandom(5))).toEqual(generateTree(seededRandom(5)));
    expect(generateTree(seededRandom(5))).not.toEqual(generateTree(seededRandom(6)));
  });

  it("keeps to its limits", () => {
    for (const { events } of trees) {
      expect(events.length).toBeLessThanOrEqual(100);
      for (const { source } of events) expect(source?.depth ?? 0).toBeLessThanOrEqual(4);
    }
  });

  it("is legal at any size", () => {
    const property = fc.property(treeArbitrary({ maxEvents: isDeep ? 500 : 100 }), ({ events }) => {
      expect(checkStream(events)).toEqual([]);
    });
    fc.assert(property, { numRuns: isDeep ? 100_000 : 1000 });
  });

  it("folds to the state of its sender", () => {
    for (const { events, truth } of trees) {
      const tree = reduce(emptyTree(), events);
      expect(tree.rootId).toBe(truth.rootId);
      expect({ ignored: tree.ignored, unknown: tree.unknown, gaps: tree.gaps }).toEqual({
        ignored: 0,
        unknown: 0,
        gaps: [],
      });
      expect(Object.keys(tree.tasks).sort()).toEqual(Object.keys(truth.tasks).sort());
      for (const [id, task] of Object.entries(truth.tasks)) {
        const { texts: _, decisions, ...fields } = task;
        const folded = tree.tasks[id];
        expect(folded).toMatchObject(fields);
        expect(folded?.output).toEqual(task.output);
        expect(
          Object.fromEntries(folded?.approvals.map((one) => [one.approval_id, one.decision]) ?? []),
        ).toEqual(decisions);
      }
    }
  });

  it("uses every type of event that a log has", () => {
    const seen = new Set(trees.flatMap(({ events }) => events.map(({ type }) => type)));
    const logTypes = taskEventTypes.filter((type) => type !== "task.snapshot" && type !== "error");
    expect([...seen].sort()).toEqual([...logTypes].sort());
  });

  it("covers every situation of a tree", () => {
    const depth = (event: LogEvent) => event.source?.depth ?? 0;
    const endOf = (tree: GeneratedTree, taskId: string) =>
      tree.events.findIndex(
        (event) =>
          event.task_id === taskId &&
          "task" in event &&
          event.task.status !== "queued" &&
          event.task.status !== "in_progress",
      );
    const situations = {
      "a task four levels down": count((event) => depth(event) === 4),
      "an approval in a grandchild": count(
        (event) => event.type === "task.approval.requested" && depth(event) >= 2,
      ),
      "a background child that outlives the root": count(
        (event, tree) => depth(event) > 0 && event.sequence_number > endOf(tree, tree.truth.rootId),
      ),
      "a child cancelled before it began": count(
        (event, tree) =>
          event.type === "task.cancelled" &&
          tree.events.every(
            (other) => other.task_id !== event.task_id || other.type !== "task.in_progress",
          ),
      ),
      "a promoted child": count((event) => event.type === "task.child.promoted"),
      "a remote child's child": count(
        (event, tree) =>
          event.type === "task.created" &&
          tree.events.some(
            (other) =>
              other.type === "task.created" &&
              other.task.remote === true &&
              other.task_id === event.task.parent_task_id,
          ),
      ),
      "an item discarded after it was done": count(
        (event, tree) =>
          event.type === "task.output_item.discarded" &&
          tree.events.some(
            (other) =>
              other.type === "task.output_item.done" &&
              other.task_id === event.task_id &&
              other.output_index === event.output_index,
          ),
      ),
      "a recovered task": count(
        (event) => event.type === "task.resumed" && event.reason === "recovered",
      ),
      "a parent suspended for its child": count(
        (event) => event.type === "task.suspended" && event.reason === "child",
      ),
      "a citation of another task's block": count(
        (event) =>
          event.type === "task.text.done" &&
          (event.item.annotations ?? []).some(
            ({ target }) => target !== undefined && target.task_id !== event.task_id,
          ),
      ),
      "a fan-out of eight": trees.filter(({ truth }) =>
        Object.values(truth.tasks).some(({ children }) => children.length >= 8),
      ).length,
    };
    for (const [situation, times] of Object.entries(situations)) {
      expect(times, situation).toBeGreaterThan(0);
    }
  });
});
