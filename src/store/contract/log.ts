import { describe, expect } from "vitest";
import type { TaskEvent } from "../../protocol/event.ts";
import type { ContractTest } from "./fixture.ts";
import {
  acquire,
  awkwardTexts,
  commitOnce,
  deep,
  delta,
  deltas,
  follow,
  numberOf,
  range,
  take,
  textOfEvent,
} from "./samples.ts";

/** Logs that are numbered without a gap and read from any cursor. */
export function logCases(it: ContractTest): void {
  describe("logs", () => {
    it("are empty at first", async ({ store }) => {
      expect(await store.last("task_1")).toBe(-1);
      expect(await store.read("task_1", -1, 10)).toEqual([]);
    });

    it("are numbered from 0", async ({ store }) => {
      await commitOnce(store, { events: deltas(3) });
      const events = await store.read("task_1", -1, 10);
      expect(events).toEqual(deltas(3).map((event, i) => ({ ...event, sequence_number: i })));
      expect(await store.last("task_1")).toBe(2);
    });

    it("are numbered by the store, whatever the events say", async ({ store }) => {
      const events = deltas(3).map((event, i) => ({ ...event, sequence_number: 100 - i }));
      await commitOnce(store, { events });
      expect((await store.read("task_1", -1, 10)).map(numberOf)).toEqual([0, 1, 2]);
    });

    it("go on without a gap from commit to commit and from owner to owner", async ({ store }) => {
      for (const size of [1, 0, 7, 2, 1]) await commitOnce(store, { events: deltas(size) });
      expect((await store.read("task_1", -1, 100)).map(numberOf)).toEqual(range(0, 11));
    });

    it("are numbered each on its own", async ({ store }) => {
      const lease = await acquire(store);
      await store.commit({ lease, log: "task_1", events: deltas(3) });
      await store.commit({ lease, log: "task_2", events: deltas(2, 10) });
      await store.commit({ lease, log: "task_1", events: deltas(1, 3) });
      const [first, second] = [
        await store.read("task_1", -1, 10),
        await store.read("task_2", -1, 10),
      ];
      expect(first.map(numberOf)).toEqual([0, 1, 2, 3]);
      expect(second.map(numberOf)).toEqual([0, 1]);
      expect(second.map(textOfEvent)).toEqual(["10", "11"]);
    });

    it("keep the order of commits that were not awaited", async ({ store }) => {
      const lease = await acquire(store);
      await Promise.all(
        range(0, 200).map((i) => store.commit({ lease, log: "task_1", events: [delta(`${i}`)] })),
      );
      const events = await store.read("task_1", -1, 1000);
      expect(events.map(numberOf)).toEqual(range(0, 200));
      expect(events.map(textOfEvent)).toEqual(range(0, 200).map(String));
    });

    it("are read from every cursor", async ({ store }) => {
      await commitOnce(store, { events: deltas(30) });
      for (const after of range(-1, 31)) {
        const events = await store.read("task_1", after, 100);
        expect(events.map(numberOf)).toEqual(range(after + 1, 30));
      }
    });

    it("are read at most as far as the limit", async ({ store }) => {
      await commitOnce(store, { events: deltas(10) });
      for (const limit of [0, 1, 3, 10, 11]) {
        const events = await store.read("task_1", 2, limit);
        expect(events.map(numberOf)).toEqual(range(3, Math.min(10, 3 + limit)));
      }
    });

    it("have nothing beyond their end", async ({ store }) => {
      await commitOnce(store, { events: deltas(10) });
      expect(await store.read("task_1", 9, 10)).toEqual([]);
      expect(await store.read("task_1", 1000, 10)).toEqual([]);
    });

    it("are read page by page without loss, whatever the size of page and batch", async ({
      store,
    }) => {
      const lease = await acquire(store);
      let total = 0;
      for (let size = 1; total < 5000; size = (size * 7) % 613) {
        await store.commit({ lease, log: "task_1", events: deltas(size, total) });
        total += size;
      }
      for (const limit of [37, 512, 1000, 1024, 4096]) {
        const texts: string[] = [];
        for (let after = -1; ; ) {
          const page = await store.read("task_1", after, limit);
          if (page.length === 0) break;
          expect(page.length).toBeLessThanOrEqual(limit);
          texts.push(...page.map(textOfEvent));
          after += page.length;
        }
        expect(texts).toEqual(range(0, total).map(String));
      }
    });

    it("take 10,000 events in one commit", async ({ store }) => {
      await commitOnce(store, { events: deltas(10_000) });
      expect(await store.last("task_1")).toBe(9999);
      expect((await store.read("task_1", 4998, 3)).map(textOfEvent)).toEqual([
        "4999",
        "5000",
        "5001",
      ]);
      expect(await store.read("task_1", -1, 20_000)).toHaveLength(10_000);
    });

    it("keep an event of a megabyte", async ({ store }) => {
      const text = "0123456789abcdef".repeat(65_536);
      await commitOnce(store, { events: [delta(text), delta("next")] });
      expect((await store.read("task_1", -1, 10)).map(textOfEvent)).toEqual([text, "next"]);
    });

    it("keep every text as it was", async ({ store }) => {
      await commitOnce(store, { events: awkwardTexts.map((text) => delta(text)) });
      expect((await store.read("task_1", -1, 100)).map(textOfEvent)).toEqual(awkwardTexts);
    });

    it("keep events of every shape as they were", async ({ store }) => {
      const envelope = { task_id: "task_1", sequence_number: -1, task_seq: 3, created_at: 4 };
      const source = { agentId: "a", depth: 1, path: "sess_1/a" };
      const events: TaskEvent[] = [
        {
          ...envelope,
          type: "task.created",
          source,
          task: { id: "task_1", object: "task", status: "queued" },
        },
        { ...envelope, type: "task.custom", name: "nothing", value: null },
        {
          ...envelope,
          type: "task.custom",
          name: "deep",
          value: { a: [1, -0.5, 1e300, true, [], {}, { "": "" }] },
        },
        { ...envelope, type: "task.approval.resolved", approval_id: "apr_1", decision: "deny" },
      ];
      await commitOnce(store, { events: structuredClone(events) });
      const numbered = events.map((event, i) => ({ ...event, sequence_number: i }));
      expect(await store.read("task_1", -1, 10)).toEqual(numbered);
    });

    it("do not change with the lists that went in and came out", async ({ store }) => {
      const events = deltas(3);
      await commitOnce(store, { events });
      events.length = 0;
      const read = (await store.read("task_1", -1, 10)) as TaskEvent[];
      read.reverse();
      read.pop();
      expect((await store.read("task_1", -1, 10)).map(textOfEvent)).toEqual(["0", "1", "2"]);
    });

    it("are known by names of any letters", async ({ store }) => {
      const lease = await acquire(store);
      const names = [
        "task_1",
        "TASK_1",
        "task_1 ",
        "t\u00e4sk",
        "ta\u0308sk",
        "🌊",
        "%",
        "__proto__",
      ];
      for (const log of names) await store.commit({ lease, log, events: [delta(log)] });
      for (const log of names) {
        expect((await store.read(log, -1, 10)).map(textOfEvent)).toEqual([log]);
      }
    });
  });

  describe("a reader that watches and reads", () => {
    it("sees what was there and what comes, once each, from any cursor", async ({ store }) => {
      const total = deep ? 20_000 : 1000;
      const lease = await acquire(store);
      await store.commit({ lease, log: "task_1", events: deltas(100) });
      const cursors = [-1, 0, 50, 98, 99, 100, 500, total - 1];
      const readers = cursors.map((after) =>
        take(follow(store, "task_1", { after, limit: 33 }), total - 1 - after),
      );
      for (let next = 100; next < total; ) {
        const size = Math.min(1 + ((next * 31) % 17), total - next);
        await store.commit({ lease, log: "task_1", events: deltas(size, next) });
        next += size;
      }
      for (const [i, events] of (await Promise.all(readers)).entries()) {
        const expected = range((cursors[i] ?? 0) + 1, total);
        expect(events.map(numberOf)).toEqual(expected);
        expect(events.map(textOfEvent)).toEqual(expected.map(String));
      }
    });

    it("sees everything when it starts before the log does", async ({ store }) => {
      const reader = take(follow(store, "task_1"), 50);
      const lease = await acquire(store);
      for (const i of range(0, 50)) {
        await store.commit({ lease, log: "task_1", events: [delta(String(i))] });
      }
      expect((await reader).map(numberOf)).toEqual(range(0, 50));
    });

    it("sees everything when commits come without a pause", async ({ store }) => {
      const readers = range(0, 10).map(() => take(follow(store, "task_1"), 500));
      const lease = await acquire(store);
      await Promise.all(
        range(0, 500).map((i) => store.commit({ lease, log: "task_1", events: [delta(`${i}`)] })),
      );
      for (const events of await Promise.all(readers)) {
        expect(events.map(numberOf)).toEqual(range(0, 500));
      }
    });

    it("sees its own log only, of many that grow at once", async ({ store }) => {
      const logs = range(0, 8).map((i) => `task_${i}`);
      const readers = logs.map((log) => take(follow(store, log), 100));
      await Promise.all(
        logs.map(async (log, i) => {
          const lease = await acquire(store, `sess_${i}`);
          for (const n of range(0, 100)) {
            await store.commit({ lease, log, events: [delta(`${log}: ${n}`, log)] });
          }
        }),
      );
      for (const [i, events] of (await Promise.all(readers)).entries()) {
        expect(events.map(textOfEvent)).toEqual(range(0, 100).map((n) => `task_${i}: ${n}`));
      }
    });
  });
}
