import { deepEqual, equal, rejects } from "node:assert/strict";
import type { TaskSnapshot } from "../../protocol/index.ts";
import type { StoreSuite } from "./fixture.ts";
import {
  acquire,
  awkwardTexts,
  commitOnce,
  deltas,
  numberOf,
  range,
  textOfEvent,
} from "./samples.ts";

function snapshotOf(through: number, text = "…"): TaskSnapshot {
  return {
    type: "task.snapshot",
    task_id: "task_1",
    through_sequence_number: through,
    through_task_seq: through,
    created_at: 0,
    task: {
      id: "task_1",
      object: "task",
      status: "in_progress",
      metadata: { text },
      output: [],
    },
  };
}

/** Logs whose first events are replaced by snapshots. */
export function retentionCases({ describe, it }: StoreSuite): void {
  describe("trim", () => {
    it("leaves a complete log without a snapshot", async ({ store }) => {
      equal(await store.snapshot("task_1"), undefined);
      await commitOnce(store, { events: deltas(3) });
      equal(await store.snapshot("task_1"), undefined);
    });

    it("returns the snapshot unchanged", async ({ store }) => {
      await commitOnce(store, { events: deltas(10) });
      const tasks = awkwardTexts.map((text) => snapshotOf(4, text));
      await store.trim("task_1", { through: 4, tasks: structuredClone(tasks) });
      deepEqual(await store.snapshot("task_1"), { through: 4, tasks });
    });

    it("keeps the numbers of the later events", async ({ store }) => {
      for (const from of [0, 3, 6, 9]) await commitOnce(store, { events: deltas(3, from) });
      await store.trim("task_1", { through: 4, tasks: [] });
      for (const after of range(4, 12)) {
        const events = await store.read("task_1", after, 100);
        deepEqual(events.map(numberOf), range(after + 1, 12));
        deepEqual(events.map(textOfEvent), range(after + 1, 12).map(String));
      }
      deepEqual((await store.read("task_1", 4, 2)).map(numberOf), [5, 6]);
      equal(await store.last("task_1"), 11);
    });

    it("rejects every cursor before the snapshot", async ({ store }) => {
      await commitOnce(store, { events: deltas(10) });
      await store.trim("task_1", { through: 4, tasks: [] });
      for (const after of range(-2, 4)) {
        await rejects(store.read("task_1", after, 100), {
          name: "RivuletError",
          code: "cursor_expired",
        });
      }
    });

    it("continues the numbers, also after a trim of all events", async ({ store }) => {
      await commitOnce(store, { events: deltas(10) });
      await store.trim("task_1", { through: 9, tasks: [] });
      equal(await store.last("task_1"), 9);
      deepEqual(await store.read("task_1", 9, 10), []);
      await commitOnce(store, { events: deltas(2, 10) });
      deepEqual((await store.read("task_1", 9, 10)).map(numberOf), [10, 11]);
      equal(await store.last("task_1"), 11);
    });

    it("trims repeatedly within thousands of events", async ({ store }) => {
      const lease = await acquire(store);
      for (const from of range(0, 5)) {
        await store.commit({ lease, log: "task_1", events: deltas(1000, from * 1000) });
      }
      for (const through of [0, 999, 1000, 1023, 1024, 2500, 4095, 4998, 4999]) {
        await store.trim("task_1", { through, tasks: [snapshotOf(through)] });
        const events = await store.read("task_1", through, 10_000);
        deepEqual(events.map(numberOf), range(through + 1, 5000));
      }
      await store.commit({ lease, log: "task_1", events: deltas(2000, 5000) });
      const events = await store.read("task_1", 4999, 10_000);
      deepEqual(events.map(textOfEvent), range(5000, 7000).map(String));
    });

    it("keeps the later of two snapshots", async ({ store }) => {
      await commitOnce(store, { events: deltas(10) });
      await store.trim("task_1", { through: 6, tasks: [snapshotOf(6)] });
      await store.trim("task_1", { through: 3, tasks: [snapshotOf(3)] });
      await store.trim("task_1", { through: 6, tasks: [] });
      deepEqual(await store.snapshot("task_1"), { through: 6, tasks: [snapshotOf(6)] });
      deepEqual((await store.read("task_1", 6, 10)).map(numberOf), [7, 8, 9]);
    });

    it("rejects a trim beyond the end", async ({ store }) => {
      await rejects(store.trim("task_1", { through: 0, tasks: [] }), {
        code: "conflict",
      });
      await commitOnce(store, { events: deltas(3) });
      await rejects(store.trim("task_1", { through: 3, tasks: [] }), {
        code: "conflict",
      });
      equal((await store.read("task_1", -1, 10)).length, 3);
    });

    it("keeps other logs complete", async ({ store }) => {
      const lease = await acquire(store);
      await store.commit({ lease, log: "task_1", events: deltas(5) });
      await store.commit({ lease, log: "task_2", events: deltas(5) });
      await store.trim("task_1", { through: 4, tasks: [] });
      equal((await store.read("task_2", -1, 10)).length, 5);
      equal(await store.snapshot("task_2"), undefined);
    });

    it("persists", async ({ store, reopen }) => {
      await commitOnce(store, { events: deltas(10) });
      await store.trim("task_1", { through: 9, tasks: [snapshotOf(9)] });
      const again = await reopen();
      deepEqual(await again.snapshot("task_1"), { through: 9, tasks: [snapshotOf(9)] });
      await commitOnce(again, { events: deltas(1, 10) });
      deepEqual((await again.read("task_1", 9, 10)).map(numberOf), [10]);
    });
  });
}
