import { type Fields, options } from "../base/options.ts";
import type { Awaitable } from "../base/time.ts";
import { amount } from "./arguments.ts";

/** How long a store keeps the events of ended tasks. Transcripts, records and results stay until `deleteSession`. */
export interface Retention {
  readonly logs?: LogRetention;
}

/**
 * How long a log keeps its events after its root task and all descendants have ended. Then snapshots of the tasks
 * replace the events.
 */
export interface LogRetention {
  /** The age since the end, in milliseconds; `Infinity`: no limit. */
  readonly maxAgeMs?: number;
  /**
   * The size of the events of all ended logs, in bytes. Beyond it the log that ended first is trimmed; the log that
   * ended last stays. `Infinity`: no limit.
   */
  readonly maxBytes?: number;
}

const logFields: Fields<LogRetention> = { maxAgeMs: amount, maxBytes: amount };
const fields: Fields<Retention> = { logs: options(logFields) };
/** The rule for the option `retention`. */
export const retentionField = options(fields);

/** A log that has ended and has events. */
export interface EndedLog {
  readonly log: string;
  readonly endedAt: number;
}

/** The logs of a store that have ended and have events. */
export interface EndedLogs {
  /** Ordered by the time of the end. */
  inOrder(): Iterable<EndedLog>;
  /** The size of all their events. */
  bytes(): number;
  now(): number;
  /** Whether a reader in this process follows the log. */
  isRead(log: string): boolean;
  /** Replaces all events of a log by snapshots, unless a reader came; a store may do it before it returns. */
  trim(log: string): Awaitable<void>;
}

/** Trims ended logs: short ones in memory at once, others in the background. */
export interface Trimmer {
  /** Looks for work: a log has ended, or a reader has left. */
  wake(): void;
  /** Resolves when the log that is being trimmed is done. */
  stop(): Promise<void>;
}

/** Lets the event loop turn after this time. */
const maxBlockMs = 5;
const maxPauseMs = 60 * 60_000;
/** Not looked up at each call, because fake timers in a test must not stop the store. */
const { setImmediate: afterTurn } = globalThis;

/** The timer of an age of hours must not keep a store with all its logs that its program has dropped. */
function runIfUsed(trimmer: WeakRef<() => void>): void {
  trimmer.deref()?.();
}

/** Creates a trimmer; `delayMs` is the time from `wake` to the look for work, which with 0 is within the call. */
export function createTrimmer(
  ended: EndedLogs,
  { maxAgeMs, maxBytes }: Required<LogRetention>,
  delayMs: number,
): Trimmer {
  /** Logs that could not be trimmed, for example because they are damaged; they must not hold up the others. */
  const failed = new Set<string>();
  let due: { readonly at: number; readonly timer: ReturnType<typeof setTimeout> } | undefined;
  let isRunning = false;
  let running: Promise<void> | undefined;
  let isStopped = false;

  function next(): string | undefined {
    const [now, bytes] = [ended.now(), ended.bytes()];
    let tooLarge: string | undefined;
    for (const { log, endedAt } of ended.inOrder()) {
      if (tooLarge !== undefined) return tooLarge; // it is not the last
      const isOld = now - endedAt >= maxAgeMs;
      if (!isOld && bytes <= maxBytes) return undefined;
      if (failed.has(log) || ended.isRead(log)) continue;
      if (isOld) return log;
      tooLarge = log;
    }
    return undefined;
  }

  async function trimAll(): Promise<void> {
    isRunning = true;
    try {
      let since = performance.now();
      for (let log = next(); log !== undefined && !isStopped; log = next()) {
        try {
          const trimming = ended.trim(log);
          if (trimming) await trimming; // a short log is trimmed before the writer continues
        } catch {
          failed.add(log);
        }
        if (performance.now() - since < maxBlockMs) continue;
        await new Promise((resolve) => afterTurn(resolve));
        since = performance.now();
      }
      for (const { endedAt } of ended.inOrder()) {
        schedule(Math.max(delayMs, endedAt + maxAgeMs - ended.now()));
        break;
      }
    } catch {
      // The store cannot be read: the next wake tries again.
    }
    isRunning = false;
  }

  function run(): void {
    if (!isRunning) running = trimAll();
  }

  function onTimer(): void {
    due = undefined;
    run();
  }

  function schedule(ms: number): void {
    const at = performance.now() + ms;
    if (isStopped || (due && due.at <= at)) return;
    clearTimeout(due?.timer);
    const timer = setTimeout(runIfUsed, Math.min(ms, maxPauseMs), new WeakRef(onTimer));
    timer.unref(); // trimming does not keep a process alive
    due = { at, timer };
  }

  return {
    wake: () => (delayMs === 0 ? run() : schedule(delayMs)),
    async stop() {
      isStopped = true;
      clearTimeout(due?.timer);
      await running;
    },
  };
}
