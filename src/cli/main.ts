import { createInterface } from "node:readline/promises";
import { styleText } from "node:util";
import type { Answer, Approval } from "../protocol/agent.ts";
import { systemClock } from "../protocol/clock.ts";
import { RivuletError } from "../protocol/error.ts";
import { materialize } from "../protocol/materialize.ts";
import { ask } from "./ask.ts";
import { modelLines, type Options, readOptions, usage } from "./options.ts";
import { printable, renderUsage } from "./render.ts";
import { readRecording, replay } from "./replay.ts";
import { sampleTeam } from "./sample-team.ts";
import { type Screen, type Watcher, watch } from "./screen.ts";

const { stdin, stdout, stderr, env } = process;
const isTerminal = stdout.isTTY === true && stdin.isTTY === true;

function screenFor({ json }: Options): Screen {
  return {
    columns: stdout.columns ?? 100,
    rows: stdout.rows ?? 24,
    live: stdout.isTTY === true && !json,
    style: (look, text) => styleText(look, text, { stream: stdout }),
    write: (text) => (json ? undefined : stdout.write(text)),
  };
}

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2), env);
  if (options.help) return void stdout.write(usage);
  const screen = screenFor(options);
  const watcher = watch(screen);
  if (options.replay === undefined) await answer(options, screen, watcher);
  else await replay(readRecording(options.replay), watcher, screen.live ? systemClock : noPause);
  const { tree } = watcher;
  if (options.json) stdout.write(`${JSON.stringify(materialize(tree), null, 2)}\n`);
  screen.write(`\n${["used", ...renderUsage(tree, screen)].join("\n  ")}\n`);
}

const noPause = { sleep: async () => {} };

async function answer(options: Options, screen: Screen, watcher: Watcher): Promise<void> {
  const { question, model, workspace, sessionId } = options;
  const store = sessionId === undefined ? "memory" : "sqlite:.rivulet/rivulet.db";
  const lead = sampleTeam({ model: model as `${string}:${string}`, workspace, store });
  const head = [...modelLines(options, env), `question  ${question}`, ""].join("\n");
  if (options.json) stderr.write(`${head}\n`);
  else screen.write(`${head}\n`);

  const cancel = new AbortController();
  process.on("SIGINT", () => {
    if (cancel.signal.aborted) process.exit(130);
    cancel.abort(new Error("cancelled"));
  });
  const { generateReason } = await ask(lead, question, {
    sessionId: sessionId ?? "demo",
    watcher,
    decide: (approval) => decide(approval, options, watcher, cancel),
    signal: cancel.signal,
  });
  watcher.end();
  await lead.close();
  if (generateReason === "interrupted" || cancel.signal.aborted) {
    screen.write("\nThe run was cancelled.\n");
    process.exitCode = 130;
  }
}

/** A person decides, at a terminal; `--yes` has decided; and where nobody can be asked, nothing is allowed. */
async function decide(
  approval: Approval,
  { yes, json }: Options,
  watcher: Watcher,
  cancel: AbortController,
): Promise<Answer> {
  const who = approval.path ?? "lead";
  const wish = printable(`${who} wants ${approval.call.name}`);
  const tell = (text: string) => (json ? stderr.write(`${text}\n`) : watcher.note(text));
  if (yes) {
    tell(`${wish}: approved by --yes.`);
    return approval.approve();
  }
  if (!isTerminal || json) {
    tell(`${wish}: denied, because there is no terminal to ask at. --yes approves.`);
    return approval.deny("There was nobody to ask.");
  }
  const prompt = createInterface({ input: stdin, output: stdout });
  prompt.on("SIGINT", () => cancel.abort(new Error("cancelled")));
  try {
    const said = await prompt.question(`${wish}. Allow it? [y/N] `, { signal: cancel.signal });
    watcher.typed();
    return /^y/i.test(said.trim()) ? approval.approve() : approval.deny("Not this time.");
  } catch (error) {
    if (!cancel.signal.aborted) throw error;
    return approval.deny("The run was cancelled.");
  } finally {
    prompt.close();
  }
}

// A reader that has seen enough (`npm start | head`) is no error.
stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1));
main().catch((error: Error) => {
  const hint = error instanceof RivuletError ? ` ${error.hint ?? ""}` : "";
  stderr.write(`rivulet: ${error.message}${hint}\n`);
  process.exitCode = 1;
});
