"use client";

import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import type { Approval, Input, Run } from "../protocol/agent.ts";
import { approvalIn } from "../protocol/approval.ts";
import { type RivuletError, rivuletErrorOf } from "../protocol/error.ts";
import type { Message } from "../protocol/message.ts";
import { taskOf, waitingApprovals } from "../protocol/select.ts";
import type { Task, Tree } from "../protocol/task.ts";
import type { RemoteServer } from "./connect.ts";
import type { Connection } from "./reader.ts";
import type { RemoteAgent } from "./remote-agent.ts";
import type { RemoteRun } from "./remote-run.ts";
import { createTaskStore, type TaskStore, type TaskStoreSnapshot } from "./task-store.ts";

/** What the hooks read: a run, or a store of your own. */
export type TaskSource = Run<unknown> | TaskStore;

/** All components that show a run share its store, and so its connection. */
const stores = new WeakMap<Run<unknown>, TaskStore>();

function storeOf(run: TaskSource): TaskStore {
  if ("getSnapshot" in run) return run;
  const store = stores.get(run) ?? createTaskStore(run);
  stores.set(run, store);
  return store;
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
/** The approvals of each run as they were last selected, so that other changes do not render. */
const selected = new WeakMap<
  TaskSource,
  { readonly key: string; readonly approvals: readonly Approval[] }
>();

/** The approvals of a run that wait for an answer, at any depth. */
export function useApprovals(run: TaskSource | undefined): readonly Approval[] {
  const approvals = useSelected(run, ({ tree }) => {
    const key = waitingApprovals(tree)
      .map(({ approval }) => approval.approval_id)
      .join(" ");
    const last = run && selected.get(run);
    if (run === undefined || last?.key === key) return last?.approvals;
    const approvals = approvalsIn(tree);
    selected.set(run, { key, approvals });
    return approvals;
  });
  return approvals ?? noApprovals;
}

function approvalsIn(tree: Tree): readonly Approval[] {
  return waitingApprovals(tree).flatMap(({ taskId, approval }) => {
    const task = taskOf(tree, taskId);
    return task ? [approvalIn(task, approval, tree.rootId ?? taskId)] : [];
  });
}

/** A session as a page shows it. */
export interface SessionView {
  readonly status: "loading" | "ready" | "error";
  /** The messages, without those that `run` shows. */
  readonly messages: readonly Message[];
  /** The newest run of the session; show it with `useTask`. */
  readonly run: RemoteRun | undefined;
  /** Starts a run, or continues the suspended one with answers. */
  send(input: Input): RemoteRun;
  readonly error?: RivuletError;
}

interface LoadedSession {
  readonly messages: readonly Message[];
  readonly run?: RemoteRun;
  readonly status: SessionView["status"];
  readonly error?: RivuletError;
}

const loading: LoadedSession = { status: "loading", messages: [] };

/** A session of a server: its messages and its newest run, which may still work. A session that does not exist is empty. */
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
    loadSession(server, agent, sessionId).then(
      (session) => isCurrent && setLoaded(session),
      (error: unknown) =>
        isCurrent && setLoaded({ status: "error", messages: [], error: rivuletErrorOf(error) }),
    );
    return () => {
      isCurrent = false;
    };
  }, [server, agent, sessionId]);

  const send = useCallback(
    (input: Input) => {
      const run = agent.run(input, { sessionId });
      setLoaded((session) => ({ ...session, status: "ready", run }));
      // The messages of the run before this one, and the input of this one.
      loadMessages(server, sessionId, run).then(
        (messages) => setLoaded((now) => (now.run === run ? { ...now, messages } : now)),
        () => {}, // the run reports the error
      );
      return run;
    },
    [server, agent, sessionId],
  );
  return useMemo(() => ({ run: undefined, ...loaded, send }), [loaded, send]);
}

async function loadSession(
  server: RemoteServer,
  agent: RemoteAgent,
  sessionId: string,
): Promise<LoadedSession> {
  const run = agent.attach({ sessionId });
  try {
    await run.task;
  } catch (error) {
    if (rivuletErrorOf(error).code === "not_found") return { status: "ready", messages: [] };
    throw error;
  }
  return { status: "ready", messages: await loadMessages(server, sessionId, run), run };
}

/** The messages of a session up to the input of a run; the run shows the rest. */
async function loadMessages(
  server: RemoteServer,
  sessionId: string,
  run: RemoteRun,
): Promise<readonly Message[]> {
  const { taskId } = await run.task;
  const messages = await server.sessions.read(sessionId);
  return messages.filter(
    ({ metadata }) => metadata?.taskId !== taskId || metadata.input !== undefined,
  );
}
