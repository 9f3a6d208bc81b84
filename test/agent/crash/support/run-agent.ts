import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { nodeCommand } from "../../../store/support/run-writer.ts";
import type { CastName } from "./crash-cast.ts";

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

const crashAgent = fileURLToPath(new URL("./crash-agent.ts", import.meta.url));
const busyAgent = fileURLToPath(new URL("./busy-agent.ts", import.meta.url));

/** Starts a process on the conversation in a folder. */
export function startAgent(folder: string, boundary?: Boundary, cast: CastName = "steps"): Running {
  const args = boundary ? [String(boundary.at), boundary.when, boundary.signal] : [];
  return start([crashAgent, folder, cast, ...args], folder);
}

/** Starts a process on the conversation in a folder that is killed when it makes a system call for the `nth` time. */
export function startTracedAgent(
  folder: string,
  call: string,
  nth: number,
  cast: CastName = "steps",
): Running {
  const injected = [`--trace=${call}`, `--inject=${call}:signal=KILL:when=${nth}`];
  return start([crashAgent, folder, cast], folder, [
    "strace",
    "--follow-forks",
    "-qq",
    ...injected,
  ]);
}

/** Starts a process that runs an agent so many times, beside others in the same folder. */
export function startBusyAgent(folder: string, name: string, runs: number): Running {
  return start([busyAgent, folder, name, String(runs)], folder);
}

function start(program: readonly string[], folder: string, under: readonly string[] = []): Running {
  const [file, ...args] = [...under, ...nodeCommand, ...program];
  const child = spawn(file as string, args, {
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
