import {
  type ApprovalState,
  type Hint,
  type Item,
  isTerminal,
  type Task,
  type ToolCallItem,
  type ToolResultItem,
  type Tree,
  taskOf,
} from "rivulet/protocol";
import { shownText } from "./heals.ts";

/** The shape that stands for the state of an agent. */
export type Shape = "run" | "idle" | "queued" | "ask" | "done" | "fail" | "off" | "part" | "hold";

/** The state of a task in words, for people who do not see the shape. */
export const shapeNames: Readonly<Record<Shape, string>> = {
  run: "running",
  idle: "waits for a child",
  queued: "queued",
  ask: "waits for you",
  done: "completed",
  fail: "failed",
  off: "cancelled",
  part: "incomplete",
  hold: "held, no connection",
};

const ends: Readonly<Record<string, Shape>> = {
  completed: "done",
  failed: "fail",
  cancelled: "off",
  incomplete: "part",
};

export function shapeOf(task: Task, isHeld = false): Shape {
  const { status } = task;
  const end = ends[status];
  if (end) return end;
  if (isHeld) return "hold";
  if (waitingIn(task).length > 0) return "ask";
  if (status === "queued" || status === "unknown") return "queued";
  return status === "suspended" || waitsForChild(task) ? "idle" : "run";
}

export function waitingIn({ approvals, status }: Task): readonly ApprovalState[] {
  if (isTerminal(status)) return [];
  return approvals.filter(({ decision }) => decision === undefined);
}

/** Whether all that is open in a task is the work of its children. */
function waitsForChild({ output, children }: Task): boolean {
  if (children.length === 0) return false;
  const open = output.slice(-64).filter(({ status }) => status === "in_progress");
  const waits = (item: Item) => item.type === "tool_result" && item.child_task_id !== undefined;
  return open.length > 0 && open.every((item) => waits(item) || isChildOf(item, children));
}

function isChildOf(item: Item, children: readonly string[]): boolean {
  return item.type === "tool_result" && children.includes(item.call_id);
}

/** Names by task: the agent's, with a number where siblings share one. */
const labels = new WeakMap<object, Map<string, string>>();

export function labelOf(tree: Tree, taskId: string): string {
  const { tasks } = tree;
  const known = labels.get(tasks) ?? labelAll(tree);
  labels.set(tasks, known);
  return known.get(taskId) ?? "agent";
}

function labelAll({ tasks, rootId }: Tree): Map<string, string> {
  const found = new Map<string, string>();
  const nameOf = (id: string) => {
    const { agentId, source } = tasks[id] ?? {};
    return source?.agentName ?? agentId ?? source?.agentId ?? "agent";
  };
  if (rootId !== undefined) found.set(rootId, nameOf(rootId));
  for (const { children } of Object.values(tasks)) {
    const counts = new Map<string, number>();
    for (const id of children) counts.set(nameOf(id), (counts.get(nameOf(id)) ?? 0) + 1);
    const used = new Map<string, number>();
    for (const id of children) {
      const name = nameOf(id);
      const number = (used.get(name) ?? 0) + 1;
      used.set(name, number);
      found.set(id, (counts.get(name) ?? 0) > 1 ? `${name} ${number}` : name);
    }
  }
  return found;
}

/** The tasks around a task, from the root down. */
export function pathOf(tree: Tree, taskId: string): readonly string[] {
  const path: string[] = [];
  const seen = new Set([taskId]);
  for (let id = taskOf(tree, taskId)?.parentTaskId; id !== undefined && !seen.has(id); ) {
    seen.add(id);
    path.unshift(id);
    id = taskOf(tree, id)?.parentTaskId;
  }
  return path;
}

/** When the last agent of a run has ended; undefined while one works. */
export function endOfRun({ tasks }: Tree): number | undefined {
  const all = Object.values(tasks);
  if (all.length === 0 || !all.every(({ status }) => isTerminal(status))) return undefined;
  return all.reduce((end, { completedAt = 0 }) => Math.max(end, completedAt), 0);
}

/** What the parent asked a child to do. */
export function promptOf(tree: Tree, task: Task): string {
  const parent = taskOf(tree, task.parentTaskId);
  const index = task.parentOutputIndex ?? -1;
  const callId = task.callId ?? task.id;
  const call = parent?.output
    .slice(0, Math.max(0, index) || undefined)
    .findLast((item) => item.type === "tool_call" && item.call_id === callId);
  if (call?.type !== "tool_call") return "";
  const input = argumentsOf(call.arguments);
  for (const name of ["task", "prompt", "message", "input", "question", "description"]) {
    const value = input?.[name];
    if (typeof value === "string" && value !== "") return value;
  }
  return "";
}

const parsed = new Map<string, Record<string, unknown> | undefined>();

/** The arguments of a call; undefined while they are incomplete. */
export function argumentsOf(text: string): Record<string, unknown> | undefined {
  if (parsed.has(text)) return parsed.get(text);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const record =
    typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  if (parsed.size > 500) parsed.clear();
  parsed.set(text, record);
  return record;
}

/** The last words of a task on one line. */
export function lastWords(tree: Tree, task: Task): string {
  if (task.status === "failed") return task.error?.message ?? "failed";
  if (task.status === "cancelled") return "cancelled";
  if (task.status === "queued") return "queued";
  const [approval] = waitingIn(task);
  if (approval) {
    const path = argumentsOf(approval.arguments ?? "")?.path;
    const named = [approval.name, typeof path === "string" ? path : ""].filter(Boolean).join(" ");
    return approval.kind === "question" ? (approval.message ?? "asks") : `asks: ${named}`;
  }
  if (!isTerminal(task.status) && waitsForChild(task)) return waitingText(tree, task);
  const isOver = isTerminal(task.status);
  for (let at = task.output.length - 1; at >= 0; at--) {
    const item = task.output[at] as Item;
    if (item.type === "tool_call") return `calls ${item.name}`;
    const text = item.type === "tool_result" ? "" : shownText(item);
    // The answer of an agent begins with what it found.
    if (text.trim() !== "") return plain(isOver ? text.slice(0, 160) : text.slice(-240));
  }
  return "";
}

function plain(text: string): string {
  return text
    .replace(/\[\^\d*\]?/g, "")
    .replace(/^\s*(?:[-+] |[#>]+ )|[*`|]+|(?<!\w)_+|_+(?!\w)/gm, "")
    .replace(/\s+/g, " ")
    .trimStart();
}

/** Which children a task waits for. */
export function waitingText(tree: Tree, task: Task): string {
  const names = task.children
    .flatMap((id) => taskOf(tree, id) ?? [])
    .filter(isAwaited)
    .map(({ id }) => labelOf(tree, id));
  if (names.length === 0) return "";
  if (names.length > 3) return `waits for ${names.length} agents`;
  return `waits for ${[names.slice(0, -1).join(", "), names.at(-1)].filter(Boolean).join(" and ")}`;
}

/** What happens below a task that waits for one agent: the agents down to the one that works, and its last words. */
export function wordsBelow(tree: Tree, task: Task): { path: string; words: string } | undefined {
  const path: string[] = [];
  let at = task;
  while (!isTerminal(at.status) && waitsForChild(at)) {
    const open = at.children.flatMap((id) => taskOf(tree, id) ?? []).filter(isAwaited);
    const [child] = open;
    if (child === undefined || open.length > 1) break;
    path.push(labelOf(tree, child.id));
    at = child;
  }
  if (path.length === 0) return undefined;
  return { path: path.join(" › "), words: lastWords(tree, at) };
}

function isAwaited({ mode, status }: Task): boolean {
  return mode !== "background" && !isTerminal(status);
}

/** A row of a thread. */
export type Row =
  | { readonly kind: "item"; readonly index: number; readonly item: Item }
  | {
      readonly kind: "call";
      readonly index: number;
      readonly item: ToolCallItem;
      readonly result: ToolResultItem | undefined;
    }
  | { readonly kind: "hint"; readonly index: number; readonly hint: Hint }
  | {
      readonly kind: "fan";
      readonly index: number;
      readonly taskIds: readonly string[];
      readonly isBackground: boolean;
    };

/**
 * The rows of a task: calls with their results, children where they were called, and messages where the task read them.
 * `places` has the number of items before each message; a message without a place is the last row.
 */
export function rowsOf(
  tree: Tree,
  task: Task,
  places: ReadonlyMap<string, number> = new Map(),
): readonly Row[] {
  const results = new Map<string, ToolResultItem>();
  for (const item of task.output) if (item.type === "tool_result") results.set(item.call_id, item);
  const childByCall = new Map<string, string>();
  for (const id of task.children) childByCall.set(taskOf(tree, id)?.callId ?? id, id);
  const rows: Row[] = [];
  const calls = new Set<string>();
  const placed = new Set<string>();
  const addChild = (id: string, index: number) => {
    placed.add(id);
    const isBackground = taskOf(tree, id)?.mode === "background";
    const last = rows.at(-1);
    if (last?.kind === "fan" && last.isBackground === isBackground)
      rows[rows.length - 1] = { ...last, taskIds: [...last.taskIds, id] };
    else rows.push({ kind: "fan", index, taskIds: [id], isBackground });
  };
  const hints = (task.hints ?? []).map((hint) => ({ hint, index: places.get(hint.id) }));
  const addHints = (from: number, to: number) => {
    for (const { hint, index = task.output.length } of hints)
      if (index >= from && index < to) rows.push({ kind: "hint", index, hint });
  };
  task.output.forEach((item, index) => {
    addHints(index, index + 1);
    if (item.type === "tool_call") {
      calls.add(item.call_id);
      const child = childByCall.get(item.call_id);
      if (child === undefined)
        rows.push({ kind: "call", index, item, result: results.get(item.call_id) });
      else addChild(child, index);
    } else if (item.type === "tool_result") {
      if (!calls.has(item.call_id)) rows.push({ kind: "item", index, item });
    } else rows.push({ kind: "item", index, item });
  });
  task.children.forEach((id) => {
    if (!placed.has(id)) addChild(id, task.output.length);
  });
  addHints(task.output.length, Number.POSITIVE_INFINITY);
  return rows;
}
