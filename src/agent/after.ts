import type { Clock } from "../protocol/clock.ts";

/** Does something after a while, unless it is called off before. Returns the way to call it off. */
export function after(clock: Pick<Clock, "sleep">, ms: number, run: () => unknown): () => void {
  const off = new AbortController();
  clock.sleep(ms, off.signal).then(
    () => (off.signal.aborted ? undefined : run()),
    () => {},
  );
  // Without a reason the platform makes an error with a stack for each.
  return () => off.abort("called off");
}
