import type { CommittedEvents, Store } from "../contract/index.ts";
import type { TaskEvent } from "../protocol/index.ts";
import { type Frames, readFrames } from "./read-frames.ts";

/** How many events wait for a reader; a reader that is further behind reads them from the store. */
const maxHanded = 64;

/** A position in a log that grows: it takes what this process commits as it is, and reads only the rest from the store. */
export class LogTail {
  readonly log: string;
  /** The number of the last event that was taken. */
  after: number;
  readonly #store: Pick<Store, "read" | "snapshot" | "last">;
  readonly #unwatch: () => void;
  readonly #onChange: () => void;
  /** The committed events that follow `after`. */
  #handed: readonly TaskEvent[] = [];
  #mustRead = true;

  /** `onChange` is called when there may be more to take or to read. */
  constructor(
    store: Pick<Store, "read" | "snapshot" | "last" | "watch">,
    log: string,
    after: number,
    onChange: () => void,
  ) {
    this.#store = store;
    this.log = log;
    this.after = after;
    this.#onChange = onChange;
    this.#unwatch = store.watch({ log }, (committed) => this.#wake(committed));
  }

  /** Whether the store may have events that were not handed over. */
  get mustRead(): boolean {
    return this.#mustRead;
  }

  /** Makes the next events be read, although no watch has told of them. */
  doubt(): void {
    this.#mustRead = true;
  }

  /** At most `limit` of the events that were handed over; undefined if there are none. */
  take(limit = Number.POSITIVE_INFINITY): Frames | undefined {
    if (this.#handed.length === 0 || limit <= 0) return undefined;
    const frames = this.#handed.length > limit ? this.#handed.slice(0, limit) : this.#handed;
    this.#moveTo(this.after + frames.length);
    return { frames, through: this.after, mayHaveMore: this.#mustRead || this.#handed.length > 0 };
  }

  /** Reads the next events, or the snapshots that replace them. */
  async read(limit: number, maxBytes?: number): Promise<Frames> {
    this.#mustRead = false;
    try {
      const page = await readFrames(this.#store, this.log, this.after, limit, maxBytes);
      this.#moveTo(page.through);
      this.#mustRead ||= page.mayHaveMore;
      return page;
    } catch (error) {
      this.#mustRead = true;
      throw error;
    }
  }

  /** Moves to the end of the log without reading the events before it; false if there are none. */
  async skip(): Promise<boolean> {
    this.#mustRead = false;
    const before = this.after;
    try {
      this.#moveTo(await this.#store.last(this.log));
    } catch (error) {
      this.#mustRead = true;
      throw error;
    }
    return this.after > before;
  }

  #moveTo(number: number): void {
    const moved = number - this.after;
    if (moved <= 0) return;
    this.after = number;
    this.#handed = moved >= this.#handed.length ? [] : this.#handed.slice(moved);
  }

  leave(): void {
    this.#unwatch();
    this.#handed = [];
  }

  #wake(committed: CommittedEvents | undefined): void {
    if (committed === undefined) this.#mustRead = true;
    else if (!this.#keep(committed)) return;
    this.#onChange();
  }

  /** Keeps what is new and follows what is kept; returns false if nothing is new. */
  #keep({ after, events }: CommittedEvents): boolean {
    const known = this.after + this.#handed.length;
    const count = after + events.length - known;
    if (count <= 0) return false;
    const isNext = after <= known;
    if (isNext && this.#handed.length === 0) {
      this.#handed = count === events.length ? events : events.slice(-count);
    } else if (isNext && this.#handed.length + count <= maxHanded) {
      this.#handed = [...this.#handed, ...events.slice(-count)];
    } else {
      this.#handed = [];
      this.#mustRead = true;
    }
    return true;
  }
}
