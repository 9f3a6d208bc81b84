import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/** What a writer said before it ended, and how it ended. */
export interface Written {
  readonly lines: readonly string[];
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** What it had to say in error. */
  readonly problems: string;
}

/** A writer under way. */
export interface Writer {
  readonly process: ChildProcess;
  /** Resolves when it has said `count` lines, or has ended. */
  said(count: number): Promise<void>;
  readonly ended: Promise<Written>;
}

/** How Node starts a program: on Node 22 `node:sqlite` warns that it is experimental, which is no problem here. */
export const nodeCommand = [process.execPath, "--disable-warning=ExperimentalWarning"] as const;

const program = fileURLToPath(new URL("./crash-writer.ts", import.meta.url));

/** Starts a writer of `steps` steps; `strace` are options of the strace that it runs under. */
export function startWriter(
  path: string,
  { steps, strace }: { readonly steps: number; readonly strace?: readonly string[] },
): Writer {
  const command = [...nodeCommand, program, path, String(steps)];
  // --seccomp-bpf would make it faster, but does not deliver injected signals.
  if (strace) command.unshift("strace", "--follow-forks", "-qq", ...strace);
  const [file = "", ...args] = command;
  const child = spawn(file, args, { stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  let problems = "";
  let waiting: (() => void)[] = [];
  const wakeAll = () => {
    for (const wake of waiting) wake();
    waiting = [];
  };
  // A line that was cut by the kill was not said.
  const lines = () => text.split("\n").slice(0, -1);
  child.stdout.setEncoding("utf8").on("data", (piece: string) => {
    text += piece;
    wakeAll();
  });
  child.stderr.setEncoding("utf8").on("data", (piece: string) => {
    problems += piece;
  });
  let over = false;
  const ended = new Promise<Written>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => {
      over = true;
      wakeAll();
      resolve({ lines: lines(), code, signal, problems });
    });
  });
  return {
    process: child,
    ended,
    async said(count) {
      while (!over && lines().length < count) {
        await new Promise<void>((resolve) => waiting.push(resolve));
      }
    },
  };
}
