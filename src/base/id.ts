import { readInput, readText, readTyped } from "./argument.ts";
import { type Clock, systemClock } from "./clock.ts";

/** The prefix of an id: task, reasoning, tool call item, tool result item, message, call, approval, session, … */
export type IdPrefix =
  | "task"
  | "rs"
  | "fc"
  | "fco"
  | "msg"
  | "call"
  | "apr"
  | "sess"
  | "blk"
  | "post";

/** Creates ids; inject your own to make a run repeatable. */
export interface IdSource {
  /** `prefix_` and a ULID; ids of one source sort in the order of their creation. */
  next(prefix: IdPrefix): string;
  /** A random UUID (v4), for child sessions and agent keys. */
  uuid(): string;
}

/** Fills a buffer with random bytes. */
export type RandomBytes = (bytes: Uint8Array) => Uint8Array;

// Crockford's base 32: no I, L, O, U.
const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const hex = "0123456789abcdef";
const hyphen = 45;
const [timeDigits, allDigits] = [10, 26];

/** Creates ids from a clock and random bytes; within a millisecond it counts up, so that ids stay in order. */
/* @__NO_SIDE_EFFECTS__ */ export function createIds(
  options: { clock?: Pick<Clock, "now">; random?: RandomBytes } = {},
): IdSource {
  const read = readTyped(options, { clock: "an object", random: "a function" });
  const { clock = systemClock, random = pooledRandom } = read;
  const hasNow = () => typeof clock.now === "function";
  readInput("options.clock", "an object with now()", clock, hasNow);
  let lastTime = -1;
  const digits = new Uint8Array(allDigits); // of 5 bits each: the time, then the random part
  const codes: number[] = Array.from(digits, () => 0); // the same as characters

  function setTime(): void {
    let rest = lastTime;
    for (let i = timeDigits - 1; i >= 0; i--) {
      digits[i] = rest % 32;
      rest = Math.floor(rest / 32);
    }
    for (let i = 0; i < allDigits; i++) codes[i] = alphabet.charCodeAt(digits[i] as number);
  }

  function increment(): boolean {
    for (let i = allDigits - 1; i >= timeDigits; i--) {
      const digit = ((digits[i] as number) + 1) & 31;
      digits[i] = digit;
      codes[i] = alphabet.charCodeAt(digit);
      if (digit > 0) return true;
    }
    return false;
  }

  return {
    next(prefix) {
      readText("prefix", prefix);
      const now = clock.now();
      if (now > lastTime) {
        lastTime = now;
        random(digits.subarray(timeDigits));
        for (let i = timeDigits; i < allDigits; i++) digits[i] = (digits[i] as number) & 31;
        setTime();
      } else if (!increment()) {
        lastTime += 1; // 2^80 ids in one millisecond: borrow the next one
        setTime();
      }
      // In one piece: a text that grows by `+=` keeps a node for each of its pieces, ten times its size.
      return [prefix, String.fromCharCode(...codes)].join("_");
    },
    uuid() {
      const bytes = new Uint8Array(16);
      random(bytes);
      bytes[6] = ((bytes[6] as number) & 0x0f) | 0x40;
      bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
      const codes = [];
      for (let i = 0; i < bytes.length; i++) {
        if (i === 4 || i === 6 || i === 8 || i === 10) codes.push(hyphen);
        const byte = bytes[i] as number;
        codes.push(hex.charCodeAt(byte >> 4), hex.charCodeAt(byte & 15));
      }
      return String.fromCharCode(...codes);
    },
  };
}

// One request for many random bytes is cheaper than one request per id.
const poolSize = 1024;
const pool = new Uint8Array(poolSize);
let used = poolSize;

function pooledRandom(bytes: Uint8Array): Uint8Array {
  if (used + bytes.length > poolSize) {
    crypto.getRandomValues(pool);
    used = 0;
  }
  for (let i = 0; i < bytes.length; i++) bytes[i] = pool[used++] as number;
  return bytes;
}

/** A new key of an agent's conversation. Joined, because a template would keep its pieces as long as the key. */
export function agentKeyOf(agentId: string, uuid: string): string {
  return ["agent", agentId, uuid].join(":");
}
