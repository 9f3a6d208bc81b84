import { childrenOf, taskOf } from "../protocol/select.ts";
import type { Item, Task, Tree } from "../protocol/task.ts";
import { citationsOf, textOf } from "./citations.ts";

/** How a piece of text should look. */
export type Look = "bold" | "dim" | "cyan" | "green" | "yellow" | "red";
/** What a tree is drawn on: how wide it is, and how it shows a look. */
export interface Canvas {
  readonly columns: number;
  style(look: Look, text: string): string;
}
/** Something that an agent did, in a word and a text. */
export interface Deed {
  readonly label: string;
  readonly text: string;
  readonly look?: Look;
}

/** Draws a tree as lines of text: every agent under the call that started it. `folded`: of those that have ended, one line. */
export function renderTree(
  tree: Tree,
  canvas: Canvas,
  options: { readonly folded?: boolean } = {},
): readonly string[] {
  // A task whose parent has not arrived stands at the top until it does.
  const tops = Object.values(tree.tasks).filter(
    (task) => taskOf(tree, task.parentTaskId) === undefined,
  );
  const places = placesOf(tree);
  const drawing = { tree, canvas, places, folded: options.folded ?? false };
  return tops.flatMap((task) => renderTask(drawing, task, 0));
}

/** One line per agent: what it used itself. */
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

/** Where each agent stands: its path, with a number when it is not the first of its kind there. */
export function placesOf(tree: Tree): ReadonlyMap<string, string> {
  const counts = new Map<string, number>();
  return new Map(
    Object.values(tree.tasks).map((task) => {
      const path = printable(task.source?.path ?? task.sessionId ?? task.id);
      const count = (counts.get(path) ?? 0) + 1;
      counts.set(path, count);
      return [task.id, count === 1 ? path : `${path}#${count}`];
    }),
  );
}

/** What an item says that an agent did. */
export function deedsOf(tree: Tree, item: Item): readonly Deed[] {
  switch (item.type) {
    case "reasoning": {
      const text = item.summary.map((entry) => entry.text).join("\n");
      return [{ label: "thinks", text, look: "dim" }];
    }
    case "tool_call":
      return [{ label: "calls", text: short(`${item.name} ${item.arguments}`), look: "cyan" }];
    case "message": {
      const cited = citationsOf(tree, item).map(({ marker, place, text }) => ({
        label: marker,
        text: `${place}  "${short(text)}"`,
        look: "dim" as const,
      }));
      return [{ label: "says", text: textOf(item.block_list) }, ...cited];
    }
    case "tool_result": {
      const { progress, error, block_list } = item;
      const deeds: Deed[] = [];
      if (error !== undefined) {
        const label = error.code === "denied" ? "denied" : "failed";
        deeds.push({ label, text: error.message, look: "red" });
      } else if (block_list.length > 0)
        deeds.push({ label: "result", text: short(textOf(block_list)), look: "green" });
      else if (progress !== undefined)
        deeds.push({ label: "works", text: progress.message ?? "", look: "dim" });
      return deeds;
    }
    default:
      return [];
  }
}

/** What was asked, and what came of it. */
export function questionDeed({ message, kind, decision, by }: Task["approvals"][number]): Deed {
  const answer = by === undefined ? `→ ${decision}` : `→ ${decision}, says ${by}`;
  const text = `${message ?? kind} ${decision === undefined ? "(waiting)" : answer}`;
  return { label: "asks", text, look: "yellow" };
}

/** Text without control characters: what an agent says must not steer the terminal. */
export function printable(text: string): string {
  return text.replaceAll("\t", " ").replace(/[^\P{Cc}\n]/gu, "");
}

interface Drawing {
  readonly tree: Tree;
  readonly canvas: Canvas;
  readonly places: ReadonlyMap<string, string>;
  readonly folded: boolean;
}

function renderTask(drawing: Drawing, task: Task, depth: number): string[] {
  const { tree, canvas, places, folded } = drawing;
  const name = canvas.style("bold", printable(task.agentId ?? task.id));
  const place = canvas.style("dim", places.get(task.id) ?? "");
  const status = canvas.style(statusLook[task.status] ?? "dim", task.status);
  const mode = task.mode === "background" ? canvas.style("dim", " in the background") : "";
  const lines = [`${"  ".repeat(depth)}${name} ${place} ${status}${mode}`];
  if (folded && depth > 0 && task.status === "completed") return lines;
  const draw = (deed: Deed) => lines.push(...paragraph(depth + 1, deed, canvas));

  for (const [index, item] of task.output.entries()) {
    for (const deed of deedsOf(tree, item)) draw(deed);
    if (item.type === "tool_call") {
      for (const approval of task.approvals)
        if (approval.call_id === item.call_id) draw(questionDeed(approval));
    }
    if (item.type === "tool_result") {
      for (const child of childrenOf(tree, task.id, index))
        lines.push(...renderTask(drawing, child, depth + 2));
    }
  }
  if (task.error !== undefined) draw({ label: "failed", text: task.error.message, look: "red" });
  return lines;
}

const statusLook: Readonly<Record<string, Look>> = {
  completed: "green",
  suspended: "yellow",
  failed: "red",
};

const mostLines = 2;
const mostCharacters = 300;

/** The beginning of a text, and how much is left. */
function short(text: string): string {
  // A line that is empty, or has nothing but its number, says nothing here.
  const lines = text.split("\n").filter((line) => !/^\s*\d*\s*$/.test(line));
  const shown = lines.slice(0, mostLines).join("\n");
  const cut = shown.length > mostCharacters ? `${shown.slice(0, mostCharacters)}…` : shown;
  const rest = lines.length - mostLines;
  return rest > 0 ? `${cut}\n… ${rest} more ${rest === 1 ? "line" : "lines"}` : cut;
}

/** A label and its text, wrapped at words and indented under itself. */
function paragraph(depth: number, { label, text, look }: Deed, canvas: Canvas): readonly string[] {
  const indent = "  ".repeat(depth);
  const head = `${label.padEnd(6)} `;
  const width = Math.max(20, canvas.columns - indent.length - head.length);
  return printable(text)
    .split("\n")
    .flatMap((row) => wrap(row, width))
    .map((row, index) => {
      const styled = look === undefined ? row : canvas.style(look, row);
      return `${indent}${canvas.style("dim", index === 0 ? head : " ".repeat(head.length))}${styled}`;
    });
}

function wrap(text: string, width: number): readonly string[] {
  const pieces = new RegExp(`.{1,${width}}`, "gu"); // of a word that is wider than the canvas
  const rows: string[] = [];
  let row = "";
  for (const word of text.split(" ").flatMap((word) => word.match(pieces) ?? [""])) {
    if (row !== "" && row.length + 1 + word.length > width) {
      rows.push(row);
      row = word;
    } else row = row === "" ? word : `${row} ${word}`;
  }
  return [...rows, row];
}
