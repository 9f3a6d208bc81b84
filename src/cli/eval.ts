import { globSync, statSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { RivuletError } from "../base/error.ts";
import type { Store } from "../contract/index.ts";
import { openStore } from "../store/index.ts";
import type { Eval, EvalProgress, EvalReport } from "../testing/index.ts";
import { type Arguments, numberFlag, usageError } from "./arguments.ts";
import { findConfig, loadProject } from "./config.ts";
import type { Console } from "./console.ts";
import type { Flags } from "./flags.ts";
import { deviceOf, openScreen } from "./live-screen.ts";
import { defaultStore } from "./sample-team.ts";
import { cutTo, printable } from "./text.ts";

/** `rivulet eval`: runs the evals of this folder and reports them. */
export async function evalCommand(
  { flags, operands: [named] }: Arguments,
  console: Console,
): Promise<number> {
  const failBelow = numberFlag("fail-below", flags["fail-below"], 1) ?? 0;
  const concurrency = concurrencyOf(flags);
  const { runEval } = await import("../testing/index.ts"); // other commands need no tests
  const evals = await findEvals(named);
  const store = await openEvalStore(flags, console);
  const stop = stopOnSignal(console);
  const reports: EvalReport[] = [];
  for (const one of evals) {
    const progress = showProgress(one.name, console);
    try {
      const report = await runEval(one, {
        ...{ store, signal: stop.signal, onProgress: progress.show },
        ...(concurrency !== undefined && { concurrency }),
        ...(flags["retry-failed"] && { retryFailed: true }),
      });
      reports.push(report);
    } finally {
      progress.close();
    }
  }
  stop.release();
  await store.close();
  await print(reports, failBelow, flags, console);
  if (stop.signal.aborted) return 130;
  const isBelow = ({ total: { score, errors, notRun } }: EvalReport) =>
    errors + notRun > 0 || (score ?? 0) < failBelow;
  return reports.some(isBelow) ? 1 : 0;
}

async function print(
  reports: readonly EvalReport[],
  failBelow: number,
  flags: Flags,
  console: Console,
): Promise<void> {
  const { junitOf, matrixOf, problemLines } = await import("./eval-report.ts");
  if (flags.junit !== undefined) writeFileSync(flags.junit, junitOf(reports, failBelow || 1));
  for (const report of reports) {
    if (flags.json) console.print(JSON.stringify(report));
    else
      for (const line of [...matrixOf(report, console.canvas.columns), ...problemLines(report), ""])
        console.print(line);
  }
}

function concurrencyOf({ concurrency }: Flags): number | undefined {
  const count = numberFlag("concurrency", concurrency, 1_000);
  if (count === undefined || (Number.isInteger(count) && count > 0)) return count;
  throw usageError(`--concurrency must be an integer of at least 1, got ${count}.`, "Write 4.");
}

/** The evals of a file, the one with a name, or all of this folder. */
async function findEvals(named: string | undefined): Promise<readonly Eval[]> {
  const isFile =
    named !== undefined && (statSync(named, { throwIfNoEntry: false })?.isFile() ?? false);
  const files = isFile ? [named] : evalFiles();
  const found: Eval[] = [];
  for (const file of files) found.push(...(await evalsIn(file)));
  const evals = isFile || named === undefined ? found : found.filter(({ name }) => name === named);
  if (evals.length > 0) return evals;
  const names = found.map(({ name }) => name).join(", ");
  throw new RivuletError(
    "not_found",
    named === undefined
      ? "This folder has no evals."
      : isFile
        ? `${named} exports no eval.`
        : `There is no eval or file ${JSON.stringify(named.slice(0, 100))}.`,
    {
      hint:
        names !== "" && named !== undefined
          ? `The evals are ${names}.`
          : "Write: export default defineEval({ … }); in a file such as capitals.eval.ts.",
    },
  );
}

function evalFiles(): readonly string[] {
  return globSync("**/*.eval.{ts,mts,js,mjs}", {
    exclude: (path) => /(^|[\\/])(node_modules|dist|\.[^\\/.][^\\/]*)$/.test(path),
  }).sort();
}

async function evalsIn(file: string): Promise<readonly Eval[]> {
  const { isEval } = await import("../testing/index.ts");
  try {
    const module = (await import(pathToFileURL(resolve(file)).href)) as object;
    return [...new Set<unknown>(Object.values(module).flat())].filter(isEval);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new RivuletError("invalid_config", `${file} cannot be loaded: ${reason}`, {
      hint: "Correct the file.",
      cause,
    });
  }
}

/** The store of the config, or that of the other commands: `rivulet serve` shows the runs of the cells. */
async function openEvalStore(flags: Flags, console: Console): Promise<Store> {
  if (findConfig(flags.config) !== undefined) return (await loadProject(flags, console.env)).store;
  return openStore(defaultStore);
}

/** The first signal lets the cells that run end; the second ends the process, and the next one continues them. */
function stopOnSignal(console: Console) {
  const stop = new AbortController();
  const onSignal = () => {
    if (stop.signal.aborted) process.exit(130);
    console.note(
      "Stops when the running cells have ended. Ctrl-C again leaves them for next time.",
    );
    stop.abort();
  };
  process.on("SIGINT", onSignal);
  return { signal: stop.signal, release: () => void process.off("SIGINT", onSignal) };
}

function showProgress(name: string, { isTerminal, canvas }: Console) {
  if (!isTerminal) return { show: () => {}, close: () => {} };
  const screen = openScreen(deviceOf(process.stdout), canvas.style);
  const show = ({ done, total, cell }: EvalProgress) => {
    const last = `${cell.variant} on ${cell.case}`;
    screen.paint([cutTo(printable(`${name}: ${done} of ${total}, ${last}`), canvas.columns - 1)]);
  };
  return { show, close: () => screen.close() };
}
