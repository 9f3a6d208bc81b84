import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Store } from "../../src/contract/store.ts";
import { TaskTree } from "../../src/protocol/reduce.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { readFrames } from "../../src/store/read-frames.ts";
import { trimLog } from "../../src/store/trim-log.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { acquire } from "../../src/testing/store-contract/samples.ts";
import { treeArbitrary } from "../support/generate-tree.ts";

/** The tasks folded from the snapshot and the remaining events. */
async function tasksOf(store: Store) {
  const snapshot = await store.snapshot("task_1");
  const events = await store.read("task_1", snapshot?.through ?? -1, 10_000);
  return new TaskTree().apply(snapshot?.tasks ?? []).apply(events).tree.tasks;
}

describe("trimLog", () => {
  it("keeps the folded tree, wherever and however often it trims", async () => {
    const property = fc.asyncProperty(
      treeArbitrary({ maxEvents: 100 }),
      fc.array(fc.nat(), { minLength: 1, maxLength: 3 }),
      async ({ events }, cuts) => {
        const store = memoryStore();
        const lease = await acquire(store);
        await store.commit({ lease, log: "task_1", events: structuredClone([...events]) });
        const whole = await tasksOf(store);
        for (const cut of cuts) {
          await trimLog(store, "task_1", cut % events.length);
          expect(await tasksOf(store)).toEqual(whole);
        }
      },
    );
    await fc.assert(property, { numRuns: isDeep ? 5_000 : 200 });
  });

  it("gives a late reader a snapshot of every task, ended ones included, and a cursor", async () => {
    const property = fc.asyncProperty(
      treeArbitrary({ maxEvents: 100 }),
      async ({ events, truth }) => {
        const store = memoryStore();
        const lease = await acquire(store);
        await store.commit({ lease, log: "task_1", events: structuredClone([...events]) });
        await trimLog(store, "task_1", events.length - 1);
        const { frames } = await readFrames(store, "task_1", -1, 1_000);
        expect(frames.map(({ task_id }) => task_id).sort()).toEqual(
          Object.keys(truth.tasks).sort(),
        );
        const { tree } = new TaskTree().apply(frames);
        expect(tree).toMatchObject({ safeCursor: events.length - 1, ignored: 0, gaps: [] });
        expect(tree.tasks).toEqual(new TaskTree().apply(events).tree.tasks);
      },
    );
    await fc.assert(property, { numRuns: isDeep ? 5_000 : 100 });
  });

  it("rejects a trim beyond the end", async () => {
    await expect(trimLog(memoryStore(), "task_1", 5)).rejects.toMatchObject({ code: "conflict" });
  });
});
