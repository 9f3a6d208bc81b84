import { nearest } from "../base/options.ts";
import { type SessionInfo, textOf } from "../contract/index.ts";
import { twoColumns } from "./arguments.ts";
import type { Chat } from "./chat.ts";
import { newSessionId } from "./outcome.ts";
import { renderTree } from "./render.ts";
import { shortTime } from "./roster.ts";
import { column, cutTo, printable, wrap } from "./text.ts";

/** A command of the chat. */
interface ChatCommand {
  readonly operand?: string;
  readonly summary: string;
  readonly run: (operand: string, chat: Chat) => Promise<void> | void;
}

const shownSessions = 10;
/** How many messages from the end of a session are searched for the last question and answer. */
const readMessages = 60;

const commands: Readonly<Record<string, ChatCommand>> = {
  help: { summary: "list the commands", run: (_, chat) => chat.print(...helpLines(chat)) },
  sessions: { summary: "list the sessions, newest first", run: listSessions },
  resume: { operand: "number or id", summary: "continue another session", run: resume },
  new: {
    summary: "begin a new session",
    run: (_, chat) => {
      if (isIdle(chat)) chat.sessionId = newSessionId();
      chat.print(`Session ${chat.sessionId}.`);
    },
  },
  model: {
    operand: "provider:id",
    summary: "use another model for the next messages; subagents that name a model keep it",
    run: setModel,
  },
  tree: { summary: "print everything that the agents did in the last run", run: printTree },
  kill: {
    summary: "kill the server process (demo); it restarts and every agent continues",
    run: kill,
  },
  quit: { summary: "cancel the run, if there is one, and leave", run: (_, chat) => chat.leave(0) },
};

/** Runs a line that begins with a slash. */
export async function runCommand(text: string, chat: Chat): Promise<void> {
  const [, name = "", operand = ""] = /^\/(\S*)\s*(.*)$/s.exec(text) ?? [];
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command) return command.run(operand.trim(), chat);
  const near = nearest(name, Object.keys(commands))[0];
  chat.print(
    `There is no command /${printable(name)}. ${near ? `Did you mean /${near}?` : "/help lists them."}`,
  );
}

function helpLines({ backend, terminal }: Chat): readonly string[] {
  const offered = Object.entries(commands).filter(([name]) => name !== "kill" || backend.kill);
  const rows = offered.map(
    ([name, { operand, summary }]) =>
      [`/${name}${operand ? ` <${operand}>` : ""}`, summary] as const,
  );
  return [
    ...twoColumns(rows, terminal.screen.columns),
    "While agents work: Enter steers them, Tab shows their details, Ctrl-C cancels, Ctrl-C twice leaves.",
  ];
}

async function listSessions(_: string, chat: Chat): Promise<void> {
  const sessions = await chat.backend.sessions.list({ limit: shownSessions });
  if (sessions.length === 0) return void chat.print("There is no session yet.");
  const lines = sessions.map((session, index) => sessionLine(session, index, chat));
  chat.print(...lines, "Continue one with /resume <number or id>.");
}

function sessionLine(
  { sessionId, title = "", messages, updatedAt }: SessionInfo,
  index: number,
  chat: Chat,
): string {
  const current = sessionId === chat.sessionId ? "*" : " ";
  const age = `${shortTime(Date.now() - updatedAt)} ago`;
  const head = `${current}${String(index + 1).padStart(2)}  ${sessionId}  ${column(age, 9)}  ${messages} messages  `;
  return cutTo(`${head}${printable(title)}`, Math.max(20, chat.terminal.screen.columns));
}

async function resume(operand: string, chat: Chat): Promise<void> {
  if (!isIdle(chat)) return;
  const sessions = await chat.backend.sessions.list({ limit: shownSessions });
  const id = /^\d{1,2}$/.test(operand) ? sessions[Number(operand) - 1]?.sessionId : operand;
  if (!id) return void chat.print("Name a session: /resume <number or id>. /sessions lists them.");
  const info = sessions.find(({ sessionId }) => sessionId === id);
  const from = Math.max(0, (info?.messages ?? 0) - readMessages);
  const messages = await chat.backend.sessions.read(id, { from });
  chat.sessionId = id;
  chat.usedSession = id;
  const spoken = messages
    .map(({ role, content }) => ({ role, text: withoutMarkers(printable(textOf(content))).trim() }))
    .filter(({ text }) => text !== "");
  const last = ["user", "assistant"].flatMap(
    (role) => spoken.findLast((it) => it.role === role) ?? [],
  );
  for (const { role, text } of last)
    chat.print(...wrap(role === "user" ? `> ${text}` : text, chat.terminal.screen.columns));
  chat.print(`Session ${id}.`);
  await chat.send(undefined);
}

/** The numbers of citations count through a whole session and mean nothing without the list of sources. */
function withoutMarkers(text: string): string {
  return text.replace(/\[\^\d+\]/g, "");
}

async function setModel(operand: string, chat: Chat): Promise<void> {
  const { backend } = chat;
  if (operand === "")
    return void chat.print("Name a model: /model provider:id, such as /model openai:gpt-5-mini.");
  if (backend.setModel === undefined)
    return void chat.print(
      "The server chooses the model. Start it again with --model provider:id.",
    );
  await backend.setModel(operand);
  chat.print(`The next messages use ${operand}. Subagents that name a model keep it.`);
}

function printTree(_: string, { view, terminal }: Chat): void {
  terminal.screen.print(view ? renderTree(view.tree, terminal.screen) : ["There is no run yet."]);
}

async function kill(_: string, chat: Chat): Promise<void> {
  const { kill: killServer } = chat.backend;
  if (killServer === undefined)
    return void chat.print("Only the demo has a server to kill: rivulet serve --demo --terminal");
  chat.print("Killing the server process with SIGKILL.");
  await killServer();
}

function isIdle(chat: Chat): boolean {
  if (chat.isBusy) chat.print("Agents are at work. Wait for them, or cancel with Ctrl-C.");
  return !chat.isBusy;
}
