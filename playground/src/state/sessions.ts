import type { RemoteRun } from "rivulet/client";
import { type ListedSession, type Message, type RivuletError, textOf } from "rivulet/protocol";
import { type AgentOffer, api, type SessionBody, server } from "./api.ts";
import { RunLog } from "./run-log.ts";
import { readStored, store } from "./storage.ts";
import { cell, useCell } from "./store.ts";
import { announce, resetUi, setUi, showError } from "./ui.ts";

/** The session on the page. */
export interface OpenSession {
  /** Undefined: a new session, or a recorded run. */
  readonly id: string | undefined;
  readonly status: "loading" | "ready" | "error";
  readonly turns: readonly RunLog[];
  readonly agentName: string;
  /** The messages that a fork has copied: questions and answers, without the work behind them. */
  readonly earlier: readonly Message[];
  readonly forkedFrom?: { readonly session_id: string; readonly task_id: string };
  /** The name of the file that a recorded run came from. */
  readonly file?: string;
  readonly error?: RivuletError;
}

interface Sessions {
  readonly status: "loading" | "ready" | "error" | "refused";
  readonly agents: readonly AgentOffer[];
  /** The agent that the person has chosen for new runs. */
  readonly picked: string | undefined;
  readonly list: readonly ListedSession[];
  readonly open: OpenSession;
}

/** How often the page looks for changes that other tabs and programs have made. */
const refreshMs = 5_000;

/** Shows another session, and lets go of the runs of the one before. */
function show(open: OpenSession): void {
  const before = getSessions().open.turns;
  sessions.set({ open });
  // The components of the old runs are gone after this render.
  setTimeout(() => {
    for (const turn of before) if (!getSessions().open.turns.includes(turn)) turn.close();
  });
}

const blank: OpenSession = {
  id: undefined,
  status: "ready",
  turns: [],
  agentName: "",
  earlier: [],
};
const sessions = cell<Sessions>({
  ...{ status: "loading", agents: [], list: [], open: blank },
  picked: readStored("agent"),
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

/** Chooses the agent of new runs, and begins one. */
export function pickAgent(name: string): void {
  store("agent", name);
  sessions.set({ picked: name });
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
    const [{ agents }, list] = await Promise.all([api.agents(), server.sessions.list()]);
    if (getSessions().status === "refused") setUi({ notice: undefined });
    sessions.set({ status: "ready", agents, list });
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
  const isNew = (taskId: string) =>
    getSessions().open.turns.every((turn) => turn.taskId !== taskId);
  try {
    const found = await api.session(id);
    const newest = found.tasks.at(-1);
    if (newest === undefined || !isNew(newest.id)) return;
    const turns = turnsOf(found, await server.sessions.read(id));
    const { open } = getSessions();
    const added = turns.filter(({ taskId }) => isNew(taskId));
    if (open.id === id && open.status === "ready" && added.length > 0)
      show({ ...open, turns: [...open.turns, ...added] });
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
    const [{ session, tasks }, messages] = await Promise.all([
      api.session(id),
      server.sessions.read(id),
    ]);
    const turns = turnsOf({ session, tasks }, messages);
    if (getSessions().open.id !== id) return;
    const { forked_from: forkedFrom } = session;
    const agentName = tasks.at(-1)?.agent ?? "";
    const ids = new Set(tasks.map((task) => task.id));
    const earlier = messages.filter(
      ({ role, content, metadata }) =>
        forkedFrom !== undefined &&
        !ids.has(metadata?.taskId ?? "") &&
        (role === "assistant" || (role === "user" && metadata?.input === true)) &&
        textOf(content).trim() !== "",
    );
    show({ id, status: "ready", turns, agentName, earlier, ...(forkedFrom && { forkedFrom }) });
  } catch (error) {
    if (getSessions().open.id !== id) return;
    show({ ...blank, id, status: "error", error: error as RivuletError });
  }
}

/** The turns of a session: one for each of its root tasks. */
function turnsOf({ session, tasks }: SessionBody, messages: readonly Message[]): RunLog[] {
  const inputs = new Map<string, string>();
  for (const { metadata, content, role } of messages) {
    const { taskId, input } = metadata ?? {};
    if (taskId === undefined || input !== true || role !== "user") continue;
    inputs.set(taskId, [inputs.get(taskId), textOf(content)].filter(Boolean).join("\n\n"));
  }
  // The first task of a fork only holds the copied messages.
  const own = session.forked_from ? tasks.slice(1) : tasks;
  return own.map(({ id: taskId, agent: agentName, created_at: startedAt }) => {
    const run = server.task(taskId);
    return new RunLog({ taskId, startedAt, run, agentName, input: inputs.get(taskId) ?? "" });
  });
}

/** Starts a turn: in the open session, or in a new one. */
export async function ask(input: string): Promise<void> {
  const { open } = getSessions();
  const agentName = open.id === undefined ? pickedAgent(getSessions())?.name : open.agentName;
  if (agentName === undefined) return;
  const given = open.id ?? `page-${crypto.randomUUID()}`;
  await showRun(server.agent(agentName).run(input, { sessionId: given }), input, agentName);
}

/** Asks the question of a turn that has not completed again. */
export async function retry({ run, input, agentName }: RunLog): Promise<void> {
  if (run) await showRun(run.retry(), input, agentName);
}

/** Shows a run that has just begun as the newest turn. */
async function showRun(run: RemoteRun, input: string, agentName: string): Promise<void> {
  const { open } = getSessions();
  const { taskId, sessionId } = await run.task; // the server may store another id than the given one
  const log = new RunLog({ taskId, input, run, agentName, startedAt: Date.now(), isNew: true });
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
