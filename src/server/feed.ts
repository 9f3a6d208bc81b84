import { RivuletError } from "../protocol/error.ts";
import type { TaskEvent } from "../protocol/event.ts";
import { encodeSse } from "../protocol/sse.ts";
import type { Store, TaskRecord } from "../protocol/store.ts";
import { isTerminal } from "../protocol/task.ts";
import { readFrames } from "../store/index.ts";

/** How many events a read of the store returns. */
const pageSize = 512;
/** How many bytes of recent frames a feed keeps for followers that lag. */
const recentBytes = 1024 * 1024;
/** How many pages of older events a feed keeps for followers that read them at the same time. */
const keptPages = 8;

/** Some successive events of a log, encoded once for all followers. */
export class Batch {
  /** The number of the event before the first one. */
  readonly after: number;
  readonly through: number;
  readonly events: readonly TaskEvent[];
  /** True: the events are the snapshots of all tasks, because older events were trimmed. */
  readonly isSnapshot: boolean;
  /** True: a task ends or waits with one of the events. */
  readonly changesStatus: boolean;
  #texts: readonly string[] | undefined;
  #unnamed: readonly string[] | undefined;
  #bytes: Buffer | undefined;

  constructor(after: number, through: number, events: readonly TaskEvent[]) {
    this.after = after;
    this.through = through;
    this.events = events;
    this.isSnapshot = events[0]?.type === "task.snapshot";
    this.changesStatus = events.some(isRest);
  }

  /** One frame per event; `eventNames` false: without `event` lines. */
  frames(eventNames: boolean): readonly string[] {
    if (eventNames) this.#texts ??= this.#encode(true);
    else this.#unnamed ??= this.#encode(false);
    return (eventNames ? this.#texts : this.#unnamed) as readonly string[];
  }

  /** All frames in one buffer. */
  get bytes(): Buffer {
    this.#bytes ??= Buffer.from(this.frames(true).join(""));
    return this.#bytes;
  }

  /** The events after a number. */
  from(after: number): Batch {
    if (after <= this.after || this.isSnapshot) return this;
    const skipped = after - this.after;
    const rest = new Batch(after, this.through, this.events.slice(skipped));
    rest.#texts = this.#texts?.slice(skipped);
    rest.#unnamed = this.#unnamed?.slice(skipped);
    return rest;
  }

  #encode(eventNames: boolean): readonly string[] {
    const options = eventNames ? undefined : { eventNames };
    const texts = this.events.map((event) => encodeSse(event, options));
    // The last snapshot carries the number, so a reader that has some of them starts over.
    const last = this.events.at(-1);
    if (this.isSnapshot && last)
      texts[texts.length - 1] = encodeSse(last, { eventNames, id: this.through });
    return texts;
  }
}

/** Whether a task ends, waits or continues with an event. */
function isRest(event: TaskEvent): boolean {
  if (event.type === "task.suspended" || event.type === "task.snapshot") return true;
  return "task" in event && isTerminal(event.task.status);
}

/** A reader that is at the head of a log. */
export interface LiveReader {
  /** Called with each new batch, in order, and with undefined when the log was deleted or cannot be read. */
  push(batch: Batch | undefined): void;
}

/** The one reader of a log in this process: it reads and encodes each event once and hands it to all followers. */
export class LogFeed {
  readonly log: string;
  /** The number of the last event that was read. */
  last = -1;
  users = 0;
  readonly #store: Store;
  readonly #live = new Set<LiveReader>();
  #unwatch: () => void = () => {};
  #recent: Batch[] = [];
  #recentBytes = 0;
  readonly #pages = new Map<number, Promise<Batch | undefined>>();
  #reading: Promise<void> | undefined;
  #isChanged = false;
  #records: { readonly at: number; readonly records: Promise<readonly TaskRecord[]> } | undefined;
  readonly #opened: Promise<void>;

  constructor(store: Store, log: string) {
    this.#store = store;
    this.log = log;
    // The watch precedes the first read, so no event falls between them.
    this.#unwatch = store.watch({ log }, () => this.#onChange());
    this.#opened = store.last(log).then((last) => {
      this.last = Math.max(this.last, last);
    });
    this.#opened.catch(() => {});
  }

  /** Resolves when `last` is known. */
  opened(): Promise<void> {
    return this.#opened;
  }

  /** Reads what the store has now, although no watch has told of it yet. */
  async catchUp(): Promise<void> {
    if (this.last >= (await this.#store.last(this.log))) return;
    this.#onChange();
    await this.#reading;
  }

  /** The next events after a number; undefined at the head. */
  async next(after: number): Promise<Batch | undefined> {
    if (after >= this.last) return undefined;
    const [oldest] = this.#recent;
    if (oldest && after >= oldest.after)
      return this.#recent.find(({ through }) => through > after)?.from(after);
    const page = this.#pages.get(after) ?? this.#read(after, pageSize);
    this.#pages.delete(after);
    this.#pages.set(after, page);
    const [unused] = this.#pages.keys();
    if (this.#pages.size > keptPages && unused !== undefined) this.#pages.delete(unused);
    const forget = () => this.#pages.delete(after);
    page.then((read) => (read && read.bytes.length <= recentBytes ? undefined : forget()), forget);
    return page;
  }

  /** Hands over new events from now on; the reader must be at the head. */
  join(reader: LiveReader): void {
    this.#live.add(reader);
  }

  leave(reader: LiveReader): void {
    this.#live.delete(reader);
  }

  /** The records of the log's tasks, as they are with the last event. */
  records(): Promise<readonly TaskRecord[]> {
    if (this.#records?.at !== this.last) {
      const records = this.#store.tasks({ rootTaskId: this.log });
      this.#records = { at: this.last, records };
      records.catch(() => {
        this.#records = undefined;
      });
    }
    return this.#records.records;
  }

  close(): void {
    this.#unwatch();
    this.#recent = [];
    this.#pages.clear();
  }

  async #read(after: number, limit: number): Promise<Batch | undefined> {
    const { frames, through } = await readFrames(this.#store, this.log, after, limit);
    return frames.length === 0 ? undefined : new Batch(after, through, frames);
  }

  #onChange(): void {
    this.#isChanged = true;
    this.#reading ??= this.#advance()
      .catch(() => this.#publish(undefined))
      .finally(() => {
        this.#reading = undefined;
        if (this.#isChanged) this.#onChange();
      });
  }

  async #advance(): Promise<void> {
    await this.#opened;
    while (this.#isChanged) {
      this.#isChanged = false;
      const batch = await this.#read(this.last, 2 * pageSize);
      if (batch) {
        this.#isChanged = true;
        this.#add(batch);
        this.#publish(batch);
      } else if ((await this.#store.task(this.log)) === undefined) {
        this.#publish(undefined);
      }
    }
  }

  #add(batch: Batch): void {
    this.last = batch.through;
    // Without live readers the batch may never be read, so it is not encoded.
    if (batch.isSnapshot || this.#live.size === 0) {
      this.#recent = [];
      this.#recentBytes = 0;
      return;
    }
    this.#recent.push(batch);
    this.#recentBytes += batch.bytes.length;
    while (this.#recentBytes > recentBytes && this.#recent.length > 1) {
      const dropped = this.#recent.shift() as Batch;
      this.#recentBytes -= dropped.bytes.length;
    }
  }

  #publish(batch: Batch | undefined): void {
    for (const reader of this.#live) reader.push(batch);
  }
}

/** The feeds of a store, one per log with readers. */
export class Feeds {
  readonly #store: Store;
  readonly #feeds = new Map<string, LogFeed>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** The feed of a log, which the caller must `release`. */
  async use(log: string): Promise<LogFeed> {
    const feed = this.#feeds.get(log) ?? new LogFeed(this.#store, log);
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
