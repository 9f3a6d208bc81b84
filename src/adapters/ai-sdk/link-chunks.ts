import type { UIMessageChunk } from "ai";
import { parseJson, stateOf, streamedText, type TaskRef } from "../../contract/index.ts";
import {
  type Annotation,
  type ApprovalRequested,
  type ApprovalResolved,
  type ApprovalState,
  type Item,
  type LogEvent,
  noUsage,
  type Task,
  type TaskEvent,
  TaskTree,
  type ToolCallItem,
  type ToolResultItem,
  type WireBlock,
} from "../../protocol/index.ts";
import { unfold } from "../foreign-snapshot.ts";

/** The events of the root task that a page needs to fold its children, besides their own. */
const linking: ReadonlySet<TaskEvent["type"]> = new Set([
  "task.created",
  "task.child.started",
  "task.child.finished",
  "task.child.promoted",
]);

/** Translates the log of a root task, which must be read from its beginning, to one UI message of the AI SDK. */
export class UiChunks {
  readonly #taskId: string;
  readonly #sessionId: string;
  readonly #addressOf: (url: string) => string;
  readonly #tree = new TaskTree();
  /** The chunks of the current step by the item that they belong to, to send those again that a reset removes. */
  readonly #step = new Map<string, UIMessageChunk[]>();
  /** The texts that are open, by the id of their part. */
  readonly #open = new Set<string>();
  /** The calls whose input is complete, and that have not started. */
  readonly #held = new Set<string>();
  readonly #children = new Map<string, object>();
  /** The approvals of descendants that wait. */
  readonly #asking = new Map<string, ApprovalRequested>();
  #isStepOpen = false;

  /** `addressOf` turns the address of a blob into one that the page can load. */
  constructor(
    { taskId, sessionId }: Pick<TaskRef, "taskId" | "sessionId">,
    addressOf: (url: string) => string,
  ) {
    this.#taskId = taskId;
    this.#sessionId = sessionId;
    this.#addressOf = addressOf;
  }

  /** The first chunk of every response about the task: a page that continues the message keeps its id. */
  get start(): UIMessageChunk {
    const messageMetadata = { taskId: this.#taskId, sessionId: this.#sessionId };
    return { type: "start", messageId: this.#taskId, messageMetadata };
  }

  /** The chunks for one event of the log. */
  translate(event: TaskEvent): readonly UIMessageChunk[] {
    if (event.type === "error") return [];
    const isOwn = event.task_id === this.#taskId;
    if (!isOwn) return [...this.#childApproval(event), childEvent(event)];
    this.#tree.apply(event);
    const events = event.type === "task.snapshot" ? unfold(event) : [event];
    const chunks = events.flatMap((each) => this.#chunksOf(each));
    return linking.has(event.type) ? [childEvent(event), ...chunks] : chunks;
  }

  get #task(): Task | undefined {
    return this.#tree.task(this.#taskId);
  }

  #chunksOf(event: LogEvent): readonly UIMessageChunk[] {
    switch (event.type) {
      case "task.output_item.added":
        return this.#added(event.item);
      case "task.output_item.done":
        return this.#done(event.output_index);
      case "task.output_item.discarded":
        return this.#discarded(event.item_id);
      case "task.reasoning_summary_item.added":
        return this.#begin("reasoning", event.item_id, `s${event.summary_index}`);
      case "task.reasoning_summary_text.delta":
        return this.#delta("reasoning", event.item_id, `s${event.summary_index}`, event.delta);
      case "task.reasoning_summary_item.done":
        return this.#end("reasoning", event.item_id, `s${event.summary_index}`, event.item.text);
      case "task.reasoning_text.delta":
        return this.#delta("reasoning", event.item_id, `r${event.content_index}`, event.delta);
      case "task.reasoning_text.done":
        return this.#end("reasoning", event.item_id, `r${event.content_index}`, event.text);
      case "task.tool_call_arguments.delta":
        return this.#argumentsDelta(event.output_index, event.delta);
      case "task.text.added":
      case "task.text.delta":
      case "task.text.done":
      case "task.image.done":
      case "task.block.done":
        return this.#block(event);
      case "task.tool_result.progress":
        return [progressChunk(event)];
      case "task.child.started":
        return [...this.#release(event.call_id), this.#child(event)];
      case "task.child.finished":
      case "task.child.promoted":
        return [this.#child(event)];
      case "task.approval.requested":
        return this.#asked(event);
      case "task.approval.resolved":
        return this.#answered(event);
      case "task.hint.added":
        return [steeringChunk(event.hint)];
      case "task.suspended":
        return [...this.#releaseAll(), ...this.#finish("tool-calls")];
      case "task.completed":
      case "task.failed":
      case "task.cancelled":
      case "task.incomplete":
        return this.#ended();
      default:
        return [];
    }
  }

  /** A turn of the model is a step; it begins with its first item after the results of the turn before. */
  #added(item: Item): readonly UIMessageChunk[] {
    if (item.type === "tool_result") {
      this.#isStepOpen = false;
      return this.#release(item.call_id);
    }
    const isNew = !this.#isStepOpen;
    if (isNew) this.#step.clear();
    this.#isStepOpen = true;
    const chunks = item.type === "tool_call" ? this.#callStarted(item) : [];
    return isNew ? [{ type: "start-step" }, ...chunks] : chunks;
  }

  #callStarted({ id, call_id: toolCallId, name: toolName }: ToolCallItem) {
    return this.#keep(id, { type: "tool-input-start", toolCallId, toolName, dynamic: true });
  }

  #argumentsDelta(index: number, delta: string): readonly UIMessageChunk[] {
    const item = this.#task?.output[index];
    return item?.type === "tool_call" ? this.#argumentsOf(item, delta) : [];
  }

  #argumentsOf({ id, call_id: toolCallId }: ToolCallItem, inputTextDelta: string) {
    return this.#keep(id, { type: "tool-input-delta", toolCallId, inputTextDelta });
  }

  #done(index: number): readonly UIMessageChunk[] {
    const item = this.#task?.output[index];
    return item === undefined ? [] : this.#closed(item);
  }

  #closed(item: Item): readonly UIMessageChunk[] {
    switch (item.type) {
      case "tool_call":
        this.#held.add(item.call_id);
        return [];
      case "tool_result":
        return resultChunks(item);
      default:
        return [];
    }
  }

  /** The input of a call that starts. */
  #release(callId: string): readonly UIMessageChunk[] {
    return this.#held.delete(callId) ? this.#input(callId, true) : [];
  }

  /** The input of a call; `providerExecuted` keeps the page from running it. */
  #input(callId: string, providerExecuted: boolean): readonly UIMessageChunk[] {
    const call = this.#task?.output.findLast(
      (item): item is ToolCallItem => item.type === "tool_call" && item.call_id === callId,
    );
    if (call === undefined) return [];
    return this.#keep(call.id, {
      type: "tool-input-available",
      toolCallId: callId,
      toolName: call.name,
      input: parseJson(call.arguments || "{}"),
      dynamic: true,
      providerExecuted,
    });
  }

  #releaseAll(): readonly UIMessageChunk[] {
    return [...this.#held].flatMap((callId) => this.#release(callId));
  }

  /** A child as a part of the message; the last chunk with its id replaces the others. */
  #child(event: ChildEvent): UIMessageChunk {
    const { child_task_id: id } = event;
    const data = { ...this.#children.get(id), ...childData(event) };
    this.#children.set(id, data);
    return { type: "data-task", id, data };
  }

  #asked(approval: ApprovalRequested | ApprovalState): readonly UIMessageChunk[] {
    const { approval_id: approvalId, call_id: toolCallId = "", kind, message } = approval;
    if (kind === "external") return this.#input(toolCallId, false);
    const input = this.#release(toolCallId);
    if (kind !== "tool_call" || toolCallId === "") return [approvalChunk(this.#taskId, approval)];
    const reason = message === undefined ? {} : { reason: message };
    return [...input, { type: "tool-approval-request", approvalId, toolCallId, ...reason }];
  }

  #answered({ approval_id: approvalId, decision, reason }: ApprovalResolved) {
    const asked = this.#task?.approvals.find(({ approval_id }) => approval_id === approvalId);
    if (asked === undefined || asked.kind === "external") return [];
    if (asked.kind !== "tool_call" || (asked.call_id ?? "") === "")
      return [approvalChunk(this.#taskId, asked)];
    const approved = decision === "approve" || decision === "edit";
    const why = reason === undefined ? {} : { reason };
    return [{ type: "tool-approval-response" as const, approvalId, approved, ...why }];
  }

  /** The AI SDK has no approvals of subagents: a page gets them as data. */
  #childApproval(event: TaskEvent): readonly UIMessageChunk[] {
    if (event.type === "task.approval.requested") {
      this.#asking.set(event.approval_id, event);
      return [approvalChunk(event.task_id, event)];
    }
    if (event.type !== "task.approval.resolved") return [];
    const asked = this.#asking.get(event.approval_id);
    this.#asking.delete(event.approval_id);
    return asked ? [approvalChunk(event.task_id, { ...asked, ...event })] : [];
  }

  #block(event: Extract<LogEvent, { readonly block_index: number }>): readonly UIMessageChunk[] {
    const { output_index, item_id, block_index, type } = event;
    if (this.#task?.output[output_index]?.type !== "message") return [];
    const place = `${block_index}`;
    switch (type) {
      case "task.text.added":
        return this.#begin("text", item_id, place, event.item.text);
      case "task.text.delta":
        return this.#delta("text", item_id, place, event.delta);
      case "task.text.done":
        return this.#end("text", item_id, place, event.item.text, event.item.annotations);
      case "task.image.done":
      case "task.block.done":
        return this.#file(item_id, event.item);
      default:
        return [];
    }
  }

  #begin(kind: "text" | "reasoning", itemId: string, place: string, text = "") {
    const id = `${itemId}#${place}`;
    if (this.#open.has(id)) return [];
    this.#open.add(id);
    const begun = this.#keep(itemId, { type: `${kind}-start`, id });
    return text === "" ? begun : [...begun, ...this.#keep(itemId, deltaChunk(kind, id, text))];
  }

  #delta(kind: "text" | "reasoning", itemId: string, place: string, delta: string) {
    const begun = this.#begin(kind, itemId, place);
    return [...begun, ...this.#keep(itemId, deltaChunk(kind, `${itemId}#${place}`, delta))];
  }

  /** Ends a text; one that came in one piece is sent with its end. */
  #end(
    kind: "text" | "reasoning",
    itemId: string,
    place: string,
    text: string,
    annotations: readonly Annotation[] = [],
  ): readonly UIMessageChunk[] {
    const id = `${itemId}#${place}`;
    const begun = this.#begin(kind, itemId, place, text);
    this.#open.delete(id);
    const sources = annotations.map((annotation) => sourceChunk(annotation));
    return [...begun, ...this.#keep(itemId, { type: `${kind}-end`, id }, ...sources)];
  }

  #file(itemId: string, block: WireBlock): readonly UIMessageChunk[] {
    const url = block.type === "image" ? block.image_url.url : "url" in block ? block.url : "";
    if (typeof url !== "string" || url === "") return [];
    const fallback = block.type === "image" ? "image/png" : "application/octet-stream";
    const named = "mime_type" in block && typeof block.mime_type === "string";
    const mediaType = named ? (block.mime_type as string) : fallback;
    return this.#keep(itemId, { type: "file", url: this.#addressOf(url), mediaType });
  }

  /** Removes an item. The AI SDK can only remove a whole step, so the rest of the step is sent again. */
  #discarded(itemId: string): readonly UIMessageChunk[] {
    this.#step.delete(itemId);
    for (const id of this.#open) if (id.startsWith(`${itemId}#`)) this.#open.delete(id);
    return [{ type: "reset-step" }, ...[...this.#step.values()].flat()];
  }

  #keep(itemId: string, ...chunks: readonly UIMessageChunk[]): readonly UIMessageChunk[] {
    const kept = this.#step.get(itemId) ?? [];
    this.#step.set(itemId, kept);
    kept.push(...chunks);
    return chunks;
  }

  #ended(): readonly UIMessageChunk[] {
    const { status, error, reason, incompleteReason = "" } = this.#task as Task;
    const rest = this.#releaseAll();
    switch (status) {
      case "failed":
        return [...rest, { type: "error", errorText: error?.message ?? "The task failed." }];
      case "cancelled":
        return [...rest, { type: "abort", ...(reason !== undefined && { reason }) }];
      case "incomplete":
        return [...rest, ...this.#finish(finishReasons[incompleteReason] ?? "other")];
      default:
        return [...rest, ...this.#finish("stop")];
    }
  }

  #finish(finishReason: FinishReason): readonly UIMessageChunk[] {
    this.#isStepOpen = false;
    const usage = this.#task?.usage ?? noUsage;
    const messageMetadata = { usage };
    return [{ type: "finish-step" }, { type: "finish", finishReason, messageMetadata }];
  }
}

type FinishReason = NonNullable<Extract<UIMessageChunk, { type: "finish" }>["finishReason"]>;
const finishReasons: Readonly<Record<string, FinishReason>> = {
  max_output_tokens: "length",
  max_tokens: "length",
  content_filter: "content-filter",
};

function deltaChunk(kind: "text" | "reasoning", id: string, delta: string): UIMessageChunk {
  return { type: `${kind}-delta`, id, delta };
}

function resultChunks(item: ToolResultItem): readonly UIMessageChunk[] {
  const { call_id: toolCallId, error } = item;
  const state = stateOf(item);
  if (state === "denied") return [{ type: "tool-output-denied", toolCallId }];
  const text = streamedText(item);
  if (state === "success") return [{ type: "tool-output-available", toolCallId, output: text }];
  const errorText = error?.message ?? (text || "The call was interrupted.");
  return [{ type: "tool-output-error", toolCallId, errorText }];
}

function sourceChunk(annotation: Annotation): UIMessageChunk {
  const title = `[${annotation.reference_id}]`;
  return {
    type: "source-document",
    sourceId: `ref_${annotation.reference_id}`,
    mediaType: "text/plain",
    title,
    providerMetadata: { rivulet: { annotation: { ...annotation } } },
  };
}

function progressChunk(event: Extract<LogEvent, { type: "task.tool_result.progress" }>) {
  const { call_id, progress, total, message } = event;
  return {
    type: "data-progress" as const,
    id: call_id,
    data: { call_id, progress, total, message },
    transient: true,
  };
}

function steeringChunk({ id, text }: { readonly id: string; readonly text: string }) {
  return { type: "steering-message" as const, id, parts: [{ type: "text" as const, text }] };
}

type ChildEvent = Extract<LogEvent, { readonly child_task_id: string }>;

function childData(event: ChildEvent) {
  const { child_task_id, call_id } = event;
  const common = { task_id: child_task_id, call_id };
  if (event.type === "task.child.started")
    return { ...common, status: "in_progress", agent: event.agent.name ?? event.agent.id };
  if (event.type === "task.child.finished")
    return { ...common, status: event.status, usage: event.usage };
  return { ...common, mode: event.mode };
}

/** An event for the reducer of the page; it is not kept in the message, which would grow with every token. */
function childEvent(event: TaskEvent): UIMessageChunk {
  return { type: "data-task-event", data: event, transient: true };
}

function approvalChunk(taskId: string, approval: Omit<ApprovalState, "type">): UIMessageChunk {
  const { approval_id, kind, call_id, name, arguments: input, message, expires_at } = approval;
  const { decision, reason } = approval;
  const call = { call_id, name, arguments: input };
  const data = {
    task_id: taskId,
    approval_id,
    kind,
    ...call,
    message,
    expires_at,
    decision,
    reason,
  };
  return { type: "data-approval", id: approval_id, data };
}
