import { spawn } from "node:child_process";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("./task-agent.ts", import.meta.url));

/** The end of a process. */
export interface EndedProcess {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** The number of its commits when it was idle. */
  readonly said: string;
  readonly problems: string;
}

/** A process that works on the conversation in a folder. */
export interface RunningProcess {
  /** Resolves when it is idle or has ended. */
  readonly rests: Promise<unknown>;
  readonly ended: Promise<EndedProcess>;
  kill(): void;
}

/** Starts a process with the arguments of the program. */
export function startTaskAgent(
  folder: string,
  ...args: readonly (string | number)[]
): RunningProcess {
  const options = ["--disable-warning=ExperimentalWarning", program, folder, ...args.map(String)];
  const child = spawn(process.execPath, options, {
    stdio: ["ignore", "pipe", "pipe"],
    // The compile cache of the first process speeds up the others.
    env: { ...process.env, NODE_COMPILE_CACHE: join(folder, "..", "compiled") },
  });
  const output = [text(child.stdout), text(child.stderr)] as const;
  const ended = new Promise<EndedProcess>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", async (code, signal) => {
      const [said, problems] = await Promise.all(output);
      resolve({ code, signal, said: said.trim(), problems });
    });
  });
  const spoke = new Promise((resolve) => child.stdout.once("data", resolve));
  return { rests: Promise.race([spoke, ended]), ended, kill: () => void child.kill("SIGKILL") };
}
