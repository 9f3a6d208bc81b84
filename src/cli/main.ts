#!/usr/bin/env node
import { readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { RivuletError } from "../protocol/error.ts";
import { type Arguments, type CommandName, readArguments } from "./arguments.ts";
import { type Console, openConsole } from "./console.ts";
import { packageRoot, packageVersion } from "./package-root.ts";
import { servesDemo } from "./supervisor.ts";

/** A command; resolves to the exit code. */
type Command = (args: Arguments, console: Console) => Promise<number>;

/** Each command loads only what it needs. */
const commands: Readonly<Record<CommandName, () => Promise<Command>>> = {
  chat: async () => (await import("./start.ts")).startChat,
  run: async () => (await import("./run.ts")).runOnce,
  serve: async () => (await import("./start.ts")).startServe,
  init: async () => (await import("./init.ts")).initProject,
  tasks: async () => (await import("./stored.ts")).listTasks,
  watch: async () => (await import("./replay.ts")).watchRun,
  replay: async () => (await import("./replay.ts")).replayRun,
};

/** Errors that the person who typed the command can solve. */
const usageCodes =
  /^(invalid|unknown|config|missing|recording|store)_|^(cannot_listen|unauthorized|model_not_found|not_found)$/;

async function main(): Promise<number> {
  const console = openConsole();
  if (console.env[servesDemo] && process.send)
    return (await import("./serve.ts")).serveForSupervisor(console);
  const given = process.argv.slice(2);
  if (given[0] === "--version") {
    console.print(packageVersion());
    return 0;
  }
  const args = readArguments(given);
  if (args.help !== undefined) {
    console.print(args.help.trimEnd());
    return 0;
  }
  const command = await commands[args.command]();
  return command(args, console);
}

/** The program of the package that the project in this folder has installed, if that is another copy. */
function projectCopy(): string | undefined {
  try {
    const path = createRequire(join(process.cwd(), "package.json")).resolve("rivulet/package.json");
    const folder = dirname(realpathSync(path));
    if (folder === realpathSync(packageRoot)) return undefined;
    const { bin } = JSON.parse(readFileSync(path, "utf8")) as { bin?: { rivulet?: string } };
    return bin?.rivulet && join(folder, bin.rivulet);
  } catch {
    return undefined; // the project has none
  }
}

function report(error: unknown): void {
  const { message, hint } = error as Partial<RivuletError>;
  const text = [message ?? String(error), error instanceof RivuletError ? hint : undefined];
  process.stderr.write(`rivulet: ${text.filter((part) => part !== undefined).join(" ")}\n`);
  const isUsage = error instanceof RivuletError && usageCodes.test(error.code);
  process.exitCode = isUsage ? 2 : 1;
}

// The reader may close the pipe early, as in `rivulet tasks | head`.
for (const stream of [process.stdout, process.stderr])
  stream.on("error", (error: NodeJS.ErrnoException) =>
    process.exit(error.code === "EPIPE" ? 0 : 1),
  );

const copy = projectCopy();
// A config imports the package of its project, and both must be the same copy.
if (copy !== undefined) await import(pathToFileURL(copy).href);
else
  await main().then((code) => {
    process.exitCode = code;
  }, report);
