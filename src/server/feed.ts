import { RivuletError } from "../base/error.ts";
import type { Store, TaskRecord } from "../contract/index.ts";
import { LogTail, readFrames, unfinishedStatuses } from "../store/index.ts";
import { type Batch, batchesOf, Pages, pageBytes } from "./pages.ts";

/** How many events a read of the store returns. */
const pageSize = 512;

/** A reader that is at the head of a log. */
export interface LiveReader {
  /** Called with each new batch, in order, and with undefined when the log is lost. */
  push(batch: Batch | undefined): void;
  /** Called when the head of the log has moved past events that the reader did not get. */
  readAgain(): void;
}

/** The one reader of a log in this process: it takes and encodes each event once and hands it to all followers. */
export class LogFeed {
  readonly log: string;
  users = 0;
  /** True when the log was deleted or cannot be read. */
  isLost = false;
  readonly #store: Store;
  readonly #pages: Pages;
  readonly #live = new Set<LiveReader>();
  readonly #tail: LogTail;
  /** The reads of the store that have not ended, by the number that they start after. */
  readonly #reads = new Map<number, Promise<Batch | undefined>>();
  #reading: Promise<void> | undefined;
  #unfinished:
    | { readonly at: number; readonly records: Promise<readonly TaskRecord[]> }
    | undefined;
  readonly #opened: Promise<unknown>;

  constructor(store: Store, log: string, pages: Pages) {
    this.#store = store;
    this.log = log;
    this.#pages = pages;
    this.#tail = new LogTail(store, log, -1, () => this.#onChange());
    this.#opened = this.#tail.skip();
    this.#opened.catch(() => {});
  }

  /** The number of the last event that is known. */
  get last(): number {
    return this.#tail.after;
  }

  /** Resolves when `last` is known. */
  async opened(): Promise<void> {
    await this.#opened;
  }

  /** Reads what the store has now, although no watch has told of it yet. */
  async catchUp(): Promise<void> {
    const last = await this.#store.last(this.log);
    if (last === this.last) return;
    if (last < this.last) {
      this.isLost = true;
      return;
    }
    this.#tail.doubt();
    this.#onChange();
    await this.#reading;
  }

  /** The next events after a number; undefined at the head. Without `withEvents`, the batch may have bytes alone. */
  async next(after: number, withEvents = false): Promise<Batch | undefined> {
    if (after >= this.last) return undefined;
    const kept = this.#pages.find(this.log, after, withEvents);
    if (kept) return kept;
    const started = this.#reads.get(after);
    if (started) return started;
    const read = this.#pages.inTurn(() => this.#readPage(after));
    this.#reads.set(after, read);
    const forget = () => this.#reads.delete(after);
    read.then(forget, forget);
    return read;
  }

  /** Hands over new events from now on; the reader must be at the head. */
  join(reader: LiveReader): void {
    this.#live.add(reader);
  }

  leave(reader: LiveReader): void {
    this.#live.delete(reader);
  }

  /** The records of the log's tasks that have not ended, as they are with the last event; `conversation` writes the log. */
  unfinished(conversation: string): Promise<readonly TaskRecord[]> {
    if (this.#unfinished?.at !== this.last) {
      const query = { conversation, rootTaskId: this.log, status: unfinishedStatuses };
      const records = this.#store.tasks(query);
      this.#unfinished = { at: this.last, records };
      records.catch(() => {
        this.#unfinished = undefined;
      });
    }
    return this.#unfinished.records;
  }

  close(): void {
    this.#tail.leave();
    this.#pages.forget(this.log);
  }

  async #readPage(after: number): Promise<Batch | undefined> {
    const kept = this.#pages.find(this.log, after, true); // read as part of another page since
    if (kept) return kept;
    const page = await readFrames(this.#store, this.log, after, pageSize, pageBytes);
    const batches = batchesOf(after, page);
    for (const batch of batches) this.#pages.keep(this.log, batch);
    return batches[0];
  }

  #onChange(): void {
    if (this.#reading) return;
    this.#takeHanded();
    if (!this.#tail.mustRead) return;
    this.#reading = this.#advance()
      .catch(() => this.#end())
      .finally(() => {
        this.#reading = undefined;
        this.#takeHanded();
        if (this.#tail.mustRead && !this.isLost) this.#onChange();
      });
  }

  /** Hands over what this process has committed. */
  #takeHanded(): void {
    const after = this.last;
    const frames = this.#tail.take();
    if (frames === undefined || this.#live.size === 0) return;
    // Not kept: they are few at a time, and a reader that comes later gets more of them in one read.
    for (const batch of batchesOf(after, frames)) this.#publish(batch);
  }

  /** Reads what other processes have written, or what was too much to hand over. */
  async #advance(): Promise<void> {
    await this.#opened;
    while (this.#tail.mustRead) {
      // Without live readers the events may never be read, so only their number matters.
      if (this.#live.size === 0 && (await this.#tail.skip())) {
        for (const joined of this.#live) joined.readAgain();
        continue;
      }
      const after = this.last;
      const page = await this.#tail.read(pageSize, pageBytes);
      if (page.frames.length > 0) {
        for (const batch of batchesOf(after, page)) {
          this.#pages.keep(this.log, batch);
          this.#publish(batch);
        }
      } else if ((await this.#store.task(this.log)) === undefined) this.#end();
    }
  }

  #publish(batch: Batch | undefined): void {
    for (const reader of this.#live) reader.push(batch);
  }

  #end(): void {
    this.isLost = true;
    this.#publish(undefined);
  }
}

/** The feeds of a store, one per log with readers. */
export class Feeds {
  readonly #store: Store;
  readonly #pages = new Pages();
  readonly #feeds = new Map<string, LogFeed>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** The feed of a log, which the caller must `release`. */
  async use(log: string): Promise<LogFeed> {
    const feed = this.#feeds.get(log) ?? new LogFeed(this.#store, log, this.#pages);
    this.#feeds.set(log, feed);
    feed.users += 1;
    try {
      await feed.opened();
      return feed;
    } catch (error) {
      this.release(feed);
      throw error;
    }
  }

  release(feed: LogFeed): void {
    feed.users -= 1;
    if (feed.users > 0) return;
    feed.close();
    if (this.#feeds.get(feed.log) === feed) this.#feeds.delete(feed.log);
  }
}

/** The error for a cursor that the log has not reached. */
export function cursorAhead(cursor: number, last: number): RivuletError {
  return new RivuletError(
    "invalid_cursor",
    `The cursor ${cursor} is ahead of the log, which ends at ${last}.`,
    {
      hint: "Pass the sequence_number of the last event that you have, or leave the cursor out.",
    },
  );
}
