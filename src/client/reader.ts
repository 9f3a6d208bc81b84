import { type BufferedIterator, inTurn, type Supply } from "../base/async-queue.ts";
import { RivuletError, rivuletErrorOf } from "../base/error.ts";
import { SseDecoder, type StreamFrame, type TaskEvent } from "../protocol/index.ts";
import { ignoredEvents } from "./ignored-events.ts";
import { backoffMs, mayHeal, queryOf, retryAfterOf, type Server } from "./request.ts";

/** How a reader stands to its server. `error` says why the last connection failed, or why there is no further one. */
export interface Connection {
  readonly status: "connecting" | "open" | "reconnecting" | "closed";
  readonly error?: RivuletError;
  /** While it reconnects: the number of the next attempt, and when it starts, in milliseconds since 1970. */
  readonly attempt?: number;
  readonly retryAt?: number;
}

/** The events to read. */
export interface Reading {
  readonly server: Server;
  readonly taskId: string;
  /** The number of the last event that the reader has; -1 for none. */
  readonly after: number;
  /** `now`: begin with a snapshot of every task instead of the events after `after`. */
  readonly from?: "now";
  /** Where the server ends the stream; by default when all tasks have ended. */
  readonly until?: "root" | "idle";
  /** True: throws when the connection ends, instead of connecting again. */
  readonly once?: true;
  readonly onConnection?: (connection: Connection) => void;
  /** Called when a connection opens, with the number of the last event of the log. */
  readonly onOpened?: (last: number) => void;
}

/** The silence after which a connection counts as lost, in heartbeats. */
const maxSilence = 3;
const defaultHeartbeatMs = 15_000;
const maxHeartbeatMs = 600_000;
const defaultRetryMs = 1_500;
/** How often the server may send something unreadable in the same place. */
const maxFaults = 3;

/**
 * Reads the events of a log over any number of connections, each event once and in order. It reconnects when the
 * connection ends before the log does, when it is silent for too long, and when the device comes back online. It pulls,
 * so a slow consumer does not fill the memory. It throws errors that another attempt cannot heal.
 */
export function readLog(
  reading: Reading,
): AsyncIterableIterator<TaskEvent> & BufferedIterator<TaskEvent> {
  return inTurn(new LogReader(reading));
}

/** A connection has ended before the log. */
class Interruption extends RivuletError<"disconnected"> {
  /** True: connect again without a delay. */
  readonly isImmediate: boolean;

  constructor(message: string, isImmediate = false) {
    super("disconnected", message, { retryable: true });
    this.isImmediate = isImmediate;
  }
}

class LogReader implements Supply<TaskEvent> {
  readonly #reading: Reading;
  readonly #order: EventOrder;
  readonly #decoder = new SseDecoder();
  #ignore = ignoredEvents();
  #buffer: TaskEvent[] = [];
  #taken = 0;
  #body: ReadableStreamDefaultReader<Uint8Array> | undefined;
  /** Ends the current connection, or the current delay. */
  #current = new AbortController();
  #stopListening: (() => void) | undefined;
  /** The server has said with which numbers the connection opens. */
  #isOpened = false;
  #heartbeatMs = defaultHeartbeatMs;
  #openedAt = 0;
  /** Since when the reader waits for the server; undefined while the consumer is busy. */
  #waitsSince: number | undefined;
  /** The attempts since the last event, and the unreadable frames. */
  #attempts = 0;
  #faults = 0;
  #failure: unknown;
  /** The server has said that there are no more events. */
  #isComplete = false;
  #isClosed = false;

  constructor(reading: Reading) {
    this.#reading = reading;
    this.#order = new EventOrder(reading.after);
  }

  take(): IteratorResult<TaskEvent> | undefined {
    if (this.#taken < this.#buffer.length)
      return { value: this.#buffer[this.#taken++] as TaskEvent, done: false };
    if (this.#taken > 0) this.#clear();
    return undefined;
  }

  async pull(): Promise<IteratorResult<TaskEvent>> {
    this.#stopListening ??= listen((isOnline) => this.#onWake(isOnline));
    for (;;) {
      const event = this.take();
      if (event) return event;
      if (this.#isComplete) this.#close();
      if (this.#isClosed) return { value: undefined, done: true };
      try {
        if (this.#failure !== undefined) await this.#recover(this.#failure);
        if (this.#body === undefined) await this.#connect();
        else await this.#read(this.#body);
      } catch (error) {
        // The events before the failure come first.
        this.#failure = this.#current.signal.aborted ? this.#current.signal.reason : error;
        if (this.#buffer.length === 0 && !this.#isClosed && !this.#isPassing(this.#failure))
          throw this.#close(this.#errorOf(this.#failure));
      }
    }
  }

  async leave(): Promise<void> {
    this.#clear();
    this.#close();
  }

  /** Ends a failed connection and waits before the next one; throws an error that cannot pass. */
  async #recover(failure: unknown): Promise<void> {
    const { server } = this.#reading;
    this.#failure = undefined;
    this.#drop(failure);
    if (!this.#isPassing(failure)) throw failure;
    if (server.clock.now() - this.#openedAt >= this.#heartbeatMs) this.#attempts = 0;
    const isImmediate = failure instanceof Interruption && failure.isImmediate;
    const attempt = this.#attempts + 1;
    const firstMs = this.#decoder.retry ?? defaultRetryMs;
    const delay = isImmediate
      ? 0
      : (retryAfterOf(failure) ?? backoffMs(attempt, firstMs, server.random));
    const retryAt = server.clock.now() + delay;
    this.#tell({ status: "reconnecting", error: rivuletErrorOf(failure), attempt, retryAt });
    if (isImmediate) return;
    this.#attempts = attempt;
    try {
      await server.clock.sleep(delay, this.#current.signal);
    } catch {
      this.#current = new AbortController(); // the device is awake or online again
    }
  }

  async #connect(): Promise<void> {
    const { server, taskId, until, from } = this.#reading;
    if (this.#isClosed) return;
    if (this.#attempts === 0) this.#tell({ status: "connecting" });
    const { cursor } = this.#order;
    const place = cursor < 0 ? { from } : { starting_after: cursor };
    const query = queryOf({ ...place, until });
    const path = `/v1/tasks/${encodeURIComponent(taskId)}/events${query}`;
    const { signal } = this.#current;
    this.#openedAt = server.clock.now();
    this.#watch();
    const headers = { accept: "text/event-stream" };
    const response = await this.#waiting(server.send(path, { headers, signal }));
    if (response.status === 204) {
      this.#isComplete = true;
      return;
    }
    const type = response.headers.get("content-type") ?? "";
    if (response.body === null || !type.startsWith("text/event-stream")) {
      throw new RivuletError("invalid_response", `${path} does not answer with events.`, {
        hint: "Check that the address is that of a Rivulet server.",
      });
    }
    this.#body = response.body.getReader();
    this.#ignore = ignoredEvents();
    this.#isOpened = false;
    this.#order.restart();
    this.#tell({ status: "open" });
  }

  async #read(body: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
    const { value, done } = await this.#waiting(
      body.read().catch((cause: unknown) => {
        throw new Interruption(`The connection broke: ${rivuletErrorOf(cause).message}`);
      }),
    );
    // The end of a connection is not the end of the log.
    if (done) throw new Interruption("The connection ended before the log.");
    for (const { frame, error } of this.#decoder.push(value)) {
      if (error) this.#onFault(error);
      else if (!this.#accept(frame)) this.#ignore(frame);
      if (this.#isComplete) return;
    }
  }

  /** Returns false for a frame that brings nothing new. */
  #accept(frame: StreamFrame): boolean {
    if (frame.type === "stream.opened") {
      if (this.#isOpened) return false;
      this.#isOpened = true;
      const { heartbeat_ms: given, root_task_id, last_sequence_number } = frame;
      const isUsable =
        Number.isFinite(given) && Number(given) >= 1 && Number(given) <= maxHeartbeatMs;
      const heartbeat_ms = isUsable ? Number(given) : defaultHeartbeatMs;
      this.#order.isSubtree = root_task_id !== this.#reading.taskId;
      this.#reading.onOpened?.(last_sequence_number);
      if (heartbeat_ms !== this.#heartbeatMs) {
        this.#heartbeatMs = heartbeat_ms;
        this.#watch();
      }
    } else if (frame.type === "stream.closed") {
      const { reason } = frame;
      // Any other reason concerns this connection only.
      if (reason !== "terminal" && reason !== "idle")
        throw new Interruption(`The server closed the connection: ${reason}.`);
      this.#isComplete = true;
    } else {
      if (frame.type === "stream.heartbeat") return false;
      const place = this.#order.take(frame);
      if (place === "gap") this.#onFault(missingBefore(frame));
      if (place !== "next") return false;
      this.#attempts = 0;
      this.#faults = 0;
      this.#buffer.push(frame);
    }
    return true;
  }

  /** Reads again from the last event in order; the same fault in the same place is the server's. */
  #onFault(error: RivuletError): never {
    this.#faults += 1;
    const isOver = this.#reading.once || this.#faults >= maxFaults;
    throw isOver ? error : new Interruption(error.message);
  }

  #errorOf(failure: unknown): RivuletError {
    return this.#reading.once ? passingError(failure) : rivuletErrorOf(failure);
  }

  #isPassing(failure: unknown): boolean {
    return !this.#reading.once && isPassing(failure);
  }

  async #waiting<T>(work: Promise<T>): Promise<T> {
    this.#waitsSince = this.#reading.server.clock.now();
    try {
      return await work;
    } finally {
      this.#waitsSince = undefined;
    }
  }

  /** Ends the connection after too long a silence. Looks at the clock often, because timers stop while a device sleeps. */
  #watch(): void {
    const { clock } = this.#reading.server;
    const connection = this.#current;
    const heartbeatMs = this.#heartbeatMs;
    const look = async () => {
      for (;;) {
        await clock.sleep(heartbeatMs, connection.signal);
        if (this.#current !== connection || this.#heartbeatMs !== heartbeatMs) return;
        if (this.#silence >= maxSilence * heartbeatMs)
          this.#interrupt(`The server has been silent for ${this.#silence} ms.`);
      }
    };
    look().catch(() => {}); // the connection has ended
  }

  get #silence(): number {
    const { clock } = this.#reading.server;
    return this.#waitsSince === undefined ? 0 : clock.now() - this.#waitsSince;
  }

  /** The device is online again, which leaves old connections dead, or a page is visible again. */
  #onWake(isOnline: boolean): void {
    const isDelay = this.#waitsSince === undefined && this.#body === undefined;
    if (isOnline || isDelay || this.#silence > 2 * this.#heartbeatMs)
      this.#interrupt("The device is back.");
  }

  #interrupt(message: string): void {
    this.#current.abort(new Interruption(message, true));
    this.#cancelBody();
  }

  /** Ends the connection and makes the reader ready for the next one. */
  #drop(reason: unknown): void {
    if (!this.#current.signal.aborted) this.#current.abort(reason);
    this.#cancelBody();
    this.#body = undefined;
    this.#decoder.end();
    if (!this.#isClosed) this.#current = new AbortController();
  }

  #cancelBody(): void {
    this.#body?.cancel().catch(() => {}); // a pending read ends
  }

  #clear(): void {
    this.#buffer = [];
    this.#taken = 0;
  }

  #close(error?: RivuletError): RivuletError | undefined {
    if (this.#isClosed) return error;
    this.#isClosed = true;
    this.#stopListening?.();
    this.#drop(new Interruption("The reader has left."));
    this.#tell({ status: "closed", ...(error && { error }) });
    return error;
  }

  #tell(connection: Connection): void {
    this.#reading.onConnection?.(connection);
  }
}

/** An error whose `retryable` says whether the same request may succeed later. */
export function passingError(failure: unknown): RivuletError {
  const { code, message, hint, retryable } = rivuletErrorOf(failure, "invalid_response");
  const more = hint === undefined ? {} : { hint };
  return new RivuletError(code, message, {
    ...{ ...more, cause: failure },
    retryable: retryable || isPassing(failure),
  });
}

function isPassing(failure: unknown): boolean {
  return failure instanceof Interruption || mayHeal(failure);
}

/** Finds the events of a stream that are new and in order. */
class EventOrder {
  /** The last number before which no event is missing. */
  cursor: number;
  /** True: the stream has the events of a subtree, so numbers are missing. */
  isSubtree = false;
  readonly #taskSeqs = new Map<string, number>();
  /** The number of the snapshots that arrive. */
  #snapshotCursor = -1;

  constructor(after: number) {
    this.cursor = after;
  }

  /** A new connection sends incomplete snapshots again. */
  restart(): void {
    this.#snapshotCursor = -1;
  }

  take(event: TaskEvent): "next" | "duplicate" | "gap" {
    if (event.type === "error") return "next";
    if (event.type === "task.snapshot") {
      const { through_sequence_number: through, through_task_seq, task_id, final } = event;
      this.#snapshotCursor = Math.max(this.#snapshotCursor, through);
      this.#taskSeqs.set(task_id, through_task_seq);
      if (final) this.#passSnapshots();
      return "next";
    }
    const { sequence_number, task_seq, prev_task_seq = task_seq - 1, task_id } = event;
    if (sequence_number > this.#snapshotCursor) this.#passSnapshots();
    if (sequence_number <= this.cursor) return "duplicate";
    const isNext = this.isSubtree
      ? prev_task_seq <= (this.#taskSeqs.get(task_id) ?? prev_task_seq)
      : sequence_number === this.cursor + 1;
    if (!isNext) return "gap";
    this.cursor = sequence_number;
    if (this.isSubtree) this.#taskSeqs.set(task_id, task_seq);
    return "next";
  }

  #passSnapshots(): void {
    this.cursor = Math.max(this.cursor, this.#snapshotCursor);
    this.#snapshotCursor = -1;
  }
}

function missingBefore(event: TaskEvent): RivuletError {
  const { sequence_number: number } = event as { sequence_number?: number };
  return new RivuletError("missing_event", `Events before number ${number} are missing.`, {
    retryable: true,
    hint: "Check that no proxy changes the stream of the server.",
  });
}

type Target = Pick<EventTarget, "addEventListener" | "removeEventListener">;

/** Calls back when the device comes online or the page becomes visible; does nothing outside browsers. */
function listen(onWake: (isOnline: boolean) => void): () => void {
  const scope = globalThis as Partial<Target> & {
    document?: Target & { visibilityState?: string };
  };
  const { document } = scope;
  const onOnline = () => onWake(true);
  const onVisible = () => {
    if (document?.visibilityState === "visible") onWake(false);
  };
  scope.addEventListener?.("online", onOnline);
  document?.addEventListener?.("visibilitychange", onVisible);
  return () => {
    scope.removeEventListener?.("online", onOnline);
    document?.removeEventListener?.("visibilitychange", onVisible);
  };
}
