import type { Clock } from "../protocol/clock.ts";

/**
 * The time, read once per turn of the event loop: a fast model brings hundreds of chunks in one, and asking the clock
 * for each costs as much as the chunk.
 */
export function coarseNow(clock: Pick<Clock, "now">): () => number {
  let time = 0;
  let isFresh = false;
  const expire = () => {
    isFresh = false;
  };
  return () => {
    if (!isFresh) {
      isFresh = true;
      time = clock.now();
      setImmediate(expire);
    }
    return time;
  };
}
