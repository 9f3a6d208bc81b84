import type { ListedSession, Message } from "rivulet";
import type { RemoteRun, SessionTask } from "rivulet/client";
import { type RivuletError, textOf, userMessage } from "rivulet/protocol";
import { type AgentOffer, api, server } from "./api.ts";
import { questionOf } from "./attachments.ts";
import { RunLog } from "./run-log.ts";
import { readStored, store } from "./storage.ts";
import { cell, useCell } from "./store.ts";
import { announce, getUi, resetUi, setUi, showError } from "./ui.ts";

/** The session on the page. */
export interface OpenSession {
  /** Undefined: a new session, or a recorded run. */
  readonly id: string | undefined;
  readonly status: "loading" | "ready" | "error";
  readonly turns: readonly RunLog[];
  readonly agentName: string;
  /** The turns that a fork continues, which belong to another session. */
  readonly earlier: readonly RunLog[];
  /** The questions and answers that a fork has copied, if the session that it continues was deleted. */
  readonly copied: readonly Message[];
  /** The name of the file that a recorded run came from. */
  readonly file?: string;
  readonly error?: RivuletError;
}

interface Sessions {
  readonly status: "loading" | "ready" | "error" | "refused";
  readonly agents: readonly AgentOffer[];
  /** Whether the person may see the processes on the store. */
  readonly isOperator: boolean;
  /** The agent that the person has chosen for new runs. */
  readonly picked: string | undefined;
  /** The model that the person has chosen for the next run of the open session. */
  readonly model: string | undefined;
  readonly list: readonly ListedSession[];
  readonly open: OpenSession;
}

/** How often the page looks for changes that other tabs and programs have made. */
const refreshMs = 5_000;

/** Shows another session, and lets go of the runs of the one before. */
function show(open: OpenSession): void {
  const { open: last, model } = getSessions();
  const before = logsOf(last);
  sessions.set({ open, model: open.id === last.id ? model : undefined });
  // The components of the old runs are gone after this render.
  setTimeout(() => {
    for (const turn of before) if (!logsOf(getSessions().open).includes(turn)) turn.close();
  });
}

function logsOf({ earlier, turns }: OpenSession): readonly RunLog[] {
  return [...earlier, ...turns];
}

const blank: OpenSession = {
  id: undefined,
  status: "ready",
  turns: [],
  agentName: "",
  earlier: [],
  copied: [],
};
const sessions = cell<Sessions>({
  ...{ status: "loading", agents: [], isOperator: false, list: [], open: blank },
  ...{ picked: readStored("agent"), model: undefined },
});

export const getSessions = sessions.get;
export function useSessions<S>(select: (sessions: Sessions) => S): S {
  return useCell(sessions, select);
}

/** The log that the stream bar shows: that of the newest turn. */
export function useLog(): RunLog | undefined {
  return useSessions(({ open }) => open.turns.at(-1));
}

/** The agent of new runs: the chosen one, or the first. */
export function pickedAgent({ agents, picked }: Sessions): AgentOffer | undefined {
  return agents.find(({ name }) => name === picked) ?? agents[0];
}

/** The agent of the open session, or of the next run; undefined if the server does not have it any more. */
export function currentAgent(sessions: Sessions): AgentOffer | undefined {
  const { open, agents } = sessions;
  if (open.id === undefined) return pickedAgent(sessions);
  return agents.find(({ name }) => name === open.agentName);
}

/** The model of the next run: the chosen one, that of the run before it, or the agent's own. */
export function pickedModel(sessions: Sessions): string | undefined {
  const { models = [] } = currentAgent(sessions) ?? {};
  const chosen = sessions.model ?? sessions.open.turns.at(-1)?.model;
  return models.find((name) => name === chosen) ?? models[0];
}

export function pickModel(model: string): void {
  sessions.set({ model });
}

/** Chooses the agent of new runs, and begins one. */
export function pickAgent(name: string): void {
  store("agent", name);
  sessions.set({ picked: name, model: undefined });
  const { id, turns } = getSessions().open;
  if (id !== undefined || turns.length > 0) showNew();
}

/** Whether the agent on the page has files. */
export function hasWorkspace(sessions: Sessions): boolean {
  return currentAgent(sessions)?.tools?.some(({ name }) => name === "read_file") ?? false;
}

/** Connects: signs in with the token of the address, then loads the agents and the sessions. */
export async function start(): Promise<void> {
  await signInFromAddress();
  await load();
  await openFromAddress();
  addEventListener("hashchange", () => void onAddress());
  addEventListener("focus", () => void refreshList());
  setInterval(() => document.visibilityState === "visible" && void refreshList(), refreshMs);
}

/** An address that a person pastes into an open page changes only its hash. */
async function onAddress(): Promise<void> {
  if (await signInFromAddress()) await load();
  await openFromAddress();
}

/** Exchanges the token of the address for a cookie; false if there is none. */
async function signInFromAddress(): Promise<boolean> {
  const token = /^#token=([\w~+/=.-]+)$/.exec(location.hash)?.[1];
  if (token === undefined) return false;
  history.replaceState(null, "", location.pathname);
  await api.signIn(token).catch(() => {}); // the next request tells
  return true;
}

/** Signs in with a token that the person has typed. */
export async function signIn(token: string): Promise<void> {
  await api.signIn(token);
  await load();
  await openFromAddress();
}

export async function load(): Promise<void> {
  try {
    const [{ agents, scopes }, list] = await Promise.all([api.agents(), server.sessions.list()]);
    if (getSessions().status === "refused") setUi({ notice: undefined });
    sessions.set({ status: "ready", agents, isOperator: scopes.includes("operator"), list });
  } catch (error) {
    const { code } = error as RivuletError;
    sessions.set({ status: code === "unauthorized" || code === "forbidden" ? "refused" : "error" });
  }
}

async function refreshList(): Promise<void> {
  if (getSessions().status === "refused") return; // only a person can help
  if (getSessions().status !== "ready") {
    await load();
    return openFromAddress();
  }
  const list = await server.sessions.list().catch(() => undefined);
  if (list === undefined || JSON.stringify(list) === JSON.stringify(getSessions().list)) return;
  sessions.set({ list });
  await addTurns();
}

/** Adds the turns that another tab, or another program, has begun in the open session. */
async function addTurns(): Promise<void> {
  const { id } = getSessions().open;
  if (id === undefined) return;
  const isNew = ({ taskId }: SessionTask) =>
    logsOf(getSessions().open).every((turn) => turn.taskId !== taskId);
  try {
    const found = (await server.sessions.tasks(id)).filter(isNew);
    const { open } = getSessions();
    if (open.id === id && open.status === "ready" && found.length > 0)
      show({ ...open, turns: [...open.turns, ...found.filter(isNew).map((turn) => logOf(turn))] });
  } catch {
    // The next look at the list tries again.
  }
}

/** The address of a session on this page. */
export function addressOf(sessionId: string): string {
  return `#/s/${encodeURIComponent(sessionId)}`;
}

async function openFromAddress(): Promise<void> {
  if (getSessions().status !== "ready") return;
  const match = /^#\/s\/(.+)$/.exec(location.hash);
  const id = match?.[1] === undefined ? undefined : decodeURIComponent(match[1]);
  const { open } = getSessions();
  if (id === undefined) {
    if (open.id !== undefined) showNew();
  } else if (id !== open.id) await openSession(id);
}

/** Shows the start page. */
export function showNew(): void {
  resetUi();
  if (location.hash !== "") history.pushState(null, "", location.pathname);
  show(blank);
}

async function openSession(id: string): Promise<void> {
  resetUi();
  show({ ...blank, id, status: "loading" });
  try {
    const [{ session, tasks }, found] = await Promise.all([
      api.session(id),
      server.sessions.tasks(id),
    ]);
    const own = found.filter(({ sessionId }) => sessionId === session.session_id);
    const earlier = found.slice(0, found.length - own.length);
    const isCut = session.forked_from !== undefined && earlier.length === 0;
    const copied = isCut ? await readCopied(id, new Set(tasks.map((task) => task.id))) : [];
    if (getSessions().open.id !== id) return;
    const agentName = tasks.at(-1)?.agent ?? "";
    const logs = {
      earlier: earlier.map((turn) => logOf(turn, true)),
      turns: own.map((turn) => logOf(turn)),
    };
    show({ id, status: "ready", agentName, copied, ...logs });
  } catch (error) {
    if (getSessions().open.id !== id) return;
    show({ ...blank, id, status: "error", error: error as RivuletError });
  }
}

function logOf(
  { taskId, agentName, createdAt, model, input }: SessionTask,
  isEarlier = false,
): RunLog {
  const { text, files } = questionOf(input);
  const run = server.task(taskId);
  return new RunLog({
    ...{ taskId, agentName, model, startedAt: createdAt, isEarlier, run, input: text, files },
  });
}

/** The questions and answers of a session that do not belong to its own tasks. */
async function readCopied(id: string, ownIds: ReadonlySet<string>): Promise<readonly Message[]> {
  return (await server.sessions.read(id)).filter(
    ({ role, content, metadata }) =>
      !ownIds.has(metadata?.taskId ?? "") &&
      (role === "assistant" || (role === "user" && metadata?.input === true)) &&
      textOf(content).trim() !== "",
  );
}

/** The words that tell a fork apart from other sessions with its title; undefined for a session that is no fork. */
export function forkName({ list }: Sessions, sessionId: string | undefined): string | undefined {
  const origin = list.find((session) => session.sessionId === sessionId)?.forkedFrom;
  if (origin === undefined) return undefined;
  const forks = list
    .filter(({ forkedFrom }) => forkedFrom?.sessionId === origin.sessionId)
    .toSorted((one, other) => one.createdAt - other.createdAt);
  return `fork ${forks.findIndex((session) => session.sessionId === sessionId) + 1}`;
}

/** Starts a turn: in the open session, or in a new one. The attached files go with it. */
export async function ask(text: string): Promise<void> {
  const { open } = getSessions();
  const agentName = open.id === undefined ? pickedAgent(getSessions())?.name : open.agentName;
  if (agentName === undefined) return;
  const picked = pickedModel(getSessions());
  const model = picked === currentAgent(getSessions())?.model ? undefined : picked;
  const { attached } = getUi();
  const sessionId = open.id ?? `page-${crypto.randomUUID()}`;
  const blocks = attached.map(({ block }) => block);
  // Files have a message of their own, because the first one is the title of its session.
  const input = blocks.length === 0 ? text : [userMessage(text), userMessage(blocks)];
  const run = server.agent(agentName).run(input, {
    sessionId,
    ...(model !== undefined && { model }),
  });
  const files = attached.map(({ name }) => name);
  await showRun(run, { input: text, agentName, model, files });
  setUi({ attached: [] });
}

/** Asks the question of a turn that has not completed again. */
export async function retry(log: RunLog): Promise<void> {
  if (log.run) await showRun(log.run.retry(), log);
}

/** Shows a run that has just begun as the newest turn. */
async function showRun(
  run: RemoteRun,
  { input, agentName, model, files }: Pick<RunLog, "input" | "agentName" | "model" | "files">,
): Promise<void> {
  const { open } = getSessions();
  const { taskId, sessionId } = await run.task; // the server may store another id than the given one
  const asked = { taskId, input, files, agentName, model };
  const log = new RunLog({ ...asked, run, startedAt: Date.now(), isNew: true });
  if (open.id === undefined) history.pushState(null, "", addressOf(sessionId));
  setUi({ focus: undefined, selected: undefined, steered: undefined, notice: undefined });
  const turns = (open.id === undefined ? [] : getSessions().open.turns).filter(
    (turn) => turn.taskId !== taskId,
  );
  show({ ...open, id: sessionId, status: "ready", agentName, turns: [...turns, log] });
  announce("The run has started.");
  void refreshList();
}

/** Continues from the end of a turn in a new session. */
export async function fork(taskId: string): Promise<void> {
  const { id } = getSessions().open;
  if (id === undefined) return;
  try {
    const { session } = await api.fork(id, taskId);
    location.hash = addressOf(session.session_id);
    await refreshList();
    setUi({ notice: { text: "This is a fork. The run before it is kept.", isError: false } });
  } catch (error) {
    showError(error);
  }
}

export async function deleteSession(id: string): Promise<void> {
  try {
    await server.sessions.delete(id);
    if (getSessions().open.id === id) showNew();
    await refreshList();
  } catch (error) {
    showError(error);
  }
}

/** Shows a recorded run. */
export function openRecording(log: RunLog, file: string): void {
  resetUi();
  history.pushState(null, "", location.pathname);
  show({ ...blank, turns: [log], file });
}
