import { childrenOf, type Item, type Task, type Tree, taskOf } from "../protocol/index.ts";
import { citedText, textOf } from "./citations.ts";
import { cutTo, printable, widthOf, wrap } from "./text.ts";

/** A text style. */
export type Look = "bold" | "dim" | "cyan" | "green" | "yellow" | "red";
/** The width of the output, and how it applies a style. */
export interface Canvas {
  readonly columns: number;
  style(look: Look, text: string): string;
}
/** One labelled paragraph of a task, such as a message or a tool call. */
export interface Entry {
  readonly label: string;
  readonly text: string;
  readonly look?: Look;
}

/** Renders a tree, each task under the call that started it. */
export function renderTree(tree: Tree, canvas: Canvas): readonly string[] {
  const places = placesOf(tree);

  function renderTask(task: Task, depth: number): readonly string[] {
    const indent = indentOf(depth, canvas);
    const mode = task.mode === "background" ? " in the background" : "";
    const status = `${task.status}${mode}`;
    const room = Math.max(0, canvas.columns - indent.length - status.length - 1);
    const name = cutTo(printable(task.agentId ?? task.id), room);
    const place = cutTo(places.get(task.id) ?? "", Math.max(0, room - widthOf(name) - 1));
    const look = statusLook[task.status] ?? "dim";
    const shown = [canvas.style("bold", name), place && canvas.style("dim", place)];
    const lines = [
      `${indent}${[...shown, canvas.style(look, status)].filter((part) => part !== "").join(" ")}`,
    ];
    const draw = (entry: Entry) => lines.push(...renderEntry(depth + 1, entry, canvas));
    for (const [index, item] of task.output.entries()) {
      for (const entry of entriesOf(tree, item)) draw(entry);
      if (item.type === "tool_call") {
        for (const approval of task.approvals)
          if (approval.call_id === item.call_id) draw(approvalEntry(approval));
      }
      if (item.type === "tool_result") {
        for (const child of childrenOf(tree, task.id, index))
          lines.push(...renderTask(child, depth + 2));
      }
    }
    for (const approval of task.approvals)
      if (approval.call_id === undefined) draw(approvalEntry(approval));
    if (task.error !== undefined) draw({ label: "failed", text: task.error.message, look: "red" });
    return lines;
  }

  // A task whose parent has not arrived yet is shown at the top level.
  return Object.values(tree.tasks)
    .filter((task) => taskOf(tree, task.parentTaskId) === undefined)
    .flatMap((task) => renderTask(task, 0));
}

const statusLook: Readonly<Record<string, Look>> = {
  completed: "green",
  suspended: "yellow",
  failed: "red",
};

/** Renders one line per task with its own token usage. */
export function renderUsage(tree: Tree, canvas: Canvas): readonly string[] {
  const places = placesOf(tree);
  const tasks = Object.values(tree.tasks).filter((task) => task.usage !== undefined);
  const width = Math.max(0, ...tasks.map(({ id }) => places.get(id)?.length ?? 0));
  return tasks.map((task) => {
    const input = String(task.usage?.input_tokens).padStart(7);
    const output = String(task.usage?.output_tokens).padStart(7);
    const name = places.get(task.id)?.padEnd(width);
    return `${name} ${canvas.style("dim", "in")} ${input}  ${canvas.style("dim", "out")} ${output}`;
  });
}

/** Returns each task's path below the place of its parent, with a number when an earlier task has the same place. */
export function placesOf(tree: Tree): ReadonlyMap<string, string> {
  const counts = new Map<string, number>();
  const places = new Map<string, string>();
  for (const { id, source, sessionId, parentTaskId = "" } of Object.values(tree.tasks)) {
    const path = printable(source?.path ?? sessionId ?? id);
    const above = source && places.get(parentTaskId);
    const place = above === undefined ? path : `${above}${path.slice(path.lastIndexOf("/"))}`;
    const count = (counts.get(place) ?? 0) + 1;
    counts.set(place, count);
    places.set(id, count === 1 ? place : `${place}#${count}`);
  }
  return places;
}

/** Returns the entries of an item. */
export function entriesOf(tree: Tree, item: Item): readonly Entry[] {
  switch (item.type) {
    case "reasoning": {
      const text = item.summary.map((entry) => entry.text).join("\n");
      return [{ label: "thinks", text, look: "dim" }];
    }
    case "tool_call":
      return [{ label: "calls", text: shorten(`${item.name} ${item.arguments}`), look: "cyan" }];
    case "message": {
      const { text, citations } = citedText(tree, item);
      const sources = citations.map((citation) => ({
        label: citation.marker,
        text: `${citation.place}  "${shorten(citation.text)}"`,
        look: "dim" as const,
      }));
      return [{ label: "says", text }, ...sources];
    }
    case "tool_result": {
      const { progress, error, block_list } = item;
      if (error !== undefined) {
        const label = error.code === "denied" ? "denied" : "failed";
        return [{ label, text: error.message, look: "red" }];
      }
      if (block_list.length > 0)
        return [{ label: "result", text: shorten(textOf(block_list)), look: "green" }];
      return progress ? [{ label: "works", text: progress.message ?? "", look: "dim" }] : [];
    }
    default:
      return [];
  }
}

/** Returns the entry of an approval: the request and its decision. */
export function approvalEntry({ message, kind, decision, by }: Task["approvals"][number]): Entry {
  const answer = by === undefined ? `→ ${decision}` : `→ ${decision} by ${by}`;
  const text = `${message ?? kind} ${decision === undefined ? "(waiting)" : answer}`;
  return { label: "asks", text, look: "yellow" };
}

const maxLines = 2;
const maxCharacters = 300;

function shorten(text: string): string {
  // Skips lines that are empty or have only a line number.
  const lines = text.split("\n").filter((line) => !/^\s*\d*\s*$/.test(line));
  const head = lines
    .slice(0, maxLines)
    .map((line) => line.trimStart())
    .join("\n");
  const cut = head.length > maxCharacters ? `${head.slice(0, maxCharacters)}…` : head;
  const rest = lines.length - maxLines;
  return rest > 0 ? `${cut}\n… ${rest} more ${rest === 1 ? "line" : "lines"}` : cut;
}

const minText = 24;

/** Very deep tasks share one indent, so that their text keeps some width. */
function indentOf(depth: number, { columns }: Canvas): string {
  return "  ".repeat(Math.max(0, Math.min(depth, Math.floor((columns - minText) / 2))));
}

function renderEntry(depth: number, { label, text, look }: Entry, canvas: Canvas) {
  const indent = indentOf(depth, canvas);
  const head = `${label.padEnd(6)} `;
  const width = canvas.columns - indent.length - widthOf(head);
  return wrap(printable(text), width).map((row, index) => {
    const styled = look === undefined ? row : canvas.style(look, row);
    return `${indent}${canvas.style("dim", index === 0 ? head : " ".repeat(head.length))}${styled}`;
  });
}
