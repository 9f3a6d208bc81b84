import type { Agent, WaitReason } from "../protocol/agent.ts";
import { RivuletError } from "../protocol/error.ts";
import type { Reply } from "../protocol/message.ts";
import { nearest } from "../protocol/options.ts";
import { rootTask } from "../protocol/select.ts";
import type { Tree } from "../protocol/task.ts";
import { type Arguments, usageError } from "./arguments.ts";
import { ask } from "./ask.ts";
import { localBackend } from "./backend.ts";
import { chatOnce } from "./chat.ts";
import { citedText } from "./citations.ts";
import { loadProject, type Project } from "./config.ts";
import type { Console } from "./console.ts";
import { decideAlone } from "./decide.ts";
import { answerOf } from "./ending.ts";
import { createPlainView } from "./plain-view.ts";
import { renderUsage } from "./render.ts";

/** Exit codes: the outcome of a run. */
export const exitCodes = {
  completed: 0,
  failed: 1,
  usage: 2,
  incomplete: 3,
  cancelled: 130,
} as const;

/** `rivulet run`: one task; the exit code tells its outcome. */
export async function runOnce({ operands, flags }: Arguments, console: Console): Promise<number> {
  const question = operands.join(" ").trim();
  if (question === "")
    throw usageError("rivulet run needs a prompt.", 'Write: rivulet run "your question".');
  const project = await loadProject(flags, console.env);
  const agent = agentNamed(project, flags.agent);
  const sessionId = flags.session ?? newSessionId();
  const isPlain = !console.isTerminal || flags.json || flags.quiet || flags.yes;
  const command = resumeCommand(flags.demo ?? false, sessionId);
  if (!isPlain) {
    const backend = localBackend(project, agent);
    try {
      return await chatOnce(question, {
        console,
        backend,
        sessionId,
        resume: command,
        modelLines: project.modelLines,
      });
    } finally {
      await backend.close();
    }
  }
  const { json = false, quiet = false, yes = false } = flags;
  const note = json || quiet ? console.note : console.print;
  for (const line of [...project.modelLines, `question  ${question}`, ""]) if (!quiet) note(line);
  const view = createPlainView(json || quiet ? () => {} : console.print, {
    ...(json && { onEvent: (event) => console.print(JSON.stringify(event)) }),
  });
  const cancel = new AbortController();
  process.on("SIGINT", () => {
    if (cancel.signal.aborted) process.exit(exitCodes.cancelled);
    cancel.abort(new Error("cancelled"));
  });
  const backend = localBackend(project, agent);
  try {
    const reply = await ask(agent, question, {
      sessionId,
      view,
      decide: (approval) => decideAlone(approval, yes, note),
      signal: cancel.signal,
      onWait: (reason) => console.note(waitText(reason)),
    });
    if (quiet) console.print(plainAnswer(view.tree));
    else if (!json) printEnding(view.tree, reply, console, command);
    return outcomeOf(reply, cancel.signal);
  } catch (error) {
    if (json && rootTask(view.tree)?.error) return exitCodes.failed; // the last event has the error
    throw error;
  } finally {
    await backend.close();
  }
}

/** The exit code of a reply. */
export function outcomeOf({ generateReason, approvals }: Reply, signal: AbortSignal): number {
  if (generateReason === "interrupted" || signal.aborted) return exitCodes.cancelled;
  if (approvals.length > 0 || generateReason === "approval_required") return exitCodes.incomplete;
  return generateReason === "model_stop" || generateReason === "structured_output"
    ? exitCodes.completed
    : exitCodes.incomplete;
}

function plainAnswer(tree: Tree): string {
  const answer = answerOf(tree);
  if (answer === undefined) return "";
  const { text, citations } = citedText(tree, answer);
  const sources = citations.map(({ marker, place }) => `${marker}: ${place}`);
  return [text, ...(sources.length > 0 ? ["", ...sources] : [])].join("\n");
}

/** The answer once more, after all the lines of the agents. */
function printEnding(tree: Tree, reply: Reply, console: Console, resume: string): void {
  if (reply.generateReason === "interrupted") console.print("\nThe run was cancelled.");
  const answer = plainAnswer(tree);
  console.print(answer === "" ? "" : `\nanswer\n${answer}\n`);
  console.print(["used", ...renderUsage(tree, console.canvas)].join("\n  "));
  console.print(`\ncontinue  ${resume}`);
}

/** Why a run does not begin, for people. */
export function waitText({ reason, leftMs = 0 }: WaitReason): string {
  if (reason === "busy") return "Waiting for another task of this session.";
  if (reason === "unknown_agent") return "Waiting for a process that has the agent of this task.";
  const seconds = Math.ceil(leftMs / 1_000);
  return `Waiting for a process that stopped responding; taking over in ${seconds} s.`;
}

/** A new id that a person can type. */
export function newSessionId(): string {
  return crypto.randomUUID().slice(0, 8);
}

/** The command that continues a session. */
export function resumeCommand(isDemo: boolean, sessionId: string): string {
  const id = /^[\w.-]+$/.test(sessionId) ? sessionId : JSON.stringify(sessionId);
  return isDemo ? `npm start -- --terminal --session ${id}` : `rivulet --session ${id}`;
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
