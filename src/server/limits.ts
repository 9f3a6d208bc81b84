import { type Clock, onAbort } from "../base/clock.ts";
import { RivuletError } from "../base/error.ts";
import type { Fields } from "../base/options.ts";
import * as is from "../base/options.ts";
import type { Store } from "../contract/index.ts";
import { shuttingDown } from "./errors.ts";

/** The limits of a server. */
export interface ServerLimits {
  /** The largest body of a request, in bytes; defaults to 1 MB. */
  readonly bodyBytes?: number;
  /** How many requests a user may send per second, on average; ten times as many may come at once. Defaults to 100. */
  readonly requestsPerSecond?: number;
  /** How many streams a user may have open; defaults to 100. */
  readonly streams?: number;
  /** How many runs of a user may be queued or at work; defaults to 100. */
  readonly runs?: number;
  /** How many starts of a user wait for a place when it has `runs`; defaults to 0: they are refused. */
  readonly queuedStarts?: number;
  /** How many runs of a user may wait for approvals before it can start no more; defaults to 1000. */
  readonly waitingRuns?: number;
  /** How many runs a user may start per minute, on average and at once; defaults to 600. */
  readonly startsPerMinute?: number;
  /** How many wrong credentials may come from an address per minute, on average and at once; defaults to 100. */
  readonly wrongTokensPerMinute?: number;
  /** How many unsent bytes a stream may have before it is closed; defaults to 4 MiB. */
  readonly bufferBytes?: number;
  /** How many unsent bytes all streams may have together before the slowest are closed; defaults to 64 MiB. */
  readonly totalBufferBytes?: number;
  /** How long a stream may be open before it is closed and resumed; defaults to one hour. */
  readonly streamMs?: number;
}

/** The rules for `limits`. */
export const limitFields: Fields<ServerLimits> = {
  bodyBytes: is.count,
  requestsPerSecond: is.count,
  streams: is.count,
  runs: is.count,
  queuedStarts: is.integer(0),
  waitingRuns: is.count,
  startsPerMinute: is.count,
  wrongTokensPerMinute: is.count,
  bufferBytes: is.count,
  totalBufferBytes: is.count,
  streamMs: is.duration,
};

const defaults: Required<ServerLimits> = {
  bodyBytes: 1_000_000,
  requestsPerSecond: 100,
  streams: 100,
  runs: 100,
  queuedStarts: 0,
  waitingRuns: 1_000,
  startsPerMinute: 600,
  wrongTokensPerMinute: 100,
  bufferBytes: 4 * 1024 * 1024,
  totalBufferBytes: 64 * 1024 * 1024,
  streamMs: 60 * 60_000,
};

/** The limits with defaults. */
export function limitsOf(given: ServerLimits = {}): Required<ServerLimits> {
  return { ...defaults, ...given };
}

/** The error beyond a limit, and when the request may succeed. */
export class LimitError extends RivuletError {
  readonly retryAfterSeconds: number;

  constructor(code: string, message: string, retryAfterMs: number) {
    const seconds = Math.max(1, Math.ceil(retryAfterMs / 1_000));
    const wait = seconds === 1 ? "a second" : `${seconds} seconds`;
    super(code, message, { retryable: true, hint: `Wait ${wait} and try again.` });
    this.retryAfterSeconds = seconds;
  }
}

/** An amount that may be taken at an average rate; at first, all of `most` may be taken at once. */
interface Allowance {
  left: number;
  at: number;
}

/** Takes one of an allowance; returns 0, or how many milliseconds to wait for it. */
function take(allowance: Allowance, perMs: number, most: number, now: number): number {
  allowance.left = Math.min(most, allowance.left + (now - allowance.at) * perMs);
  allowance.at = now;
  if (allowance.left < 1) return (1 - allowance.left) / perMs;
  allowance.left -= 1;
  return 0;
}

interface Usage {
  readonly requests: Allowance;
  readonly starts: Allowance;
  streams: number;
  runs: number;
  /** The root tasks that wait for approvals. */
  readonly waiting: Set<string>;
  /** Starts that wait for a place. */
  readonly queue: PromiseWithResolvers<void>[];
}

/** A run that counts until it rests. */
export interface RunPlace {
  /** Gives the place to the next start; `rest` says whether the root task of the run now waits for approvals. */
  leave(rest?: { readonly taskId: string; readonly isWaiting: boolean }): void;
}

const maxKept = 10_000;
const overloadRetryMs = 2_000;
/** Approvals are answered by people. */
const waitingRetryMs = 60_000;

/** Counts what each user and each address takes: the one gate for limits. */
export class UserLimits {
  readonly #limits: Required<ServerLimits>;
  readonly #clock: Pick<Clock, "now">;
  readonly #store: Pick<Store, "task" | "tasks">;
  readonly #isOverloaded: () => boolean;
  readonly #users = new Map<string, Usage>();
  readonly #addresses = new Map<string, Allowance>();
  /** Credentials that were accepted, by digest: a blocked address must not lock out its users. */
  readonly #accepted = new Set<string>();
  /** Settles when the runs are known that waited before this process began. */
  #loading: Promise<void> | undefined;

  constructor(
    limits: Required<ServerLimits>,
    clock: Pick<Clock, "now">,
    store: Pick<Store, "task" | "tasks">,
    isOverloaded: () => boolean = () => false,
  ) {
    this.#limits = limits;
    this.#clock = clock;
    this.#store = store;
    this.#isOverloaded = isOverloaded;
  }

  /** How many runs of all users are queued or at work, how many wait for approvals, and how many starts for a place. */
  totals(): { readonly runs: number; readonly waiting: number; readonly queued: number } {
    let [runs, waiting, queued] = [0, 0, 0];
    for (const user of this.#users.values()) {
      runs += user.runs;
      waiting += user.waiting.size;
      queued += user.queue.length;
    }
    return { runs, waiting, queued };
  }

  /** Counts a request; throws `rate_limited`. */
  request(userId = ""): void {
    const { requestsPerSecond: rate } = this.#limits;
    const { requests } = this.#usage(userId);
    const waitMs = take(requests, rate / 1_000, 10 * rate, this.#clock.now());
    if (waitMs > 0)
      throw limited("rate_limited", `sends more than ${rate} requests per second`, waitMs);
  }

  /** Counts a stream; throws `too_many_streams`. Returns the function that ends it. */
  stream(userId = ""): () => void {
    const { streams: most } = this.#limits;
    const user = this.#usage(userId);
    if (user.streams >= most) throw limited("too_many_streams", `has ${most} streams open`);
    user.streams += 1;
    return once(() => {
      user.streams -= 1;
    });
  }

  /**
   * Counts the start of a run; throws `overloaded`, `rate_limited`, `too_many_waiting` or `too_many_runs`, or waits for a
   * place until the signal aborts.
   */
  async start(userId = "", signal?: AbortSignal): Promise<RunPlace> {
    const { runs, queuedStarts, waitingRuns, startsPerMinute: rate } = this.#limits;
    if (this.#isOverloaded())
      throw new LimitError("overloaded", "The server has more to do than it can.", overloadRetryMs);
    await this.#load();
    const user = this.#usage(userId);
    if (user.waiting.size >= waitingRuns) await this.#dropAnswered(user);
    if (user.waiting.size >= waitingRuns)
      throw limited(
        "too_many_waiting",
        `has ${waitingRuns} runs that wait for approvals`,
        waitingRetryMs,
      );
    if (user.runs >= runs && user.queue.length >= queuedStarts)
      throw limited("too_many_runs", `has ${runs} runs`);
    const waitMs = take(user.starts, rate / 60_000, rate, this.#clock.now());
    if (waitMs > 0) throw limited("rate_limited", `starts more than ${rate} runs a minute`, waitMs);
    if (user.runs >= runs) await untilPlace(user, signal);
    else user.runs += 1;
    return this.#place(user);
  }

  /** Counts a run that continues, whatever the limits: its end makes place for others. */
  resume(userId = "", taskId = ""): RunPlace {
    const user = this.#usage(userId);
    user.waiting.delete(taskId);
    user.runs += 1;
    return this.#place(user);
  }

  /** Throws `rate_limited` for an unknown credential from an address that has sent too many wrong ones. */
  checkAddress(address: string, credential: string): void {
    const sent = this.#addresses.get(address);
    if (sent === undefined || this.#accepted.has(credential)) return;
    const { wrongTokensPerMinute: rate } = this.#limits;
    const waitMs = take({ ...sent }, rate / 60_000, rate, this.#clock.now());
    if (waitMs > 0)
      throw new LimitError("rate_limited", "Too many wrong credentials from this address.", waitMs);
  }

  /** Remembers how a credential from an address was judged. */
  judge(address: string, credential: string, isAccepted: boolean): void {
    const now = this.#clock.now();
    if (isAccepted) {
      this.#accepted.delete(credential); // the latest stay
      this.#accepted.add(credential);
      const [oldest] = this.#accepted;
      if (this.#accepted.size > maxKept && oldest !== undefined) this.#accepted.delete(oldest);
      return;
    }
    const { wrongTokensPerMinute: rate } = this.#limits;
    const sent = this.#addresses.get(address) ?? { left: rate, at: now };
    take(sent, rate / 60_000, rate, now);
    this.#addresses.delete(address);
    this.#addresses.set(address, sent);
    const [oldest] = this.#addresses.keys();
    if (this.#addresses.size > maxKept && oldest !== undefined) this.#addresses.delete(oldest);
  }

  /** Refuses the starts that wait for a place. */
  close(): void {
    for (const { queue } of this.#users.values())
      for (const start of queue.splice(0)) start.reject(shuttingDown());
  }

  #place(user: Usage): RunPlace {
    const end = once(() => {
      const next = user.queue.shift();
      if (next) next.resolve();
      else user.runs -= 1;
    });
    return {
      leave: (rest) => {
        if (rest?.isWaiting) user.waiting.add(rest.taskId);
        else if (rest) user.waiting.delete(rest.taskId);
        end();
      },
    };
  }

  /** Reads once which runs wait; afterwards this process knows those that it has run itself. */
  #load(): Promise<void> {
    this.#loading ??= this.#store.tasks({ status: ["suspended"] }).then((records) => {
      for (const { depth, taskId, userId = "" } of records)
        if (depth === 0) this.#usage(userId).waiting.add(taskId);
    });
    this.#loading.catch(() => {
      this.#loading = undefined;
    });
    return this.#loading;
  }

  /** Another process may have answered or deleted some. */
  async #dropAnswered({ waiting }: Usage): Promise<void> {
    for (const taskId of [...waiting]) {
      const record = await this.#store.task(taskId);
      if (record?.status !== "suspended") waiting.delete(taskId);
    }
  }

  #usage(userId: string): Usage {
    const found = this.#users.get(userId);
    if (found) return found;
    this.#forget();
    const at = this.#clock.now();
    const { requestsPerSecond, startsPerMinute } = this.#limits;
    const user = {
      requests: { left: 10 * requestsPerSecond, at },
      starts: { left: startsPerMinute, at },
      ...{ streams: 0, runs: 0, waiting: new Set<string>(), queue: [] },
    };
    this.#users.set(userId, user);
    return user;
  }

  /** Users that have been silent for long start afresh anyway. */
  #forget(): void {
    if (this.#users.size < maxKept) return;
    const now = this.#clock.now();
    for (const [id, { requests, streams, runs, waiting }] of this.#users)
      if (streams + runs + waiting.size === 0 && now - requests.at > 60_000) this.#users.delete(id);
  }
}

/** Waits for a place; a start that has left the queue takes none. */
function untilPlace({ queue }: Usage, signal?: AbortSignal): Promise<void> {
  const start = Promise.withResolvers<void>();
  queue.push(start);
  if (signal === undefined) return start.promise;
  const ignoreAbort = onAbort(signal, () => {
    const at = queue.indexOf(start);
    if (at < 0) return;
    queue.splice(at, 1);
    start.reject(new RivuletError("cancelled", "The client has left.", { cause: signal.reason }));
  });
  return start.promise.finally(ignoreAbort);
}

function once(work: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) work();
    isDone = true;
  };
}

function limited(code: string, what: string, retryAfterMs = 1_000): LimitError {
  return new LimitError(code, `This user ${what}.`, retryAfterMs);
}
