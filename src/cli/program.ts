import { RivuletError } from "../base/error.ts";
import { serveEditor } from "./acp.ts";
import { type Arguments, type CommandName, readArguments } from "./arguments.ts";
import { type Console, openConsole } from "./console.ts";
import { showCost } from "./cost.ts";
import { evalCommand } from "./eval.ts";
import { initProject } from "./init.ts";
import { serveMcp } from "./mcp.ts";
import { migrateStore } from "./migrate.ts";
import { tasksCommand } from "./operate.ts";
import { packageVersion } from "./package-root.ts";
import { replayRun, watchRun } from "./replay.ts";
import { runOnce } from "./run.ts";
import { serveForSupervisor, startWorker } from "./serve.ts";
import { startChat, startServe } from "./start.ts";
import { isServer } from "./supervisor.ts";
import { testCommand } from "./test-from.ts";
import { manageTokens } from "./token.ts";
import { exportStore, importStore } from "./transfer.ts";

/** A command; resolves to the exit code. */
type Command = (args: Arguments, console: Console) => Promise<number>;

const commands: Readonly<Record<CommandName, Command>> = {
  chat: startChat,
  run: runOnce,
  serve: startServe,
  worker: startWorker,
  mcp: serveMcp,
  acp: serveEditor,
  token: manageTokens,
  init: initProject,
  tasks: tasksCommand,
  cost: showCost,
  eval: evalCommand,
  test: testCommand,
  watch: watchRun,
  replay: replayRun,
  export: exportStore,
  import: importStore,
  migrate: migrateStore,
};

/** Errors of usage or settings, which the user of the command can solve. */
const usageCodes =
  /^(invalid|unknown|config|missing|recording|store|replay)_|^(cannot_listen|unauthorized|model_not_found|not_found|(provider|postgres|acp)_not_installed)$/;

async function main(): Promise<number> {
  const console = openConsole();
  if (console.env[isServer] && process.send) return serveForSupervisor(console);
  const given = process.argv.slice(2);
  if (given[0] === "--version") {
    console.print(packageVersion());
    return 0;
  }
  const args = readArguments(given, Math.min(console.canvas.columns, 100));
  if (args.help !== undefined) {
    console.print(args.help.trimEnd());
    return 0;
  }
  return commands[args.command](args, console);
}

function report(error: unknown): void {
  const { message, hint } = error as Partial<RivuletError>;
  const text = [message ?? String(error), error instanceof RivuletError ? hint : undefined];
  process.stderr.write(`rivulet: ${text.filter((part) => part !== undefined).join(" ")}\n`);
  const isUsage = error instanceof RivuletError && usageCodes.test(error.code);
  process.exitCode = isUsage ? 2 : 1;
}

/** Runs the command line of this process. */
export async function runProgram(): Promise<void> {
  try {
    process.exitCode = await main();
  } catch (error) {
    report(error);
  }
}
