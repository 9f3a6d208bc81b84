import {
  isTerminal,
  type Task,
  type TaskEvent,
  TaskTree,
  type Tree,
  taskOf,
} from "../protocol/index.ts";
import { approvalEntry, type Entry, entriesOf, placesOf } from "./render.ts";
import { printable } from "./text.ts";

/** Shows a run without a terminal: one line per entry, with the agent's path. */
export interface PlainView {
  readonly tree: Tree;
  see(event: TaskEvent): void;
}

/** Writes a run as lines. */
export function createPlainView(
  write: (line: string) => void,
  { onEvent }: { readonly onEvent?: (event: TaskEvent) => void } = {},
): PlainView {
  const fold = new TaskTree();
  return {
    get tree() {
      return fold.tree;
    },
    see(event) {
      onEvent?.(event);
      const { tree } = fold.apply(event);
      const task = taskOf(tree, event.task_id);
      if (task === undefined) return;
      for (const { label, text } of newEntries(event, tree, task)) {
        const place = placesOf(tree).get(task.id);
        const rows = printable(text).split("\n");
        for (const row of rows.filter((line, index) => index === 0 || line !== ""))
          write(`[${place}] ${label} ${row}`.trimEnd());
      }
    },
  };
}

/** Returns what an event completes: deltas and other intermediate events give no entries. */
function newEntries(event: TaskEvent, tree: Tree, task: Task): readonly Entry[] {
  switch (event.type) {
    case "task.created":
      return [{ label: "begins", text: task.mode === "background" ? "in the background" : "" }];
    case "task.output_item.done": {
      const item = task.output[event.output_index];
      return item === undefined ? [] : entriesOf(tree, item);
    }
    case "task.approval.requested":
    case "task.approval.resolved":
      return task.approvals
        .filter(({ approval_id }) => approval_id === event.approval_id)
        .map(approvalEntry);
    case "task.failed":
      return [{ label: "failed", text: task.error?.message ?? "" }];
    default:
      return isTerminal(task.status) && event.type === `task.${task.status}`
        ? [{ label: "is", text: task.status }]
        : [];
  }
}
