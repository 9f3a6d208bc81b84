import { encodeSse, isTerminal, type TaskEvent } from "../protocol/index.ts";
import type { Frames } from "../store/index.ts";

/** About how many bytes a batch has, unless one event has more; a connection sends it in one part. */
export const pageBytes = 24 * 1024;
/** How many bytes of batches are kept for readers that come to the same place later. */
const keptBytes = 8 * 1024 * 1024;
/** The cost of a kept batch besides its bytes. */
const batchOverhead = 256;
/** How many reads of the store one turn of the event loop takes. */
const readsAtOnce = 4;
/** Not looked up at each call, because fake timers in a test must not stop the readers. */
const { setImmediate: afterTurn } = globalThis;

/** The frames of a batch in one buffer. */
interface Encoded {
  readonly bytes: Buffer;
  /** Where each frame ends. */
  readonly ends: readonly number[];
}

/** Some successive events of a log, encoded once for all followers. */
export class Batch {
  /** The number of the event before the first one. */
  readonly after: number;
  readonly through: number;
  /** Undefined in a batch that is kept for its bytes. */
  readonly events: readonly TaskEvent[] | undefined;
  /** True: the events are the snapshots of all tasks, because older events were trimmed. */
  readonly isSnapshot: boolean;
  /** True: a task ends or waits with one of the events. */
  readonly changesStatus: boolean;
  #named: Encoded | undefined;
  #unnamed: Encoded | undefined;

  /** `encoded`: the frames of the events, with `event` lines; without it, it is made of the events. */
  constructor(
    after: number,
    through: number,
    events: readonly TaskEvent[] | undefined,
    encoded?: Encoded,
  ) {
    this.after = after;
    this.through = through;
    this.events = events;
    this.isSnapshot = events?.[0]?.type === "task.snapshot";
    this.changesStatus = events?.some(isRest) ?? false;
    this.#named = encoded;
  }

  /** The batch to keep: its bytes alone, because events take several times their memory; all of it if a task rests. */
  lean(): Batch {
    if (this.changesStatus) return this;
    return new Batch(this.after, this.through, undefined, { bytes: this.bytes(), ends: [] });
  }

  /** All frames, the same buffer for each caller; `eventNames` false: without `event` lines. */
  bytes(eventNames = true): Buffer {
    return this.#encoded(eventNames).bytes;
  }

  /** The frame of the event with this index. */
  frame(index: number, eventNames = true): Buffer {
    const { bytes, ends } = this.#encoded(eventNames);
    return bytes.subarray(index === 0 ? 0 : ends[index - 1], ends[index]);
  }

  #encoded(eventNames: boolean): Encoded {
    if (eventNames) {
      this.#named ??= encoded(this.#texts(true));
      return this.#named;
    }
    this.#unnamed ??= encoded(this.#texts(false));
    return this.#unnamed;
  }

  #texts(eventNames: boolean): string[] {
    const options = eventNames ? undefined : { eventNames };
    const { events = [] } = this;
    const texts = events.map((event) => encodeSse(event, options));
    // The last snapshot carries the number, so a reader that has some of them starts over.
    const last = events.at(-1);
    if (this.isSnapshot && last)
      texts[texts.length - 1] = encodeSse(last, { eventNames, id: this.through });
    return texts;
  }
}

function encoded(texts: readonly string[]): Encoded {
  let end = 0;
  const ends = texts.map((text) => {
    end += Buffer.byteLength(text);
    return end;
  });
  return { bytes: Buffer.from(texts.join("")), ends };
}

/** Whether a task ends, waits or continues with an event. */
function isRest(event: TaskEvent): boolean {
  if (event.type === "task.suspended" || event.type === "task.snapshot") return true;
  return "task" in event && isTerminal(event.task.status);
}

/** Divides events into batches of `pageBytes`; snapshots stay together, because they are one place in the log. */
export function batchesOf(
  after: number,
  { frames: events, through }: Pick<Frames, "frames" | "through">,
): readonly Batch[] {
  if (events.length === 0) return [];
  if (events[0]?.type === "task.snapshot") return [new Batch(after, through, events)];
  const batches: Batch[] = [];
  let texts: string[] = [];
  let length = 0;
  let from = 0;
  for (const [index, event] of events.entries()) {
    const text = encodeSse(event);
    texts.push(text);
    length += text.length;
    const end = index + 1;
    if (length < pageBytes && end < events.length) continue;
    batches.push(new Batch(after + from, after + end, events.slice(from, end), encoded(texts)));
    texts = [];
    length = 0;
    from = end;
  }
  return batches;
}

/** The batches of all logs that were read lately, within one limit, and the order of the reads. */
export class Pages {
  /** Least recently used first. */
  readonly #kept = new Map<string, Batch>();
  #keptBytes = 0;
  /** Batches over the limit, while a reader still has their bytes. */
  readonly #large = new Map<string, WeakRef<Batch>>();
  readonly #batchOf = new WeakMap<Uint8Array, Batch>();
  #free = readsAtOnce;
  readonly #queue: (() => void)[] = [];

  /** The batch after this number of a log, if it is at hand; `withEvents`: only one that has its events. */
  find(log: string, after: number, withEvents: boolean): Batch | undefined {
    const key = keyOf(log, after);
    const kept = this.#kept.get(key);
    if (kept === undefined) return this.#large.get(key)?.deref();
    if (withEvents && kept.events === undefined) return undefined;
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    return kept;
  }

  keep(log: string, batch: Batch): void {
    const key = keyOf(log, batch.after);
    const cost = costOf(batch);
    this.#drop(key);
    if (cost > keptBytes / 2) {
      for (const [place, large] of this.#large) if (!large.deref()) this.#large.delete(place);
      this.#large.set(key, new WeakRef(batch));
      this.#batchOf.set(batch.bytes(), batch);
      return;
    }
    this.#kept.set(key, batch.lean());
    this.#keptBytes += cost;
    for (const oldest of this.#kept.keys()) {
      if (this.#keptBytes <= keptBytes) return;
      this.#drop(oldest);
    }
  }

  /** Drops the batches of a log without readers. */
  forget(log: string): void {
    const prefix = keyOf(log, "");
    for (const key of this.#kept.keys()) if (key.startsWith(prefix)) this.#drop(key);
    for (const key of this.#large.keys()) if (key.startsWith(prefix)) this.#large.delete(key);
  }

  /** Runs reads in their order, a few in each turn of the event loop, so that other requests are not kept waiting. */
  async inTurn<Result>(read: () => Promise<Result>): Promise<Result> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#queue.push(resolve));
    try {
      await new Promise<void>((resolve) => void afterTurn(resolve));
      return await read();
    } finally {
      const next = this.#queue.shift();
      if (next) next();
      else this.#free += 1;
    }
  }

  #drop(key: string): void {
    const batch = this.#kept.get(key);
    if (batch === undefined) return;
    this.#kept.delete(key);
    this.#keptBytes -= costOf(batch);
  }
}

function keyOf(log: string, after: number | ""): string {
  return `${log.length} ${log} ${after}`;
}

function costOf(batch: Batch): number {
  return batch.bytes().length + batchOverhead;
}
