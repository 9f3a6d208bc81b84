import type { TaskEvent } from "../protocol/event.ts";
import { TaskTree } from "../protocol/reduce.ts";
import { taskOf } from "../protocol/select.ts";
import { isTerminal, type Task, type Tree } from "../protocol/task.ts";
import {
  approvalEntry,
  type Canvas,
  type Entry,
  entriesOf,
  placesOf,
  printable,
  renderTree,
} from "./render.ts";

/** The output device. */
export interface Screen extends Canvas {
  readonly rows: number;
  /** Whether the output is a terminal, where earlier output can be repainted. */
  readonly live: boolean;
  write(text: string): void;
}

/** Shows a run while it is in progress. */
export interface Watcher {
  readonly tree: Tree;
  see(event: TaskEvent): void;
  /** Writes a line below the tree; on a terminal the next event repaints it. */
  note(line: string): void;
  /** Accounts for a line that the user typed. */
  typed(): void;
  end(): void;
}

/** Shows a run: as a repainted tree on a terminal, or else as one line per entry. */
export function watch(screen: Screen): Watcher {
  const fold = new TaskTree();
  const { show, ...view } = screen.live ? paintTree(screen) : writeLines(screen);
  return {
    ...view,
    get tree() {
      return fold.tree;
    },
    see: (event) => show(fold.apply(event).tree, event),
    end: () => show(fold.tree),
  };
}

/** `event` is absent at the end of the run. */
type View = Pick<Watcher, "note" | "typed"> & { show(tree: Tree, event?: TaskEvent): void };

function paintTree(screen: Screen): View {
  let painted = 0;
  return {
    show(tree, event) {
      const full = renderTree(tree, screen);
      // Lines that have scrolled off the screen cannot be repainted.
      const isTooLong = event !== undefined && full.length >= screen.rows;
      const lines = isTooLong ? renderTree(tree, screen, { folded: true }) : full;
      const visible = event === undefined ? lines : lines.slice(1 - screen.rows);
      screen.write(frame(visible, painted));
      painted = visible.length;
    },
    note(line) {
      screen.write(`${line}\n`);
      painted += 1;
    },
    typed() {
      painted += 1;
    },
  };
}

function writeLines(screen: Screen): View {
  return {
    show(tree, event) {
      const task = event && taskOf(tree, event.task_id);
      if (event === undefined || task === undefined) return;
      for (const { label, text } of newEntries(event, tree, task)) {
        const place = placesOf(tree).get(task.id);
        const rows = printable(text).split("\n");
        for (const row of rows.filter((line, index) => index === 0 || line !== ""))
          screen.write(`${`[${place}] ${label} ${row}`.trimEnd()}\n`);
      }
    },
    note: (line) => screen.write(`${line}\n`),
    typed() {},
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

/** Repaints the last lines as one synchronized update, without wrapping, so that each line takes one row. */
function frame(lines: readonly string[], painted: number): string {
  const up = painted > 0 ? `\x1b[${painted}A` : "";
  const rows = lines.map((line) => `${line}\x1b[K\n`).join("");
  return `\x1b[?2026h\x1b[?7l${up}\r${rows}\x1b[J\x1b[?7h\x1b[?2026l`;
}
