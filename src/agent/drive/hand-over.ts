import { onAbort } from "../../base/clock.ts";
import { RivuletError } from "../../base/error.ts";
import type { TaskRecord } from "../../contract/index.ts";

/** A drive, as far as it can stand between two steps. */
interface SteppingDrive {
  readonly record: TaskRecord;
  /** Set while the task waits in a queue. */
  readonly queue: unknown;
}

/**
 * Knows when no task of a conversation is within a step, so that another process can continue it without repeating a
 * model call or a tool.
 */
export class HandOver {
  readonly #drives: ReadonlyMap<string, SteppingDrive>;
  readonly #lost: AbortSignal;
  readonly #onReady: () => void;
  #hasBegun = false;
  /** The tasks that wait between two steps. */
  readonly #parked = new Set<string>();
  /** The ids of the calls of a task that run, by task. */
  readonly #calls = new Map<string, Set<string>>();

  constructor(drives: ReadonlyMap<string, SteppingDrive>, lost: AbortSignal, onReady: () => void) {
    this.#drives = drives;
    this.#lost = lost;
    this.#onReady = onReady;
  }

  /** Whether no further step begins. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /** Whether another process can continue each task now. */
  get isReady(): boolean {
    if (!this.#hasBegun || this.#lost.aborted) return false;
    return [...this.#drives.values()].every((drive) => this.#isBetweenSteps(drive));
  }

  /** Lets no further step begin; `onReady` is called when none runs. */
  begin(): void {
    this.#hasBegun = true;
    this.#check();
  }

  /** Called before each step of a task; during a hand-over it resolves when `signal`, that of the task, aborts. */
  beforeStep(taskId: string, signal: AbortSignal): Promise<void> | undefined {
    if (!this.#hasBegun || signal.aborted) return undefined;
    this.#parked.add(taskId);
    this.#check();
    return new Promise((resolve) =>
      onAbort(signal, () => {
        this.#parked.delete(taskId);
        resolve();
      }),
    );
  }

  /** Notes a call that runs; returns the function that ends it. */
  callRuns(taskId: string, callId: string): () => void {
    const calls = this.#calls.get(taskId) ?? new Set();
    this.#calls.set(taskId, calls.add(callId));
    return () => {
      calls.delete(callId);
      if (calls.size === 0) this.#calls.delete(taskId);
      this.#check();
    };
  }

  /** Called when a task rests. */
  rested(taskId: string): void {
    this.#parked.delete(taskId);
    this.#check();
  }

  #check(): void {
    if (this.isReady) this.#onReady();
  }

  /** A task that only waits for its children is between steps when they are. One on another server goes on there. */
  #isBetweenSteps({ record, queue }: SteppingDrive): boolean {
    const { taskId } = record;
    if (this.#parked.has(taskId) || queue !== undefined || record.remote) return true;
    const calls = this.#calls.get(taskId);
    // The id of a child is that of its call.
    return calls !== undefined && [...calls].every((id) => this.#isSyncChild(id));
  }

  #isSyncChild(callId: string): boolean {
    return this.#drives.get(callId)?.record.mode === "sync";
  }
}

/** The reason for which a process that ends gives its conversations up. */
export function shuttingDown(): RivuletError {
  return new RivuletError("shutting_down", "This process is shutting down.", {
    retryable: true,
    hint: "The work is stored. Another process, or this one after a restart, continues it.",
  });
}
