import { describe, expect, it } from "vitest";
import type { Lease, LogSnapshot, Store } from "../../contract/store.ts";
import type { TaskEvent, TaskSnapshot } from "../../protocol/event.ts";
import { memoryStore } from "../../store/memory.ts";
import { followLog } from "./follow.ts";

/** A log to write to, and a reader of it. */
async function openLog(
  options: { last?: number; endsWithWork?: boolean; after?: number; trimmed?: LogSnapshot } = {},
) {
  const store: Store = memoryStore();
  const lease = (await store.acquire("s", "me", 1_000)) as Lease;
  const work = Promise.withResolvers<void>();
  let written = 0;
  const write = async (count: number) => {
    const events = Array.from({ length: count }, () => ({
      type: "task.custom",
      task_id: "t",
      sequence_number: -1,
      task_seq: written++,
      created_at: 0,
      name: "n",
      value: null,
      ...(written - 1 === options.last && { task: { status: "completed" } }),
    })) as unknown as TaskEvent[];
    await store.commit({ lease, log: "t", events });
  };
  if (options.trimmed) {
    await write(options.trimmed.through + 1);
    await store.trim("t", options.trimmed);
  }
  const reader = followLog(store, async () => ({
    log: "t",
    after: options.after ?? -1,
    endsWith: "t",
    endsWithWork: options.endsWithWork ?? false,
    over: work.promise,
  }));
  const numbers: number[] = [];
  const snapshots: string[] = [];
  const reading = (async () => {
    for await (const event of reader) {
      if (event.type === "task.snapshot") snapshots.push(event.task_id);
      else numbers.push((event as { task_seq: number }).task_seq);
    }
  })();
  return { write, work, reader, numbers, snapshots, reading };
}
const tick = () => new Promise((resolve) => setImmediate(resolve));
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index);

describe("followLog", () => {
  it("gives what is there and what comes, each once, to the end of the work", async () => {
    const { write, work, numbers, reading } = await openLog();
    await write(3);
    await tick();
    expect(numbers).toEqual(upTo(3));
    await write(2_500); // more than it reads at once
    work.resolve();
    await reading;
    expect(numbers).toEqual(upTo(2_503));
  });

  it("begins after its cursor", async () => {
    const { write, work, numbers, reading } = await openLog({ after: 1 });
    await write(4);
    work.resolve();
    await reading;
    expect(numbers).toEqual([2, 3]);
  });

  it("begins with the snapshots when its cursor is gone, and reads on after them", async () => {
    const tasks = ["t", "child"].map((task_id) => ({ type: "task.snapshot", task_id }));
    const trimmed = { through: 4, tasks: tasks as unknown as TaskSnapshot[] };
    for (const after of [-1, 3]) {
      const { write, work, numbers, snapshots, reading } = await openLog({ trimmed, after });
      await write(2);
      work.resolve();
      await reading;
      expect({ snapshots, numbers }).toEqual({ snapshots: ["t", "child"], numbers: [5, 6] });
    }
    const { write, work, numbers, snapshots, reading } = await openLog({ trimmed, after: 4 });
    await write(2);
    work.resolve();
    await reading;
    expect({ snapshots, numbers }).toEqual({ snapshots: [], numbers: [5, 6] });
  });

  it("continues when no snapshot replaces the trimmed events", async () => {
    const { write, work, numbers, reading } = await openLog({ trimmed: { through: 4, tasks: [] } });
    await write(2);
    await tick();
    expect(numbers).toEqual([5, 6]);
    work.resolve();
    await reading;
  });

  it("ends with its last event, but not before the work behind it", async () => {
    const { write, work, numbers, reading } = await openLog({ last: 1 });
    await write(5);
    let isDone = false;
    void reading.then(() => {
      isDone = true;
    });
    await tick();
    expect({ numbers, isDone }).toEqual({ numbers: [0, 1], isDone: false });
    work.resolve();
    await reading;
    expect(numbers).toEqual([0, 1]);
  });

  it("does not show what others write after the work, when it ends with it", async () => {
    const { write, work, numbers, reading } = await openLog({ endsWithWork: true });
    await write(2);
    work.resolve();
    await reading;
    await write(2);
    expect(numbers).toEqual(upTo(2));
  });

  it("throws what the work threw, after all there was to read", async () => {
    const { write, work, numbers, reading } = await openLog();
    await write(2);
    work.reject(new Error("no"));
    await expect(reading).rejects.toThrow("no");
    expect(numbers).toEqual([0, 1]);
  });

  it("lets go of who leaves, also in the middle of waiting", async () => {
    const { write, reader, reading, numbers } = await openLog();
    await write(1);
    await tick();
    await reader.return?.(); // the loop above waits for the second event
    await reading;
    expect(numbers).toEqual([0]);
    expect(await reader.next()).toEqual({ value: undefined, done: true });
  });
});
