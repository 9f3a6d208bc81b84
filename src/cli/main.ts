import { fileURLToPath } from "node:url";
import { parseArgs, styleText } from "node:util";
import { systemClock } from "../protocol/clock.ts";
import { RivuletError } from "../protocol/error.ts";
import { materialize } from "../protocol/materialize.ts";
import { emptyTree, reduce } from "../protocol/reduce.ts";
import { renderUsage } from "./render.ts";
import type { Screen } from "./replay.ts";
import { readRecording, replay } from "./replay.ts";

const usage = `Plays a recorded run through the reducer.

  npm start [-- recording.jsonl]     play it
  npm start --silent -- --json       print the one document that it folds into
`;
const recordedRun = fileURLToPath(new URL("../../examples/recorded-run.jsonl", import.meta.url));
const { stdout } = process;

const screen: Screen = {
  columns: stdout.columns ?? 100,
  rows: stdout.rows ?? 24,
  live: stdout.isTTY === true,
  style: (look, text) => styleText(look, text, { stream: stdout }),
  write: (text) => stdout.write(text),
};

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { json: { type: "boolean" }, help: { type: "boolean" } },
  });
  if (values.help) return screen.write(usage);
  const events = readRecording(positionals[0] ?? recordedRun);
  if (values.json) {
    const document = materialize(reduce(emptyTree(), events));
    return screen.write(`${JSON.stringify(document, null, 2)}\n`);
  }
  const tree = await replay(events, screen, systemClock);
  const summary = `${events.length} events, one document: npm start --silent -- --json`;
  screen.write(`\n${renderUsage(tree, screen).join("\n")}\n\n${summary}\n`);
}

// A reader that has seen enough (`npm start | head`) is no error.
stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1));
main().catch((error: Error) => {
  const hint = error instanceof RivuletError ? ` ${error.hint ?? ""}` : "";
  process.stderr.write(`rivulet: ${error.message}${hint}\n`);
  process.exitCode = 1;
});
