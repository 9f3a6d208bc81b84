import {
  type Item,
  isTerminal,
  type Task,
  type Tree,
  taskOf,
  waitingIn,
} from "../protocol/index.ts";
import { textOf } from "./citations.ts";
import { type Canvas, type Look, placesOf } from "./render.ts";
import { column, cutTo, printable, widthOf, wrap } from "./text.ts";

/** How the roster is shown. */
export interface RosterOptions {
  readonly now: number;
  /** How many rows it may take. */
  readonly maxRows: number;
  /** Whether each agent shows its last words and results. */
  readonly isExpanded?: boolean;
  /** Leaves out agents that have ended. */
  readonly isUnfinishedOnly?: boolean;
}

const marks: Readonly<Record<Task["status"], readonly [mark: string, look: Look]>> = {
  unknown: ["◌", "dim"],
  queued: ["◌", "dim"],
  in_progress: ["●", "cyan"],
  suspended: ["◆", "yellow"],
  completed: ["✓", "green"],
  failed: ["✗", "red"],
  cancelled: ["⊘", "dim"],
  incomplete: ["◐", "yellow"],
};
const [tokensWidth, secondsWidth, detailRows] = [6, 5, 2];
const figuresWidth = tokensWidth + 1 + secondsWidth;

/** Renders one line per agent: its status, what it does, its tokens and its seconds. */
export function renderRoster(
  tree: Tree,
  canvas: Canvas,
  options: RosterOptions,
): readonly string[] {
  const { maxRows, isExpanded = false, isUnfinishedOnly = false } = options;
  const agents = agentsOf(tree).filter(({ task }) => !isUnfinishedOnly || !isTerminal(task.status));
  const shown = agents.length <= maxRows ? agents : selectAgents(agents, Math.max(1, maxRows - 1));
  const named = Math.max(0, ...shown.map(({ name }) => widthOf(name)));
  const most = Math.max(8, Math.floor(canvas.columns * 0.32));
  const nameWidth = Math.max(1, Math.min(named, most, canvas.columns - figuresWidth - 4));
  const rows = shown.map((agent) => ({
    line: agentLine(agent, canvas, nameWidth, options.now),
    details: isExpanded ? detailsOf(agent, canvas) : [],
  }));
  const hidden = agents.filter((agent) => !shown.includes(agent));
  const lines =
    hidden.length > 0 ? [canvas.style("dim", cutTo(hiddenLine(hidden), canvas.columns))] : [];
  let room = maxRows - rows.length - lines.length;
  for (const { line, details } of rows) {
    const kept = details.slice(0, Math.max(0, room));
    room -= kept.length;
    lines.push(line, ...kept);
  }
  return lines;
}

interface RosterAgent {
  readonly task: Task;
  readonly name: string;
  readonly depth: number;
}

/** All tasks, each after its parent. */
function agentsOf(tree: Tree): readonly RosterAgent[] {
  const places = placesOf(tree);
  const visit = (task: Task, depth: number): readonly RosterAgent[] => {
    const copy = /#\d+$/.exec(places.get(task.id) ?? "")?.[0] ?? "";
    const name = `${"  ".repeat(depth)}${printable(task.agentId ?? "agent")}${copy}`;
    const children = task.children.flatMap((id) => taskOf(tree, id) ?? []);
    return [{ task, name, depth }, ...children.flatMap((child) => visit(child, depth + 1))];
  };
  return Object.values(tree.tasks)
    .filter((task) => taskOf(tree, task.parentTaskId) === undefined)
    .flatMap((task) => visit(task, 0));
}

/** Agents at work come before those that have ended, and the root before all. */
function selectAgents(agents: readonly RosterAgent[], count: number): readonly RosterAgent[] {
  const rank = ({ task, depth }: RosterAgent) =>
    depth === 0 ? 0 : task.status === "suspended" ? 1 : isTerminal(task.status) ? 3 : 2;
  const chosen = new Set(agents.toSorted((a, b) => rank(a) - rank(b)).slice(0, count));
  return agents.filter((agent) => chosen.has(agent));
}

function hiddenLine(agents: readonly RosterAgent[]): string {
  const counts = new Map<string, number>();
  for (const { task } of agents) counts.set(task.status, (counts.get(task.status) ?? 0) + 1);
  const parts = [...counts].map(([status, count]) => `${count} ${status.replace("_", " ")}`);
  return `… ${agents.length} more: ${parts.join(", ")}`;
}

function agentLine(
  { task, name }: RosterAgent,
  canvas: Canvas,
  nameWidth: number,
  now: number,
): string {
  const [mark, look] = marks[task.status];
  const tokens = task.usage ? shortCount(task.usage.total_tokens) : "";
  const from = task.createdAt;
  const seconds = from === undefined ? "" : shortTime((task.completedAt ?? now) - from);
  const rest = canvas.columns - 2 - nameWidth - 1 - 1 - figuresWidth;
  const figures = `${tokens.padStart(tokensWidth)} ${seconds.padStart(secondsWidth)}`;
  // The number of a second agent of the same kind must not be cut off.
  const [copy = ""] = /#\d+$/.exec(name) ?? [];
  const short = cutTo(name.slice(0, name.length - copy.length), nameWidth - copy.length) + copy;
  const label = column(short, nameWidth);
  // On a very narrow screen only the figures fit.
  const activity = rest < 4 ? "" : `${column(activityOf(task, rest), rest)} `;
  const gap = rest < 4 ? " ".repeat(Math.max(0, rest + 1)) : "";
  return `${canvas.style(look, mark)} ${canvas.style("bold", label)} ${gap}${canvas.style("dim", activity)}${canvas.style("dim", figures)}`;
}

function shortCount(count: number): string {
  if (count < 1_000) return `${count}`;
  if (count < 99_950) return `${(count / 1_000).toFixed(1)}k`;
  return count < 999_500 ? `${Math.round(count / 1_000)}k` : `${(count / 1_000_000).toFixed(1)}M`;
}

/** A duration in at most five characters. */
export function shortTime(ms: number): string {
  const seconds = Math.max(0, ms) / 1_000;
  if (seconds < 10) return `${seconds.toFixed(1)}s`;
  if (seconds < 100) return `${Math.floor(seconds)}s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 100
    ? `${minutes}m${String(Math.floor(seconds % 60)).padStart(2, "0")}`
    : `${Math.floor(minutes / 60)}h`;
}

/** The current activity of a task, in at most `width` columns. */
function activityOf(task: Task, width: number): string {
  const background = task.mode === "background" && !isTerminal(task.status) ? "background: " : "";
  const waiting = waitingIn(task);
  if (waiting.length > 0) return `asks: ${printable(waiting[0]?.name ?? waiting[0]?.kind ?? "")}`;
  if (task.status === "suspended") return "waits for an answer below";
  if (task.error) return printable(task.error.message).replaceAll("\n", " ");
  if (isTerminal(task.status))
    return task.status === "completed" ? "" : (task.incompleteReason ?? task.status);
  const open = task.output.filter(({ status }) => status === "in_progress");
  const last = open.at(-1);
  if (last === undefined) return `${background}${task.status === "queued" ? "queued" : "thinks"}`;
  if (last.type !== "tool_result")
    return background + tail(textOfItem(last), width - widthOf(background));
  const names = open.flatMap((item) => (item.type === "tool_result" ? callOf(task, item) : []));
  const more = names.length > 1 ? ` (+${names.length - 1})` : "";
  return `${background}${names[0] ?? "works"}${more}`;
}

function callOf(
  task: Task,
  { call_id }: Extract<Item, { type: "tool_result" }>,
): readonly string[] {
  const call = task.output.find((item) => item.type === "tool_call" && item.call_id === call_id);
  if (call?.type !== "tool_call") return [];
  const values = Object.values(parsed(call.arguments)).filter((value) => typeof value === "string");
  return [oneLine(`${call.name} ${values.join(" ")}`)];
}

function parsed(json: string): object {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {}; // the arguments are not complete yet
  }
}

function textOfItem(item: Item): string {
  if (item.type === "reasoning") return item.summary.map(({ text }) => text).join(" ");
  if (item.type === "message") return textOf(item.block_list);
  return item.type === "tool_call" ? `calls ${item.name}` : "";
}

function oneLine(text: string): string {
  return printable(text).replace(/\s+/g, " ").trim();
}

/** The end of a text in one line. */
function tail(text: string, width: number): string {
  const line = oneLine(text.slice(-4 * Math.max(1, width)));
  if (widthOf(line) <= width) return line;
  const words = [...line];
  while (words.length > 0 && widthOf(words.join("")) > width - 1) words.shift();
  return `…${words.join("")}`;
}

/** The last words of an agent, and its last result. */
function detailsOf({ task, depth }: RosterAgent, { columns, style }: Canvas): readonly string[] {
  const indent = "  ".repeat(depth + 2);
  const width = Math.max(8, columns - indent.length);
  const said = task.output.findLast(({ type }) => type === "message" || type === "reasoning");
  const result = task.output.findLast(
    (item) => item.type === "tool_result" && item.block_list.length > 0,
  );
  const words = said ? wrap(oneLine(textOfItem(said)), width).slice(-detailRows) : [];
  const found = result?.type === "tool_result" ? [`→ ${oneLine(textOf(result.block_list))}`] : [];
  return [...words, ...found].map((line) => style("dim", cutTo(`${indent}${line}`, columns)));
}
