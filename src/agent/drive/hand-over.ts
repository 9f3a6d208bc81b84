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
  /** How many calls of a task run, by task. */
  readonly #calls = new Map<string, number>();

  constructor(drives: ReadonlyMap<string, SteppingDrive>, lost: AbortSignal, onReady: () => void) {
    this.#drives = drives;
    this.#lost = lost;
    this.#onReady = onReady;
  }

  /** Whether no further step begins. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /** Lets no further step begin; `onReady` is called when none runs. */
  begin(): void {
    this.#hasBegun = true;
    this.#check();
  }

  /** Called before each step of a task; during a hand-over it rejects when the conversation is lost. */
  beforeStep(taskId: string): Promise<never> | undefined {
    if (!this.#hasBegun) return undefined;
    this.#parked.add(taskId);
    const { promise, reject } = Promise.withResolvers<never>();
    onAbort(this.#lost, () => reject(this.#lost.reason));
    this.#check();
    return promise;
  }

  /** Counts a call that runs; returns the function that ends it. */
  callRuns(taskId: string): () => void {
    const add = (change: number) => {
      const count = (this.#calls.get(taskId) ?? 0) + change;
      if (count > 0) this.#calls.set(taskId, count);
      else this.#calls.delete(taskId);
    };
    add(1);
    return () => {
      add(-1);
      this.#check();
    };
  }

  /** Called when a task rests. */
  rested(taskId: string): void {
    this.#parked.delete(taskId);
    this.#check();
  }

  #check(): void {
    if (!this.#hasBegun || this.#lost.aborted) return;
    const drives = [...this.#drives.values()];
    if (drives.every((drive) => this.#isBetweenSteps(drive))) this.#onReady();
  }

  /** A task that only waits for its children is between steps when they are. One on another server goes on there. */
  #isBetweenSteps({ record, queue }: SteppingDrive): boolean {
    const { taskId } = record;
    if (this.#parked.has(taskId) || queue !== undefined || record.remote) return true;
    const calls = this.#calls.get(taskId) ?? 0;
    const children = [...this.#drives.values()].filter(
      ({ record: child }) => child.mode === "sync" && child.parentTaskId === taskId,
    );
    return calls > 0 && children.length === calls;
  }
}

/** The reason for which a process that ends gives its conversations up. */
export function shuttingDown(): RivuletError {
  return new RivuletError("shutting_down", "This process is shutting down.", {
    retryable: true,
    hint: "The work is stored. Another process, or this one after a restart, continues it.",
  });
}
