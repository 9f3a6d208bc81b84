import { type BufferedIterator, inTurn } from "../base/async-queue.ts";
import {
  type ApprovalState,
  childrenOf,
  type HintAdded,
  type Item,
  isTerminal,
  type LogEvent,
  type Mutable,
  noUsage,
  type Source,
  subtreeOf,
  sumOf,
  type Task,
  type TaskEvent,
  TaskTree,
  type TextDelta,
  type ToolCallItem,
  type ToolResultItem,
  waitingIn,
} from "../protocol/index.ts";
import type {
  AgentEvent,
  ChildEvent,
  ReasoningEvent,
  Retry,
  Run,
  StandardSchema,
  StreamOptions,
} from "./agent.ts";
import { approvalIn } from "./approval.ts";
import {
  blockOf,
  contentOf,
  isOfTurn,
  parseJson,
  stateOf,
  streamedText,
  type TurnItem,
} from "./item-content.ts";
import { type Block, type Message, type Reply, type ToolResultState, textOf } from "./message.ts";

/** Names the reply in the metadata of a task whose reply is not its last message. */
export const editedReply = "rivulet.reply";

/** The display of a call whose child continues in the background. */
function inBackground(agentId: string): string {
  return `${agentId} works in the background.`;
}

type ViewOptions = Pick<StreamOptions, "types" | "incremental" | "chunks">;
type LoggedRun = Run<unknown> & { before(): Promise<readonly TaskEvent[]> };
type TextMessage = Message & { readonly text: string };
/** A text that grows: its chunks need only its item, so its deltas are folded as one when its task changes. */
type GrowingText = { readonly task: Task; readonly item: Item; readonly rest: Mutable<TextDelta> };

/** The agent events of a run. Can be iterated several times; each iteration starts where the run starts. */
export function agentEventsOf(
  run: LoggedRun,
  { name }: { readonly name: string },
  options: StreamOptions<StandardSchema | undefined>,
): AsyncIterable<AgentEvent> {
  return { [Symbol.asyncIterator]: () => iterate(run, name, options) };
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

/** A task tree as agent events: chunks while items grow, each message when its turn ends, a result when a task ends. */
export class AgentEventView {
  readonly #rootTaskId: string;
  readonly #rootName: string;
  readonly #options: ViewOptions;
  readonly #tree = new TaskTree({ filtered: true }); // one event may stand for several deltas
  /** By the id of the task. */
  readonly #growing = new Map<string, GrowingText>();
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
    const isQuiet = this.#unshown.size === 0;
    if (isQuiet && event.type === "task.text.delta" && this.#grow(event, out)) return;
    this.#endGrowth(event.task_id);
    if (event.type === "task.snapshot") {
      this.#tree.apply(event);
      this.#unshown.add(event.task_id);
      return;
    }
    if (!isQuiet) this.flush(out);
    const { output_index: at = -1 } = event as { output_index?: number };
    const before = at < 0 ? undefined : this.#tree.task(event.task_id)?.output[at];
    this.#tree.apply(event);
    const task = this.#tree.task(event.task_id);
    if (task === undefined) return;
    const item = task.output[at];
    this.#derive(event, task, out, before, item);
    if (event.type !== "task.text.delta" || !item || !isOpen(item)) return;
    const rest = { ...event, delta: "", prev_task_seq: event.task_seq };
    const isWhole = this.#options.incremental === false || task.appliedSeq !== event.task_seq;
    if (!isWhole) this.#growing.set(task.id, { task, item, rest });
  }

  /** Adds a chunk of a text that grows; false if the delta does not follow the one before it. */
  #grow(event: TextDelta, out: AgentEvent[]): boolean {
    const { task, item, rest } = this.#growing.get(event.task_id) ?? {};
    if (rest?.output_index !== event.output_index || rest.block_index !== event.block_index)
      return false;
    if (event.task_seq !== rest.task_seq + 1 || !task) return false;
    rest.task_seq = event.task_seq;
    rest.sequence_number = event.sequence_number;
    rest.delta += event.delta;
    this.#addChunk(task, item, event.delta, out);
    return true;
  }

  #endGrowth(taskId: string): void {
    const { rest } = this.#growing.get(taskId) ?? {};
    if (rest && rest.delta !== "") this.#tree.apply(rest);
    this.#growing.delete(taskId);
  }

  #derive(event: LogEvent, task: Task, out: AgentEvent[], before?: Item, item?: Item) {
    switch (event.type) {
      case "task.text.delta":
      case "task.reasoning_summary_text.delta":
      case "task.reasoning_text.delta":
        return this.#addChunk(task, item, event.delta, out);
      case "task.output_item.added":
        return this.#addCall(task, item, false, out);
      case "task.tool_call_arguments.done":
        return this.#addCall(task, item, true, out);
      case "task.output_item.done":
        if (item?.type === "tool_result") this.#addToolResult(task, item, out);
        // The end of the arguments, if it was sent, has completed the call.
        else if (!hasArguments(before)) this.#addCall(task, item, true, out);
        return;
      case "task.output_item.discarded":
        return this.#retract(task, before, out);
      case "task.tool_result.progress":
        if (item?.type !== "tool_result" || item.progress === undefined) return;
        return this.#push(out, task, {
          ...{ type: "progress", last: false, progress: item.progress },
          ...this.#resultFields(task, item, [], "success", ""),
        });
      case "task.usage":
        return this.#endTurn(task, task.output.length, out);
      case "task.hint.added":
        return this.#addHint(task, event.hint, out);
      case "task.custom":
        if (event.name === "rivulet.retry") this.#addRetry(task, event.value as Retry, out);
        return;
      case "task.child.started":
        return this.#addChild(task, this.#tree.task(event.child_task_id), "started", out);
      case "task.child.promoted":
        return this.#addChild(task, this.#tree.task(event.child_task_id), "promoted", out);
      case "task.approval.requested":
        return this.#addApproval(task, event, out);
      case "task.suspended":
        return this.#addTaskResult(task, out);
      case "task.completed":
      case "task.failed":
      case "task.cancelled":
      case "task.incomplete":
        this.#endTurn(task, task.output.length, out);
        return this.#addTaskResult(task, out);
    }
  }

  /** Appends the agent events of all pending snapshots. Snapshots of one log arrive together, parents and children. */
  flush(out: AgentEvent[]): void {
    for (const taskId of this.#unshown) this.#addSnapshot(taskId, out);
  }

  /** Appends the root's result, from the run's reply so that `call`, `run` and `stream` agree. */
  addRootResult(reply: Reply<unknown>, out: AgentEvent[]): void {
    const { structured: _, task, text, generateReason, approvals, ...more } = reply;
    const { usage, totalUsage, cost, ...message } = more;
    const status = this.#tree.task(task.taskId)?.status ?? "unknown";
    this.#push(out, undefined, {
      ...{ type: "agent_result", last: true, text, message: { ...message, text } },
      status: isTerminal(status) && status !== "failed" ? status : "suspended",
      ...{ generateReason, approvals, usage, totalUsage, ...(cost && { cost }) },
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
      const text = isResult && !isOpen(item) ? "" : streamedText(item);
      if (text !== "") this.#addChunk(task, item, text, out);
      this.#addCall(task, item, hasArguments(item), out);
      if (!isResult) continue;
      const [first] = childrenOf(this.#tree.tree, taskId, index);
      const child = this.#tree.task(item.child_task_id ?? first?.id ?? "");
      this.#addChild(task, child, "started", out);
      if (child !== undefined) this.#addSnapshot(child.id, out);
      if (!isOpen(item)) this.#addToolResult(task, item, out);
    }
    const isTurnOpen = this.#turnItems(task, task.output.length).some(isOpen);
    if (!isTurnOpen || isTerminal(task.status)) this.#endTurn(task, task.output.length, out);
    for (const approval of task.approvals) {
      if (approval.decision === undefined) this.#addApproval(task, approval, out);
    }
    if (isTerminal(task.status) || task.status === "suspended") this.#addTaskResult(task, out);
  }

  #addChunk(task: Task, item: Item | undefined, delta: string, out: AgentEvent[]): void {
    if (item === undefined || this.#options.chunks === false) return;
    if (this.#options.incremental !== false) this.#push(out, task, this.#chunk(task, item, delta));
    else if (isOfTurn(item))
      this.#push(out, task, this.#turnEvent(task, task.output.length, false));
    else this.#push(out, task, this.#chunk(task, item, streamedText(item)));
  }

  /** Tells readers of an item's chunks that the item does not count. */
  #retract(task: Task, item: Item | undefined, out: AgentEvent[]): void {
    if (item === undefined || (item.type !== "tool_call" && streamedText(item) === "")) return;
    const event = this.#chunk(task, item, "");
    if (event) this.#push(out, task, { ...event, retracted: true });
  }

  #chunk(task: Task, item: Item, said: string): AgentEvent | undefined {
    if (item.type === "tool_result") {
      const output = [{ type: "text", text: said } as const];
      const fields = this.#resultFields(task, item, output, "success", said);
      return { type: "tool_result", last: false, ...fields, state: "running" };
    }
    if (item.type === "tool_call") return { ...this.#callFields(task, item), last: false };
    if (!isOfTurn(item)) return undefined;
    const isThinking = item.type === "reasoning";
    const text = isThinking ? "" : said;
    const content = [{ type: isThinking ? "thinking" : "text", text: said } as const];
    const message = this.#message(task, item.message_id ?? item.id, content, text);
    const thinking = isThinking ? said : "";
    return { type: turnType(item), last: false, text, thinking, message };
  }

  /** Without chunks, a call is shown when its turn ends, so that it is never retracted. */
  #addCall(task: Task, item: Item | undefined, isComplete: boolean, out: AgentEvent[]): void {
    if (item?.type !== "tool_call" || this.#options.chunks === false) return;
    this.#push(out, task, isComplete ? this.#wholeCall(task, item) : this.#chunk(task, item, ""));
  }

  #wholeCall(task: Task, item: ToolCallItem): AgentEvent {
    const input = parseJson(item.arguments || "{}");
    return { ...this.#callFields(task, item), last: true, input };
  }

  #callFields(task: Task, item: ToolCallItem) {
    const { call_id: callId, name } = item;
    const message = this.#message(task, callId, contentOf(item), "");
    return { type: "tool_call", name, callId, text: "", message } as const;
  }

  #addToolResult(task: Task, item: ToolResultItem, out: AgentEvent[]): void {
    const shown = item.block_list.flatMap(blockOf);
    const text = textOf(shown) || (item.error?.message ?? this.#childText(item));
    const output = shown.length > 0 || text === "" ? shown : [{ type: "text", text } as const];
    const state = stateOf(item);
    const fields = this.#resultFields(task, item, output, state, text);
    this.#push(out, task, { type: "tool_result", last: true, ...fields, state });
  }

  /** The output of a child replaces the parts of its call that were not shown. */
  #childText({ child_task_id: childId }: ToolResultItem): string {
    const child = childId === undefined ? undefined : this.#tree.task(childId);
    if (child === undefined) return "";
    const { text = "" } = replyOf(child) ?? this.#lastMessages.get(child.id) ?? {};
    return isTerminal(child.status) ? text : inBackground(child.agentId ?? child.id);
  }

  #resultFields(
    task: Task,
    { call_id: callId }: ToolResultItem,
    output: readonly Block[],
    state: ToolResultState,
    text: string,
  ) {
    const call = task.output.findLast(
      (item) => item.type === "tool_call" && item.call_id === callId,
    );
    const name = call?.type === "tool_call" ? call.name : "";
    const content: Block[] = [{ type: "tool_result", id: callId, name, output, state }];
    const message = { ...this.#message(task, callId, content, text), role: "tool" } as const;
    return { name, callId, text, message };
  }

  #addChild(task: Task, child: Task | undefined, phase: ChildEvent["phase"], out: AgentEvent[]) {
    if (child === undefined) return;
    const { id: taskId, mode = "sync", agentId = child.source?.agentId ?? "" } = child;
    const message = this.#message(task, taskId, [], "");
    const fields = { phase, mode, agentId, taskId, text: "", message } as const;
    this.#push(out, task, { type: "child", last: true, ...fields });
  }

  #addRetry(task: Task, retry: Retry, out: AgentEvent[]): void {
    const message = this.#message(task, retry.callId ?? task.id, [], "");
    this.#push(out, task, { ...retry, type: "retry", last: true, text: "", message });
  }

  /** Adds the message of the turn whose items end before index `end`. */
  #endTurn(task: Task, end: number, out: AgentEvent[]): void {
    const items = this.#turnItems(task, end);
    if (items.some((item) => contentOf(item).length > 0)) {
      const event = this.#turnEvent(task, end, true);
      this.#lastMessages.set(task.id, event.message);
      this.#push(out, task, event);
      const calls = items.filter((item) => item.type === "tool_call");
      if (this.#options.chunks === false)
        for (const call of calls) this.#push(out, task, this.#wholeCall(task, call));
    }
    this.#turnStarts.set(task.id, end);
  }

  /** The turn up to index `end`, as one message. */
  #turnEvent(task: Task, end: number, last: boolean): ReasoningEvent {
    const items = this.#turnItems(task, end);
    const [first] = items;
    const content = items.flatMap(contentOf);
    const text = textOf(content);
    const thoughts = content.flatMap((block) => (block.type === "thinking" ? [block.text] : []));
    const message = this.#message(task, first?.message_id ?? first?.id ?? task.id, content, text);
    const type = turnType(items.find((item) => turnType(item) === "summary"));
    return { type, last, text, thinking: thoughts.join(""), message };
  }

  #turnItems(task: Task, end: number): readonly TurnItem[] {
    return task.output.slice(this.#turnStarts.get(task.id) ?? 0, end).filter(isOfTurn);
  }

  #addHint(task: Task, { id, text }: HintAdded["hint"], out: AgentEvent[]): void {
    const message = { id, role: "user", content: [{ type: "hint", text }], text } as const;
    this.#push(out, task, { type: "hint", last: true, text, message });
  }

  #addApproval(task: Task, state: ApprovalState, out: AgentEvent[]): void {
    const text = state.message ?? "";
    const message = { ...this.#message(task, state.approval_id, [], text), role: "tool" } as const;
    const approval = approvalIn(task, state, this.#rootTaskId);
    this.#push(out, task, { type: "approval", last: true, text, message, approval });
  }

  /** Adds the result of a task that has ended or is suspended. */
  #addTaskResult(task: Task, out: AgentEvent[]): void {
    const { id, status, generateReason = "failed", usage = noUsage } = task;
    // `addRootResult` adds the root's result from the reply; a failed root has no reply.
    if (id === this.#rootTaskId && status !== "failed") {
      this.isRootOver = isTerminal(status);
      return;
    }
    const message = replyOf(task) ?? this.#lastMessages.get(id) ?? this.#message(task, id, [], "");
    const total = sumOf(subtreeOf(this.#tree.tree, id));
    const result = {
      type: "agent_result",
      last: true,
      ...{ text: message.text, message },
      approvals: waitingIn(task).map((one) => approvalIn(task, one, this.#rootTaskId)),
      ...{ usage, totalUsage: total.usage, ...(total.cost && { cost: total.cost }) },
    } as const;
    if (status === "failed") {
      const { error = unknownError } = task;
      this.#push(out, task, { ...result, status, generateReason: "failed", error });
    } else {
      const ended = isTerminal(status) ? status : "suspended";
      this.#push(out, task, { ...result, status: ended, generateReason });
    }
  }

  #message(task: Task, id: string, content: readonly Block[], text: string): TextMessage {
    const name = task.source?.agentName ?? task.source?.agentId ?? this.#rootName;
    return { id, role: "assistant", name, content, text };
  }

  #push(out: AgentEvent[], task: Task | undefined, event: AgentEvent | undefined): void {
    const { types, chunks } = this.#options;
    if (event === undefined || (chunks === false && !event.last)) return;
    if (types !== undefined && !types.includes(event.type)) return;
    if (task?.source !== undefined) (event as { source?: Source }).source = task.source as Source;
    out.push(event);
  }
}

const unknownError = { code: "failed", message: "The task failed.", retryable: false };

/** The reply that a hook put in the place of a task's last message. */
function replyOf({ metadata }: Task): TextMessage | undefined {
  const message = metadata?.[editedReply] as Message | undefined;
  return message && { ...message, text: textOf(message.content) };
}

function turnType(item: TurnItem | undefined): "reasoning" | "summary" {
  return item?.type === "message" && item.purpose === "summary" ? "summary" : "reasoning";
}

function isOpen(item: Item): boolean {
  return item.status === "in_progress";
}

/** Whether the arguments of a call are complete. */
function hasArguments(item: Item | undefined): boolean {
  return item?.type === "tool_call" && (!isOpen(item) || item.arguments_status !== undefined);
}
