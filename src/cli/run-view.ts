import type { Decision } from "../protocol/index.ts";
import {
  type ApprovalState,
  rootTask,
  type TaskEvent,
  TaskTree,
  type Tree,
  taskOf,
} from "../protocol/index.ts";
import { textOf } from "./citations.ts";
import { answerOf } from "./ending.ts";
import type { Canvas } from "./render.ts";
import { renderRoster } from "./roster.ts";
import { printable, wrap } from "./text.ts";

/** A run on a live screen: lines that stay, and the lines that change. */
export interface RunView {
  readonly tree: Tree;
  isExpanded: boolean;
  /** Set when the ending is printed: from then on only agents that still work are rendered. */
  isAnswered: boolean;
  /** Takes an event; returns the lines that stay on the screen from now on. */
  see(event: TaskEvent): readonly string[];
  /** The words that the root is writing, and one line per agent. */
  render(maxRows: number): readonly string[];
}

const maxTail = 6;

/** Shows a run. `now` is the time that running agents are measured by. */
export function createRunView(canvas: Canvas, now: () => number): RunView {
  const fold = new TaskTree();
  /** Messages of the root that were shown, by id. */
  const shown = new Set<string>();

  /** Messages of the root between its calls stay; its last message is the answer, which the ending shows. */
  function earlierMessages(tree: Tree): readonly string[] {
    const output = rootTask(tree)?.output ?? [];
    const answer = answerOf(tree);
    return output.flatMap((item) => {
      const isEarlier = item.type === "message" && item !== answer && item.status === "completed";
      if (!isEarlier || shown.has(item.id)) return [];
      shown.add(item.id);
      const text = printable(textOf(item.block_list)).trim();
      return text === "" ? [] : wrap(text, canvas.columns);
    });
  }

  return {
    isExpanded: false,
    isAnswered: false,
    get tree() {
      return fold.tree;
    },
    see(event) {
      const { tree } = fold.apply(event);
      if (event.type === "task.approval.requested" || event.type === "task.approval.resolved") {
        const task = taskOf(tree, event.task_id);
        const approval = task?.approvals.find(
          ({ approval_id }) => approval_id === event.approval_id,
        );
        const name = printable(task?.agentId ?? "An agent");
        if (approval === undefined) return [];
        return event.type === "task.approval.requested"
          ? requestLines(approval, name, canvas)
          : decisionLines(approval, canvas);
      }
      return event.type === "task.output_item.added" ? earlierMessages(tree) : [];
    },
    render(maxRows) {
      const { tree } = fold;
      const answer = answerOf(tree);
      const text = answer?.status === "in_progress" ? printable(textOf(answer.block_list)) : "";
      const most = Math.max(0, Math.min(maxTail, Math.floor(maxRows / 2)));
      const words = text === "" || most === 0 ? [] : wrap(text, canvas.columns).slice(-most);
      const room = maxRows - words.length - (words.length > 0 ? 1 : 0);
      const roster = renderRoster(tree, canvas, {
        ...{ now: now(), maxRows: Math.max(1, room), isExpanded: this.isExpanded },
        isUnfinishedOnly: this.isAnswered,
      });
      return words.length > 0 ? [...words, "", ...roster] : roster;
    },
  };
}

/** The whole request, because the person decides about all of it. */
function requestLines(
  { name, kind, message, arguments: input }: ApprovalState,
  agent: string,
  canvas: Canvas,
): readonly string[] {
  const { columns, style } = canvas;
  const request = name ? `${agent} wants to call ${printable(name)}` : `${agent} asks`;
  const isPlain = message === undefined || message === `Allow ${name}?`;
  const title = isPlain
    ? `${request}${kind === "tool_call" ? "" : ` (${kind})`}`
    : `${request}: ${printable(message)}`;
  return [
    "",
    ...wrap(title, columns).map((line) => style("yellow", line)),
    ...wrap(prettyJson(input), columns - 2).map((line) => `  ${line}`),
  ];
}

/** JSON for people: long texts keep their line breaks. */
function prettyJson(json: string | undefined): string {
  if (json === undefined || json === "" || json === "{}") return "";
  try {
    const value: unknown = JSON.parse(json);
    if (typeof value !== "object" || value === null || Array.isArray(value)) return printable(json);
    return Object.entries(value)
      .map(([key, field]) => {
        const text = typeof field === "string" ? field : JSON.stringify(field, null, 2);
        return text.includes("\n") ? `${key}:\n${text.replace(/^/gm, "  ")}` : `${key}: ${text}`;
      })
      .map(printable)
      .join("\n");
  } catch {
    return printable(json);
  }
}

const decisions: Readonly<Record<Decision, string>> = {
  approve: "approved",
  deny: "denied",
  edit: "approved with changes",
  answer: "answered",
  expire: "expired",
  cancel: "cancelled",
};

function decisionLines(
  { name, decision = "approve", reason }: ApprovalState,
  canvas: Canvas,
): readonly string[] {
  const isDenied = /^(deny|expire|cancel)$/.test(decision);
  const what = `${isDenied ? "✗" : "✓"} ${printable(name ?? "the request")} ${decisions[decision]}`;
  const text = reason ? `${what}: ${printable(reason)}` : what;
  return wrap(text, canvas.columns).map((line) => canvas.style(isDenied ? "red" : "green", line));
}
