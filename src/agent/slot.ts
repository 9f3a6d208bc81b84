import { RivuletError } from "../protocol/error.ts";
import type { Store } from "../protocol/store.ts";

/** Whoever waits for a session's slot, in order; there is an entry as long as somebody has the slot. */
type Queue = (() => void)[];
const slots = new WeakMap<Store, Map<string, Queue>>();

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
  const sessions = slots.get(store) ?? new Map<string, Queue>();
  slots.set(store, sessions);
  const queue = sessions.get(sessionId);
  if (queue === undefined) sessions.set(sessionId, []);
  else if (onBusy === "queue") await turnIn(queue, signal);
  else {
    throw new RivuletError("agent_busy", `Session ${sessionId} has a task running.`, {
      retryable: true,
      hint: 'Wait for it, steer it, or call with onBusy: "queue".',
    });
  }
  return () => {
    // From hand to hand, so that nobody comes in between.
    const next = sessions.get(sessionId)?.shift();
    if (next === undefined) sessions.delete(sessionId);
    else next();
  };
}

function turnIn(queue: Queue, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const onTurn = () => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    };
    const onAbort = () => {
      const at = queue.indexOf(onTurn);
      if (at >= 0) queue.splice(at, 1);
      reject(
        new RivuletError("cancelled", "Cancelled while it waited for its turn.", {
          cause: signal?.reason,
        }),
      );
    };
    if (signal?.aborted) return onAbort();
    queue.push(onTurn);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** Whether somebody in this process has a session's slot, and so looks after its task. */
export function isSlotTaken(store: Store, sessionId: string): boolean {
  return slots.get(store)?.has(sessionId) ?? false;
}
