import { isBusy, storeFailed } from "./failure.ts";

/** How long one attempt blocks the event loop while another process holds the lock. */
export const lockMs = 20;
const retryMs = 10;
/** How long attempts go on before they fail. */
const maxWaitMs = 10_000;

/** Retries while another process holds the lock. Converts errors of SQLite to `store_failed`. */
export async function whenUnlocked<Result>(attempt: () => Result): Promise<Result> {
  const start = performance.now();
  for (;;) {
    try {
      return attempt();
    } catch (error) {
      if (!isBusy(error) || performance.now() - start >= maxWaitMs) throw storeFailed(error);
    }
    await new Promise((resolve) => setTimeout(resolve, retryMs));
  }
}
