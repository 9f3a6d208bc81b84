import type { Clock } from "../base/clock.ts";
import type { ErrorShape } from "../base/error.ts";
import {
  type ApprovalKind,
  type ApprovalState,
  type Decision,
  isTerminal,
  type LogEvent,
  type Task,
  TaskWriter,
  type TerminalStatus,
  type Usage,
  type WireBlock,
  type WrittenItem,
} from "../protocol/index.ts";

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
  readonly #writer: TaskWriter;
  /** Whether an approval got its decision since the task was suspended. */
  #isAnswered = false;
  #usage: Usage | undefined;
  #queue: LogEvent[] = [];

  constructor(known: Task, clock: Pick<Clock, "now">) {
    this.#usage = known.usage;
    this.#writer = new TaskWriter(known, {
      // One task, so its numbers are those of the log.
      write: (event) => this.#queue.push({ ...event, sequence_number: event.task_seq }),
      now: () => clock.now(),
    });
  }

  /** The events that were added since the last call. */
  drain(): readonly LogEvent[] {
    const events = this.#queue;
    this.#queue = [];
    return events;
  }

  get isSuspended(): boolean {
    return this.#writer.status === "suspended";
  }

  get isEnded(): boolean {
    const { status } = this.#writer;
    return status !== undefined && isTerminal(status);
  }

  /** The approvals that have no decision. */
  get waiting(): readonly ApprovalState[] {
    return this.#writer.pending;
  }

  /** Whether an approval was asked for. */
  knows(approvalId: string): boolean {
    return this.#writer.approvals.some(({ approval_id }) => approval_id === approvalId);
  }

  /** The decision about an approval. */
  decisionOf(approvalId: string): Pick<ApprovalState, "decision" | "reason"> {
    return this.#writer.approvals.find(({ approval_id }) => approval_id === approvalId) ?? {};
  }

  get items(): readonly Readonly<WrittenItem>[] {
    return this.#writer.items;
  }

  /** The last message that was not discarded; undefined if a result came after it. */
  get lastMessage(): Readonly<WrittenItem> | undefined {
    const last = this.items.findLast(({ type }) => type === "message" || type === "tool_result");
    return last?.type === "message" ? last : undefined;
  }

  /** Adds text to a part of the open message or reasoning; opens what is missing. `key` names a new item. */
  say(type: "message" | "reasoning", key: string, partKey: string, delta: string): void {
    if (delta === "") return;
    const item = this.#openText(type, key);
    const part = item.parts.find(({ id = "" }) => id === partKey);
    this.#writer.delta(part ?? this.#openPart(item, partKey), delta);
  }

  /** Adds a whole block to the open message. */
  show(key: string, partKey: string, block: WireBlock): void {
    const item = this.#openText("message", key);
    if (item.parts.some(({ id = "" }) => id === partKey)) return;
    this.#writer.block(item, { ...block, id: partKey });
  }

  /** A note of the agent that is no part of its answer. */
  note(key: string, text: string): void {
    const id = this.#idOf("rs", key);
    if (text === "" || this.#writer.item(id)) return;
    const item = this.#open("reasoning", id);
    this.#writer.delta(item, text);
    this.#writer.close(item);
  }

  /** Starts a call; nothing if it has started. */
  call(key: string, callId: string, name: string): void {
    if (this.#writer.call(callId)) return;
    this.closeText();
    this.#open("tool_call", this.#idOf("fc", key), { call_id: callId, name });
  }

  /** Ends the arguments of a call and opens its result. */
  endCall(callId: string, input: string | undefined): void {
    const call = this.#writer.call(callId);
    if (call === undefined || this.#writer.result(callId)) return;
    if (call.isOpen) {
      if (call.arguments === "") this.#writer.delta(call, input || "{}");
      this.#writer.close(call);
    }
    this.#open("tool_result", call.id.replace(/^fc_/, "fco_"), { call_id: callId });
  }

  /** Shows the text of the open result of a call. */
  print(callId: string, text: string): void {
    const result = this.#writer.result(callId);
    if (!result?.isOpen || text === "") return;
    const part = result.parts[0] ?? this.#openPart(result, "");
    if (part.isOpen) this.#writer.delta(part, text.slice(part.text.length));
  }

  /** Ends the result of a call. */
  endResult(
    callId: string,
    status: "completed" | "failed" | "cancelled",
    error?: ErrorShape,
  ): void {
    const result = this.#writer.result(callId);
    if (!result?.isOpen) return;
    if (result.parts.length === 0) this.print(callId, error?.message ?? "");
    this.#writer.close(result, { status, ...(error && { error }) });
  }

  /** Ends the open message and reasoning. */
  closeText(): void {
    for (const item of this.items)
      if (item.isOpen && (item.type === "message" || item.type === "reasoning"))
        this.#writer.close(item);
  }

  /** Takes the last message back. */
  discard(): void {
    const item = this.items.findLast(({ type }) => type === "message");
    if (item) this.#writer.discard(item, "recovered");
  }

  /** Suspends the task with these questions; nothing if it waits for them already. */
  ask(key: string, questions: readonly Question[]): void {
    const added = questions.filter(({ approvalId }) => !this.knows(approvalId));
    // It waits already, or the server has not acted upon the answer.
    if (added.length === 0 && (this.isSuspended || this.waiting.length === 0)) return;
    this.closeText();
    // All calls come before the first question: they are one message of the transcript.
    for (const [index, { callId, name, input }] of added.entries()) {
      this.call(`${key}.${index}`, callId, name);
      this.endCall(callId, input);
    }
    for (const { approvalId, callId, kind, name, input, message, options } of added)
      this.#writer.ask({
        ...{ approval_id: approvalId, kind, call_id: callId, name, arguments: input, options },
        ...(message !== undefined && { message }),
      });
    this.#suspend();
  }

  /** Suspends the task again if only some of its approvals were answered. */
  rest(): void {
    if (!this.isSuspended || !this.#isAnswered || this.waiting.length === 0) return;
    this.#writer.resume();
    this.#suspend();
  }

  #suspend(): void {
    this.#isAnswered = false;
    const isApproval = this.waiting.some(({ kind }) => kind === "tool_call");
    this.#writer.suspend({ generate_reason: isApproval ? "approval_required" : "tool_suspended" });
  }

  /** An approval has its decision, whether or not the server has acted upon it. */
  resolve(approvalId: string, decision: Decision, reason?: string): void {
    if (!this.waiting.some(({ approval_id }) => approval_id === approvalId)) return;
    this.#isAnswered = true;
    this.#writer.resolve(approvalId, { decision, ...(reason !== undefined && { reason }) });
  }

  /** The server works again: what waited was decided, here or there. The answer to a question is its result. */
  resume(answerOf: (approvalId: string) => string = () => "It was answered."): void {
    if (!this.isSuspended) return;
    for (const { approval_id } of this.waiting) this.resolve(approval_id, "answer");
    this.#writer.resume();
    for (const { approval_id, kind, call_id = "" } of this.#writer.approvals) {
      if (kind !== "question" || !this.#writer.result(call_id)?.isOpen) continue;
      this.print(call_id, answerOf(approval_id));
      this.endResult(call_id, "completed");
    }
  }

  /** The tokens that the task has used so far. */
  spend(usage: Usage): void {
    if (usage.total_tokens <= (this.#usage?.total_tokens ?? 0)) return;
    this.#usage = usage;
    this.#writer.usage(usage);
  }

  /** Ends the task, with everything that is open. */
  end({ status, error, reason, structured, usage }: ForeignEnd): void {
    if (this.isEnded) return;
    if (status === "completed" || status === "incomplete") this.resume();
    if (!this.isSuspended)
      for (const { isOpen, type, callId = "" } of this.items)
        if (isOpen && type === "tool_call") this.endCall(callId, undefined);
    if (usage) this.spend(usage);
    const generate = {
      failed: "failed",
      cancelled: "interrupted",
      completed: structured === undefined ? "model_stop" : "structured_output",
    } as const;
    this.#writer.end({
      status,
      ...(this.#usage && { usage: this.#usage }),
      ...(status !== "incomplete" && { generate_reason: generate[status] }),
      ...(status === "incomplete" && { incomplete_details: { reason: "max_iterations" } }),
      ...(status === "failed" && {
        error: { retryable: false, code: "failed", message: "The task failed.", ...error },
      }),
      ...(reason !== undefined && status === "cancelled" && { reason }),
      ...(structured !== undefined && status === "completed" && { structured }),
    });
  }

  /** The open item of a type; opens one, which ends an open item of the other type. */
  #openText(type: "message" | "reasoning", key: string): Readonly<WrittenItem> {
    const open = this.items.findLast((item) => item.isOpen && item.type === type);
    if (open) return open;
    this.closeText();
    return this.#open(type, this.#idOf(type === "message" ? "msg" : "rs", key));
  }

  /** Opens a part with the name that the other protocol has for it. */
  #openPart(item: Readonly<WrittenItem>, key: string) {
    return this.#writer.openPart(item, { annotations: [], ...(key !== "" && { id: key }) });
  }

  #idOf(prefix: string, key: string): string {
    return `${prefix}_${this.#writer.taskId}_${key}`.slice(0, 120);
  }

  #open(
    type: "message" | "reasoning" | "tool_call" | "tool_result",
    wanted: string,
    call: { readonly call_id: string; readonly name?: string } = { call_id: "", name: "" },
  ): Readonly<WrittenItem> {
    const { length } = this.items;
    const id = this.#writer.item(wanted) ? `${wanted}_${length}` : wanted;
    const turn = { type, id, message_id: this.#turnId(length) };
    if (type === "tool_result") return this.#writer.open({ type, id, ...call });
    return this.#writer.open(
      type === "tool_call" ? { ...turn, type, name: "", ...call } : { ...turn, type },
    );
  }

  /** The message that a new item belongs to: the last one, unless a call of it has its result. */
  #turnId(index: number): string {
    const last = this.items.findLast(({ messageId }) => messageId !== undefined)?.messageId;
    const hasResult = this.items.some(
      ({ type, isOpen, callId = "" }) =>
        type === "tool_result" && !isOpen && this.#writer.call(callId)?.messageId === last,
    );
    return last === undefined || hasResult ? `msg_${this.#writer.taskId}_turn${index}` : last;
  }
}
