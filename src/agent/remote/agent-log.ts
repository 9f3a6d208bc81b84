import type { Clock } from "../../base/clock.ts";
import { isPlainObject } from "../../base/plain.ts";
import {
  type Agent,
  type Approval,
  isOfTurn,
  type RemoteAnswer,
  type RemoteReading,
  type Reply,
  type StandardSchema,
  type Store,
  type TaskRecord,
  toWireBlock,
} from "../../contract/index.ts";
import {
  type ApprovalRequested,
  closedItem,
  type EventBody,
  type Item,
  type ItemChange,
  type LogEvent,
  piecesOf,
  type Source,
  type Task,
  type TaskEvent,
  type TaskObject,
  type TaskSuspended,
  type TaskUsage,
  TaskWriter,
  type Usage,
} from "../../protocol/index.ts";
import { isVisible, stopCallId } from "../loop/next.ts";
import { isEnd } from "./ending.ts";

/** Marks the id of an item that a crash discarded and that the agent shows again: ids are used once. */
const againMark = "+";
const againMarks = /\++$/;

/** Begins the id of an approval for a stop that the agent does not list. */
export const unlistedStop = "stop-";

/** How a task ends. */
export type TaskEnd = Omit<TaskObject, "id" | "object">;

/** The id that a session or an approval of an agent has here: the agent may use the store of its caller. */
export function relayedId(id: string): string {
  return `relay-${id}`;
}

/** The child that an agent runs, and where it is stored. */
export interface AgentChild {
  readonly agent: Agent;
  readonly top: TaskRecord;
  readonly store: Store;
  readonly clock: Clock;
  /** The schema of its result, if the caller has it; the record has its JSON Schema. */
  readonly output: StandardSchema | undefined;
}

/**
 * Turns the events of an agent's own log into well-formed events of a task here, with only what is new: the agent may
 * leave out events, or show them again after a crash. `reading.known` holds every event that was returned so far.
 */
export class AgentLog {
  readonly #top: TaskRecord;
  readonly #store: Store;
  readonly #clock: Pick<Clock, "now">;
  readonly #reading: RemoteReading;
  #number: number;
  /** The id of the task in the agent's log. */
  #originalId: string | undefined;
  /** Whether the agent uses the store of its caller: then its tasks, sessions and calls have other ids here. */
  #isShared = false;
  /** The indexes of the items, by their ids in the agent's log and by those here. */
  readonly #indexes = new Map<string, number>();
  readonly #ownIndexes = new Map<string, number>();
  /** The index of the first item of this turn; the agent cannot take earlier ones back. */
  #turnStart: number;
  #suspension: TaskSuspended | undefined;
  /** How the task has ended, as the agent's log tells it. */
  ended: Partial<TaskObject> = {};
  /** Whether the agent's log is read again, and whether it had more than the beginning of the task. */
  isRecovered = false;
  hasCopied = false;

  constructor({ top, store, clock }: AgentChild, reading: RemoteReading) {
    this.#top = top;
    this.#store = store;
    this.#clock = clock;
    this.#reading = reading;
    this.#number = reading.after;
    this.#turnStart = this.#output.length;
    for (const [index, { id, type }] of this.#output.entries()) {
      this.#ownIndexes.set(id, index);
      if (type !== "discarded") this.#indexes.set(id.replace(againMarks, ""), index);
    }
  }

  get #known(): Task {
    return this.#reading.known;
  }

  get #output(): readonly Item[] {
    return this.#known.output;
  }

  get #pending() {
    return this.#known.approvals.filter(({ decision }) => decision === undefined);
  }

  #isAsked(approvalId: string): boolean {
    return this.#known.approvals.some(({ approval_id }) => approval_id === approvalId);
  }

  #callOf(callId: string) {
    const calls = this.#output.filter((item) => item.type === "tool_call");
    return calls.findLast(({ call_id }) => call_id === callId);
  }

  /** Writes events of our own after those that were read. */
  *#write(write: (writer: TaskWriter) => void): Generator<LogEvent> {
    const events: LogEvent[] = [];
    const now = () => this.#clock.now();
    write(new TaskWriter(this.#known, { write: (event) => events.push(event), now }));
    for (const event of events) yield { ...event, sequence_number: ++this.#number };
  }

  /** Resumes a task whose last reader is gone: what it left open is discarded, and shown again if the agent repeats it. */
  async *recover(): AsyncGenerator<LogEvent> {
    this.isRecovered = true;
    const wasRunning = this.#known.status === "in_progress";
    const { committedOutput = 0 } = (await this.#store.task(this.#top.taskId)) ?? {};
    const lastResult = this.#output.findLastIndex(({ type }) => type === "tool_result");
    const turnStart = Math.max(committedOutput, lastResult);
    const held = [...this.#known.children, ...this.#pending.map(({ call_id = "" }) => call_id)];
    yield* this.#write((writer) => {
      writer.resume("recovered");
      for (const item of wasRunning ? writer.items : []) {
        const { id, type, isOpen, index, callId = "" } = item;
        const isResult = type === "tool_result";
        const isLost = isResult ? isOpen && !held.includes(callId) : index >= turnStart;
        if (!isLost || type === "discarded") continue;
        this.#indexes.delete(id.replace(againMarks, ""));
        writer.discard(item, "recovered");
      }
    });
  }

  /** Resumes a task with answers that the agent has. */
  resume(answers: readonly RemoteAnswer[]): Generator<LogEvent> {
    return this.#write((writer) => {
      for (const { approvalId, decision, reason } of answers)
        if (writer.pending.some(({ approval_id }) => approval_id === approvalId))
          writer.resolve(approvalId, { decision, ...(reason !== undefined && { reason }) });
      if (writer.status === "suspended") writer.resume();
    });
  }

  /** The events here that an event of the agent's log leads to. */
  async *copy(event: TaskEvent): AsyncGenerator<LogEvent> {
    if (event.type === "error" || event.type === "task.snapshot") return;
    if (!event.source && this.#originalId === undefined) {
      this.#originalId = event.task_id;
      this.#isShared = (await this.#store.task(event.task_id)) !== undefined;
    }
    if (event.type !== "task.created" && event.type !== "task.in_progress") this.hasCopied = true;
    const renamed = this.#renamed(event);
    if (event.source) yield this.#below(renamed, event.source as Source);
    else yield* this.#copyOwn(renamed);
  }

  /** A descendant names the session of the task in place of the one that the agent runs in. */
  #below(event: LogEvent, original: Source): LogEvent {
    const [root, ...path] = original.path.split("/");
    const session = (id: string) => (id === root ? this.#top.sessionId : this.#idOf(id));
    const source = {
      ...original,
      sessionId: session(original.sessionId),
      parentSessionId: session(original.parentSessionId),
      taskId: event.task_id,
      path: [this.#top.sessionId, ...path].join("/"),
    };
    const created = event.type === "task.created" && { session_id: source.sessionId };
    const task = "task" in event && { task: { ...event.task, ...created, id: event.task_id } };
    return { ...event, ...task, source, sequence_number: ++this.#number } as LogEvent;
  }

  /** The beginning of the task is written already, and its end follows from the reply. */
  *#copyOwn(event: LogEvent): Generator<LogEvent> {
    if ("task" in event) {
      if (!isEnd(event)) return;
      this.ended = event.task;
      return yield* this.count(event.task.usage);
    }
    switch (event.type) {
      case "task.cancelling":
        return;
      case "task.suspended":
      case "task.resumed":
        this.#suspension = event.type === "task.suspended" ? event : undefined;
        return;
      case "task.usage":
        this.#turnStart = this.#output.length; // an agent reports its usage after each model call
        return yield* this.count(event.usage, event);
      case "task.hint.added":
        if (this.#known.hints?.some(({ id }) => id === event.hint.id)) return;
        break;
      case "task.approval.requested":
        return yield* this.#copyQuestion(event);
      case "task.approval.resolved":
        if (!this.#pending.some(({ approval_id: id }) => id === event.approval_id)) return;
        break;
      case "task.output_item.added":
        return yield* this.#open(event.item);
      case "task.output_item.done":
        return yield* this.#close(this.#indexes.get(event.item.id), event.item);
      case "task.custom":
        break;
      default:
        return yield* this.#change(event);
    }
    yield this.#event(event);
  }

  *#copyQuestion(event: ApprovalRequested): Generator<LogEvent> {
    const { item_id: _, output_index: __, ...body } = event;
    const isShown = event.call_id === undefined || this.#callOf(event.call_id) !== undefined;
    if (isShown && !this.#isAsked(event.approval_id)) yield this.#event(body as EventBody);
  }

  *#open(item: Item): Generator<LogEvent> {
    if (this.#indexes.has(item.id)) return;
    const output_index = this.#output.length;
    if (item.type === "tool_result") this.#turnStart = output_index;
    let { id } = item;
    while (this.#ownIndexes.has(id)) id += againMark;
    this.#ownIndexes.set(id, output_index);
    this.#indexes.set(item.id, output_index);
    const turn = isOfTurn(item) && { message_id: this.#turnId };
    const added = { ...turn, ...item, id, status: "in_progress" as const };
    yield this.#event({ type: "task.output_item.added", output_index, item: added });
  }

  /** The message that the items of this turn become. */
  get #turnId(): string {
    return `msg_${this.#top.taskId}_${this.#turnStart}`;
  }

  /** What the closing event leaves out is what the item has so far. */
  *#close(output_index = -1, change: Partial<ItemChange>): Generator<LogEvent> {
    const item = this.#output[output_index];
    if (item?.status !== "in_progress") return;
    const { status = "completed" } = change;
    const merged = { ...item, ...change, id: item.id, status } as Item;
    const closed = closedItem(merged, status) as ItemChange;
    yield this.#event({ type: "task.output_item.done", output_index, item: closed });
  }

  *#change(
    event: Extract<LogEvent, { readonly item_id: string; output_index: number }>,
  ): Generator<LogEvent> {
    const output_index = this.#ownIndexes.get(event.item_id) ?? -1;
    const item = this.#output[output_index];
    if (item === undefined) return;
    const isOfThisTurn = isOfTurn(item) && output_index >= this.#turnStart;
    const canDiscard = isOfThisTurn && event.type === "task.output_item.discarded";
    if (item.status !== "in_progress" && !canDiscard) return;
    const isStart = event.type === "task.child.started";
    if (isStart && this.#known.children.includes(event.child_task_id)) return;
    const placed = { ...event, output_index };
    if (!("delta" in placed)) yield this.#event(placed);
    else for (const delta of piecesOf(placed.delta)) yield this.#event({ ...placed, delta });
  }

  /** The usage, if it has grown. */
  *count(
    usage: Usage | undefined,
    { cost, by_model }: Pick<TaskUsage, "cost" | "by_model"> = {},
  ): Generator<LogEvent> {
    if (usage === undefined || usage.total_tokens <= (this.#known.usage?.total_tokens ?? 0)) return;
    const shares = { ...(by_model && { by_model }), ...(cost && { cost }) };
    yield this.#event({ type: "task.usage", cumulative: true, usage, ...shares });
  }

  /** Shows the reply of an agent that has shown no message. */
  say(reply: Reply<unknown>): Generator<LogEvent> {
    return this.#write((writer) => this.#say(writer, reply));
  }

  /** A message cannot follow a call without a result. */
  #say(writer: TaskWriter, { content = [] }: Reply<unknown>): void {
    const block_list = content.filter(isVisible).map(toWireBlock);
    const isOver = writer.items.some(
      ({ type, isOpen }) => type === "message" || (type === "tool_result" && isOpen),
    );
    if (block_list.length === 0 || isOver) return;
    const id = freeId(writer, `msg_${this.#top.taskId}`);
    const message = writer.open({ type: "message", id, message_id: this.#turnId });
    writer.close(message, { block_list });
  }

  /** Suspends the task until its approvals are answered; those that the agent's log does not show are added. */
  async *suspend(reply: Reply<unknown>, approvals: readonly Approval[]): AsyncGenerator<LogEvent> {
    const unasked: Approval[] = [];
    for (const approval of approvals) {
      const isSameCall = ({ call }: Approval) => call.id === approval.call.id;
      // A call waits for one approval at a time.
      if (this.#isAsked(relayedId(approval.id)) || unasked.some(isSameCall)) continue;
      if (!(await this.#isOfDescendant(approval))) unasked.push(approval);
    }
    yield* this.#write((writer) => {
      for (const item of writer.items) {
        if (!item.isOpen || item.type === "tool_result") continue;
        if (item.type === "tool_call") writer.discard(item, "recovered");
        else writer.close(item, { status: "incomplete" });
      }
      // All calls come before the first question: they are one message of the transcript.
      this.#say(writer, reply);
      for (const { call } of unasked) this.#showCall(writer, call);
      for (const approval of unasked) this.#ask(writer, approval);
      if (writer.pending.length === 0 && this.#suspension === undefined) {
        const id = `${unlistedStop}${this.#top.taskId}-${this.#known.approvals.length}`;
        writer.ask({ approval_id: relayedId(id), kind: "stop", message: "Continue?" });
      }
      const isStop = writer.pending.some(({ kind }) => kind === "stop");
      const reason = isStop ? "stop_requested" : "approval";
      writer.suspend({ generate_reason: reply.generateReason, reason, ...this.#suspension });
    });
  }

  /** A descendant has a record, and its own events show its approvals. */
  async #isOfDescendant({ taskId }: Approval): Promise<boolean> {
    const record = await this.#store.task(this.#taskIdOf(taskId));
    const { rootTaskId, taskId: topId } = this.#top;
    return record?.rootTaskId === rootTaskId && record.taskId !== topId;
  }

  #showCall(writer: TaskWriter, { id: ownId, name, input }: Approval["call"]): void {
    const call_id = this.#idOf(ownId);
    if (ownId === stopCallId || writer.call(call_id)) return;
    const id = freeId(writer, `fc_${call_id}`);
    const call = writer.open({ type: "tool_call", id, call_id, name, message_id: this.#turnId });
    writer.close(call, { arguments: JSON.stringify(input ?? {}) });
    writer.open({ type: "tool_result", id: freeId(writer, `fco_${call_id}`), call_id });
  }

  #ask(writer: TaskWriter, { id, kind, call, message, expiresAt }: Approval): void {
    const call_id = this.#idOf(call.id);
    const shown = { call_id, name: call.name, arguments: JSON.stringify(call.input ?? {}) };
    writer.ask({
      approval_id: relayedId(id),
      kind,
      ...(writer.call(call_id) && shown),
      ...(message !== undefined && { message }),
      ...(expiresAt !== undefined && { expires_at: expiresAt }),
    });
  }

  /** Ends the task. Items may be open. */
  end(end: TaskEnd): LogEvent {
    const { taskId: id } = this.#top;
    const task = { id, object: "task", completed_at: this.#clock.now(), ...end } as const;
    return this.#event({ type: `task.${end.status}`, task } as EventBody);
  }

  #event(body: EventBody): LogEvent {
    const { taskId: task_id } = this.#top;
    const task_seq = this.#known.appliedSeq + 1;
    const numbers = { task_id, task_seq, sequence_number: ++this.#number };
    return { ...body, ...numbers, created_at: this.#clock.now() } as LogEvent;
  }

  #idOf(id: string): string {
    return this.#isShared ? relayedId(id) : id;
  }

  #taskIdOf(id: string): string {
    return id === this.#originalId ? this.#top.taskId : this.#idOf(id);
  }

  /** Replaces the ids of the agent's log with those that they have here. */
  #renamed<T>(value: T): T {
    if (Array.isArray(value)) return value.map((entry) => this.#renamed(entry as unknown)) as T;
    if (!isPlainObject(value)) return value;
    const fields = Object.entries(value).map(([key, field]) => {
      if (key === "approval_ids") return [key, (field as readonly string[]).map(relayedId)];
      if (key === "waiting_on")
        return [key, (field as readonly string[]).map((id) => this.#idOf(id))];
      if (typeof field !== "string") return [key, this.#renamed(field)];
      if (key === "approval_id") return [key, relayedId(field)];
      if (key.endsWith("task_id")) return [key, this.#taskIdOf(field)];
      if (key === "call_id" || key === "parent_call_id") return [key, this.#idOf(field)];
      const index = key.endsWith("item_id") ? this.#indexes.get(field) : undefined;
      return [key, this.#output[index ?? -1]?.id ?? field];
    });
    return Object.fromEntries(fields) as T;
  }
}

/** An id that no item of the task has. */
function freeId(writer: TaskWriter, id: string): string {
  return writer.item(id) ? freeId(writer, id + againMark) : id;
}
