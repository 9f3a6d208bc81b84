import { createInterface } from "node:readline/promises";
import { styleText } from "node:util";
import type { Answer, Approval, WaitReason } from "../protocol/agent.ts";
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
const noPause = { sleep: async () => {} };

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2), env);
  const { help, json } = options;
  if (help) return void stdout.write(usage);
  const screen: Screen = {
    columns: stdout.columns ?? 100,
    rows: stdout.rows ?? 24,
    live: stdout.isTTY === true && !json,
    style: (look, text) => styleText(look, text, { stream: stdout }),
    write: (text) => (json ? undefined : stdout.write(text)),
  };
  const watcher = watch(screen);
  if (options.replay === undefined) await answer(options, screen, watcher);
  else await replay(readRecording(options.replay), watcher, screen.live ? systemClock : noPause);
  const { tree } = watcher;
  if (json) stdout.write(`${JSON.stringify(materialize(tree), null, 2)}\n`);
  screen.write(`\n${["used", ...renderUsage(tree, screen)].join("\n  ")}\n`);
}

async function answer(options: Options, screen: Screen, watcher: Watcher): Promise<void> {
  const { question, model, workspace, sessionId } = options;
  const store = sessionId === undefined ? "memory" : "sqlite:.rivulet/rivulet.db";
  const lead = sampleTeam({ model: model as `${string}:${string}`, workspace, store });
  const header = [...modelLines(options, env), `question  ${question}`, "", ""].join("\n");
  (options.json ? stderr : screen).write(header);

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
    onWait: (reason) => stderr.write(`${waitText(reason)}\n`),
  });
  watcher.end();
  await lead.close();
  if (generateReason === "interrupted" || cancel.signal.aborted) {
    screen.write("\nThe run was cancelled.\n");
    process.exitCode = 130;
  }
}

function waitText({ reason, leftMs = 0 }: WaitReason): string {
  if (reason === "busy") return "Waiting for another task of this session.";
  if (reason === "unknown_agent") return "Waiting for a process that has the agent of this task.";
  const seconds = Math.ceil(leftMs / 1_000);
  return `Waiting for a process that stopped responding; taking over in ${seconds} s.`;
}

/** `--yes` approves; without a terminal the request is denied; otherwise the user decides. */
async function decide(
  approval: Approval,
  { yes, json }: Options,
  watcher: Watcher,
  cancel: AbortController,
): Promise<Answer> {
  const request = printable(`${approval.path ?? "lead"} wants to call ${approval.call.name}`);
  const note = (text: string) => (json ? stderr.write(`${text}\n`) : watcher.note(text));
  if (yes) {
    note(`${request}: approved by --yes.`);
    return approval.approve();
  }
  if (!isTerminal || json) {
    note(
      `${request}: denied, because there is no terminal for the question. Pass --yes to approve.`,
    );
    return approval.deny("No user was available to approve this.");
  }
  const prompt = createInterface({ input: stdin, output: stdout });
  prompt.on("SIGINT", () => cancel.abort(new Error("cancelled")));
  try {
    const typed = await prompt.question(`${request}. Allow it? [y/N] `, { signal: cancel.signal });
    watcher.typed();
    return /^y/i.test(typed.trim()) ? approval.approve() : approval.deny("The user denied this.");
  } catch (error) {
    if (!cancel.signal.aborted) throw error;
    return approval.deny("The run was cancelled.");
  } finally {
    prompt.close();
  }
}

// The reader may close the pipe early, as in `npm start | head`.
stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1));
main().catch((error: Error) => {
  const hint = error instanceof RivuletError ? ` ${error.hint ?? ""}` : "";
  stderr.write(`rivulet: ${error.message}${hint}\n`);
  process.exitCode = 1;
});
