import {
  isTerminal,
  type MessageItem,
  rootTask,
  subtreeUsage,
  type Task,
  type Tree,
} from "../protocol/index.ts";
import { citedText } from "./citations.ts";
import { type Canvas, renderUsage } from "./render.ts";
import { renderRoster, shortTime } from "./roster.ts";
import { cutTo, printable, wrap } from "./text.ts";

/** Renders the end of a run: the answer first, then its sources, the agents, the totals and how to continue. */
export function renderEnding(tree: Tree, canvas: Canvas, resume?: string): readonly string[] {
  const root = rootTask(tree);
  const answer = answerOf(tree);
  const { columns, style } = canvas;
  const lines: string[] = [];
  if (answer) {
    const { text, citations } = citedText(tree, answer);
    lines.push(...wrap(printable(text.trim()).replace(/\[\^(\d+)\]/g, "[$1]"), columns));
    if (citations.length > 0) lines.push("", style("bold", "Sources"));
    for (const { marker, place, text: source } of citations) {
      const head = `${marker.replace("^", "")} ${printable(place)}  `;
      lines.push(style("dim", cutTo(`${head}${printable(source)}`, columns)));
    }
  }
  if (root?.error) {
    const { message, hint = "" } = root.error;
    const failure = printable(`Failed: ${message} ${hint}`).trim();
    lines.push(...wrap(failure, columns).map((line) => style("red", line)));
  }
  lines.push(...unfinishedLines(root).map((line) => style("yellow", line)));
  const agents = Object.keys(tree.tasks).length;
  const now = root?.completedAt ?? root?.createdAt ?? 0;
  lines.push("", ...renderRoster(tree, canvas, { now, maxRows: agents }));
  lines.push(...wrap(totalsOf(tree), columns).map((line) => style("dim", line)));
  if (resume !== undefined)
    lines.push(...wrap(`Continue with: ${resume}`, columns).map((line) => style("dim", line)));
  return lines;
}

/** Says that a run has not ended, as in the replay of a run that was interrupted. */
function unfinishedLines(root: Task | undefined): readonly string[] {
  if (root === undefined || isTerminal(root.status)) return [];
  return [`The run has not ended: it is ${root.status.replace("_", " ")}.`];
}

/** The last message of the root task, if nothing follows it. */
export function answerOf(tree: Tree): MessageItem | undefined {
  const last = rootTask(tree)?.output.findLast(({ type }) => type !== "discarded");
  return last?.type === "message" ? last : undefined;
}

/** The totals of a run in one line. */
function totalsOf(tree: Tree): string {
  const root = rootTask(tree);
  if (root === undefined) return "";
  const { input_tokens, output_tokens } = subtreeUsage(tree, root.id);
  const count = Object.keys(tree.tasks).length;
  const { createdAt, completedAt, cost } = root;
  return [
    `${count} ${count === 1 ? "agent" : "agents"}`,
    `${input_tokens.toLocaleString("en")} tokens in`,
    `${output_tokens.toLocaleString("en")} out`,
    ...(createdAt !== undefined && completedAt !== undefined
      ? [shortTime(completedAt - createdAt)]
      : []),
    ...(cost ? [`${cost.amount} ${cost.currency}`] : []),
  ].join(" · ");
}

/** The answer with its sources, as text. */
export function plainAnswer(tree: Tree): string {
  const answer = answerOf(tree);
  if (answer === undefined) return "";
  const { text, citations } = citedText(tree, answer);
  const sources = citations.map(({ marker, place }) => `${marker}: ${place}`);
  return [printable(text), ...(sources.length > 0 ? ["", ...sources] : [])].join("\n");
}

/** The end of a run without a terminal: the answer once more, after all the lines of the agents. */
export function plainEnding(tree: Tree, canvas: Canvas, resume?: string): readonly string[] {
  const answer = plainAnswer(tree);
  const unfinished = unfinishedLines(rootTask(tree));
  return [
    ...(answer === "" || unfinished.length > 0 ? [""] : ["", "answer", answer, ""]),
    ...unfinished,
    ["used", ...renderUsage(tree, canvas)].join("\n  "),
    ...(resume === undefined ? [] : ["", `continue  ${resume}`]),
  ];
}
