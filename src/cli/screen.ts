import type { TaskEvent } from "../protocol/event.ts";
import { TaskTree } from "../protocol/reduce.ts";
import { taskOf } from "../protocol/select.ts";
import { isTerminal, type Task, type Tree } from "../protocol/task.ts";
import type { Canvas, Deed } from "./render.ts";
import { deedsOf, placesOf, printable, questionDeed, renderTree } from "./render.ts";

/** Where a run is shown. */
export interface Screen extends Canvas {
  readonly rows: number;
  /** A terminal can be painted over; anything else gets line after line. */
  readonly live: boolean;
  write(text: string): void;
}

/** Shows a run while it goes on. */
export interface Watcher {
  readonly tree: Tree;
  see(event: TaskEvent): void;
  /** A line under what is shown; what is shown next takes its place on a terminal. */
  note(line: string): void;
  /** Somebody has typed a line. */
  typed(): void;
  /** Everything has been seen. */
  end(): void;
}

/** Shows a run on a screen, as the tree it folds into or as lines, one for each thing that was done. */
export function watch(screen: Screen): Watcher {
  return screen.live ? paintTree(screen) : writeLines(screen);
}

function paintTree(screen: Screen): Watcher {
  const fold = new TaskTree();
  let painted = 0;
  const show = (lines: readonly string[]) => {
    screen.write(paint(lines, painted));
    painted = lines.length;
  };
  return {
    get tree() {
      return fold.tree;
    },
    see(event) {
      const { tree } = fold.apply(event);
      const whole = renderTree(tree, screen);
      // Only what fits on the screen can be painted over.
      const lines = whole.length < screen.rows ? whole : renderTree(tree, screen, { folded: true });
      show(lines.slice(1 - screen.rows));
    },
    note(line) {
      screen.write(`${line}\n`);
      painted += 1;
    },
    typed() {
      painted += 1;
    },
    end() {
      show(renderTree(fold.tree, screen));
    },
  };
}

function writeLines(screen: Screen): Watcher {
  const fold = new TaskTree();
  const write = (task: Task, { label, text }: Deed) => {
    const place = placesOf(fold.tree).get(task.id);
    const rows = printable(text).split("\n");
    for (const row of rows.filter((one, index) => index === 0 || one !== ""))
      screen.write(`[${place}] ${label} ${row}`.trimEnd().concat("\n"));
  };
  return {
    get tree() {
      return fold.tree;
    },
    see(event) {
      const { tree } = fold.apply(event);
      const task = taskOf(tree, event.task_id);
      if (task === undefined) return;
      for (const deed of newsOf(event, tree, task)) write(task, deed);
    },
    note: (line) => screen.write(`${line}\n`),
    typed() {},
    end() {},
  };
}

/** What an event says that was done and is over. */
function newsOf(event: TaskEvent, tree: Tree, task: Task): readonly Deed[] {
  switch (event.type) {
    case "task.created": {
      const where = task.mode === "background" ? "in the background" : "";
      return [{ label: "begins", text: where }];
    }
    case "task.output_item.done": {
      const item = task.output[event.output_index];
      return item === undefined ? [] : deedsOf(tree, item);
    }
    case "task.approval.requested":
    case "task.approval.resolved":
      return task.approvals
        .filter(({ approval_id }) => approval_id === event.approval_id)
        .map(questionDeed);
    case "task.failed":
      return [{ label: "failed", text: task.error?.message ?? "" }];
    default:
      return isTerminal(task.status) && event.type === `task.${task.status}`
        ? [{ label: "is", text: task.status }]
        : [];
  }
}

// One frame over the last one, shown at once and without wrapping, so that a line stays a line.
function paint(lines: readonly string[], painted: number): string {
  const up = painted > 0 ? `\x1b[${painted}A` : "";
  const rows = lines.map((line) => `${line}\x1b[K\n`).join("");
  return `\x1b[?2026h\x1b[?7l${up}\r${rows}\x1b[J\x1b[?7h\x1b[?2026l`;
}
