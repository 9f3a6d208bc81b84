// One timer for all model streams of a process: each gets a token every 20 ms. A tick that is late gives out all tokens
// that are due, because a provider does not slow down with its client, and the stamp in a token is the time at which it
// was due, so a late event loop counts as delay. All stamps follow from the first one: a reader can check each character.

/** How many tokens have one with a stamp among them. */
export const stampEvery = 20;
const slotCount = 20;
const periodMs = 20;
const stepMs = periodMs / slotCount;

/** A stream that gets tokens. */
export interface TokenSink {
  push(token: string): void;
  end(): void;
}

interface Rider {
  readonly sink: TokenSink;
  left: number;
  tokens: number;
}

const slots = Array.from({ length: slotCount }, () => new Set<Rider>());
let riders = 0;
let timer: NodeJS.Timeout | undefined;
let startedAt = 0;
let cursor = 0;

/** What the wheel has done in this process. */
export const wheel = { produced: 0 };

/** The milliseconds of a clock that is the same in all processes of a machine. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** Gives a stream so many tokens, after `startWheel`. */
export function ride(sink: TokenSink, tokens = Number.POSITIVE_INFINITY): void {
  const index = riders++;
  // Staggered: else all stamps would fall into the same 20 ms, and a stall would delay all of them or none.
  const first = Math.floor(index / slotCount) % stampEvery;
  slots[index % slotCount]?.add({ sink, left: tokens, tokens: first });
}

/** Starts the tokens of all streams. */
export function startWheel(speed = 1): void {
  startedAt = monotonicMs();
  cursor = 0;
  timer = setInterval(() => tick(speed), 1);
}

/** Stops them, so that a reader can catch up. */
export function stopWheel(): void {
  clearInterval(timer);
}

function tick(speed: number): void {
  const now = monotonicMs();
  for (;;) {
    const due = startedAt + (cursor * stepMs) / speed;
    if (due > now) return;
    const slot = slots[cursor % slotCount] as Set<Rider>;
    for (const rider of slot) {
      if (rider.left <= 0) {
        slot.delete(rider);
        rider.sink.end();
        continue;
      }
      rider.left -= 1;
      wheel.produced += 1;
      rider.sink.push(rider.tokens++ % stampEvery === 0 ? stampOf(due) : "word~");
    }
    cursor += 1;
  }
}

/** A token with a time, in tenths of milliseconds. */
export function stampOf(ms: number): string {
  return `@${Math.round(ms * 10).toString(36)}~`;
}

/** The tenths of milliseconds from one stamp of a stream to the next. */
export const stampGap = stampEvery * periodMs * 10;
