import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { join, resolve } from "node:path";
import { onTestFinished } from "vitest";

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
  const child = spawn(process.execPath, [resolve("src/cli/main.ts"), ...args], {
    cwd: options.cwd,
    env: { ...environment(), ...options.env },
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

/** The variables that a program needs on every machine. */
function environment(): Record<string, string> {
  const { PATH = "", HOME = "", NODE_COMPILE_CACHE = "" } = process.env;
  return { PATH, HOME, NODE_COMPILE_CACHE };
}

/**
 * Starts a server from the command line, in a new folder of the directory or in `cwd`; it ends with the test. Tests that run at the
 * same time pass their own `atEnd`: vitest does not know which of them calls.
 */
export async function serving(
  directory: string,
  args: readonly string[],
  variables: Readonly<Record<string, string>> = {},
  atEnd: (end: () => void) => void = onTestFinished,
  cwd = mkdtempSync(join(directory, "s")),
) {
  const child = spawn(
    process.execPath,
    [resolve("src/cli/main.ts"), "serve", ...args, "--port", "0"],
    {
      cwd,
      env: { ...environment(), ...variables },
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  atEnd(() => void child.kill("SIGKILL"));
  let output = "";
  let isOver = false;
  let changed = Promise.withResolvers<void>();
  const change = () => {
    changed.resolve();
    changed = Promise.withResolvers();
  };
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      change();
    });
  const ended = new Promise<number | null>((end) => child.once("close", end));
  void ended.then(() => {
    isOver = true;
    change();
  });
  async function prints(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(output);
      if (found) return found;
      if (isOver) throw new Error(`The server ended without ${pattern}:\n${output}`);
      await changed.promise;
    }
  }
  const [, url = "", token = ""] = await prints(/(http:\/\/127\.0\.0\.1:\d+)\/#token=(\S+)/);
  return { child, cwd, url, token, ended, prints };
}
