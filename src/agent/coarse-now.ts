import type { Clock } from "../protocol/clock.ts";

type Now = () => number;

const coarse = new WeakMap<Pick<Clock, "now">, Now>();

/**
 * The time, read once per turn of the event loop: a fast model brings hundreds of chunks in one, and asking the clock
 * for each costs as much as the chunk. Whoever asks the same clock gets the same time.
 */
export function coarseNow(clock: Pick<Clock, "now">): Now {
  const known = coarse.get(clock) ?? readOncePerTurn(clock);
  coarse.set(clock, known);
  return known;
}

function readOncePerTurn(clock: Pick<Clock, "now">): Now {
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
