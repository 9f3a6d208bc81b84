import { deepEqual, equal, ok } from "node:assert/strict";
import type { TaskEvent } from "../../protocol/index.ts";
import { isDeep } from "../deep.ts";
import type { StoreSuite } from "./fixture.ts";
import {
  acquire,
  awkwardTexts,
  commitOnce,
  delta,
  deltas,
  follow,
  numberOf,
  range,
  take,
  textOfEvent,
} from "./samples.ts";

/** Logs with consecutive numbers, read from any cursor. */
export function logCases({ describe, it }: StoreSuite): void {
  describe("logs", () => {
    it("are empty at first", async ({ store }) => {
      equal(await store.last("task_1"), -1);
      deepEqual(await store.read("task_1", -1, 10), []);
    });

    it("start with number 0", async ({ store }) => {
      await commitOnce(store, { events: deltas(3) });
      const events = await store.read("task_1", -1, 10);
      deepEqual(
        events,
        deltas(3).map((event, i) => ({ ...event, sequence_number: i })),
      );
      equal(await store.last("task_1"), 2);
    });

    it("ignore the numbers of the given events", async ({ store }) => {
      const events = deltas(3).map((event, i) => ({ ...event, sequence_number: 100 - i }));
      await commitOnce(store, { events });
      deepEqual((await store.read("task_1", -1, 10)).map(numberOf), [0, 1, 2]);
    });

    it("have consecutive numbers across commits and owners", async ({ store }) => {
      for (const size of [1, 0, 7, 2, 1]) await commitOnce(store, { events: deltas(size) });
      deepEqual((await store.read("task_1", -1, 100)).map(numberOf), range(0, 11));
    });

    it("have numbers of their own", async ({ store }) => {
      const lease = await acquire(store);
      await store.commit({ lease, log: "task_1", events: deltas(3) });
      await store.commit({ lease, log: "task_2", events: deltas(2, 10) });
      await store.commit({ lease, log: "task_1", events: deltas(1, 3) });
      const [first, second] = [
        await store.read("task_1", -1, 10),
        await store.read("task_2", -1, 10),
      ];
      deepEqual(first.map(numberOf), [0, 1, 2, 3]);
      deepEqual(second.map(numberOf), [0, 1]);
      deepEqual(second.map(textOfEvent), ["10", "11"]);
    });

    it("keep the order of concurrent commits", async ({ store }) => {
      const lease = await acquire(store);
      await Promise.all(
        range(0, 200).map((i) => store.commit({ lease, log: "task_1", events: [delta(`${i}`)] })),
      );
      const events = await store.read("task_1", -1, 1000);
      deepEqual(events.map(numberOf), range(0, 200));
      deepEqual(events.map(textOfEvent), range(0, 200).map(String));
    });

    it("can be read from every cursor", async ({ store }) => {
      await commitOnce(store, { events: deltas(30) });
      for (const after of range(-1, 31)) {
        const events = await store.read("task_1", after, 100);
        deepEqual(events.map(numberOf), range(after + 1, 30));
      }
    });

    it("return at most `limit` events", async ({ store }) => {
      await commitOnce(store, { events: deltas(10) });
      for (const limit of [0, 1, 3, 10, 11]) {
        const events = await store.read("task_1", 2, limit);
        deepEqual(events.map(numberOf), range(3, Math.min(10, 3 + limit)));
      }
    });

    it("return one event or more, up to about `maxBytes`", async ({ store }) => {
      const lease = await acquire(store);
      const large = "x".repeat(100_000);
      for (let n = 0; n < 20; n++) {
        await store.commit({ lease, log: "task_1", events: [delta(large), ...deltas(200)] });
      }
      for (const maxBytes of [0, 1, 150_000, 1_000_000]) {
        let total = 0;
        for (let after = -1; ; ) {
          const page = await store.read("task_1", after, 10_000, maxBytes);
          if (page.length === 0) break;
          ok(JSON.stringify(page).length <= maxBytes + 128 * 1024 + large.length + 200);
          deepEqual(page.map(numberOf), range(after + 1, after + 1 + page.length));
          after += page.length;
          total += page.length;
        }
        equal(total, 20 * 201);
      }
    });

    it("return nothing after the end", async ({ store }) => {
      await commitOnce(store, { events: deltas(10) });
      deepEqual(await store.read("task_1", 9, 10), []);
      deepEqual(await store.read("task_1", 1000, 10), []);
    });

    it("can be read page by page, for any size of page and commit", async ({ store }) => {
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
          ok(page.length <= limit);
          texts.push(...page.map(textOfEvent));
          after += page.length;
        }
        deepEqual(texts, range(0, total).map(String));
      }
    });

    it("accept 10,000 events in one commit", async ({ store }) => {
      await commitOnce(store, { events: deltas(10_000) });
      equal(await store.last("task_1"), 9999);
      deepEqual((await store.read("task_1", 4998, 3)).map(textOfEvent), ["4999", "5000", "5001"]);
      equal((await store.read("task_1", -1, 20_000)).length, 10_000);
    });

    it("keep an event of a megabyte", async ({ store }) => {
      const text = "0123456789abcdef".repeat(65_536);
      await commitOnce(store, { events: [delta(text), delta("next")] });
      deepEqual((await store.read("task_1", -1, 10)).map(textOfEvent), [text, "next"]);
    });

    it("keep every text unchanged", async ({ store }) => {
      await commitOnce(store, { events: awkwardTexts.map((text) => delta(text)) });
      deepEqual((await store.read("task_1", -1, 100)).map(textOfEvent), awkwardTexts);
    });

    it("keep events of every type unchanged", async ({ store }) => {
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
      deepEqual(await store.read("task_1", -1, 10), numbered);
    });

    it("copy arrays on commit and on read", async ({ store }) => {
      const events = deltas(3);
      await commitOnce(store, { events });
      events.length = 0;
      const read = (await store.read("task_1", -1, 10)) as TaskEvent[];
      read.reverse();
      read.pop();
      deepEqual((await store.read("task_1", -1, 10)).map(textOfEvent), ["0", "1", "2"]);
    });

    it("accept any characters in their names", async ({ store }) => {
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
        deepEqual((await store.read(log, -1, 10)).map(textOfEvent), [log]);
      }
    });
  });

  describe("following a log", () => {
    it("yields old and new events once each, from any cursor", async ({ store }) => {
      const total = isDeep ? 20_000 : 1000;
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
        deepEqual(events.map(numberOf), expected);
        deepEqual(events.map(textOfEvent), expected.map(String));
      }
    });

    it("yields every event when it starts before the log exists", async ({ store }) => {
      const reader = take(follow(store, "task_1"), 50);
      const lease = await acquire(store);
      for (const i of range(0, 50)) {
        await store.commit({ lease, log: "task_1", events: [delta(String(i))] });
      }
      deepEqual((await reader).map(numberOf), range(0, 50));
    });

    it("yields every event of commits without a pause", async ({ store }) => {
      const readers = range(0, 10).map(() => take(follow(store, "task_1"), 500));
      const lease = await acquire(store);
      await Promise.all(
        range(0, 500).map((i) => store.commit({ lease, log: "task_1", events: [delta(`${i}`)] })),
      );
      for (const events of await Promise.all(readers)) {
        deepEqual(events.map(numberOf), range(0, 500));
      }
    });

    it("yields only the events of its log", async ({ store }) => {
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
        deepEqual(
          events.map(textOfEvent),
          range(0, 100).map((n) => `task_${i}: ${n}`),
        );
      }
    });
  });
}
