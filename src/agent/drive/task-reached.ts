import type { Store, TaskRecord } from "../../protocol/store.ts";

/** Resolves when a task's record is as wanted, when there is none any more, or when the waiting is aborted. */
export function taskReached(
  store: Store,
  taskId: string,
  isReached: (record: TaskRecord) => boolean,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (settle: () => void) => {
      unwatch();
      signal.removeEventListener("abort", onAbort);
      settle();
    };
    const onAbort = () => end(resolve);
    const look = () =>
      store.task(taskId).then(
        (record) => {
          if (record === undefined || isReached(record)) end(resolve);
        },
        (error: unknown) => end(() => reject(error)),
      );
    const unwatch = store.watch({ task: taskId }, () => void look());
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    else void look();
  });
}
