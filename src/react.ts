"use client";

import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { type RivuletError, rivuletErrorOf } from "./base/error.ts";
import { createIds } from "./base/id.ts";
import { isObject } from "./base/plain.ts";
import {
  type Connection,
  createTaskStore,
  type RemoteRun,
  type RemoteServer,
  type TaskStore,
  type TaskStoreSnapshot,
} from "./client/index.ts";
import {
  type Approval,
  approvalIn,
  type Input,
  type Message,
  type Run,
  userMessage,
} from "./contract/index.ts";
import { type Task, type Tree, taskOf, waitingApprovals } from "./protocol/index.ts";

/** The source of the hooks: a run, or a store of your own. */
export type TaskSource = Run<unknown> | TaskStore;

const ids = createIds();

/** The state that all components of a run share: its store with one connection, and its last selected approvals. */
interface Shared {
  readonly store: TaskStore;
  approvals?: { readonly key: string; readonly list: readonly Approval[] };
}
const shared = new WeakMap<TaskSource, Shared>();

function sharedBy(run: TaskSource): Shared {
  const store = () => ("getSnapshot" in run ? run : createTaskStore(run));
  const known = shared.get(run) ?? { store: store() };
  shared.set(run, known);
  return known;
}

function storeOf(run: TaskSource): TaskStore {
  return "getSnapshot" in run ? run : sharedBy(run).store;
}

/** A part of the state of a run; the component renders when this part changes. */
function useSelected<T>(
  run: TaskSource | undefined,
  select: (snapshot: TaskStoreSnapshot) => T,
): T | undefined {
  const store = run && storeOf(run);
  const subscribe = useCallback(
    (onChange: () => void) => store?.subscribe(onChange) ?? (() => {}),
    [store],
  );
  const getSelected = () => store && select(store.getSnapshot());
  return useSyncExternalStore(subscribe, getSelected, getSelected);
}

/**
 * A task of a run: the root, or the task with this id; undefined before its first event. The component renders only when
 * this task changes.
 */
export function useTask(run: TaskSource | undefined, taskId?: string): Task | undefined {
  return useSelected(run, ({ tree }) => taskOf(tree, taskId ?? tree.rootId));
}

/** The connection of a run to its server. */
export function useConnection(run: TaskSource | undefined): Connection | undefined {
  return useSelected(run, ({ connection }) => connection);
}

const noApprovals: readonly Approval[] = [];

/** The approvals of a run that wait for an answer, at any depth. */
export function useApprovals(run: TaskSource | undefined): readonly Approval[] {
  const approvals = useSelected(run, ({ tree }) => {
    const key = waitingApprovals(tree)
      .map(({ approval }) => approval.approval_id)
      .join(" ");
    if (run === undefined) return undefined;
    const seen = sharedBy(run);
    // Other changes do not render.
    if (seen.approvals?.key !== key) seen.approvals = { key, list: approvalsIn(tree) };
    return seen.approvals.list;
  });
  return approvals ?? noApprovals;
}

function approvalsIn(tree: Tree): readonly Approval[] {
  return waitingApprovals(tree).flatMap(({ taskId, approval }) => {
    const task = taskOf(tree, taskId);
    return task ? [approvalIn(task, approval, tree.rootId ?? taskId)] : [];
  });
}

/** A question in a session, and the run that answers it. */
export interface SessionRun {
  /** The messages that the run was started with. */
  readonly input: readonly Message[];
  /** Show it with `useTask`, whether it has ended or still works. */
  readonly run: RemoteRun;
}

/** A session as a page shows it. */
export interface SessionView {
  readonly status: "loading" | "ready" | "error";
  /** All runs of the session, oldest first; those of a fork begin with the runs that it continues. */
  readonly runs: readonly SessionRun[];
  /** The newest run. */
  readonly run: RemoteRun | undefined;
  /** Starts a run, or continues the suspended one with answers. */
  send(input: Input): RemoteRun;
  readonly error?: RivuletError;
}

interface LoadedSession {
  readonly runs: readonly SessionRun[];
  readonly status: SessionView["status"];
  readonly error?: RivuletError;
}

const loading: LoadedSession = { status: "loading", runs: [] };

/** A session of a server: its runs, of which the newest may still work. A session that does not exist is empty. */
export function useSession(
  server: RemoteServer,
  agentName: string,
  sessionId: string,
): SessionView {
  const [loaded, setLoaded] = useState(loading);
  const agent = useMemo(() => server.agent(agentName), [server, agentName]);

  useEffect(() => {
    let isCurrent = true;
    setLoaded(loading);
    loadRuns(server, sessionId).then(
      (runs) => isCurrent && setLoaded({ status: "ready", runs }),
      (error: unknown) =>
        isCurrent && setLoaded({ status: "error", runs: [], error: rivuletErrorOf(error) }),
    );
    return () => {
      isCurrent = false;
    };
  }, [server, sessionId]);

  const send = useCallback(
    (input: Input) => {
      const run = agent.run(input, { sessionId });
      const messages = messagesIn(input);
      if (messages.length > 0)
        setLoaded(({ runs }) => ({ status: "ready", runs: [...runs, { input: messages, run }] }));
      return run;
    },
    [agent, sessionId],
  );
  return useMemo(() => ({ ...loaded, run: loaded.runs.at(-1)?.run, send }), [loaded, send]);
}

async function loadRuns(server: RemoteServer, sessionId: string): Promise<readonly SessionRun[]> {
  const tasks = await server.sessions.tasks(sessionId).catch((error: unknown) => {
    if (rivuletErrorOf(error).code === "not_found") return [];
    throw error;
  });
  return tasks.map(({ taskId, input }) => {
    const run = server.task(taskId);
    // A snapshot shows an ended run as its events do, in fewer bytes.
    shared.set(run, { store: createTaskStore(run, { from: "now" }) });
    return { input, run };
  });
}

/** The messages of an input as a session has them; answers belong to a run that exists. */
function messagesIn(input: Input): readonly Message[] {
  const entries: readonly unknown[] = Array.isArray(input) ? input : [input];
  return entries.flatMap((entry) => {
    if (typeof entry === "string") return [userMessage(entry)];
    if (!isObject(entry) || !("role" in entry)) return [];
    const { content } = entry;
    const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
    return [{ id: ids.next("msg"), ...entry, content: blocks } as unknown as Message];
  });
}
