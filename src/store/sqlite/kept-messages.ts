import { isDeepStrictEqual } from "node:util";
import type { Message } from "../../contract/index.ts";
import type { EncodedAppend } from "./sessions.ts";

/** How many characters the JSON of all kept messages may have. */
const maxKept = 16 * 1024 * 1024;
/** Fewer messages of a session are parsed sooner than it pays to keep them, and most sessions stay short. */
const minKept = 32;

/** A message with the length of its JSON. */
export interface ParsedMessage {
  readonly message: Message;
  readonly length: number;
}

/** Messages of one session without gaps, from index `start` on. */
interface Kept {
  /** The number of the session's row, which no other session ever has. */
  readonly session: number;
  start: number;
  messages: Message[];
  length: number;
}

/** The messages of the sessions that were read last: a read parses only what is new. */
export class KeptMessages {
  /** The session that was used last is the last. */
  readonly #kept = new Map<string, Kept>();
  readonly #max: number;
  readonly #min: number;
  #length = 0;

  constructor(max = maxKept, min = minKept) {
    this.#max = max;
    this.#min = min;
  }

  /** How many characters the JSON of the kept messages has. */
  get length(): number {
    return this.#length;
  }

  /** The messages from `start` to before `end`; `parse` reads those that are missing. */
  read(
    { sessionId, number, messages: count }: SessionEnd,
    start: number,
    end: number,
    parse: (start: number, end: number) => readonly ParsedMessage[],
  ): Message[] {
    const known = this.#kept.get(sessionId);
    const isKnown = known?.session === number && known.start + known.messages.length <= count;
    const isNear = isKnown && start <= known.start + known.messages.length && end >= known.start;
    if (!isNear && end < count) return parse(start, end).map(({ message }) => message);
    const kept = isNear ? known : { session: number, start, messages: [], length: 0 };
    const before = start < kept.start ? parse(start, kept.start) : [];
    const after = parse(kept.start + kept.messages.length, end);
    this.delete(sessionId);
    if (before.length > 0) kept.messages = [...before.map(seal), ...kept.messages];
    kept.start -= before.length;
    for (const parsed of after) kept.messages.push(seal(parsed));
    for (const { length } of [...before, ...after]) kept.length += length;
    this.#keep(sessionId, kept);
    return kept.messages.slice(start - kept.start, end - kept.start);
  }

  /** Adds messages that this process has just written, as the objects that their writer keeps using. */
  extend({ sessionId, at, messages }: EncodedAppend): void {
    const kept = this.#kept.get(sessionId);
    if (kept === undefined || kept.start + kept.messages.length !== at) return;
    this.delete(sessionId);
    for (const { message, text } of messages) {
      const stored: Message = JSON.parse(text);
      // An object that can change, or that JSON changes, is not what another reader gets.
      const isStored = isFrozen(message) && isDeepStrictEqual(message, stored);
      kept.messages.push(isStored ? message : freeze(stored));
      kept.length += text.length;
    }
    this.#keep(sessionId, kept);
  }

  delete(sessionId: string): void {
    this.#length -= this.#kept.get(sessionId)?.length ?? 0;
    this.#kept.delete(sessionId);
  }

  #keep(sessionId: string, kept: Kept): void {
    if (kept.messages.length < this.#min) return;
    this.#kept.set(sessionId, kept);
    this.#length += kept.length;
    for (const oldest of this.#kept.keys()) {
      if (this.#length <= this.#max) return;
      this.delete(oldest);
    }
  }
}

/** The row of a session, as far as it tells its length. */
interface SessionEnd {
  readonly sessionId: string;
  readonly number: number;
  readonly messages: number;
}

function seal({ message }: ParsedMessage): Message {
  return freeze(message);
}

function freeze<Value>(value: Value): Value {
  if (typeof value !== "object" || value === null) return value;
  for (const field of Object.values(value)) freeze(field);
  return Object.freeze(value);
}

function isFrozen(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  return Object.isFrozen(value) && Object.values(value).every(isFrozen);
}
