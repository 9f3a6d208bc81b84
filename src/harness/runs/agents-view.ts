import { readInput } from "../../base/argument.ts";
import {
  type Cost,
  childrenOf,
  type Item,
  type Task,
  type TaskStatus,
  type Tree,
  taskOf,
  type Usage,
  type WireBlock,
} from "../../protocol/index.ts";

/** The work of one agent in a run: plain data without ids and times. */
export interface AgentView {
  /** The names of the agents above it and its own, as in `lead/researcher`. */
  readonly path: string;
  readonly depth: number;
  readonly mode: "sync" | "background";
  readonly status: TaskStatus | "unknown";
  /** The text of its last message. */
  readonly text: string;
  readonly structured?: unknown;
  readonly error?: { readonly code: string; readonly message: string };
  readonly calls: readonly CallView[];
  /** The approvals and questions that it had for people. */
  readonly asked: readonly AskedView[];
  /** The messages that steered it, and the work in the background that was delivered to it. */
  readonly hints: readonly string[];
  /** Without attempts that failed and were repeated. */
  readonly usage: Pick<Usage, "input_tokens" | "output_tokens" | "total_tokens">;
  readonly cost?: Cost;
}

/** A call of a tool. */
export interface CallView {
  readonly name: string;
  readonly input: unknown;
  readonly state: Item["status"];
  /** The text of its result that people see; empty for a cancelled call. */
  readonly output: string;
  /** The agents that it started, as indexes of the run's `agents`. */
  readonly agents?: readonly number[];
}

/** An approval or a question, and its decision. */
export interface AskedView {
  readonly kind: string;
  readonly name?: string;
  readonly input?: unknown;
  readonly message?: string;
  readonly decision?: string;
  readonly reason?: string;
}

/** A run as its agents, the root first, each before its subagents. */
export interface RunView {
  readonly text: string;
  readonly agents: readonly AgentView[];
}

/** Shows the folded tree of a run as plain data for assertions: which agents ran, what they called, asked, used and said. */
export function runOf(tree: Tree): RunView {
  return readInput("tree", "a tree of reduce()", tree, () => {
    const agents: AgentView[] = [];
    const root = taskOf(tree, tree.rootId);
    if (root) addAgent(tree, root, "", agents, new Set());
    return { text: agents[0]?.text ?? "", agents };
  });
}

function addAgent(
  tree: Tree,
  task: Task,
  above: string,
  agents: AgentView[],
  seen: Set<string>,
): number {
  const { agentId = "" } = task;
  const path = above === "" ? agentId : `${above}/${agentId}`;
  const index = agents.length;
  seen.add(task.id);
  agents.push({} as AgentView); // keeps its place before its subagents
  const last = task.output.findLast((item) => item.type === "message");
  const { structured, error, cost, source } = task;
  agents[index] = {
    path,
    depth: source?.depth ?? 0,
    mode: task.mode ?? "sync",
    status: task.status,
    text: last?.type === "message" ? textIn(last.block_list) : "",
    ...(structured !== undefined && { structured }),
    ...(error && { error: { code: error.code, message: error.message } }),
    calls: task.output.flatMap((item) =>
      item.type === "tool_call" ? [callOf(tree, task, item, path, agents, seen)] : [],
    ),
    asked: task.approvals.map(({ kind, name, arguments: args, message, decision, reason }) => ({
      kind,
      ...(name !== undefined && { name }),
      ...(args !== undefined && { input: parsed(args) }),
      ...(message !== undefined && { message }),
      ...(decision !== undefined && { decision }),
      ...(reason !== undefined && { reason }),
    })),
    hints: (task.hints ?? []).map(({ text }) => text),
    usage: usageOf(task),
    ...(cost && { cost }),
  };
  return index;
}

function callOf(
  tree: Tree,
  task: Task,
  call: Extract<Item, { type: "tool_call" }>,
  path: string,
  agents: AgentView[],
  seen: Set<string>,
): CallView {
  const at = task.output.findIndex(
    (item) => item.type === "tool_result" && item.call_id === call.call_id,
  );
  const result = task.output[at];
  const children = at < 0 ? [] : childrenOf(tree, task.id, at).filter(({ id }) => !seen.has(id));
  const started = children.map((child) => addAgent(tree, child, path, agents, seen));
  const isCancelled = result?.status === "cancelled";
  return {
    name: call.name,
    input: parsed(call.arguments),
    state: result?.status ?? "in_progress",
    output: result?.type === "tool_result" && !isCancelled ? textIn(result.block_list) : "",
    ...(started.length > 0 && { agents: started }),
  };
}

function usageOf({ usage, byModel = [] }: Task): AgentView["usage"] {
  const wasted = byModel.filter(({ retried }) => retried);
  const without = (key: keyof AgentView["usage"]) =>
    wasted.reduce((left, share) => left - (share[key] ?? 0), usage?.[key] ?? 0);
  return {
    input_tokens: without("input_tokens"),
    output_tokens: without("output_tokens"),
    total_tokens: without("total_tokens"),
  };
}

function textIn(blocks: readonly WireBlock[]): string {
  return blocks.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("");
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
