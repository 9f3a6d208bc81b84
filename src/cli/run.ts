import { RivuletError } from "../base/error.ts";
import { nearest } from "../base/options.ts";
import { ask } from "../client/index.ts";
import type { Agent } from "../contract/index.ts";
import { rootTask } from "../protocol/index.ts";
import { type Arguments, usageError } from "./arguments.ts";
import { localBackend } from "./backend.ts";
import { chatOnce } from "./chat.ts";
import { loadProject, type Project } from "./config.ts";
import type { Console } from "./console.ts";
import { decideAlone } from "./decide.ts";
import { plainAnswer, plainEnding } from "./ending.ts";
import {
  cancelSignal,
  exitCodes,
  newSessionId,
  noteWaits,
  outcomeOf,
  resumeCommand,
} from "./outcome.ts";
import { createPlainView } from "./plain-view.ts";

/** `rivulet run`: one task; the exit code tells its outcome. */
export async function runOnce({ operands, flags }: Arguments, console: Console): Promise<number> {
  const question = operands.join(" ").trim();
  if (question === "")
    throw usageError("rivulet run needs a prompt.", 'Write: rivulet run "your question".');
  const project = await loadProject(flags, console.env);
  const agent = agentNamed(project, flags.agent);
  const sessionId = flags.session ?? newSessionId();
  const isPlain = !console.isTerminal || flags.json || flags.quiet || flags.yes;
  const resume = (id: string) => resumeCommand(flags, console.env, id);
  const backend = localBackend(project, agent);
  const { modelLines } = project;
  try {
    return isPlain
      ? await runPlain(question, { agent, console, flags, sessionId, resume, modelLines })
      : await chatOnce(question, { console, backend, sessionId, resume, modelLines });
  } finally {
    await backend.close();
  }
}

interface PlainRun {
  readonly agent: Agent;
  readonly console: Console;
  readonly flags: Arguments["flags"];
  readonly sessionId: string;
  readonly resume: (sessionId: string) => string;
  readonly modelLines: readonly string[];
}

/** Runs a task without a live screen, for scripts and pipes. */
async function runPlain(
  question: string,
  { agent, console, flags, sessionId, resume, modelLines }: PlainRun,
): Promise<number> {
  const { json = false, quiet = false, yes = false } = flags;
  const note = json || quiet ? console.note : console.print;
  for (const line of [...modelLines, `question  ${question}`, ""]) if (!quiet) note(line);
  const view = createPlainView(json || quiet ? () => {} : console.print, {
    ...(json && { onEvent: (event) => console.print(JSON.stringify(event)) }),
  });
  const signal = cancelSignal(console);
  try {
    const reply = await ask(agent, question, {
      sessionId,
      view,
      decide: (approval) => decideAlone(approval, yes, note),
      signal,
      onWait: noteWaits(console.note),
    });
    if (quiet) console.print(plainAnswer(view.tree));
    else if (!json) {
      if (reply.generateReason === "interrupted") console.print("\nThe run was cancelled.");
      for (const line of plainEnding(view.tree, console.canvas, resume(sessionId)))
        console.print(line);
    }
    return outcomeOf(reply, signal);
  } catch (error) {
    if (json && rootTask(view.tree)?.error) return exitCodes.failed; // the last event has the error
    throw error;
  }
}

/** The agent of this name; the first without one. */
export function agentNamed({ agents }: Project, name: string | undefined): Agent {
  const found = name === undefined ? agents[0] : agents.find((agent) => agent.name === name);
  if (found) return found;
  const names = agents.map((agent) => agent.name);
  const near = nearest(name ?? "", names)[0];
  throw new RivuletError("unknown_agent", `There is no agent ${JSON.stringify(name)}.`, {
    hint: near === undefined ? `The config has ${names.join(", ")}.` : `Did you mean ${near}?`,
  });
}
