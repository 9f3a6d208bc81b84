import type { TaskQuery, TaskRecord } from "../contract/index.ts";
import { isTerminal } from "../protocol/index.ts";
import type { DueApprovals } from "./memory-due.ts";
import { createRows } from "./rows.ts";

/** One object per task, in both tables: most updates only replace its record. */
interface StoredTask {
  readonly number: number;
  record: TaskRecord;
  readonly conversation: string;
}

/** Task records in memory, found by session, tree and conversation. */
export interface MemoryTasks {
  get(taskId: string): TaskRecord | undefined;
  /** Adds a record, or replaces it in its place; returns true for a new one. */
  put(record: TaskRecord): boolean;
  delete(taskId: string): void;
  /** In insertion order. Unfinished tasks are found without a look at those that have ended. */
  list(query: TaskQuery): TaskRecord[];
  /** The conversation of each unfinished task that is not suspended. */
  movableConversations(): Iterable<string>;
}

const keys = {
  sessionId: ({ record }: StoredTask) => record.sessionId,
  parentSessionId: ({ record }: StoredTask) => record.parentSessionId,
  rootTaskId: ({ record }: StoredTask) => record.rootTaskId,
};

function isInPlace(old: TaskRecord, record: TaskRecord): boolean {
  return (
    old.sessionId === record.sessionId &&
    old.parentSessionId === record.parentSessionId &&
    old.rootTaskId === record.rootTaskId
  );
}

/** A table without tasks. */
export function memoryTasks(due: DueApprovals): MemoryTasks {
  const stored = createRows<StoredTask, keyof typeof keys>(keys);
  const unfinished = createRows<StoredTask, keyof typeof keys | "conversation">({
    ...keys,
    conversation: ({ conversation }) => conversation,
  });
  let inserted = 0;

  /** The session of the task's root; the task's own while the root has no record. */
  function conversationOf({ taskId, rootTaskId, sessionId }: TaskRecord): string {
    if (taskId === rootTaskId) return sessionId;
    return stored.get(rootTaskId)?.record.sessionId ?? sessionId;
  }

  function add(row: StoredTask): void {
    stored.set(row.record.taskId, row);
    if (!isTerminal(row.record.status)) unfinished.set(row.record.taskId, row);
  }

  function remove(taskId: string): void {
    stored.delete(taskId);
    unfinished.delete(taskId);
  }

  /** Without an index of its own: an idle session then takes less memory, and few callers list ended tasks. */
  function inConversation(conversation: string, query: TaskQuery): StoredTask[] {
    return stored
      .match({ sessionId: conversation })
      .flatMap((row) => {
        const { taskId, rootTaskId } = row.record;
        if (taskId === rootTaskId) return stored.match({ rootTaskId });
        return row.conversation === conversation && !stored.get(rootTaskId) ? [row] : [];
      })
      .filter((row) => {
        const { sessionId, parentSessionId, rootTaskId } = row.record;
        return (
          (query.sessionId ?? sessionId) === sessionId &&
          (query.parentSessionId ?? parentSessionId) === parentSessionId &&
          (query.rootTaskId ?? rootTaskId) === rootTaskId
        );
      })
      .sort((a, b) => a.number - b.number);
  }

  /** In insertion order; those that have ended may be left out if the query does not ask for them. */
  function matching(query: TaskQuery): StoredTask[] {
    const { conversation, status } = query;
    if (status?.every((value) => !isTerminal(value))) return unfinished.match(query);
    return conversation === undefined ? stored.match(query) : inConversation(conversation, query);
  }

  function dueIn(query: TaskQuery, time: number): StoredTask[] {
    return due
      .by(time)
      .filter((sessionId) => (query.sessionId ?? sessionId) === sessionId)
      .flatMap((sessionId) => matching({ ...query, sessionId }))
      .sort((a, b) => a.number - b.number);
  }

  return {
    get: (taskId) => stored.get(taskId)?.record,
    put(record) {
      const { taskId, rootTaskId, sessionId } = record;
      const old = stored.get(taskId);
      if (old && isInPlace(old.record, record)) {
        old.record = record;
        if (isTerminal(record.status)) unfinished.delete(taskId);
        return false;
      }
      remove(taskId);
      const descendants = rootTaskId === taskId ? stored.match({ rootTaskId }) : [];
      const number = old?.number ?? ++inserted;
      add({ number, record, conversation: conversationOf(record) });
      for (const row of descendants) add({ ...row, conversation: sessionId });
      return old === undefined;
    },
    delete: remove,
    list(query) {
      const { dueBy, status, limit, newestFirst } = query;
      const rows = dueBy === undefined ? matching(query) : dueIn(query, dueBy);
      return (newestFirst ? rows.reverse() : rows)
        .map(({ record }) => record)
        .filter((record) => status === undefined || status.includes(record.status))
        .slice(0, limit);
    },
    *movableConversations() {
      for (const { record, conversation } of unfinished.match({})) {
        if (record.status !== "suspended") yield conversation;
      }
    },
  };
}
