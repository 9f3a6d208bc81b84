import { isBusy, storeFailed } from "./failure.ts";

/** How long the event loop stands still for another process's lock before it goes on and the lock is tried again. */
export const lockMs = 20;
const retryMs = 10;
/** How long another process may hold the lock before whoever waits for it fails. */
const longestMs = 10_000;

/** Tries until no other process holds the lock. Rejects with what the caller is to be told. */
export async function whenUnlocked<Result>(attempt: () => Result): Promise<Result> {
  const start = performance.now();
  for (;;) {
    try {
      return attempt();
    } catch (error) {
      if (!isBusy(error) || performance.now() - start >= longestMs) throw storeFailed(error);
    }
    await new Promise((resolve) => setTimeout(resolve, retryMs));
  }
}
