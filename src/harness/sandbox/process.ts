import type { ChildProcess } from "node:child_process";
import { constants, setPriority } from "node:os";
import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { onAbort, systemClock } from "../../base/clock.ts";
import type { CommandResult, Owner, StopReason } from "./jail.ts";

/** A program to run for a command. */
export interface ProcessOptions {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly owner?: Owner;
  /** Descriptors from 3 on: a number is an open file, `pipe` one for `onSpawn`. */
  readonly descriptors?: readonly (number | "pipe")[];
  readonly timeoutMs: number;
  readonly outputBytes: number;
  readonly signal?: AbortSignal;
  readonly onOutput?: (text: string) => void;
  readonly onSpawn?: (child: ChildProcess) => void;
  /** Called every half second; returns why the command must stop. */
  readonly watch?: () => Promise<StopReason | undefined>;
}

/** The outcome of a program; `problem` is what it wrote to standard error. */
export type ProcessResult = Omit<CommandResult, "cwd"> & { readonly problem: string };

const watchMs = 500;
const closeMs = 500; // how long a process that left its group may keep the output open
const maxProblem = 2_000;
const niceness = 10;
/** A command whose output is this many times the kept size is stopped. */
const outputFactor = 256;

/** The module that starts programs; loaded when it is used, because it delays the start of every program. */
export const childProcess = () => process.getBuiltinModule("node:child_process");

/** Runs a program in its own process group until it ends, and kills the whole group then. */
export async function runProcess(options: ProcessOptions): Promise<ProcessResult> {
  const { file, args, cwd, env, owner, descriptors = [], signal, watch, timeoutMs } = options;
  const child = childProcess().spawn(file, args, {
    cwd,
    env,
    detached: true,
    stdio: ["ignore", "pipe", "pipe", ...descriptors],
    ...(owner && { uid: owner.uid, gid: owner.gid }),
  });
  const output = new CappedOutput(options.outputBytes, options.onOutput);
  let stoppedBy: StopReason | undefined;
  const stop = (reason: StopReason) => {
    stoppedBy ??= reason;
    killGroup(child);
  };
  const closed = Promise.withResolvers<void>();
  const exited = new Promise<number>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", () => closed.resolve());
    child.once("exit", (code, name) => resolve(code ?? 128 + (name ? constants.signals[name] : 0)));
  });
  exited.catch(() => closed.resolve());
  let ignoreAbort = () => {};
  const over = new AbortController();
  try {
    if (child.pid !== undefined) setPriorityOf(child.pid);
    options.onSpawn?.(child);
    output.read(child.stdout as Readable, () => stop("output"));
    const problem = readHead(child.stderr as Readable);
    if (signal) ignoreAbort = onAbort(signal, () => stop("cancel"));
    const timer = setTimeout(() => stop("timeout"), timeoutMs);
    over.signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
    if (watch) watchUntil(over.signal, watch, stop);
    const exitCode = await exited;
    killGroup(child); // what it left running
    await Promise.race([closed.promise, systemClock.sleep(closeMs, over.signal).catch(() => {})]);
    const kept = output.end();
    return stoppedBy
      ? { ...kept, stoppedBy, problem: problem() }
      : { ...kept, exitCode, problem: problem() };
  } finally {
    over.abort();
    ignoreAbort();
    for (const stream of child.stdio) stream?.destroy();
  }
}

function setPriorityOf(pid: number): void {
  try {
    setPriority(pid, niceness); // so that this process stays responsive
  } catch {
    // It has ended already.
  }
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The group is empty.
  }
}

async function watchUntil(
  over: AbortSignal,
  watch: () => Promise<StopReason | undefined>,
  stop: (reason: StopReason) => void,
): Promise<void> {
  while (!over.aborted) {
    const slept = await systemClock.sleep(watchMs, over).then(
      () => true,
      () => false,
    );
    if (!slept) return;
    const reason = await watch().catch(() => undefined);
    if (reason && !over.aborted) return stop(reason);
  }
}

/** Keeps the beginning of a stream and discards the rest. */
function readHead(stream: Readable): () => string {
  let text = "";
  stream.setEncoding("utf8");
  stream.on("data", (chunk: string) => {
    text = (text + chunk).slice(0, maxProblem);
  });
  stream.on("error", () => {});
  return () => text.trim();
}

/** Cuts an output that is already complete. */
export function capOutput(output: Buffer, maxBytes: number) {
  const capped = new CappedOutput(maxBytes, undefined);
  capped.add(output);
  return capped.end();
}

/** Keeps the first and the last half of the allowed bytes, in bounded memory. */
class CappedOutput {
  readonly #half: number;
  readonly #onOutput: ((text: string) => void) | undefined;
  readonly #decoder = new StringDecoder("utf8");
  readonly #head: Buffer[] = [];
  #tail: Buffer[] = [];
  #headBytes = 0;
  #tailBytes = 0;
  #total = 0;

  constructor(maxBytes: number, onOutput: ((text: string) => void) | undefined) {
    this.#half = Math.ceil(maxBytes / 2);
    this.#onOutput = onOutput;
  }

  read(stream: Readable, onTooMuch: () => void): void {
    stream.on("error", () => {});
    stream.on("data", (chunk: Buffer) => {
      this.add(chunk);
      if (this.#total <= 2 * this.#half) return;
      if (this.#total > outputFactor * 2 * this.#half) onTooMuch();
      // Reading what is thrown away at full speed would take all the time of this process.
      stream.pause();
      setTimeout(() => stream.resume(), 1);
    });
  }

  add(chunk: Buffer): void {
    const before = this.#total;
    this.#total += chunk.length;
    const room = 2 * this.#half - before;
    if (room > 0) this.#onOutput?.(this.#decoder.write(chunk.subarray(0, room)));
    const head = chunk.subarray(0, Math.max(0, this.#half - this.#headBytes));
    if (head.length > 0) this.#head.push(Buffer.from(head));
    this.#headBytes += head.length;
    const tail = chunk.subarray(head.length);
    if (tail.length === 0) return;
    this.#tail.push(Buffer.from(tail));
    this.#tailBytes += tail.length;
    while (this.#tailBytes - (this.#tail[0]?.length ?? 0) >= this.#half) {
      this.#tailBytes -= this.#tail.shift()?.length ?? 0;
    }
    // Many small chunks would cost more than their bytes.
    if (this.#tail.length > 1_000) this.#tail = [Buffer.concat(this.#tail)];
  }

  end(): { readonly output: string; readonly omittedBytes: number } {
    const all = Buffer.concat(this.#tail);
    const tail = all.subarray(Math.max(0, all.length - this.#half));
    const omittedBytes = this.#total - this.#headBytes - tail.length;
    const head = Buffer.concat(this.#head);
    if (omittedBytes === 0) return { output: Buffer.concat([head, tail]).toString(), omittedBytes };
    const text = `${head}\n[${omittedBytes} bytes of output left out]\n${tail}`;
    return { output: text, omittedBytes };
  }
}
