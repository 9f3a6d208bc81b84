import { describe, expect } from "vitest";
import type { TaskSnapshot } from "../../protocol/event.ts";
import type { ContractTest } from "./fixture.ts";
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

/** Logs that forget their beginning and keep what stands for it. */
export function retentionCases(it: ContractTest): void {
  describe("a log that is trimmed", () => {
    it("has no snapshot before", async ({ store }) => {
      expect(await store.snapshot("task_1")).toBeUndefined();
      await commitOnce(store, { events: deltas(3) });
      expect(await store.snapshot("task_1")).toBeUndefined();
    });

    it("gives back the snapshot as it was", async ({ store }) => {
      await commitOnce(store, { events: deltas(10) });
      const tasks = awkwardTexts.map((text) => snapshotOf(4, text));
      await store.trim("task_1", { through: 4, tasks: structuredClone(tasks) });
      expect(await store.snapshot("task_1")).toEqual({ through: 4, tasks });
    });

    it("is read on after the snapshot, with the numbers it had", async ({ store }) => {
      for (const from of [0, 3, 6, 9]) await commitOnce(store, { events: deltas(3, from) });
      await store.trim("task_1", { through: 4, tasks: [] });
      for (const after of range(4, 12)) {
        const events = await store.read("task_1", after, 100);
        expect(events.map(numberOf)).toEqual(range(after + 1, 12));
        expect(events.map(textOfEvent)).toEqual(range(after + 1, 12).map(String));
      }
      expect((await store.read("task_1", 4, 2)).map(numberOf)).toEqual([5, 6]);
      expect(await store.last("task_1")).toBe(11);
    });

    it("refuses every cursor before the snapshot", async ({ store }) => {
      await commitOnce(store, { events: deltas(10) });
      await store.trim("task_1", { through: 4, tasks: [] });
      for (const after of range(-2, 4)) {
        await expect(store.read("task_1", after, 100)).rejects.toMatchObject({
          name: "RivuletError",
          code: "cursor_expired",
        });
      }
    });

    it("goes on with its numbers, also when nothing is left of it", async ({ store }) => {
      await commitOnce(store, { events: deltas(10) });
      await store.trim("task_1", { through: 9, tasks: [] });
      expect(await store.last("task_1")).toBe(9);
      expect(await store.read("task_1", 9, 10)).toEqual([]);
      await commitOnce(store, { events: deltas(2, 10) });
      expect((await store.read("task_1", 9, 10)).map(numberOf)).toEqual([10, 11]);
      expect(await store.last("task_1")).toBe(11);
    });

    it("is trimmed in the middle of thousands, again and again", async ({ store }) => {
      const lease = await acquire(store);
      for (const from of range(0, 5)) {
        await store.commit({ lease, log: "task_1", events: deltas(1000, from * 1000) });
      }
      for (const through of [0, 999, 1000, 1023, 1024, 2500, 4095, 4998, 4999]) {
        await store.trim("task_1", { through, tasks: [snapshotOf(through)] });
        const events = await store.read("task_1", through, 10_000);
        expect(events.map(numberOf)).toEqual(range(through + 1, 5000));
      }
      await store.commit({ lease, log: "task_1", events: deltas(2000, 5000) });
      const events = await store.read("task_1", 4999, 10_000);
      expect(events.map(textOfEvent)).toEqual(range(5000, 7000).map(String));
    });

    it("keeps the later of two snapshots, whichever came first", async ({ store }) => {
      await commitOnce(store, { events: deltas(10) });
      await store.trim("task_1", { through: 6, tasks: [snapshotOf(6)] });
      await store.trim("task_1", { through: 3, tasks: [snapshotOf(3)] });
      await store.trim("task_1", { through: 6, tasks: [] });
      expect(await store.snapshot("task_1")).toEqual({ through: 6, tasks: [snapshotOf(6)] });
      expect((await store.read("task_1", 6, 10)).map(numberOf)).toEqual([7, 8, 9]);
    });

    it("is not trimmed beyond its end", async ({ store }) => {
      await expect(store.trim("task_1", { through: 0, tasks: [] })).rejects.toMatchObject({
        code: "conflict",
      });
      await commitOnce(store, { events: deltas(3) });
      await expect(store.trim("task_1", { through: 3, tasks: [] })).rejects.toMatchObject({
        code: "conflict",
      });
      expect(await store.read("task_1", -1, 10)).toHaveLength(3);
    });

    it("leaves the other logs alone", async ({ store }) => {
      const lease = await acquire(store);
      await store.commit({ lease, log: "task_1", events: deltas(5) });
      await store.commit({ lease, log: "task_2", events: deltas(5) });
      await store.trim("task_1", { through: 4, tasks: [] });
      expect(await store.read("task_2", -1, 10)).toHaveLength(5);
      expect(await store.snapshot("task_2")).toBeUndefined();
    });

    it("is so after it was opened again", async ({ store, reopen }) => {
      await commitOnce(store, { events: deltas(10) });
      await store.trim("task_1", { through: 9, tasks: [snapshotOf(9)] });
      const again = await reopen();
      expect(await again.snapshot("task_1")).toEqual({ through: 9, tasks: [snapshotOf(9)] });
      await commitOnce(again, { events: deltas(1, 10) });
      expect((await again.read("task_1", 9, 10)).map(numberOf)).toEqual([10]);
    });
  });
}
