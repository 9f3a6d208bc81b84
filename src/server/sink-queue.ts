import { deflated } from "./gzip.ts";

/** How many bytes a connection takes at a time; the rest waits in its queue. */
export const partBytes = 32 * 1024;

/** The sending end of one connection. */
export interface Sink {
  readonly response: Response;
  /** The number of bytes that wait to be sent. */
  readonly buffered: number;
  readonly isClosed: boolean;
  /** Sends bytes after the earlier ones; the sink may keep a reference to them. */
  write(bytes: Uint8Array): void;
  /** Resolves when everything is sent, or when the connection is closed. */
  drained(): Promise<void>;
  /** Sends the buffered bytes and closes the connection; a reader that does not read is cut off. Later writes are ignored. */
  end(): void;
  /** Closes the connection now; the buffered bytes are lost. */
  cut(): void;
  /** Resolves when the connection is closed, by either side. */
  readonly closed: Promise<void>;
}

/** The connections that hold some bytes. */
interface Holders {
  count: number;
  deflated: Uint8Array | undefined;
}

/** Counts the unsent bytes of all connections; bytes that several connections wait for count once. */
export class UnsentBytes {
  /** How many there are. */
  total = 0;
  readonly #max: number;
  readonly #holders = new Map<Uint8Array, Holders>();
  /** The connections with unsent bytes; the first one has made no progress for the longest time. */
  readonly #waiting = new Set<Sink>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Counts bytes that a connection keeps; at the limit, connections that make no progress are cut off. */
  hold(bytes: Uint8Array, sink: Sink): void {
    const holders = this.#holders.get(bytes);
    this.#waiting.add(sink);
    if (holders) {
      holders.count += 1;
      return;
    }
    this.#holders.set(bytes, { count: 1, deflated: undefined });
    this.total += bytes.length;
    if (this.total <= this.#max) return;
    for (const stuck of this.#waiting) {
      // The last one is the only reader of what is left, however much that is.
      if (this.total <= this.#max || this.#waiting.size === 1) return;
      stuck.cut();
    }
  }

  release(bytes: Uint8Array): void {
    const holders = this.#holders.get(bytes);
    if (holders === undefined) return;
    holders.count -= 1;
    if (holders.count > 0) return;
    this.#holders.delete(bytes);
    this.total -= bytes.length;
  }

  /** Compresses bytes once for all connections that hold them; undefined if they are too few. */
  deflated(bytes: Uint8Array): Uint8Array | undefined {
    const holders = this.#holders.get(bytes);
    if (holders === undefined) return deflated(bytes);
    holders.deflated ??= deflated(bytes);
    return holders.deflated;
  }

  /** Called when a connection has sent something, or is closed. */
  moved(sink: Sink): void {
    this.#waiting.delete(sink);
    if (sink.buffered > 0) this.#waiting.add(sink);
  }
}

/** Gives a connection one part of its queue at a time, so that the bytes of others are kept once and not copied. */
export abstract class QueuedSink implements Sink {
  abstract readonly response: Response;
  readonly closed: Promise<void>;
  isClosed = false;
  buffered = 0;
  protected isEnded = false;
  protected readonly unsent: UnsentBytes;
  #queue: Uint8Array[] = [];
  /** How much of the first entry of the queue is sent. */
  #offset = 0;
  /** The part that the connection is sending, and the entry of the queue that ends with it. */
  #sending: { readonly length: number; readonly ended: Uint8Array | undefined } | undefined;
  readonly #resolveClosed: () => void;
  #onDrained: (() => void)[] = [];

  constructor(unsent: UnsentBytes) {
    this.unsent = unsent;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.closed = promise;
    this.#resolveClosed = resolve;
  }

  /** Sends one part, and calls `onSent` when the connection has taken it. */
  protected abstract put(part: Uint8Array, onSent: () => void): void;
  /** Closes the connection after the last part. */
  protected abstract finish(): void;
  abstract cut(): void;

  write(bytes: Uint8Array): void {
    if (this.isClosed || this.isEnded || bytes.length === 0) return;
    this.#queue.push(bytes);
    this.buffered += bytes.length;
    this.unsent.hold(bytes, this);
    if (!this.#sending) this.#sendNext();
  }

  drained(): Promise<void> {
    if (this.isClosed || this.buffered === 0) return Promise.resolve();
    return new Promise((resolve) => this.#onDrained.push(resolve));
  }

  end(): void {
    if (this.isClosed || this.isEnded) return;
    this.isEnded = true;
    if (!this.#sending) this.finish();
  }

  /** Forgets everything that is unsent. */
  protected close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    if (this.#sending?.ended) this.unsent.release(this.#sending.ended);
    for (const bytes of this.#queue) this.unsent.release(bytes);
    this.#queue = [];
    this.buffered = 0;
    this.unsent.moved(this);
    this.#resolveClosed();
    this.#wake();
  }

  /** All that is queued, which is then no longer counted. */
  protected takeRest(): Uint8Array {
    const rest = Buffer.concat(this.#queue).subarray(this.#offset);
    for (const bytes of this.#queue) this.unsent.release(bytes);
    this.#queue = [];
    this.#offset = 0;
    return rest;
  }

  #sendNext(): void {
    const part = this.#takePart();
    if (this.isClosed) return; // cut off at the limit of all connections
    if (part) this.put(part, this.#onSent);
    else if (this.isEnded) this.finish();
    else this.#wake();
  }

  readonly #onSent = (): void => {
    if (this.isClosed || !this.#sending) return;
    const { length, ended } = this.#sending;
    this.#sending = undefined;
    this.buffered -= length;
    if (ended) this.unsent.release(ended);
    this.unsent.moved(this);
    this.#sendNext();
  };

  #takePart(): Uint8Array | undefined {
    const [first, second] = this.#queue;
    if (first === undefined) return undefined;
    const left = first.length - this.#offset;
    if (left > partBytes) {
      const part = first.subarray(this.#offset, this.#offset + partBytes);
      this.#offset += partBytes;
      this.#sending = { length: partBytes, ended: undefined };
      return part;
    }
    if (second === undefined || left + second.length > partBytes) {
      const part = this.#offset > 0 ? first.subarray(this.#offset) : first;
      this.#queue.shift();
      this.#offset = 0;
      this.#sending = { length: left, ended: first };
      return part;
    }
    return this.#takeSmall();
  }

  /** Joins small entries, because each write to a connection has its cost. */
  #takeSmall(): Uint8Array {
    let length = -this.#offset;
    let count = 0;
    for (const bytes of this.#queue) {
      if (length + bytes.length > partBytes) break;
      length += bytes.length;
      count += 1;
    }
    const taken = this.#queue.splice(0, count);
    const joined = Buffer.concat(taken);
    const part = joined.subarray(this.#offset);
    this.#offset = 0;
    this.#sending = { length, ended: joined };
    for (const bytes of taken) this.unsent.release(bytes);
    this.unsent.hold(joined, this);
    return part;
  }

  #wake(): void {
    for (const resolve of this.#onDrained.splice(0)) resolve();
  }
}
