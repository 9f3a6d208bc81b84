import { childrenOf } from "../protocol/select.ts";
import type { Annotation, Item, Task, Tree, WireBlock } from "../protocol/task.ts";

/** How a piece of text should look. */
export type Look = "bold" | "dim" | "cyan" | "green" | "yellow" | "red";
/** What a tree is drawn on: how wide it is, and how it shows a look. */
export interface Canvas {
  readonly columns: number;
  style(look: Look, text: string): string;
}

/** Draws a tree as lines of text: every agent under the call that started it. */
export function renderTree(tree: Tree, canvas: Canvas): readonly string[] {
  // A task whose parent has not arrived stands at the top until it does.
  const tops = Object.values(tree.tasks).filter(
    (task) => tree.tasks[task.parentTaskId ?? ""] === undefined,
  );
  return tops.flatMap((task) => renderTask(tree, task, 0, canvas));
}

/** One line per agent: what it used itself. */
export function renderUsage(tree: Tree, canvas: Canvas): readonly string[] {
  const tasks = Object.values(tree.tasks).filter((task) => task.usage !== undefined);
  const names = tasks.map((task) => placeOf(task));
  const width = Math.max(0, ...names.map((name) => name.length));
  return tasks.map((task, index) => {
    const input = String(task.usage?.input_tokens).padStart(7);
    const output = String(task.usage?.output_tokens).padStart(7);
    const name = names[index]?.padEnd(width);
    return `${name} ${canvas.style("dim", "in")} ${input}  ${canvas.style("dim", "out")} ${output}`;
  });
}

function renderTask(tree: Tree, task: Task, depth: number, canvas: Canvas): string[] {
  const name = canvas.style("bold", printable(task.agentId ?? task.id));
  const place = canvas.style("dim", placeOf(task));
  const status = canvas.style(statusLook[task.status] ?? "dim", task.status);
  const lines = [`${"  ".repeat(depth)}${name} ${place} ${status}`];
  const line = (look: Look | undefined, label: string, text: string) =>
    lines.push(...paragraph(depth + 1, label, text, look, canvas));

  for (const [index, item] of task.output.entries()) {
    if (item.type === "reasoning")
      line("dim", "thinks", item.summary.map((entry) => entry.text).join("\n"));
    if (item.type === "tool_call") {
      line("cyan", "calls", `${item.name} ${item.arguments}`);
      for (const approval of task.approvals) {
        if (approval.call_id !== item.call_id) continue;
        line("yellow", "asks", `${approval.message ?? approval.kind} ${answerTo(approval)}`);
      }
    }
    if (item.type === "message") {
      line(undefined, "says", textOf(item.block_list));
      for (const [marker, cited] of citations(tree, item.block_list))
        line("dim", marker, cited.length > 60 ? `${cited.slice(0, 60)}…` : cited);
    }
    if (item.type === "tool_result") {
      const { progress, error } = item;
      const children = childrenOf(tree, task.id, index);
      if (item.block_list.length > 0) line("green", "result", textOf(item.block_list));
      else if (progress !== undefined) line("dim", "works", progress.message ?? "");
      if (error !== undefined) line("red", "failed", error.message);
      for (const child of children) lines.push(...renderTask(tree, child, depth + 2, canvas));
    }
  }
  if (task.error !== undefined) line("red", "failed", task.error.message);
  return lines;
}

const statusLook: Readonly<Record<string, Look>> = {
  completed: "green",
  suspended: "yellow",
  failed: "red",
};

function placeOf(task: Task): string {
  return printable(task.source?.path ?? task.sessionId ?? task.id);
}

function answerTo({ decision, by }: Task["approvals"][number]): string {
  if (decision === undefined) return "(waiting)";
  return by === undefined ? `→ ${decision}` : `→ ${decision}, says ${by}`;
}

function textOf(blocks: readonly WireBlock[]): string {
  return blocks.map((block) => (isText(block) ? block.text : `(${block.type})`)).join("\n");
}

function isText(
  block: WireBlock,
): block is WireBlock & { text: string; annotations?: Annotation[] } {
  return block.type === "text";
}

/** What a message cites: each marker once, with the beginning of the block it points at. */
function citations(tree: Tree, blocks: readonly WireBlock[]): ReadonlyMap<string, string> {
  const cited = new Map<string, string>();
  for (const block of blocks) {
    for (const { marker, target } of (isText(block) && block.annotations) || []) {
      const task = tree.tasks[target?.task_id ?? ""];
      const item = task?.output.find(({ id }) => id === target?.item_id);
      const text = item === undefined ? undefined : blockText(item, target?.block_index ?? 0);
      if (task && marker && text) cited.set(marker, `${placeOf(task)}: ${text}`);
    }
  }
  return cited;
}

function blockText(item: Item, index: number): string | undefined {
  const block = "block_list" in item ? item.block_list[index] : undefined;
  return block === undefined ? undefined : textOf([block]);
}

/** A label and its text, wrapped at words and indented under itself. */
function paragraph(
  depth: number,
  label: string,
  text: string,
  look: Look | undefined,
  canvas: Canvas,
): readonly string[] {
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

/** Text without control characters: what an agent says must not steer the terminal. */
function printable(text: string): string {
  return text.replace(/[^\P{Cc}\n]/gu, "");
}
