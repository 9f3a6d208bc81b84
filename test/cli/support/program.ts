import { type ChildProcess, spawn } from "node:child_process";
import { resolve } from "node:path";

/** How a program ended, and what it wrote. */
export interface Ended {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
}

/** The arguments that select the scripted team. */
export const scriptedTeam: readonly string[] = ["--config", resolve("test/cli/support/config.ts")];

/** Runs the command line without a terminal; `onOutput` sees what it has written so far. */
export async function rivulet(
  args: readonly string[],
  options: {
    readonly cwd: string;
    readonly env?: Readonly<Record<string, string>>;
    readonly input?: string;
    readonly onOutput?: (output: string, child: ChildProcess) => void;
  },
): Promise<Ended> {
  const { PATH = "", HOME = "", NODE_COMPILE_CACHE = "" } = process.env;
  const child = spawn(process.execPath, [resolve("src/cli/main.ts"), ...args], {
    cwd: options.cwd,
    env: { PATH, HOME, NODE_COMPILE_CACHE, ...options.env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let [output, errors] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    options.onOutput?.(output, child);
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errors += text;
    options.onOutput?.(output + errors, child);
  });
  child.stdin.end(options.input ?? "");
  const code = await new Promise<number | null>((end) => child.once("close", end));
  return { code, output, errors };
}
