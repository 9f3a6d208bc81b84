import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/** The output and the exit of a writer. */
export interface Written {
  readonly lines: readonly string[];
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** The content of standard error. */
  readonly problems: string;
}

/** A running writer. */
export interface Writer {
  readonly process: ChildProcess;
  /** Resolves when it has printed `count` lines or has ended. */
  printed(count: number): Promise<void>;
  readonly ended: Promise<Written>;
}

/** The command for Node, without the warning of Node 22 about `node:sqlite`. */
export const nodeCommand = [process.execPath, "--disable-warning=ExperimentalWarning"] as const;

const program = fileURLToPath(new URL("./crash-writer.ts", import.meta.url));

/** Starts a writer of `steps` steps, under strace if `strace` has options. */
export function startWriter(
  path: string,
  { steps, strace }: { readonly steps: number; readonly strace?: readonly string[] },
): Writer {
  const command = [...nodeCommand, program, path, String(steps)];
  // --seccomp-bpf is faster, but does not deliver injected signals.
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
  // The last line may be incomplete after a kill.
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
    async printed(count) {
      while (!over && lines().length < count) {
        await new Promise<void>((resolve) => waiting.push(resolve));
      }
    },
  };
}
