import type {
  AgentEvent,
  Approval,
  Run,
  StandardSchema,
  StreamOptions,
} from "../../protocol/agent.ts";
import type { OutputItemDiscarded, TaskEvent } from "../../protocol/event.ts";
import type { Block, Message, Reply, ToolResultState } from "../../protocol/message.ts";
import { textOf } from "../../protocol/message.ts";
import { TaskTree } from "../../protocol/reduce.ts";
import type { Source } from "../../protocol/source.ts";
import type { ApprovalState, Item, Task, ToolResultItem } from "../../protocol/task.ts";
import { isTerminal } from "../../protocol/task.ts";
import { type BufferedIterator, inTurn } from "../base/async-queue.ts";
import { blockOf, contentOf, parseJson, stateOf, streamedText } from "../events/item-content.ts";
import type { AgentSettings } from "../loop/settings.ts";
import { approvalOf } from "../tool/permission.ts";

type ViewOptions = Pick<StreamOptions, "types" | "incremental" | "chunks">;
type LoggedRun = Run<unknown> & { before(): Promise<readonly TaskEvent[]> };
type TextMessage = Message & { readonly text: string };

/** The agent events of a run. Can be iterated several times; each iteration starts where the run starts. */
export function agentEventsOf(
  run: LoggedRun,
  settings: AgentSettings,
  options: StreamOptions<StandardSchema | undefined>,
): AsyncIterable<AgentEvent> {
  return {
    [Symbol.asyncIterator]: () => iterate(run, settings.name, options),
  };
}

function iterate(
  run: LoggedRun,
  rootName: string,
  options: ViewOptions,
): AsyncIterableIterator<AgentEvent> {
  const events: BufferedIterator<TaskEvent> = run[Symbol.asyncIterator]();
  const ready: AgentEvent[] = [];
  let view: AgentEventView | undefined;
  let hasReadAll = false;
  let hasRootResult = false;
  let isClosed = false;

  /** A resumed run continues items of an earlier run, so the view needs the log before it. */
  async function openView(): Promise<AgentEventView> {
    const { rootTaskId } = await run.task;
    const opened = new AgentEventView(rootTaskId, rootName, options);
    for (const event of await run.before()) opened.apply(event, []);
    opened.flush([]);
    return opened;
  }

  /** The root's result does not wait for background tasks, which may run long after the root. */
  function isRootResultDue({ isRootOver }: AgentEventView): boolean {
    return !hasRootResult && (isRootOver || hasReadAll);
  }

  function take(): IteratorResult<AgentEvent> | undefined {
    if (isClosed || view === undefined) return undefined;
    while (ready.length === 0 && !isRootResultDue(view)) {
      const next = events.takeReady?.();
      if (next === undefined) return undefined;
      view.apply(next.value, ready);
    }
    const value = ready.shift();
    return value && { value, done: false };
  }

  async function pull(): Promise<IteratorResult<AgentEvent>> {
    try {
      if (!isClosed) view ??= await openView();
      while (view !== undefined && !isClosed) {
        const value = take();
        if (value !== undefined) return value;
        if (isRootResultDue(view)) {
          hasRootResult = true;
          view.addRootResult(await run.result(), ready);
        } else if (hasReadAll) isClosed = true;
        else {
          const next = await events.next();
          hasReadAll = next.done === true;
          if (next.done) view.flush(ready);
          else view.apply(next.value, ready);
        }
      }
    } catch (error) {
      isClosed = true;
      throw error;
    }
    return { value: undefined, done: true };
  }

  return inTurn({
    take,
    pull,
    async leave() {
      isClosed = true;
      await events.return?.();
    },
  });
}

/**
 * A task tree as agent events: folds each task event into the tree, then derives agent events from the event and the
 * tree: chunks while items grow, each message when its turn ends, and a result when a task ends.
 */
export class AgentEventView {
  readonly #rootTaskId: string;
  readonly #rootName: string;
  readonly #options: ViewOptions;
  readonly #tree = new TaskTree();
  /** Where each task's current turn starts, since the tree does not keep where turns end. */
  readonly #turnStarts = new Map<string, number>();
  /** The message of each task's last finished turn. */
  readonly #lastMessages = new Map<string, TextMessage>();
  /** Tasks whose snapshots are in the tree but not yet in the agent events. */
  readonly #unshown = new Set<string>();
  /** True when the root has ended with a reply; a failed root has none. */
  isRootOver = false;

  constructor(rootTaskId: string, rootName: string, options: ViewOptions) {
    this.#rootTaskId = rootTaskId;
    this.#rootName = rootName;
    this.#options = options;
  }

  /** Folds an event and appends its agent events to `out`. */
  apply(event: TaskEvent, out: AgentEvent[]): void {
    if (event.type === "error") return;
    if (event.type === "task.snapshot") {
      this.#tree.apply(event);
      this.#unshown.add(event.task_id);
      return;
    }
    if (this.#unshown.size > 0) this.flush(out);
    // The tree drops the text of a discarded item.
    if (event.type === "task.output_item.discarded") this.#retract(event, out);
    this.#tree.apply(event);
    const task = this.#tree.task(event.task_id);
    if (task === undefined) return;
    switch (event.type) {
      case "task.text.delta":
      case "task.reasoning_summary_text.delta":
      case "task.reasoning_text.delta": {
        const item = task.output[event.output_index];
        if (item !== undefined) this.#addChunk(task, item, event.delta, out);
        return;
      }
      case "task.output_item.done": {
        const item = task.output[event.output_index];
        if (item?.type === "tool_result") this.#addToolResult(task, item, out);
        return;
      }
      case "task.usage":
        this.#endTurn(task, task.output.length, out);
        return;
      case "task.hint.added":
        this.#addHint(task, event.hint.text, out);
        return;
      case "task.approval.requested":
        this.#addApproval(task, event, out);
        return;
      case "task.suspended":
        this.#addTaskResult(task, out);
        return;
      case "task.completed":
      case "task.failed":
      case "task.cancelled":
      case "task.incomplete":
        this.#endTurn(task, task.output.length, out);
        this.#addTaskResult(task, out);
        return;
    }
  }

  /** Appends the agent events of all pending snapshots. Snapshots of one log arrive together, parents and children. */
  flush(out: AgentEvent[]): void {
    for (const taskId of this.#unshown) this.#addSnapshot(taskId, out);
  }

  /** Appends the root's result, from the run's reply so that `call`, `run` and `stream` agree. */
  addRootResult(reply: Reply<unknown>, out: AgentEvent[]): void {
    const { text, generateReason, approvals, structured: _, task, ...message } = reply;
    const status = this.#tree.task(task.taskId)?.status ?? "unknown";
    this.#push(out, {
      type: "agent_result",
      last: true,
      text,
      message: { ...message, text },
      status: isTerminal(status) ? status : "suspended",
      generateReason,
      approvals,
    });
  }

  /** Shows a task as its events would have shown it: text in one chunk, children inside the call that started them. */
  #addSnapshot(taskId: string, out: AgentEvent[]): void {
    const task = this.#tree.task(taskId);
    if (!this.#unshown.delete(taskId) || task === undefined) return;
    this.#turnStarts.delete(taskId);
    this.#lastMessages.delete(taskId);
    for (const [index, item] of task.output.entries()) {
      const isResult = item.type === "tool_result";
      if (isResult) this.#endTurn(task, index, out);
      const text = isResult && item.status !== "in_progress" ? "" : streamedText(item);
      if (text !== "") this.#addChunk(task, item, text, out);
      if (!isResult) continue;
      if (item.child_task_id !== undefined) this.#addSnapshot(item.child_task_id, out);
      if (item.status !== "in_progress") this.#addToolResult(task, item, out);
    }
    const isTurnOpen = turnItems(task, this.#turnStarts.get(taskId) ?? 0).some(isOpen);
    if (!isTurnOpen || isTerminal(task.status)) this.#endTurn(task, task.output.length, out);
    for (const approval of task.approvals) {
      if (approval.decision === undefined) this.#addApproval(task, approval, out);
    }
    if (isTerminal(task.status) || task.status === "suspended") this.#addTaskResult(task, out);
  }

  #addChunk(task: Task, item: Item, delta: string, out: AgentEvent[]): void {
    if (this.#options.chunks === false) return;
    const text = this.#options.incremental === false ? streamedText(item) : delta;
    this.#push(out, this.#chunk(task, item, text), task);
  }

  /** Tells readers of an item's chunks that the item does not count. */
  #retract({ task_id, output_index }: OutputItemDiscarded, out: AgentEvent[]): void {
    const task = this.#tree.task(task_id);
    const item = task?.output[output_index];
    if (task === undefined || item === undefined) return;
    if (streamedText(item) === "" || this.#options.chunks === false) return;
    this.#push(out, { ...this.#chunk(task, item, ""), retracted: true }, task);
  }

  #chunk(task: Task, item: Item, text: string): AgentEvent {
    if (item.type === "tool_result") {
      const message = this.#toolMessage(task, item, [{ type: "text", text }], "success", text);
      return { type: "tool_result", last: false, text, message };
    }
    if (item.type !== "message") {
      const message = this.#message(task, item.id, [{ type: "thinking", text }], "");
      return { type: "reasoning", last: false, text: "", message };
    }
    const message = this.#message(task, item.id, [{ type: "text", text }], text);
    const type = item.purpose === "summary" ? "summary" : "reasoning";
    return { type, last: false, text, message };
  }

  #addToolResult(task: Task, item: ToolResultItem, out: AgentEvent[]): void {
    const output = item.block_list.flatMap(blockOf);
    const childText = this.#lastMessages.get(item.child_task_id ?? "")?.text ?? "";
    const text = textOf(output) || (item.error?.message ?? childText);
    const message = this.#toolMessage(task, item, output, stateOf(item), text);
    this.#push(out, { type: "tool_result", last: true, text, message }, task);
  }

  /** Adds the message of the turn whose items end before index `end`. */
  #endTurn(task: Task, end: number, out: AgentEvent[]): void {
    const items = turnItems(task, this.#turnStarts.get(task.id) ?? 0, end);
    this.#turnStarts.set(task.id, end);
    const [first] = items;
    if (first === undefined) return;
    const content = items.flatMap(contentOf);
    const text = textOf(content);
    const message = this.#message(task, first.id, content, text);
    this.#lastMessages.set(task.id, message);
    const isSummary = items.some((item) => item.type === "message" && item.purpose === "summary");
    const type = isSummary ? "summary" : "reasoning";
    this.#push(out, { type, last: true, text, message }, task);
  }

  #addHint(task: Task, text: string, out: AgentEvent[]): void {
    const message = { id: task.id, role: "user", content: [{ type: "hint", text }], text } as const;
    this.#push(out, { type: "hint", last: true, text, message }, task);
  }

  #addApproval(task: Task, state: ApprovalState, out: AgentEvent[]): void {
    const text = state.message ?? "";
    const message = { ...this.#message(task, state.approval_id, [], text), role: "tool" } as const;
    const approval = this.#approval(task, state);
    this.#push(out, { type: "approval", last: true, text, message, approval }, task);
  }

  #approval(task: Task, state: ApprovalState): Approval {
    const { approval_id, kind, call_id: callId = "", name = "", message, expires_at } = state;
    const { path = "", depth = 0 } = task.source ?? {};
    return approvalOf(
      { taskId: task.id, rootTaskId: this.#rootTaskId, path, depth },
      { id: callId, name, input: parseJson(state.arguments ?? "{}") },
      {
        type: "suspension",
        callId,
        kind: kind === "external" || kind === "question" || kind === "stop" ? kind : "approval",
        approvalId: approval_id,
        ...(message !== undefined && { reason: message }),
        ...(expires_at !== undefined && { expiresAt: expires_at }),
      },
    );
  }

  /** Adds the result of a task that has ended or is suspended. */
  #addTaskResult(task: Task, out: AgentEvent[]): void {
    const { id, status, generateReason = "failed", approvals } = task;
    // `addRootResult` adds the root's result from the reply; a failed root has no reply.
    if (id === this.#rootTaskId && status !== "failed") {
      this.isRootOver = isTerminal(status);
      return;
    }
    const message = this.#lastMessages.get(id) ?? this.#message(task, id, [], "");
    const result: AgentEvent = {
      type: "agent_result",
      last: true,
      text: message.text,
      message,
      status: isTerminal(status) ? status : "suspended",
      generateReason: status === "failed" ? "failed" : generateReason,
      approvals: approvals
        .filter(({ decision }) => decision === undefined)
        .map((approval) => this.#approval(task, approval)),
    };
    this.#push(out, result, task);
  }

  #message(task: Task, id: string, content: readonly Block[], text: string): TextMessage {
    const name = task.source?.agentName ?? task.source?.agentId ?? this.#rootName;
    return { id, role: "assistant", name, content, text };
  }

  #toolMessage(
    task: Task,
    { call_id: id }: ToolResultItem,
    output: readonly Block[],
    state: ToolResultState,
    text: string,
  ): TextMessage {
    const call = task.output.findLast((item) => item.type === "tool_call" && item.call_id === id);
    const name = call?.type === "tool_call" ? call.name : "";
    const content: Block[] = [{ type: "tool_result", id, name, output, state }];
    return { ...this.#message(task, id, content, text), role: "tool" };
  }

  #push(out: AgentEvent[], event: AgentEvent, task?: Task): void {
    const { types } = this.#options;
    if (types !== undefined && !types.includes(event.type)) return;
    out.push(task?.source === undefined ? event : { ...event, source: task.source as Source });
  }
}

/** The items of a turn: what the model has sent in the part of a task's output from `start` to `end`. */
function turnItems(task: Task, start: number, end?: number): readonly Item[] {
  return task.output
    .slice(start, end)
    .filter(({ type }) => type === "message" || type === "reasoning" || type === "tool_call");
}

function isOpen(item: Item): boolean {
  return item.status === "in_progress";
}
