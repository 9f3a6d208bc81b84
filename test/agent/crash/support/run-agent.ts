import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

/** Where a process ends or stops itself. */
export interface Boundary {
  /** The number of a commit, counted from 0. */
  readonly at: number;
  readonly when: "before" | "after";
  readonly signal: "SIGKILL" | "SIGSTOP";
}

/** How a process ended. */
export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** The last line that it said. */
  readonly last: string;
  /** What it had to say in error. */
  readonly problems: string;
}

/** A process of these tests. */
export interface Running {
  /** Resolves when it has said this line, or has ended. */
  said(line: string): Promise<void>;
  readonly ended: Promise<Ended>;
  kill(signal: NodeJS.Signals): void;
}

/** Starts a process on the conversation in a folder. */
export function startAgent(folder: string, boundary?: Boundary): Running {
  const args = boundary ? [String(boundary.at), boundary.when, boundary.signal] : [];
  return start("crash-agent.ts", folder, ...args);
}

/** Starts one of the programs beside this file on a folder. */
export function start(program: string, folder: string, ...args: readonly string[]): Running {
  const path = fileURLToPath(new URL(program, import.meta.url));
  const options = ["--disable-warning=ExperimentalWarning", path, folder, ...args];
  const child = spawn(process.execPath, options, {
    stdio: ["ignore", "pipe", "pipe"],
    // Hundreds of processes load the same files: the first one that ends keeps them compiled for the others.
    env: { ...process.env, NODE_COMPILE_CACHE: join(folder, "..", "compiled") },
  });
  const lines: string[] = [];
  const reader = createInterface(child.stdout);
  reader.on("line", (line) => lines.push(line));
  const problems = text(child.stderr);
  const { promise: ended, resolve, reject } = Promise.withResolvers<Ended>();
  child.once("error", reject);
  child.once("close", async (code, signal) => {
    resolve({ code, signal, last: lines.at(-1) ?? "", problems: await problems });
  });
  return {
    async said(line) {
      const heard = new Promise<void>((resolve) => {
        if (lines.includes(line)) resolve();
        reader.on("line", (said) => said === line && resolve());
      });
      await Promise.race([heard, ended]);
    },
    ended,
    kill: (signal) => void child.kill(signal),
  };
}
