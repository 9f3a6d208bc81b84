import type { Commit, Store, TaskRecord } from "../../../../src/contract/store.ts";
import { isTerminal, type TaskStatus } from "../../../../src/protocol/task.ts";

/** The legal state changes of a task. */
const edges: Readonly<Record<TaskStatus, readonly TaskStatus[]>> = {
  queued: ["in_progress", "cancelled", "failed"],
  in_progress: ["completed", "failed", "cancelled", "incomplete", "suspended"],
  suspended: ["in_progress", "cancelled", "failed"],
  completed: [],
  failed: [],
  cancelled: [],
  incomplete: [],
};

/** A store that checks every commit. */
export interface CheckedStore {
  readonly store: Store;
  /** The problems that it found. */
  readonly problems: readonly string[];
}

/** Passes all calls on and records illegal commits. */
export function checkedStore(store: Store): CheckedStore {
  const problems: string[] = [];
  const statuses = new Map<string, TaskStatus>();
  const taken = new Set<string>();

  function look(commit: Commit): void {
    for (const record of commit.tasks ?? []) {
      const { taskId, status } = record;
      const before = statuses.get(taskId);
      const isEdge = before ? edges[before].includes(status) : !isTerminal(status);
      const stays = before === status && !isTerminal(status);
      if (!isEdge && !stays) problems.push(`${taskId}: ${before ?? "nothing"} -> ${status}`);
      statuses.set(taskId, status);
      problems.push(...tellingProblems(record, commit));
    }
    for (const id of commit.taken ?? []) {
      if (taken.has(id)) problems.push(`${id} is taken twice`);
      taken.add(id);
      if (id.startsWith("done:") && !isRead(id.slice("done:".length), commit)) {
        problems.push(`${id} is taken without a delivery`);
      }
    }
  }

  return {
    problems,
    store: {
      ...store,
      async enqueue(record, options) {
        const stored = await store.enqueue(record, options);
        if (!statuses.has(stored.taskId)) statuses.set(stored.taskId, "queued");
        return stored;
      },
      async commit(commit, following = []) {
        const written = await store.commit(commit, following);
        for (const one of [commit, ...following].slice(0, written)) look(one);
        return written;
      },
    },
  };
}

/** The commit that ends a background task must post its end, and no other. */
function tellingProblems(record: TaskRecord, { posts = [] }: Commit): readonly string[] {
  const { taskId, status, mode, depth } = record;
  const isTold = posts.some(({ id }) => id === `done:${taskId}`);
  const isDue = isTerminal(status) && mode === "background" && depth > 0;
  return isTold === isDue ? [] : [`${taskId}: ${status} in ${mode}, and told: ${isTold}`];
}

/** Returns whether a commit adds the end of a task as a hint or as the result of a call. */
function isRead(taskId: string, { appends = [] }: Commit): boolean {
  const blocks = appends.flatMap(({ messages }) => messages.flatMap(({ content }) => content));
  return blocks.some(
    (block) =>
      (block.type === "hint" && block.metadata?.taskId === taskId) || block.type === "tool_result",
  );
}
