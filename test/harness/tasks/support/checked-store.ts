import type { Commit, Store, TaskRecord } from "../../../../src/protocol/store.ts";
import { isTerminal, type TaskStatus } from "../../../../src/protocol/task.ts";

/** Where a task may go from where it is. */
const edges: Readonly<Record<TaskStatus, readonly TaskStatus[]>> = {
  queued: ["in_progress", "cancelled", "failed"],
  in_progress: ["completed", "failed", "cancelled", "incomplete", "suspended"],
  suspended: ["in_progress", "cancelled", "failed"],
  completed: [],
  failed: [],
  cancelled: [],
  incomplete: [],
};

/** A store that looks at every commit that was written. */
export interface CheckedStore {
  readonly store: Store;
  /** What was wrong with them. */
  readonly problems: readonly string[];
}

/** Lets everything through, and notes what no commit may do. */
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
        problems.push(`${id} is taken, and nobody reads it`);
      }
    }
  }

  return {
    problems,
    store: {
      ...store,
      async commit(commit) {
        await store.commit(commit);
        look(commit);
      },
    },
  };
}

/** The end of a task in the background is told in the commit that ends it, and of no other task. */
function tellingProblems(record: TaskRecord, { posts = [] }: Commit): readonly string[] {
  const { taskId, status, mode, depth } = record;
  const isTold = posts.some(({ id }) => id === `done:${taskId}`);
  const isDue = isTerminal(status) && mode === "background" && depth > 0;
  return isTold === isDue ? [] : [`${taskId}: ${status} in ${mode}, and told: ${isTold}`];
}

/** Whether a model will read of a task in what the commit adds: as a hint, or as the result of a call. */
function isRead(taskId: string, { appends = [] }: Commit): boolean {
  const blocks = appends.flatMap(({ messages }) => messages.flatMap(({ content }) => content));
  return blocks.some(
    (block) =>
      (block.type === "hint" && block.metadata?.taskId === taskId) || block.type === "tool_result",
  );
}
