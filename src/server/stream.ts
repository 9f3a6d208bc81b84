import type { Clock } from "../base/clock.ts";
import { RivuletError } from "../base/error.ts";
import type { Store, TaskRecord } from "../contract/index.ts";
import {
  encodeComment,
  encodeRetry,
  encodeSse,
  isTerminal,
  protocolVersion,
  type StreamClosed,
  type StreamFrame,
  snapshotOf,
  type TaskEvent,
  type TaskSnapshot,
} from "../protocol/index.ts";
import { cursorAhead, type Feeds, type LiveReader, type LogFeed } from "./feed.ts";
import type { FoundTask } from "./found-task.ts";
import { Lens, type Selection } from "./lens.ts";
import { Batch } from "./pages.ts";
import { untilDrained } from "./sink.ts";
import type { Sink, UnsentBytes } from "./sink-queue.ts";
import type { Trees } from "./trees.ts";

/** How a reader follows a task. */
export interface StreamOptions extends Omit<Selection, "taskId"> {
  /** The number of the last event that the reader has; -1: none. */
  readonly after: number;
  /** `now`: snapshots of all tasks, then new events. */
  readonly from?: "now";
  readonly until?: "root" | "tree" | "idle";
  readonly eventNames?: boolean;
  readonly onExpired?: "snapshot" | "error";
}

/** The objects and limits that all streams of a server share. */
export interface StreamSettings {
  readonly store: Store;
  readonly feeds: Feeds;
  readonly trees: Trees;
  readonly clock: Pick<Clock, "now">;
  readonly heartbeatMs: number;
  readonly retryMs: number;
  readonly maxBufferBytes: number;
  readonly unsent: UnsentBytes;
  readonly maxStreamMs: number;
}

type CloseReason = StreamClosed["reason"];

/** A response that stays open. */
export interface OpenStream {
  /** Resolves when the connection is closed. */
  readonly done: Promise<void>;
  /** Called regularly: sends a sign of life after a silence, and ends a stream that is open for too long. */
  beat(now: number): void;
  /** Ends the stream; its reader should come back after the delay. */
  shutDown(retryMs: number): void;
}

/** One connection on one log: it reads what the reader lacks, then joins the live readers. */
export class Follower implements LiveReader, OpenStream {
  isFinal = false;
  readonly done: Promise<void>;
  readonly #settings: StreamSettings;
  readonly #feed: LogFeed;
  readonly #target: FoundTask;
  readonly #options: StreamOptions;
  /** Absent when the reader gets the whole log. */
  readonly #lens: Lens | undefined;
  #sink: Sink | undefined;
  #after: number;
  /** The snapshots that a reader from `now` gets first. */
  #first: Batch | undefined;
  readonly #below = new Map<string, boolean>();
  #isClosing = false;
  /** The reader has the last event that it asked for. */
  #isEnded = false;
  #isLive = false;
  #wake: () => void = () => {};
  #finish: () => void = () => {};
  #openedAt = 0;
  #writtenAt = 0;

  constructor(settings: StreamSettings, feed: LogFeed, target: FoundTask, options: StreamOptions) {
    this.#settings = settings;
    this.#feed = feed;
    this.#target = target;
    this.#options = options;
    this.#after = options.after;
    this.done = new Promise((resolve) => {
      this.#finish = resolve;
    });
    const { record, root } = target;
    const selection = this.#selection();
    const isSelective = record.taskId !== root.taskId || Object.keys(selection).length > 1;
    if (isSelective) this.#lens = new Lens(selection, record, root);
  }

  /** Checks the cursor and finds the place in the log; false: nothing will follow. */
  async start(): Promise<boolean> {
    const { after, from, onExpired } = this.#options;
    const { store } = this.#settings;
    if (from === "now") return this.#startNow();
    // Another process may have written more than this one knows.
    if (after > this.#feed.last) await this.#feed.catchUp();
    if (after > this.#feed.last) throw cursorAhead(after, this.#feed.last);
    const trimmed = (await store.snapshot(this.#feed.log))?.through ?? -1;
    if (after < trimmed && onExpired === "error" && after >= 0)
      throw new RivuletError("cursor_expired", `The events up to ${trimmed} were trimmed.`, {
        hint: "Connect without on_expired=error to get a snapshot of every task.",
      });
    const isEnded = await this.#replay(after);
    if (after < 0) return true;
    if (isEnded) return false;
    if (!(await this.#isOver())) return true;
    await this.#feed.catchUp();
    return this.#hasMore();
  }

  /** Starts with snapshots of how the tasks stand now. */
  async #startNow(): Promise<boolean> {
    const { tree, through } = await this.#settings.trees.read(this.#feed.log);
    const at = { sequenceNumber: Math.max(through, 0), createdAt: this.#settings.clock.now() };
    const all = Object.keys(tree.tasks).flatMap((id) => snapshotOf(tree, id, at) ?? []);
    this.#after = through;
    if (all.length > 0) {
      const last = all.length - 1;
      const tasks = all.map((task, index) => (index < last ? task : { ...task, final: true }));
      this.#first = new Batch(-1, through, tasks);
    }
    return true;
  }

  /** Leads the lens through what the reader has; true when the stream has ended for it by then. */
  async #replay(cursor: number): Promise<boolean> {
    const isCut = this.#options.until === "root" && cursor >= 0;
    if (!this.#lens && !isCut) return false;
    let isEnded = false;
    for (let at = -1; at < cursor; ) {
      const batch = await this.#feed.next(at, true);
      if (batch === undefined) break;
      for (const event of batch.events ?? []) {
        if ("sequence_number" in event && event.sequence_number > cursor) break;
        if (batch.isSnapshot && batch.through > cursor) break;
        this.#lens?.pass(event, true);
        isEnded ||= this.#isEnd(event);
      }
      at = batch.through;
    }
    return isCut && isEnded;
  }

  /** Whether the rest of a log that has ended has an event for this reader. */
  async #hasMore(): Promise<boolean> {
    if (!this.#lens) return this.#after < this.#feed.last;
    const { record, root } = this.#target;
    const lens = new Lens(this.#selection(), record, root);
    for (let at = -1; ; ) {
      const batch = await this.#feed.next(at, true);
      if (batch === undefined) return false;
      for (const event of batch.events ?? []) {
        const isNew = batch.isSnapshot
          ? batch.through > this.#after
          : (event as { sequence_number: number }).sequence_number > this.#after;
        if (lens.pass(event, !isNew) && isNew) return true;
      }
      at = batch.through;
    }
  }

  /** Sends events until the stream ends, the reader leaves, or the server closes it. */
  async run(sink: Sink): Promise<void> {
    this.#sink = sink;
    const { clock, retryMs, heartbeatMs } = this.#settings;
    this.#openedAt = clock.now();
    void sink.closed.then(() => this.#wake());
    try {
      const { root } = this.#target;
      const { taskId: _, ...filter } = this.#selection();
      const oldest = ((await this.#settings.store.snapshot(this.#feed.log))?.through ?? -1) + 1;
      this.#write(Buffer.from(`${encodeRetry(retryMs)}${encodeComment("stream-open")}`));
      this.#writeFrame({
        type: "stream.opened",
        protocol: protocolVersion,
        root_task_id: root.taskId,
        oldest_sequence_number: oldest,
        last_sequence_number: this.#feed.last,
        heartbeat_ms: heartbeatMs,
        ...(Object.keys(filter).length > 0 && { filter }),
      });
      if (this.#first) this.#send(this.#first);
      this.#first = undefined;
      await this.#follow(sink);
    } catch (error) {
      const { code, message, retryable } = error as Partial<RivuletError>;
      const isKnown = error instanceof RivuletError && code !== "internal";
      this.#writeFrame({
        type: "error",
        code: isKnown ? (code as string) : "internal",
        message: isKnown ? (message as string) : "The server cannot read the log.",
        retryable: retryable ?? true,
      });
    } finally {
      this.#feed.leave(this);
      sink.end();
      await sink.closed;
      this.#finish();
    }
  }

  async #follow(sink: Sink): Promise<void> {
    while (!sink.isClosed && !this.#isClosing) {
      // Nothing is read for a reader that has not taken what it was sent.
      await this.#untilDrained(sink);
      if (sink.isClosed || this.#isClosing) return;
      const isSent = await this.#sendNext();
      if (!isSent) {
        const over = await this.#isOver();
        // The records may be newer than what the feed has read.
        if (over) await this.#feed.catchUp();
        if (this.#feed.isLost) {
          this.#leave();
          return;
        }
        if (this.#after < this.#feed.last) continue;
        if (over) this.#close(over);
        else if (!sink.isClosed && !this.#isClosing) await this.#live();
      }
      if (!this.#isEnded) continue;
      await this.#isOver();
      this.#close("terminal");
    }
  }

  /** Not part of `#follow`, which would keep the batch while its bytes are sent. */
  async #sendNext(): Promise<boolean> {
    const withEvents = this.#lens !== undefined || this.#options.eventNames === false;
    const batch = await this.#feed.next(this.#after, withEvents);
    if (batch && !this.#isClosing) this.#send(batch);
    return batch !== undefined;
  }

  async #untilDrained(sink: Sink): Promise<void> {
    if (sink.buffered === 0) return;
    const isTaken = await untilDrained(sink, 3 * this.#settings.heartbeatMs);
    if (!isTaken) this.#close("slow_consumer");
  }

  /** Takes batches from the feed as they come, until one of them may be the last. */
  async #live(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    this.#isLive = true;
    this.#feed.join(this);
    await promise;
    this.#isLive = false;
    this.#feed.leave(this);
  }

  push(batch: Batch | undefined): void {
    const sink = this.#sink as Sink;
    const { maxBufferBytes } = this.#settings;
    const isNext = batch?.after === this.#after;
    // A batch that exceeds the limit alone is sent when the reader has taken everything before it.
    const isLarge = batch !== undefined && batch.bytes().length > maxBufferBytes;
    if (!this.#isLive || batch === undefined || !isNext || isLarge) {
      if (batch === undefined) this.#leave();
      this.readAgain();
      return;
    }
    this.#send(batch);
    if (sink.buffered > maxBufferBytes) {
      this.#close("slow_consumer");
      return;
    }
    if (batch.changesStatus) this.readAgain();
  }

  readAgain(): void {
    this.#isLive = false;
    this.#wake();
  }

  /** Ends a stream whose log is lost. */
  #leave(): void {
    this.#writeFrame({
      type: "error",
      task_id: this.#target.record.taskId,
      code: "not_found",
      message: "The task was deleted, or its log cannot be read.",
      retryable: true,
    });
    this.#isClosing = true;
  }

  #send(batch: Batch): void {
    const { eventNames = true, until } = this.#options;
    const isCut = until === "root" && batch.changesStatus;
    this.#after = batch.through;
    if (!this.#lens && !isCut) {
      this.#write(batch.bytes(eventNames));
      return;
    }
    const sent: Buffer[] = [];
    const encode = (frame: TaskEvent, id?: number) =>
      Buffer.from(encodeSse(frame, { eventNames, ...(id !== undefined && { id }) }));
    let snapshot: TaskSnapshot | undefined;
    for (const [index, event] of (batch.events ?? []).entries()) {
      const passed = this.#lens ? this.#lens.pass(event) : event;
      if (passed?.type === "task.snapshot" && this.#lens) {
        if (snapshot) sent.push(encode(snapshot));
        snapshot = passed;
      } else if (passed === event) sent.push(batch.frame(index, eventNames));
      else if (passed) sent.push(encode(passed));
      this.#isEnded ||= isCut && this.#isEnd(event);
      if (this.#isEnded && !batch.isSnapshot) break;
    }
    // The last snapshot that the reader sees carries the number.
    if (snapshot) sent.push(encode({ ...snapshot, final: true }, batch.through));
    if (sent.length > 0) this.#write(Buffer.concat(sent));
  }

  /** Whether a reader until `root` has seen the end of its task with this event. */
  #isEnd(event: TaskEvent): boolean {
    return (
      "task" in event &&
      event.task_id === this.#target.record.taskId &&
      isTerminal(event.task.status)
    );
  }

  /** Why a stream at the head of the log ends; undefined while more may come. */
  async #isOver(): Promise<CloseReason | undefined> {
    const { until = "tree" } = this.#options;
    const { record } = this.#target;
    if (this.#feed.last < 0) return undefined;
    const unfinished = await this.#feed.unfinished(this.#target.root.sessionId);
    const open: TaskRecord[] = [];
    for (const task of unfinished) {
      const isOwn = task.taskId === record.taskId;
      if (isOwn || (until !== "root" && (await this.#isBelow(task)))) open.push(task);
    }
    if (open.length === 0) {
      this.isFinal = unfinished.length === 0;
      return "terminal";
    }
    if (until !== "idle" || open.some(({ status }) => status !== "suspended")) return undefined;
    // A task that was answered is about to move.
    const rows = await this.#settings.store.posts({ conversation: this.#target.root.sessionId });
    return rows.some(({ kind }) => kind === "answer" || kind === "cancel") ? undefined : "idle";
  }

  /** Whether a task is a descendant of the followed one. */
  async #isBelow({ taskId, parentTaskId, depth }: TaskRecord): Promise<boolean> {
    const { record, root } = this.#target;
    if (record.taskId === root.taskId || parentTaskId === record.taskId) return true;
    if (depth <= record.depth || parentTaskId === undefined) return false;
    const known = this.#below.get(taskId);
    if (known !== undefined) return known;
    const parent = await this.#settings.store.task(parentTaskId);
    const isBelow = parent !== undefined && (await this.#isBelow(parent));
    this.#below.set(taskId, isBelow);
    return isBelow;
  }

  /** Sends a sign of life after a silence. */
  beat(now: number): void {
    if (this.#isClosing) return;
    const { heartbeatMs, maxStreamMs } = this.#settings;
    if (now - this.#openedAt > maxStreamMs) {
      this.#close("max_duration");
      return;
    }
    if (now - this.#writtenAt < heartbeatMs - 1) return;
    const sink = this.#sink as Sink;
    if (sink.buffered > this.#settings.maxBufferBytes) {
      this.#close("slow_consumer");
      return;
    }
    this.#write(Buffer.from(encodeComment(`hb ${now}`)));
  }

  shutDown(retryMs: number): void {
    this.#write(Buffer.from(`${encodeRetry(retryMs)}\n`));
    this.#close("server_shutdown");
  }

  #close(reason: CloseReason): void {
    if (this.#isClosing) return;
    this.#isClosing = true;
    const final = reason === "terminal" && this.isFinal;
    this.#writeFrame({ type: "stream.closed", reason, final, last_sequence_number: this.#after });
    this.#isLive = false;
    this.#wake();
    this.#sink?.end();
  }

  #writeFrame(frame: StreamFrame): void {
    const { eventNames = true } = this.#options;
    this.#write(Buffer.from(encodeSse(frame, { eventNames })));
  }

  #write(bytes: Uint8Array): void {
    this.#writtenAt = this.#settings.clock.now();
    this.#sink?.write(bytes);
  }

  #selection(): Selection {
    const { depth, path, include, exclude } = this.#options;
    return {
      taskId: this.#target.record.taskId,
      ...(depth !== undefined && { depth }),
      ...(path !== undefined && { path }),
      ...(include !== undefined && { include }),
      ...(exclude !== undefined && { exclude }),
    };
  }
}
