import type { Clock } from "../base/clock.ts";
import type { ErrorShape } from "../base/error.ts";
import type {
  ApprovalKind,
  ApprovalState,
  Decision,
  Envelope,
  ItemStatus,
  LogEvent,
  Task,
  TerminalStatus,
  Usage,
  WireBlock,
} from "../protocol/index.ts";
import { blockOf, type Entry, entryOf, type Part, type textBlock } from "./foreign-items.ts";

type WithoutEnvelope<E> = E extends LogEvent ? Omit<E, keyof Envelope> : never;
type Body = WithoutEnvelope<LogEvent>;

/** A question of the task, in the words of this package. */
export interface Question {
  readonly approvalId: string;
  readonly callId: string;
  readonly kind: ApprovalKind;
  readonly name: string;
  readonly input: string;
  readonly message?: string;
  readonly options: readonly Decision[];
}

/** How a task ended on its server. */
export interface ForeignEnd {
  readonly status: TerminalStatus;
  readonly error?: Pick<ErrorShape, "code" | "message"> & Partial<ErrorShape>;
  readonly reason?: string;
  readonly structured?: unknown;
  readonly usage?: Usage;
}

/**
 * Writes the events of a task whose server speaks another protocol. It continues from what was read before, and every
 * method adds only what is new, so a protocol without a cursor can say again what it said already.
 */
export class ForeignTask {
  readonly #id: string;
  readonly #clock: Pick<Clock, "now">;
  readonly #entries: Entry[] = [];
  readonly #approvals: Map<string, ApprovalState>;
  #seq: number;
  #isSuspended: boolean;
  /** Whether an approval got its decision since the task was suspended. */
  #isAnswered = false;
  #usage: Usage | undefined;
  #isEnded = false;
  #queue: LogEvent[] = [];

  constructor(known: Task, clock: Pick<Clock, "now">) {
    const { id, appliedSeq, status, usage, approvals, output } = known;
    this.#id = id;
    this.#clock = clock;
    this.#seq = appliedSeq;
    this.#isSuspended = status === "suspended";
    this.#usage = usage;
    this.#approvals = new Map(approvals.map((approval) => [approval.approval_id, approval]));
    for (const [index, item] of output.entries()) this.#entries.push(entryOf(item, index));
  }

  /** The events that were added since the last call. */
  drain(): readonly LogEvent[] {
    const events = this.#queue;
    this.#queue = [];
    return events;
  }

  get isSuspended(): boolean {
    return this.#isSuspended;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** The approvals that have no decision. */
  get waiting(): readonly ApprovalState[] {
    return [...this.#approvals.values()].filter(({ decision }) => decision === undefined);
  }

  /** Whether an approval was asked for. */
  knows(approvalId: string): boolean {
    return this.#approvals.has(approvalId);
  }

  /** The decision about an approval. */
  decisionOf(approvalId: string): Pick<ApprovalState, "decision" | "reason"> {
    return this.#approvals.get(approvalId) ?? {};
  }

  get entries(): readonly Readonly<Entry>[] {
    return this.#entries;
  }

  /** The last message that was not discarded; undefined if a result came after it. */
  get lastMessage(): Readonly<Entry> | undefined {
    const last = this.#entries.findLast(({ type }) => type === "message" || type === "tool_result");
    return last?.type === "message" ? last : undefined;
  }

  /** Adds text to a part of the open message or reasoning; opens what is missing. `key` names a new item. */
  say(type: "message" | "reasoning", key: string, partKey: string, delta: string): void {
    if (delta === "") return;
    const entry = this.#openText(type, key);
    const index = entry.parts.findIndex((part) => part.key === partKey);
    const at = index < 0 ? entry.parts.length : index;
    const part = entry.parts[at] ?? { key: partKey, text: "", held: "", isOpen: true };
    if (index < 0) {
      entry.parts.push(part);
      this.#partEvent(entry, at, "added", "");
    }
    const text = part.held + delta;
    // A delta never ends in the middle of a character.
    const isCut = /[\uD800-\uDBFF]$/.test(text);
    part.held = isCut ? text.slice(-1) : "";
    this.#grow(entry, part, at, isCut ? text.slice(0, -1) : text);
  }

  #grow(entry: Entry, part: Part, at: number, text: string): void {
    const formed = text.toWellFormed();
    part.text += formed;
    const place = { item_id: entry.id, output_index: entry.index };
    for (const delta of piecesOf(formed)) {
      if (entry.type === "reasoning") {
        const type = "task.reasoning_summary_text.delta";
        this.#emit({ type, ...place, summary_index: at, delta });
      } else this.#emit({ type: "task.text.delta", ...place, block_index: at, delta });
    }
  }

  /** Adds a whole block to the open message. */
  show(key: string, partKey: string, block: WireBlock): void {
    const entry = this.#openText("message", key);
    if (entry.parts.some((part) => part.key === partKey)) return;
    const whole = { ...block, id: partKey };
    const place = { item_id: entry.id, output_index: entry.index };
    const block_index = entry.parts.length;
    entry.parts.push({ key: partKey, whole, text: "", held: "", isOpen: false });
    this.#emit({ type: "task.block.done", ...place, block_index, item: whole });
  }

  /** A note of the agent that is no part of its answer. */
  note(key: string, text: string): void {
    const id = this.#idOf("rs", key);
    if (text === "" || this.#entries.some((entry) => entry.id === id)) return;
    const entry = this.#open("reasoning", id);
    entry.parts.push({ key: "", text: "", held: "", isOpen: true });
    this.#partEvent(entry, 0, "added", "");
    this.#grow(entry, entry.parts[0] as Part, 0, text);
    this.#close(entry, "completed");
  }

  /** Starts a call; nothing if it has started. */
  call(key: string, callId: string, name: string): void {
    if (this.#callOf(callId)) return;
    this.closeText();
    this.#open("tool_call", this.#idOf("fc", key), { callId, name });
  }

  /** Ends the arguments of a call and opens its result. */
  endCall(callId: string, input: string | undefined): void {
    const entry = this.#callOf(callId);
    if (entry === undefined || this.#resultOf(callId)) return;
    if (entry.arguments === "") {
      entry.arguments = input || "{}";
      const place = { item_id: entry.id, output_index: entry.index };
      this.#emit({ type: "task.tool_call_arguments.delta", ...place, delta: entry.arguments });
    }
    if (entry.isOpen) this.#close(entry, "completed");
    const { id, name = "" } = entry;
    this.#open("tool_result", id.replace(/^fc_/, "fco_"), { callId, name });
  }

  /** Shows the text of the open result of a call. */
  print(callId: string, text: string): void {
    const entry = this.#resultOf(callId);
    if (!entry?.isOpen || text === "") return;
    if (entry.parts.length === 0) {
      entry.parts.push({ key: "", text: "", held: "", isOpen: true });
      this.#partEvent(entry, 0, "added", "");
    }
    const part = entry.parts[0] as Part;
    if (part.isOpen) this.#grow(entry, part, 0, text.slice(part.text.length));
  }

  /** Ends the result of a call. */
  endResult(
    callId: string,
    status: "completed" | "failed" | "cancelled",
    error?: ErrorShape,
  ): void {
    const entry = this.#resultOf(callId);
    if (!entry?.isOpen) return;
    if (entry.parts.length === 0) this.print(callId, error?.message ?? "");
    this.#close(entry, status, error);
  }

  /** Ends the open message and reasoning. */
  closeText(): void {
    for (const entry of this.#entries)
      if (entry.isOpen && (entry.type === "message" || entry.type === "reasoning"))
        this.#close(entry, "completed");
  }

  /** Takes the last message back. */
  discard(): void {
    const entry = this.#entries.findLast(({ type }) => type === "message");
    if (entry === undefined) return;
    const place = { item_id: entry.id, output_index: entry.index };
    this.#entries[entry.index] = { ...entry, type: "discarded", isOpen: false };
    this.#emit({ type: "task.output_item.discarded", ...place, reason: "recovered" });
  }

  /** Suspends the task with these questions; nothing if it waits for them already. */
  ask(key: string, questions: readonly Question[]): void {
    const isNew = questions.some(({ approvalId }) => !this.#approvals.has(approvalId));
    // It waits already, or the server has not acted upon the answer.
    if (!isNew && (this.#isSuspended || this.waiting.length === 0)) return;
    this.closeText();
    const added = questions.filter(({ approvalId }) => !this.#approvals.has(approvalId));
    // All calls come before the first question: they are one message of the transcript.
    for (const [index, { callId, name, input }] of added.entries()) {
      this.call(`${key}.${index}`, callId, name);
      this.endCall(callId, input);
    }
    for (const { approvalId, callId, kind, name, input, message, options } of added) {
      const call = this.#callOf(callId) as Entry;
      const isSame = call.name === name && call.arguments === input;
      const event = {
        ...{ approval_id: approvalId, kind, call_id: callId, name, arguments: input, options },
        ...(message !== undefined && { message }),
        ...(!isSame && { edited: true as const }),
      };
      const place = { item_id: call.id, output_index: call.index };
      this.#emit({ type: "task.approval.requested", ...event, ...place });
      this.#approvals.set(approvalId, event);
    }
    this.#suspend();
  }

  /** Suspends the task again if only some of its approvals were answered. */
  rest(): void {
    if (!this.#isSuspended || !this.#isAnswered || this.waiting.length === 0) return;
    this.#emit({ type: "task.resumed", reason: "approval_resolved" });
    this.#suspend();
  }

  #suspend(): void {
    this.#isSuspended = true;
    this.#isAnswered = false;
    const { waiting } = this;
    this.#emit({
      type: "task.suspended",
      reason: "approval",
      approval_ids: waiting.map(({ approval_id }) => approval_id),
      generate_reason: waiting.some(({ kind }) => kind === "tool_call")
        ? "approval_required"
        : "tool_suspended",
    });
  }

  /** An approval has its decision, whether or not the server has acted upon it. */
  resolve(approval_id: string, decision: Decision, reason?: string): void {
    const approval = this.#approvals.get(approval_id);
    if (approval === undefined || approval.decision !== undefined) return;
    const given = { decision, ...(reason !== undefined && { reason }) };
    this.#approvals.set(approval_id, { ...approval, ...given });
    this.#isAnswered = true;
    this.#emit({ type: "task.approval.resolved", approval_id, ...given });
  }

  /** The server works again: what waited was decided, here or there. The answer to a question is its result. */
  resume(answerOf: (approvalId: string) => string = () => "It was answered."): void {
    if (!this.#isSuspended) return;
    for (const { approval_id } of this.waiting) this.resolve(approval_id, "answer");
    this.#isSuspended = false;
    this.#emit({ type: "task.resumed", reason: "approval_resolved" });
    for (const { approval_id, kind, call_id = "" } of this.#approvals.values()) {
      if (kind !== "question" || !this.#resultOf(call_id)?.isOpen) continue;
      this.print(call_id, answerOf(approval_id));
      this.endResult(call_id, "completed");
    }
  }

  /** The tokens that the task has used so far. */
  spend(usage: Usage): void {
    if (usage.total_tokens <= (this.#usage?.total_tokens ?? 0)) return;
    this.#usage = usage;
    this.#emit({ type: "task.usage", cumulative: true, usage });
  }

  /** Ends the task, with everything that is open. */
  end({ status, error, reason, structured, usage }: ForeignEnd): void {
    if (this.#isEnded) return;
    const isOver = status === "cancelled" || status === "failed";
    if (this.#isSuspended && !isOver) this.resume();
    for (const { approval_id } of this.waiting) this.resolve(approval_id, "cancel");
    const open = isOver ? (status === "cancelled" ? "cancelled" : "incomplete") : "completed";
    for (const entry of this.#entries) {
      if (!entry.isOpen || entry.type === "tool_result") continue;
      if (entry.type !== "tool_call") this.#close(entry, open);
      else this.endCall(entry.callId ?? "", undefined);
    }
    for (const entry of this.#entries) {
      if (!entry.isOpen) continue;
      // A result that the server did not send stays empty.
      this.#close(entry, status === "cancelled" ? "cancelled" : "incomplete");
    }
    if (usage) this.spend(usage);
    this.#isEnded = true;
    const generate = {
      failed: "failed",
      cancelled: "interrupted",
      completed: "model_stop",
    } as const;
    const task = {
      ...{ id: this.#id, object: "task", status, completed_at: this.#clock.now() },
      ...(this.#usage && { usage: this.#usage }),
      ...(status !== "incomplete" && { generate_reason: generate[status] }),
      ...(status === "incomplete" && { incomplete_details: { reason: "max_iterations" } }),
      ...(status === "failed" && {
        error: { retryable: false, code: "failed", message: "The task failed.", ...error },
      }),
      ...(reason !== undefined && status === "cancelled" && { reason }),
      ...(structured !== undefined &&
        status === "completed" && { structured, generate_reason: "structured_output" }),
    };
    this.#emit({ type: `task.${status}`, task } as Body);
  }

  #callOf(callId: string): Entry | undefined {
    return this.#entries.find((entry) => entry.type === "tool_call" && entry.callId === callId);
  }

  #resultOf(callId: string): Entry | undefined {
    return this.#entries.find((entry) => entry.type === "tool_result" && entry.callId === callId);
  }

  /** The open item of a type; opens one, which ends an open item of the other type. */
  #openText(type: "message" | "reasoning", key: string): Entry {
    const open = this.#entries.findLast((entry) => entry.isOpen && entry.type === type);
    if (open) return open;
    this.closeText();
    return this.#open(type, this.#idOf(type === "message" ? "msg" : "rs", key));
  }

  #idOf(prefix: string, key: string): string {
    return `${prefix}_${this.#id}_${key}`.slice(0, 250);
  }

  #open(
    type: "message" | "reasoning" | "tool_call" | "tool_result",
    wanted: string,
    call?: { readonly callId: string; readonly name: string },
  ): Entry {
    const index = this.#entries.length;
    const isTaken = this.#entries.some((entry) => entry.id === wanted);
    const id = isTaken ? `${wanted}_${index}` : wanted;
    const messageId = type === "tool_result" ? undefined : this.#turnId(index);
    const entry: Entry = {
      ...{ id, index, type, messageId, arguments: "", isArgued: false, isOpen: true, parts: [] },
      ...call,
    };
    this.#entries.push(entry);
    const common = { id, status: "in_progress" as const };
    const turn = messageId === undefined ? {} : { message_id: messageId };
    const { callId: call_id = "", name = "" } = call ?? {};
    const items = {
      message: { type: "message", ...common, ...turn, role: "assistant", block_list: [] },
      reasoning: { type: "reasoning", ...common, ...turn, summary: [] },
      tool_call: { type: "tool_call", ...common, ...turn, call_id, name, arguments: "" },
      tool_result: { type: "tool_result", ...common, call_id, block_list: [] },
    } as const;
    this.#emit({ type: "task.output_item.added", output_index: index, item: items[type] });
    return entry;
  }

  /** The message that a new item belongs to: the last one, unless a call of it has its result. */
  #turnId(index: number): string {
    const at = this.#entries.findLastIndex(({ messageId }) => messageId !== undefined);
    const rest = at < 0 ? [] : this.#entries.slice(at);
    const hasResult = this.#entries.some(
      (entry) =>
        entry.type === "tool_result" &&
        !entry.isOpen &&
        this.#callOf(entry.callId ?? "")?.messageId === rest[0]?.messageId,
    );
    const last = rest[0]?.messageId;
    return last === undefined || hasResult ? `msg_${this.#id}_turn${index}` : last;
  }

  #close(entry: Entry, status: Exclude<ItemStatus, "in_progress">, error?: ErrorShape): void {
    for (const [at, part] of entry.parts.entries()) {
      if (!part.isOpen) continue;
      if (part.held !== "") this.#grow(entry, part, at, part.held);
      part.held = "";
      part.isOpen = false;
      this.#partEvent(entry, at, "done", part.text);
    }
    if (entry.type === "tool_call" && !entry.isArgued) {
      entry.isArgued = true;
      const place = { item_id: entry.id, output_index: entry.index };
      this.#emit({ type: "task.tool_call_arguments.done", ...place, arguments: entry.arguments });
    }
    entry.isOpen = false;
    const { id, name = "", callId: call_id = "" } = entry;
    const block_list = entry.parts.map(blockOf);
    const summary = entry.parts.map(({ text }) => ({ type: "text" as const, text }));
    const items = {
      message: { type: "message", id, status, role: "assistant", block_list },
      reasoning: { type: "reasoning", id, status, summary },
      tool_call: { type: "tool_call", id, status, call_id, name, arguments: entry.arguments },
      tool_result: {
        type: "tool_result",
        id,
        status,
        call_id,
        block_list,
        ...(error && { error }),
      },
    } as const;
    const item = items[entry.type as keyof typeof items];
    this.#emit({ type: "task.output_item.done", output_index: entry.index, item });
  }

  #partEvent(entry: Entry, at: number, phase: "added" | "done", text: string): void {
    const place = { item_id: entry.id, output_index: entry.index };
    if (entry.type === "reasoning") {
      const type = `task.reasoning_summary_item.${phase}` as const;
      this.#emit({ type, ...place, summary_index: at, item: { type: "text", text } });
      return;
    }
    const item = { ...blockOf(entry.parts[at] as Part), text } as ReturnType<typeof textBlock>;
    this.#emit({ type: `task.text.${phase}`, ...place, block_index: at, item });
  }

  #emit(body: Body): void {
    this.#seq += 1;
    const envelope = {
      task_id: this.#id,
      sequence_number: this.#seq, // one task, so its numbers are those of the log
      task_seq: this.#seq,
      created_at: this.#clock.now(),
    };
    this.#queue.push({ ...body, ...envelope } as LogEvent);
  }
}

/** Cuts a text into pieces that fit an event and end with a whole character. */
function piecesOf(text: string): readonly string[] {
  return text.match(/.{1,16000}(?![\uDC00-\uDFFF])/gs) ?? [];
}
