import { expect, it } from "vitest";
import type { Lease, Store } from "../../contract/store.ts";
import { memoryStore } from "../../store/memory.ts";
import { trimLog } from "../../store/trim-log.ts";
import { ManualClock } from "../../testing.ts";
import { TaskEmitter } from "./emit.ts";
import { foldTask } from "./fold-log.ts";
import { LogWriter } from "./log-writer.ts";

it("folds a log that is trimmed meanwhile to the same task", async () => {
  const store = memoryStore();
  const lease = (await store.acquire("s", "me", 1_000)) as Lease;
  const log = new LogWriter("t", ([step]) => store.commit({ log: "t", ...step, lease }));
  const emitter = new TaskEmitter("t", log, undefined, new ManualClock());
  const identity = { id: "t", object: "task" } as const;
  emitter.append({ type: "task.created", task: { ...identity, status: "queued" } });
  const item = {
    type: "message",
    role: "assistant",
    status: "in_progress",
    block_list: [],
  } as const;
  const part = emitter.addItem({ ...item, id: "m" }).addPart("text", true);
  for (let count = 0; count < 5_000; count++) emitter.appendText(part, `${count} `);
  await log.flush();

  const record = { taskId: "t", rootTaskId: "t" };
  const whole = await foldTask(store, record);
  expect(whole.task?.appliedSeq).toBe(5_001);
  let reads = 0;
  const trimmedMeanwhile: Store = {
    ...store,
    async read(...args) {
      if (++reads === 3) await trimLog(store, "t", 3_500);
      return store.read(...args);
    },
  };
  expect(await foldTask(trimmedMeanwhile, record)).toEqual(whole);
});
