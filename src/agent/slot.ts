import { RivuletError } from "../protocol/error.ts";
import type { Store } from "../protocol/store.ts";

const slots = new WeakMap<Store, Map<string, Promise<void>>>();

/**
 * One task at a time per session: waits for its turn, or fails at once when it may not wait. Resolves to the function
 * that gives the slot back.
 */
export async function takeSlot(
  store: Store,
  sessionId: string,
  onBusy: "queue" | "fail",
  signal?: AbortSignal,
): Promise<() => void> {
  const sessions = slots.get(store) ?? new Map<string, Promise<void>>();
  slots.set(store, sessions);
  const before = sessions.get(sessionId);
  if (before && onBusy === "fail") {
    throw new RivuletError("agent_busy", `Session ${sessionId} has a task running.`, {
      retryable: true,
      hint: 'Wait for it, steer it, or call with onBusy: "queue".',
    });
  }
  const { promise, resolve } = Promise.withResolvers<void>();
  const queue = Promise.all([before, promise]).then(() => {});
  sessions.set(sessionId, queue);
  const release = () => {
    if (sessions.get(sessionId) === queue) sessions.delete(sessionId);
    resolve();
  };
  try {
    await (before && signal ? untilAborted(before, signal) : before);
  } catch (error) {
    release();
    throw error;
  }
  return release;
}

async function untilAborted(turn: Promise<void>, signal: AbortSignal): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = () =>
    reject(
      new RivuletError("cancelled", "Cancelled while it waited for its turn.", {
        cause: signal.reason,
      }),
    );
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    await Promise.race([turn, promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
