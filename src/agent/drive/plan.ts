import { notFound } from "../../base/error.ts";
import { agentKeyOf } from "../../base/id.ts";
import { frozenCopy } from "../../base/plain.ts";
import {
  type Post,
  type RunOptions,
  type StandardSchema,
  type Store,
  type TaskRecord,
  userMessage,
} from "../../contract/index.ts";
import {
  type ChildStarted,
  isTerminal,
  type TaskObject,
  type TaskTree,
  toolOf,
} from "../../protocol/index.ts";
import { refOf } from "../loop/ending.ts";
import { isControl, isFor } from "../loop/inbox.ts";
import type { AgentSettings } from "../loop/settings.ts";
import type { TaskRun } from "../loop/task-run.ts";
import { toJsonSchema } from "../tool/schema.ts";
import { freeCancelled } from "./home.ts";

/** The statuses of a task that has not ended. */
export const unfinished = ["queued", "in_progress", "suspended"] as const;

/** The unfinished tasks of a conversation and the rows of its inbox. */
export class Workload {
  /** In insertion order. */
  readonly records: readonly TaskRecord[];
  readonly posts: readonly Post[];
  readonly #byId: ReadonlyMap<string, TaskRecord>;
  /** The ended roots of the records, and the ended targets of the rows. */
  readonly #ended: ReadonlyMap<string, TaskRecord>;

  constructor(
    records: readonly TaskRecord[],
    posts: readonly Post[],
    ended: readonly TaskRecord[] = [],
  ) {
    const byId = (all: readonly TaskRecord[]) => new Map(all.map((one) => [one.taskId, one]));
    this.records = records;
    this.posts = posts;
    this.#byId = byId(records);
    this.#ended = byId(ended);
  }

  /** Rows are read before records, so that a row taken in between cannot look like one that waits. */
  static async read(store: Store, conversation: string): Promise<Workload> {
    const posts = await store.posts({ conversation });
    const records = await store.tasks({ conversation, status: unfinished });
    const known = new Set(records.map(({ taskId }) => taskId));
    const targets = posts.flatMap((post) => (isControl(post) ? (targetId(post) ?? []) : []));
    const ids = new Set([...records.map(({ rootTaskId }) => rootTaskId), ...targets]);
    const others = [...ids].filter((id) => !known.has(id)).map((id) => store.task(id));
    const ended = (await Promise.all(others)).filter((record) => record !== undefined);
    return new Workload(records, posts, ended);
  }

  /** The root of a task, even if it has ended. */
  root({ rootTaskId }: TaskRecord): TaskRecord | undefined {
    return this.#byId.get(rootTaskId) ?? this.#ended.get(rootTaskId);
  }

  /** Whether an answer or a cancel came too late: it must be dropped, or the conversation stays listed as expired. */
  isStale(post: Post): boolean {
    if (!isControl(post) || this.target(post)) return false;
    const id = targetId(post) ?? "";
    const record = this.#byId.get(id) ?? this.#ended.get(id);
    if (record === undefined) return post.taskId !== undefined;
    return isTerminal(record.status) || (post.ifQueued === true && record.status !== "queued");
  }

  record(taskId: string | undefined): TaskRecord | undefined {
    return taskId === undefined ? undefined : this.#byId.get(taskId);
  }

  /** The task of a session that runs first. */
  first(sessionId: string): TaskRecord | undefined {
    return this.records.find((record) => record.sessionId === sessionId);
  }

  /** The unfinished task that an answer or a cancel is for; undefined when the row has no effect any more. */
  target(post: Post): TaskRecord | undefined {
    if (!isControl(post)) return undefined;
    const target = this.records.find((record) => isFor(post, record));
    return post.ifQueued && target?.status !== "queued" ? undefined : target;
  }

  /** The task to drive so that `record` moves: itself, or the topmost parent whose call waits for it. */
  top(record: TaskRecord): TaskRecord {
    let top = record;
    while (top.mode === "sync") {
      const parent = this.record(top.parentTaskId);
      if (parent === undefined) break;
      top = parent;
    }
    return top;
  }

  /** The id of the task to drive so that a task moves; undefined when the task has ended. */
  topId({ taskId }: TaskRecord): string | undefined {
    const record = this.record(taskId);
    return record && this.top(record).taskId;
  }

  /** The answers and cancels for a task and for those that its calls wait for. */
  rowsFor(taskId: string): readonly Post[] {
    return this.posts.filter((post) => {
      let target = this.target(post);
      while (target !== undefined && target.taskId !== taskId) {
        target = target.mode === "sync" ? this.record(target.parentTaskId) : undefined;
      }
      return target !== undefined;
    });
  }
}

function targetId({ taskId, message, rootTaskId }: Post): string | undefined {
  return taskId ?? message?.metadata?.taskId ?? rootTaskId;
}

/** The tasks that a process drives, and the agents that it has. */
export interface Capacity {
  isDriven(taskId: string): boolean;
  /** Whether the process has the agent of a root. */
  hasAgent(root: TaskRecord): boolean;
  /** Rows that an earlier drive saw and left: they start nothing on their own. */
  isTried?(postId: string): boolean;
}

/** The work that can start now. */
export interface Plan {
  /** Undriven tasks that can move and that no parent's call waits for. */
  readonly tasks: readonly TaskRecord[];
  /** Answers and cancels that came too late. */
  readonly stale: readonly Post[];
  /** Whether the root session is idle and has input that no task was started for. */
  readonly wakes: boolean;
}

/** Lists the work that can start; a process takes a lease only for such work. */
export function plan(workload: Workload, sessionId: string, capacity: Capacity): Plan {
  const called = new Set<string>();
  for (const post of workload.posts) {
    const target = workload.target(post);
    if (target && !capacity.isTried?.(post.id)) called.add(workload.top(target).taskId);
  }
  const stale = workload.posts.filter((post) => workload.isStale(post));
  const started = new Set<string>();
  const tasks: TaskRecord[] = [];
  for (const record of workload.records) {
    const isFirst = !started.has(record.sessionId);
    started.add(record.sessionId);
    const { taskId, status } = record;
    const canMove =
      called.has(taskId) || status === "in_progress" || (status === "queued" && isFirst);
    if (!canMove || capacity.isDriven(taskId)) continue;
    if (!capacity.hasAgent(workload.root(record) ?? record)) continue;
    if (workload.top(record) === record) tasks.push(record);
  }
  const isWake = (post: Post) =>
    post.kind === "input" && post.taskId === undefined && post.sessionId === sessionId;
  return { tasks, stale, wakes: !started.has(sessionId) && workload.posts.some(isWake) };
}

/** The unfinished descendants of a task, without those below another unfinished descendant. */
export function unfinishedBelow(
  tree: readonly TaskRecord[],
  taskId: string,
): readonly TaskRecord[] {
  const byId = new Map(tree.map((record) => [record.taskId, record]));
  const isTopmost = ({ parentTaskId }: TaskRecord): boolean => {
    for (let id = parentTaskId; id !== undefined; ) {
      if (id === taskId) return true;
      const above = byId.get(id);
      if (above === undefined || !isTerminal(above.status)) return false;
      id = above.parentTaskId;
    }
    return false;
  };
  return tree.filter((record) => !isTerminal(record.status) && isTopmost(record));
}

/** The unfinished tasks of a tree and all tasks above them; ended tasks without these are not read. */
export async function unfinishedTree(
  store: Store,
  conversation: string,
  rootTaskId: string,
): Promise<readonly TaskRecord[]> {
  const open = await store.tasks({ conversation, rootTaskId, status: unfinished });
  const byId = new Map(open.map((record) => [record.taskId, record]));
  for (let level: readonly TaskRecord[] = open; level.length > 0; ) {
    const ids = new Set(level.map(({ parentTaskId }) => parentTaskId));
    const unread = [...ids].filter((id) => id !== undefined && !byId.has(id)) as string[];
    const read = await Promise.all(unread.map((id) => store.task(id)));
    level = read.filter((record) => record !== undefined);
    for (const record of level) byId.set(record.taskId, record);
  }
  return [...byId.values()];
}

/** The row that cancels a task; with `ifQueued` only if the task has not begun. */
export function cancelRow(record: TaskRecord, reason: string, ifQueued = false): Post {
  const id = `${ifQueued ? "withdraw" : "cancel"}:${record.taskId}`;
  const row = { id, kind: "cancel", ...refOf(record), message: userMessage(reason) } as const;
  return ifQueued ? { ...row, ifQueued } : row;
}

async function endedTargets(store: Store, record: TaskRecord): Promise<readonly TaskRecord[]> {
  const { rootTaskId, taskId } = record;
  const root = (await store.task(rootTaskId)) ?? record;
  return unfinishedBelow(await unfinishedTree(store, root.sessionId, rootTaskId), taskId);
}

/** Cancels a task or, if it has ended, its unfinished descendants; returns the tasks that will end. */
export async function postCancel(
  store: Store,
  taskId: string,
  reason: string,
): Promise<readonly TaskRecord[]> {
  const record = await store.task(taskId);
  if (record === undefined) throw notFound("task", taskId);
  const targets = isTerminal(record.status) ? await endedTargets(store, record) : [record];
  if (targets.length === 0) return [];
  await store.post(targets.map((target) => cancelRow(target, reason)));
  const root = await store.task(record.rootTaskId);
  if (root) await freeCancelled(store, root);
  return targets;
}

/** The record of a new root task. */
export function rootRecord(
  settings: AgentSettings,
  sessionId: string,
  options: RunOptions<StandardSchema | undefined>,
): TaskRecord {
  const { ids, clock, agentId, name } = settings;
  const taskId = options.taskId ?? ids.next("task");
  return {
    taskId,
    rootTaskId: taskId,
    agentId,
    agentName: name,
    agentKey: agentKeyOf(agentId, ids.uuid()),
    sessionId,
    ...(options.userId !== undefined && { userId: options.userId }),
    depth: 0,
    path: sessionId,
    createdAt: clock.now(),
    mode: "sync",
    status: "queued",
    committedOutput: 0,
    ...(options.output && { outputSchema: toJsonSchema(options.output) }),
    ...(options.budget && { budget: frozenCopy(options.budget) }),
    ...(options.model !== undefined && { model: options.model }),
    ...(options.priority && { priority: options.priority }),
    ...(options.outsideTools && { outsideTools: frozenCopy(options.outsideTools) }),
    ...(options.metadata && { metadata: frozenCopy(options.metadata) }),
    ...(options.origin && { origin: frozenCopy(options.origin) }),
  };
}

/** The record of a descendant of the child. */
export function childRecord(
  { state: { record: parent } }: TaskRun,
  { child_task_id: taskId, call_id, agent, item_id: parentItemId, mode }: ChildStarted,
  sessionId: string,
  { created_at: createdAt = 0, mode: created = mode }: Partial<TaskObject> = {},
  tree?: TaskTree,
): TaskRecord {
  const { rootTaskId, userId, depth, path, sessionId: parentSessionId, remote } = parent;
  const { id: agentId, name: agentName = agentId, key: agentKey } = agent;
  const tool = toolOf(tree?.task(parent.taskId)?.output, call_id);
  return {
    taskId,
    rootTaskId,
    parentTaskId: parent.taskId,
    parentItemId,
    agentId,
    agentName,
    agentKey,
    sessionId,
    parentSessionId,
    ...(userId !== undefined && { userId }),
    depth: depth + 1,
    path: `${path}/${agentId}`,
    createdAt,
    mode: created,
    status: "queued",
    committedOutput: 0,
    ...(tool !== undefined && { tool }),
    ...(remote && { remote }),
  };
}
