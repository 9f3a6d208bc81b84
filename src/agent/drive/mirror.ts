import type { ApprovalRequested, LogEvent, TaskEvent } from "../../protocol/event.ts";
import { blockOf, contentOf, isOfTurn, stateOf } from "../../protocol/item-content.ts";
import type { Block, Message, ToolUseBlock } from "../../protocol/message.ts";
import { TaskTree } from "../../protocol/reduce.ts";
import { taskOf } from "../../protocol/select.ts";
import { prependSource, type Source } from "../../protocol/source.ts";
import type { Cost, Item, ItemChange, TaskObject, Tree, Usage } from "../../protocol/task.ts";
import { isTerminal } from "../../protocol/task.ts";
import { isPlainObject } from "../base/plain.ts";
import { interruptedResult } from "../base/prompts.ts";
import { type EventBody, type ItemPlace, TaskEmitter } from "../events/emit.ts";
import { TurnEmitter } from "../events/emit-turn.ts";
import { foldLog } from "../events/fold-log.ts";
import { settleCall } from "../loop/settle.ts";
import type { TaskRun } from "../loop/task-run.ts";
import { addResultItem, commitStep, controlMessage } from "../loop/task-run.ts";
import { iterationOf, messagesOf } from "../loop/transcript.ts";
import { parseToolInput } from "../model/collect.ts";

/** An item of the task's output. */
interface Place extends ItemPlace {
  /** The call of a tool result. */
  readonly callId?: string | undefined;
  isOpen: boolean;
}

/** Returns the id that a session or an approval of the other agent has here: both may use one store. */
export function relayedId(id: string): string {
  return `relay-${id}`;
}

/** Marks the id of an item that a crash discarded and that the other log shows again: ids are used once. */
const againMark = "+";
const againMarks = /\++$/;

/**
 * Writes the events of another agent's log as those of a task of ours. Items keep their ids and get the task's own
 * indexes; closed items become messages of the task's transcript, in the commits that our own loop would make.
 */
export class Mirror {
  readonly #task: TaskRun;
  /** The fold of the events of the task and its descendants. */
  #tree = new TaskTree();
  #foldedSeq = 0;
  /** The id of the task in the other log. */
  #originalId: string | undefined;
  /** The id of the next message of the transcript. */
  #messageId: string;
  /** By the ids that the items have in the other log. */
  readonly #places = new Map<string, Place>();
  readonly #itemIds = new Set<string>();
  /** Closed items that the transcript does not hold yet, by index. */
  readonly #uncommitted = new Map<number, Item>();
  readonly #descendantSeqs = new Map<string, number>();
  /** The approvals that the log shows, and whether each is resolved. */
  readonly #approvals = new Map<string, boolean>();
  /** Whether the other log had more than the beginning of the task. */
  hasCopied = false;
  /** The final state of the task in the other log. */
  end: Partial<TaskObject> = {};

  constructor(task: TaskRun) {
    this.#task = task;
    this.#messageId = task.settings.ids.next("msg");
  }

  /** Reads what an earlier process has written, so that a replay of the other log adds only the rest. */
  async load(): Promise<void> {
    const { ref, conversation } = this.#task;
    this.#tree = await foldLog(conversation.store, ref.rootTaskId);
    const { tasks } = this.#tree.tree;
    for (const { id, appliedSeq } of Object.values(tasks)) this.#descendantSeqs.set(id, appliedSeq);
    const own = tasks[ref.taskId];
    this.#foldedSeq = (own?.appliedSeq ?? -1) + 1;
    for (const [index, item] of (own?.output ?? []).entries()) {
      const { id, type } = item;
      this.#itemIds.add(id);
      const callId = type === "tool_result" ? item.call_id : undefined;
      const isOpen = item.status === "in_progress";
      const original = id.replace(againMarks, "");
      if (type !== "discarded") this.#places.set(original, { id, index, callId, isOpen });
    }
    for (const { approval_id, decision } of own?.approvals ?? [])
      this.#approvals.set(approval_id, decision !== undefined);
  }

  /** Writes one event of the other log. */
  async copy(event: TaskEvent): Promise<void> {
    if (event.type === "error" || event.type === "task.snapshot") return;
    if (!event.source) this.#originalId ??= event.task_id;
    if (event.task_id === this.#originalId) await this.#copyOwn(event);
    else this.#copyDescendant(event);
    await this.#task.log.catchUp();
  }

  /** The driver writes the lifecycle of the task. */
  async #copyOwn(event: LogEvent): Promise<void> {
    switch (event.type) {
      case "task.created":
      case "task.in_progress":
      case "task.suspended":
      case "task.resumed":
      case "task.cancelling":
        return;
      case "task.completed":
      case "task.failed":
      case "task.cancelled":
      case "task.incomplete":
        this.end = event.task;
        this.hasCopied = true;
        return this.count(event.task.usage);
      case "task.usage":
        this.count(event.usage, event.cost);
        return this.commit(); // an agent reports its usage after each model call
      case "task.custom":
      case "task.hint.added":
        return this.#emit(event);
      case "task.approval.requested":
        return this.request(event, event.call_id);
      case "task.approval.resolved": {
        const id = relayedId(event.approval_id);
        if (this.#approvals.get(id) === false) this.#emit(event);
        this.#approvals.set(id, true);
        return;
      }
      case "task.output_item.added":
        return this.#openItem(event.item);
      case "task.output_item.done":
        return this.#closeItem(this.#places.get(event.item.id), event.item);
      default:
        return this.#changeItem(event);
    }
  }

  #changeItem(event: Extract<LogEvent, { readonly item_id: string; output_index: number }>): void {
    const { openResults, childCalls } = this.#task;
    const place = this.#places.get(event.item_id);
    if (place === undefined) return;
    if (event.type === "task.output_item.discarded") {
      // An item that the transcript holds cannot be discarded.
      if (!this.#uncommitted.delete(place.index) && !place.isOpen) return;
      place.isOpen = false;
      if (place.callId !== undefined) openResults.delete(place.callId);
    } else if (!place.isOpen) return;
    if (event.type === "task.child.started") {
      if (childCalls.has(event.child_task_id)) return;
      childCalls.add(event.child_task_id);
    }
    this.#emit({ ...event, output_index: place.index });
  }

  /** Writes before it awaits, because the task may end meanwhile. */
  #openItem(item: Item): Promise<void> | undefined {
    if (this.#places.has(item.id)) return undefined;
    const callId = item.type === "tool_result" ? item.call_id : undefined;
    const stored = callId === undefined ? undefined : this.commit(); // a call is stored before its tool runs
    let { id } = item;
    while (this.#itemIds.has(id)) id += againMark;
    this.#itemIds.add(id);
    const turn = isOfTurn(item) && { message_id: this.#messageId };
    const added = this.#renamed({ ...turn, ...item, id, status: "in_progress" as const });
    const place = this.#task.emitter.addItem(added);
    this.#fold({ type: "task.output_item.added", output_index: place.index, item: added });
    this.#places.set(item.id, { ...place, callId, isOpen: true });
    if (callId !== undefined) this.#task.openResults.set(callId, place);
    return stored;
  }

  /** The fold completes what the closing event leaves out. */
  #closeItem(place: Place | undefined, change: ItemChange): Promise<void> | undefined {
    if (!place?.isOpen) return undefined;
    const { ref, emitter, openResults } = this.#task;
    const { id, index, callId } = place;
    const closing = this.#renamed({ ...change, id });
    this.#fold({ type: "task.output_item.done", output_index: index, item: closing });
    const item = taskOf(this.#tree.tree, ref.taskId)?.output[index];
    if (item === undefined || item.status === "in_progress") return undefined;
    place.isOpen = false;
    this.#uncommitted.set(index, item);
    emitter.closeItem(place, item as ItemChange);
    if (callId === undefined) return undefined;
    openResults.delete(callId);
    return this.commit();
  }

  /** Descendants keep their ids and numbers. Their approvals become the task's, which alone can be answered here. */
  #copyDescendant(event: LogEvent): void {
    const { log, source } = this.#task;
    const { task_id, task_seq, created_at } = event;
    if (task_seq <= (this.#descendantSeqs.get(task_id) ?? -1)) return;
    this.#descendantSeqs.set(task_id, task_seq);
    const { approval_id } = event as { approval_id?: string };
    if (event.type === "task.approval.requested")
      this.request(event, this.callAbove(task_id) ?? event.call_id);
    const body =
      approval_id === undefined
        ? this.#renamed(event)
        : { type: "task.custom", name: "rivulet.approval", value: { approval_id } };
    const envelope = { task_id, task_seq, created_at, sequence_number: -1 };
    const placed = { ...envelope, source: prependSource(event.source, source as Source) };
    const copied = { ...body, ...placed } as LogEvent;
    this.#tree.apply(copied);
    log.append(copied);
  }

  /** The call of the task that a descendant works for. */
  callAbove(taskId: string): string | undefined {
    return callAbove(this.#tree.tree, taskId, this.#task.ref.taskId);
  }

  /** Shows an approval once. */
  request(
    request: Partial<ApprovalRequested> & { approval_id: string },
    callId: string | undefined,
  ): void {
    const id = relayedId(request.approval_id);
    if (this.#approvals.has(id)) return;
    this.#approvals.set(id, false);
    const { item_id: _, output_index: __, call_id: ___, name, arguments: text, ...body } = request;
    const call = callId ? { call_id: callId, name, arguments: text } : {};
    this.#emit({ ...body, type: "task.approval.requested", ...call } as EventBody);
  }

  /** Takes over a usage that has grown. The parent's budget counts it. */
  count(usage: Usage | undefined, cost?: Cost): void {
    const task = this.#task;
    const grown = (usage?.total_tokens ?? 0) - task.usage.total_tokens;
    if (usage === undefined || grown <= 0) return;
    const spent = Number(cost?.amount ?? 0) - Number(task.cost?.amount ?? 0);
    task.budget.add({ ...usage, total_tokens: grown }, Math.max(0, spent));
    task.usage = usage;
    task.cost = cost ?? task.cost;
    this.#emit({ type: "task.usage", cumulative: true, usage, ...(cost && { cost }) });
  }

  /** Shows blocks that the other log does not have, and stores them. No event can be copied afterwards. */
  async say(content: readonly Block[]): Promise<void> {
    if (content.length === 0) return;
    const task = this.#task;
    const { emitter, settings } = task;
    const messageId = settings.ids.next("msg");
    new TurnEmitter({ emitter, ids: settings.ids, messageId }).showWhole(content);
    const messages = [this.#message(messageId, content)];
    for (const call of content) if (call.type === "tool_use") addResultItem(task, call.id);
    await commitStep(task, { messages, record: { committedOutput: emitter.outputLength } });
  }

  /** Stores the closed items, unless one before them is still open. */
  async commit(): Promise<void> {
    const task = this.#task;
    const isTurn = ({ isOpen, callId }: Place) => isOpen && callId === undefined;
    if ([...this.#places.values()].some(isTurn)) return;
    const sorted = [...this.#uncommitted].sort(([one], [other]) => one - other);
    const items = sorted.map(([, item]) => item);
    this.#uncommitted.clear();
    const said = items.flatMap(blocksOf);
    const calls = [...this.#blocks(), ...said].filter((block) => block.type === "tool_use");
    const results = items.flatMap((item) => {
      if (item.type !== "tool_result") return [];
      const { name = "" } = calls.find(({ id }) => id === item.call_id) ?? {};
      const output = item.block_list.flatMap(blockOf);
      const result = { type: "tool_result", id: item.call_id, name, output } as const;
      const message = controlMessage(task, { ...result, state: stateOf(item) });
      return [{ ...message, id: item.call_id }];
    });
    const first = items.find(isOfTurn);
    const id = first?.message_id ?? this.#messageId;
    const messages = [...(said.length > 0 ? [this.#message(id, said)] : []), ...results];
    if (first) this.#messageId = task.settings.ids.next("msg");
    if (messages.length === 0) return;
    await commitStep(task, { messages, record: { committedOutput: task.emitter.outputLength } });
  }

  /** Closes and stores the open items, except results of pending calls. */
  async closeTurn(): Promise<void> {
    const { openResults, emitter, ref, controller } = this.#task;
    const status = controller.signal.aborted ? "cancelled" : "incomplete";
    for (const place of this.#places.values()) {
      const { id, index, isOpen } = place;
      const item = taskOf(this.#tree.tree, ref.taskId)?.output[index];
      if (!isOpen || item === undefined) continue;
      if (item.type === "tool_result")
        openResults.set(item.call_id, { id, index, blocks: item.block_list });
      else if (item.type === "message" || item.type === "reasoning")
        void this.#closeItem(place, { type: item.type, id, status });
      else {
        place.isOpen = false;
        emitter.discardItem(place, "recovered");
      }
    }
    await this.commit();
  }

  /** Ends open items, pending calls and descendants. */
  async settle(): Promise<void> {
    const task = this.#task;
    endUnrecorded(task, this.#tree.tree);
    await this.closeTurn();
    const decision = "cancel";
    for (const [approval_id, isResolved] of this.#approvals)
      if (!isResolved) task.emitter.emit({ type: "task.approval.resolved", approval_id, decision });
    const step = task.steps.next;
    if (step.type === "wait" && step.stop) {
      const { approvalId, callId } = step.stop;
      const answer = controlMessage(task, { type: "answer", approvalId, callId, decision });
      await commitStep(task, { messages: [answer] });
    }
    for (const call of this.pendingCalls())
      await settleCall(task, call, "interrupted", interruptedResult);
  }

  /** The calls of the task that have no result. */
  pendingCalls(): readonly ToolUseBlock[] {
    const blocks = this.#blocks();
    const results = new Set(blocks.map((block) => block.type === "tool_result" && block.id));
    return blocks.filter((block) => block.type === "tool_use").filter(({ id }) => !results.has(id));
  }

  /** The messages of the task in the transcript of its session. */
  messages(): readonly Message[] {
    return messagesOf(this.#task);
  }

  #blocks(): readonly Block[] {
    return this.messages().flatMap(({ content }) => content);
  }

  #emit(event: EventBody): void {
    const body = this.#renamed(event);
    this.#fold(body);
    this.#task.emitter.emit({ ...body }); // the event belongs to another log
  }

  #fold(body: EventBody): void {
    const { taskId: task_id } = this.#task.ref;
    const numbers = { task_id, sequence_number: -1, task_seq: this.#foldedSeq++, created_at: 0 };
    this.#tree.apply({ ...body, ...numbers } as LogEvent);
    this.hasCopied = true;
  }

  /** Replaces the ids of the other log with those of this one. */
  #renamed<T>(value: T): T {
    if (Array.isArray(value)) return value.map((entry) => this.#renamed(entry as unknown)) as T;
    if (!isPlainObject(value)) return value;
    const fields = Object.entries(value).map(([key, field]) => {
      if (key === "approval_ids") return [key, (field as readonly string[]).map(relayedId)];
      if (typeof field !== "string") return [key, this.#renamed(field)];
      if (key === "approval_id") return [key, relayedId(field)];
      if (key.endsWith("task_id") && field === this.#originalId)
        return [key, this.#task.ref.taskId];
      return [key, key.endsWith("item_id") ? (this.#places.get(field)?.id ?? field) : field];
    });
    return Object.fromEntries(fields) as T;
  }

  #message(id: string, content: readonly Block[]): Message {
    const { settings, ref } = this.#task;
    const metadata = { taskId: ref.taskId, iteration: iterationOf(this.#task) + 1 };
    return { id, role: "assistant", name: settings.name, content, metadata };
  }
}

function callAbove(tree: Tree, taskId: string, aboveId: string): string | undefined {
  let task = taskOf(tree, taskId);
  while (task?.parentTaskId !== undefined && task.parentTaskId !== aboveId)
    task = taskOf(tree, task.parentTaskId);
  return task?.parentTaskId === undefined ? undefined : task.callId;
}

/** Ends the unfinished descendants of a relayed agent, which have no record, the deepest first. */
export function endUnrecorded({ ref, log, settings }: TaskRun, tree: Tree): void {
  const { clock } = settings;
  for (const { id, status, source, appliedSeq, output } of Object.values(tree.tasks).reverse()) {
    if (isTerminal(status) || callAbove(tree, id, ref.taskId) === undefined) continue;
    const start = { taskSeq: appliedSeq + 1, outputIndex: output.length };
    const emitter = new TaskEmitter(id, log, source as Source | undefined, clock, start);
    for (const [index, item] of output.entries())
      if (item.status === "in_progress") emitter.discardItem({ id: item.id, index }, "recovered");
    const ended = { object: "task", status: "cancelled", completed_at: clock.now() } as const;
    emitter.emit({ type: "task.cancelled", task: { id, ...ended } });
  }
}

/** Keeps arguments that are not JSON as they are, for the transcript. */
export function blocksOf(item: Item): readonly Block[] {
  if (item.type !== "tool_call") return contentOf(item);
  const { call_id: id, name } = item;
  return [{ type: "tool_use", id, name, ...parseToolInput(item.arguments) }];
}
