import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import type { TaskEvent } from "../../../../src/protocol.ts";
import { nodeCommand } from "../../../store/support/run-writer.ts";

/** The instructions for a process of a story. */
export type Order =
  | { readonly order: "open"; readonly folder: string }
  | { readonly order: "run"; readonly input: string }
  | { readonly order: "watch"; readonly taskId: string }
  | { readonly order: "answer" | "answerAll" | "close" };

/** An order with the id that its lines carry. */
export type Command = Order & { readonly id: number };

/** How an order ended. */
export interface Outcome {
  readonly text?: string;
  readonly taskId?: string;
  /** Milliseconds from the call to the first event of the running task. */
  readonly startedMs?: number | undefined;
  /** Whether the task was still running when its first text arrived. */
  readonly isStreamed?: boolean | undefined;
}

/** A line that a process prints. */
export type Line = { readonly id: number } & (
  | { readonly taskId: string }
  | { readonly event: TaskEvent }
  | { readonly outcome: Outcome }
  | { readonly problem: string }
);

/** An order under way. */
export interface Job {
  /** The events that the process has printed. */
  readonly events: readonly TaskEvent[];
  /** The task that a run concerns; undefined when the process died before it had one. */
  readonly taskId: Promise<string | undefined>;
  /** Rejects when the order failed; undefined when the process died before it ended. */
  readonly outcome: Promise<Outcome | undefined>;
}

interface OpenJob {
  readonly events: TaskEvent[];
  readonly taskId: PromiseWithResolvers<string | undefined>;
  readonly outcome: PromiseWithResolvers<Outcome | undefined>;
}

const program = fileURLToPath(new URL("./story-agent.ts", import.meta.url));

/** A process that plays a part in one story after the other. */
export class StoryProcess {
  readonly #child: ChildProcess;
  readonly #jobs = new Map<number, OpenJob>();
  readonly #problems: Promise<string>;
  readonly #closed: Promise<void>;
  #isAlive = true;

  /** `folder` keeps compiled modules for the processes that start later. */
  constructor(folder: string) {
    const [file = "", ...args] = [...nodeCommand, program];
    const child = spawn(file, args, {
      stdio: ["pipe", "pipe", "pipe"],
      env: { ...process.env, NODE_COMPILE_CACHE: join(folder, "compiled") },
    });
    this.#child = child;
    this.#problems = text(child.stderr);
    child.stdin.on("error", () => {}); // a killed process reads no more
    createInterface(child.stdout).on("line", (line) => this.#read(line));
    this.#closed = new Promise((resolve) => {
      child.once("close", () => {
        this.#isAlive = false;
        for (const { taskId, outcome } of this.#jobs.values()) {
          taskId.resolve(undefined);
          outcome.resolve(undefined);
        }
        resolve();
      });
    });
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** The stderr of the process after its end. */
  get problems(): Promise<string> {
    return this.#problems;
  }

  send(order: Order): Job {
    const id = this.#jobs.size;
    const job: OpenJob = {
      events: [],
      taskId: Promise.withResolvers(),
      outcome: Promise.withResolvers(),
    };
    job.taskId.promise.catch(() => {});
    job.outcome.promise.catch(() => {});
    this.#jobs.set(id, job);
    if (this.#isAlive) this.#child.stdin?.write(`${JSON.stringify({ ...order, id })}\n`);
    else {
      job.taskId.resolve(undefined);
      job.outcome.resolve(undefined);
    }
    return { events: job.events, taskId: job.taskId.promise, outcome: job.outcome.promise };
  }

  /** Kills the process; resolves when everything that it printed is read. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#closed;
  }

  /** Lets the process end by itself. Node then keeps the compiled modules, which a killed process cannot do. */
  async end(): Promise<void> {
    this.#child.stdin?.end();
    await this.#closed;
  }

  #read(text: string): void {
    let line: Line;
    try {
      line = JSON.parse(text) as Line;
    } catch {
      return; // the kill came in the middle of a line
    }
    const job = this.#jobs.get(line.id);
    if (job === undefined) return;
    if ("event" in line) job.events.push(line.event);
    else if ("taskId" in line) job.taskId.resolve(line.taskId);
    else if ("outcome" in line) {
      job.taskId.resolve(line.outcome.taskId);
      job.outcome.resolve(line.outcome);
    } else {
      const error = new Error(line.problem);
      job.taskId.reject(error);
      job.outcome.reject(error);
    }
  }
}
