import { expect, it, vi } from "vitest";
import type { TaskRecord } from "../../protocol/store.ts";
import { memoryStore } from "../../store/index.ts";
import { commitOnce, record } from "../../testing/store-contract/samples.ts";
import { taskReached } from "./task-reached.ts";

const isDone = ({ status }: TaskRecord) => status === "completed";
const never = new AbortController().signal;

it("waits until a task is as wanted", async () => {
  const store = memoryStore();
  await commitOnce(store, { tasks: [record()] });
  const reached = vi.fn();
  const waiting = taskReached(store, "task_1", isDone, never).then(reached);
  await commitOnce(store, { tasks: [record({ committedOutput: 1 })] });
  expect(reached).not.toHaveBeenCalled();
  await commitOnce(store, { tasks: [record({ status: "completed" })] });
  await waiting;
});

it("ends when there is no such task, when it is aborted, and with what the store throws", async () => {
  const store = memoryStore();
  await taskReached(store, "none", isDone, never);
  await commitOnce(store, { tasks: [record()] });
  const stop = new AbortController();
  const waiting = taskReached(store, "task_1", isDone, stop.signal);
  stop.abort();
  await waiting;
  const other = taskReached(store, "task_1", isDone, never);
  await store.close();
  await expect(other).rejects.toThrow();
});
