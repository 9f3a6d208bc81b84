import { readInput, readText } from "../../base/argument.ts";
import { isSameInput } from "../check/calls.ts";
import { causeFlaws, reasonFlaws, resumeReasons, usageFlaws } from "../check/flaws.ts";
import type { ChildFinished, ChildStarted, TaskSuspended, TaskUsage } from "../event.ts";
import { pick } from "../fold/draft.ts";
import { closed } from "../fold/item.ts";
import {
  type Annotation,
  type ApprovalQuestion,
  type ApprovalState,
  type DiscardReason,
  type Hint,
  type Item,
  isTerminal,
  type MessageItem,
  type Progress,
  type ReasoningItem,
  type Reference,
  type Task,
  type TaskObject,
  type TaskStatus,
  type TerminalStatus,
  type ToolCallItem,
  type ToolResultItem,
  type Usage,
  type WireBlock,
  type WireImageBlock,
} from "../task.ts";
import type { BodyOf } from "./delta.ts";
import { doneItem, type ItemEnd } from "./done.ts";
import { cites, WrittenItem, WrittenPart } from "./item.ts";
import { checkOrigin, copyOf, readBody, refuse, refuseFlaws } from "./rules.ts";
import { type TaskWriterOptions, WriterState, type WrittenChild } from "./state.ts";
import type { PartStart } from "./stream.ts";

/** The fields of an item that belong to later events than its first. */
const contents = [
  "block_list",
  "summary",
  "content",
  "arguments",
  "arguments_status",
  "error",
  "progress",
  "child_task_id",
  "encrypted_content",
] as const;
const emptyItems = {
  message: { role: "assistant", block_list: [] },
  reasoning: { summary: [] },
  tool_call: { arguments: "" },
  tool_result: { block_list: [] },
} as const;
const endFields = [
  "completed_at",
  "usage",
  "subtree_usage",
  "error",
  "reason",
  "incomplete_details",
  "generate_reason",
  "structured",
  "metadata",
] as const;
const live = ["queued", "in_progress", "suspended"] as const;

type StartOf<I> = I extends Item
  ? Omit<I, Extract<keyof I, (typeof contents)[number] | "status" | "role">>
  : never;
/** An item to open; it opens empty. */
export type ItemStart = StartOf<MessageItem | ReasoningItem | ToolCallItem | ToolResultItem>;
/** The fields of a new task. */
export type TaskStart = Partial<Omit<TaskObject, "id" | "object" | "status">>;
/** How a task ends. */
export type TaskEnd = Pick<Partial<TaskObject>, (typeof endFields)[number]> & {
  readonly status: TerminalStatus;
};

/**
 * Writes the events of one task, and only legal ones: it numbers them, splits long deltas, holds half a surrogate pair
 * until its other half arrives, closes what is open, and throws `invalid_argument` for a call that makes no sense.
 */
export class TaskWriter {
  readonly #state: WriterState;

  /** `task`: the id of a new task, or the task of a tree whose events continue; its children must have ended. */
  constructor(task: string | Task, options: TaskWriterOptions) {
    this.#state = new WriterState(task, options);
  }

  get taskId(): string {
    return this.#state.taskId;
  }

  /** The status of the task; undefined before `create`. */
  get status(): TaskStatus | undefined {
    return this.#state.status;
  }

  /** The items of the task; those that were discarded included. */
  get items(): readonly Readonly<WrittenItem>[] {
    return this.#state.items;
  }

  /** The approvals of the task, in the order of their requests. */
  get approvals(): readonly ApprovalState[] {
    return [...this.#state.approvals.values()];
  }

  /** The approvals that have no decision. */
  get pending(): readonly ApprovalState[] {
    return this.approvals.filter(({ decision }) => decision === undefined);
  }

  /** An item of the task. */
  item(id: string): Readonly<WrittenItem> | undefined {
    return this.#state.byId.get(id);
  }

  /** The call with an id, unless it was discarded. */
  call(callId: string): Readonly<WrittenItem> | undefined {
    return this.#state.calls.get(callId);
  }

  /** The result of a call, unless it was discarded. */
  result(callId: string): Readonly<WrittenItem> | undefined {
    return this.#state.results.get(callId);
  }

  /** Begins the task. */
  create(task: TaskStart = {}): void {
    const state = this.#state;
    const { taskId: id } = state;
    if (state.status !== undefined) refuse("The task was created before.", "Create it once.");
    const queued = { ...copyOf("task", task), id, object: "task", status: "queued" } as const;
    const body = readBody({ type: "task.created", task: queued });
    checkOrigin(body.task, state.source);
    state.append(body);
    state.status = "queued";
  }

  /** The task starts to work. */
  start(): void {
    const state = this.#state;
    state.expect("queued");
    const task = { id: state.taskId, object: "task", status: "in_progress" } as const;
    state.append({ type: "task.in_progress", task });
    state.status = "in_progress";
  }

  /** Opens an item. */
  open(start: ItemStart): Readonly<WrittenItem> {
    const state = this.#state;
    state.expect("in_progress");
    const given = copyOf("item", start);
    for (const name of contents) delete (given as Record<string, unknown>)[name];
    if (!given.type?.startsWith?.("tool_")) delete (given as { call_id?: string }).call_id;
    const empty = emptyItems[given.type as keyof typeof emptyItems];
    const item = { ...given, ...empty, status: "in_progress" } as unknown as Item;
    const output_index = state.items.length;
    const { item: read } = readBody({ type: "task.output_item.added", output_index, item });
    const { id, type, callId = "" } = new WrittenItem(read, output_index);
    if (empty === undefined) refuse(`${type} is not a type of item.`, "Use `message`.");
    if (state.byId.has(id)) refuse(`The task has an item ${id}.`, "Use a new id.");
    const isCalled = state.calls.has(callId);
    if (type === "tool_call" && isCalled) refuse(`The call ${callId} exists.`, "Use a new id.");
    if (type === "tool_result" && (!isCalled || state.results.has(callId)))
      refuse(`The call ${callId} takes no result.`, "Pass a call that has no result.");
    return state.add(state.addItem(read));
  }

  /** Opens a part at the end of an item: a text or an image, a paragraph of a summary, or the arguments of a call. */
  openPart(item: Readonly<WrittenItem>, start: PartStart = {}): Readonly<WrittenPart> {
    const state = this.#state;
    state.expect("in_progress");
    const opened = state.open(item);
    const { type } = opened;
    const given: PartStart = closed(copyOf("part", start));
    if (type === "tool_call" && opened.parts.length > 0)
      refuse(`${opened.id} has its arguments.`, "Open them once.");
    const last = opened.partsOf("content").at(-1);
    // A piece without a delta would take the place of the next.
    if (given.type === "reasoning_text" && last?.isOpen) state.closePart(last);
    return state.openPart(opened, given);
  }

  /** Appends text to a part, or to the last part of an item, which is opened if it is missing. */
  delta(place: Readonly<WrittenItem> | Readonly<WrittenPart>, text: string): void {
    const state = this.#state;
    state.expect("in_progress");
    readText("text", text);
    let part: WrittenPart | undefined;
    if (place instanceof WrittenPart) part = state.openedPart(place);
    else {
      const item = state.open(place as WrittenItem);
      part = item.parts.at(-1);
      if (!part?.isOpen || part.kind === "image") part = this.openPart(item) as WrittenPart;
    }
    if (part.kind === "image") refuse("An image has no text.", "Call `preview`.");
    state.appendText(part, text);
  }

  /** Adds a citation to an open text; its marker is in the text already. */
  annotate(place: Readonly<WrittenPart>, annotation: Annotation): void {
    const state = this.#state;
    state.expect("in_progress");
    const part = state.openedPart(place);
    const { item, index: block_index } = part;
    if (part.kind !== "text") refuse("Only a text has citations.", "Pass a text.");
    const at = { item_id: item.id, output_index: item.index, block_index, annotation_index: 0 };
    const read = readBody({ type: "task.text.annotation.added", ...at, annotation });
    state.checkCitation(part.text, read.annotation);
    state.annotate(part, read.annotation);
  }

  /** Shows an image that replaces the last one of its part. */
  preview(part: Readonly<WrittenPart>, image: WireImageBlock): void {
    this.#state.expect("in_progress");
    const opened = this.#state.openedPart(part);
    if (opened.kind !== "image") refuse("The part is not an image.", "Open it as an image.");
    this.#state.previewImage(opened, copyOf("image", image));
  }

  /** Adds a whole block to a message or a result. */
  block(item: Readonly<WrittenItem>, block: WireBlock): Readonly<WrittenPart> {
    this.#state.expect("in_progress");
    const { id, type } = this.#state.open(item);
    if (type !== "message" && type !== "tool_result")
      refuse(`${id} is a ${type}.`, "Pass a message or a result.");
    return this.#state.addBlock(item as WrittenItem, closed(copyOf("block", block)));
  }

  /** Closes a part: an image as its last preview or the given one, a text without deltas as the given one. */
  closePart(part: Readonly<WrittenPart>, end: Partial<WireBlock> = {}): void {
    this.#state.expect("in_progress");
    const opened = this.#state.openedPart(part);
    const given = closed(copyOf("part", end));
    const { text = "", ...rest } = given as { readonly text?: string };
    const hasText = opened.text !== "" || opened.held !== "";
    if (opened.kind === "image") this.#state.closePart(opened, given);
    else {
      const whole = readText("part.text", text).toWellFormed();
      this.#state.closePart(opened, hasText ? rest : { ...rest, text: whole });
    }
  }

  /** Shows the progress of a tool. */
  progress(place: Readonly<WrittenItem>, progress: Progress): void {
    this.#state.expect("in_progress");
    const item = this.#state.open(place);
    if (item.type !== "tool_result") refuse(`${item.id} is not a result.`, "Pass an open result.");
    this.#state.progress(item, copyOf("progress", progress));
  }

  /** Names a source of an open item. */
  reference(item: Readonly<WrittenItem>, reference: Reference): void {
    this.#state.expect("in_progress", "suspended");
    this.#state.reference(this.#state.open(item), reference);
  }

  /** Closes an item with its open parts. */
  close(place: Readonly<WrittenItem>, end: ItemEnd = {}): void {
    const state = this.#state;
    state.expect("in_progress", "suspended");
    const item = state.open(place);
    const given = copyOf("end", end);
    const { status = "completed", error } = given;
    const isCompleted = status === "completed";
    const openParts = item.parts.filter(({ isOpen }) => isOpen);
    state.checkChildEnded(item);
    if (status === "in_progress" || (error ? isCompleted : status === "failed"))
      refuse(
        `${item.id} cannot close as ${status}.`,
        "Use a final status; `failed` needs `error`.",
      );
    // A suspended task cannot show the end of a part: that of the item closes it.
    const isWorking = state.status === "in_progress";
    const isCut = openParts.some(({ isEmptyImage }) => isEmptyImage || !isWorking);
    if (isCompleted && isCut) refuse(`${item.id} is not complete.`, "Close it as `incomplete`.");
    const output_index = item.index;
    const isEmpty = item.parts.length === 0;
    const whole = readInput("end.block_list", "an array", given.block_list, () =>
      doneItem(item, given),
    );
    const { item: read } = readBody({ type: "task.output_item.done", output_index, item: whole });
    const blocks = ("block_list" in read && read.block_list) || [];
    if (isEmpty) for (const block of blocks) state.checkBlock(item, block);
    for (const part of openParts) {
      if (isWorking && !part.isEmptyImage) state.closePart(part);
      part.isOpen = false;
    }
    state.closeItem(item, given);
    if (!isEmpty) return;
    if (read.type === "tool_call") item.addPart("arguments", false).text = read.arguments ?? "";
    for (const block of blocks) item.addPart("block", false, block);
  }

  /** Discards an item; the result of a discarded call is discarded as well. */
  discard(place: Readonly<WrittenItem>, reason: DiscardReason): void {
    const state = this.#state;
    state.expect("in_progress", "suspended");
    const item = state.own(place);
    if (item.type === "discarded") refuse(`${item.id} was discarded.`, "Discard it once.");
    const { callId = "" } = item;
    const result = item.type === "tool_call" ? state.results.get(callId) : undefined;
    for (const gone of result ? [result, item] : [item]) {
      state.checkChildEnded(gone);
      const isCited = state.items.some(
        (other) => other.isOpen && other !== gone && cites(other, gone, state.taskId),
      );
      if (isCited) refuse(`An open item cites ${gone.id}.`, "Close it first.");
    }
    const kept = item.type === "tool_call" ? state.calls : state.results;
    if (result) this.discard(result, reason);
    state.discardItem(item, reason);
    if (kept.get(callId) === item) kept.delete(callId);
  }

  /** A call has started a child, whose id is that of the call; the open result of the call holds it. */
  startChild(
    place: Readonly<WrittenItem>,
    child: Pick<ChildStarted, "mode" | "agent" | "remote">,
  ): void {
    const state = this.#state;
    state.expect("in_progress");
    const item = state.open(place);
    const { callId = "" } = item;
    if (item.type !== "tool_result" || callId === state.taskId || state.children.has(callId))
      refuse(`${item.id} cannot hold a child.`, "Pass the open result of a call without a child.");
    const given = copyOf("child", child);
    state.startChild(item, given);
    state.addChild(item, given.mode);
  }

  /** A child that the task waits for has ended. */
  finishChild(childId: string, end: Pick<ChildFinished, "status" | "usage">): void {
    this.#state.expect("in_progress", "suspended");
    const child = this.#awaited(childId);
    this.#state.finishChild(child.item, copyOf("end", end));
    child.state = "finished";
  }

  /** The task stops waiting for a child, which continues in the background. */
  promoteChild(childId: string): void {
    this.#state.expect("in_progress");
    const child = this.#awaited(childId);
    this.#state.promoteChild(child.item);
    child.state = "background";
  }

  #awaited(childId: string): WrittenChild {
    const child = this.#state.children.get(childId);
    if (child?.state === "sync") return child;
    return refuse("The task does not wait for such a child.", "Pass the id of a child that runs.");
  }

  /** Asks for an approval; the name and the arguments are those of the call by default. */
  ask(approval: Omit<ApprovalQuestion, "item_id" | "output_index" | "edited">): void {
    const state = this.#state;
    state.expect("in_progress");
    const given = copyOf("approval", approval);
    const { call_id: callId = "" } = given as ApprovalQuestion;
    const call = state.calls.get(callId);
    const shown = call && { name: call.name ?? "", arguments: call.arguments };
    const place = call && { item_id: call.id, output_index: call.index };
    const asked = { ...shown, ...given, ...place };
    const isShown =
      asked.name === call?.name && isSameInput(call?.arguments ?? "", asked.arguments ?? "");
    const edited = call && !isShown && { edited: true as const };
    const body = readBody({ ...asked, ...edited, type: "task.approval.requested" });
    if (state.approvals.has(body.approval_id))
      refuse(`${body.approval_id} was requested before.`, "Use a new id.");
    const isAnswered = state.results.get(callId)?.isOpen === false;
    const needsCall = body.kind !== "stop" || body.call_id !== undefined;
    if (needsCall && (call === undefined || isAnswered))
      refuse(`There is no call ${callId} that waits.`, "Pass a call that has no result yet.");
    const { type: _, ...question } = body;
    state.append(body);
    state.approvals.set(body.approval_id, question);
  }

  /** The decision about an approval. */
  resolve(
    approvalId: string,
    decision: Required<Pick<ApprovalState, "decision">> & Pick<ApprovalState, "by" | "reason">,
  ): void {
    const state = this.#state;
    state.expect("in_progress", "suspended");
    const approval = state.approvals.get(approvalId);
    if (approval === undefined || approval.decision !== undefined)
      refuse("There is no such approval that waits.", "Resolve each approval once.");
    const type = "task.approval.resolved";
    const given = copyOf("decision", decision);
    const body = readBody({ ...given, type, approval_id: approvalId });
    state.approvals.set(approvalId, { ...approval, ...pick(body, "decision", "by", "reason") });
    state.append(body);
  }

  /** Suspends the task; it waits for all its approvals that have no decision, unless others are named. */
  suspend(wait: Partial<Omit<TaskSuspended, "type">> = {}): void {
    const state = this.#state;
    state.expect("in_progress");
    const pending = this.pending.map(({ approval_id }) => approval_id);
    const listed = pending.length > 0 && { approval_ids: pending };
    const given = copyOf("wait", wait);
    const body = readBody({ reason: "approval", ...listed, ...given, type: "task.suspended" });
    const { reason, approval_ids: ids = [], waiting_on: tasks = [] } = body;
    refuseFlaws(reasonFlaws("suspended", body.generate_reason), "Leave generate_reason out.");
    const isRunning = (id: string) => (state.children.get(id)?.state ?? "finished") !== "finished";
    // A descendant may have asked for an approval, which its own events show.
    const hasRunning = [...state.children.keys()].some(isRunning);
    const isOpen = (id: string) => pending.includes(id) || (!state.approvals.has(id) && hasRunning);
    const count = ids.length + (reason === "approval" ? 0 : tasks.length);
    const isWaiting = count > 0 || reason === "stop_requested";
    if (!isWaiting || !ids.every(isOpen) || !tasks.every(isRunning))
      refuse("The task waits for nothing that is open.", "Ask for an approval first.");
    state.append(body);
    state.status = "suspended";
  }

  /** Resumes the task: `approval_resolved`, `continued`, `cancelled` or `recovered`. */
  resume(reason = "approval_resolved"): void {
    const state = this.#state;
    state.expect("suspended", ...(reason === "recovered" ? (["in_progress"] as const) : []));
    if (!resumeReasons.includes(reason))
      refuse("This is not a reason to resume.", `Use ${resumeReasons.join(" or ")}.`);
    state.append({ type: "task.resumed", reason });
    state.status = "in_progress";
  }

  /** A cancel was requested. */
  cancelling(request: { readonly requested_by?: string; readonly reason?: string } = {}): void {
    this.#state.expect(...live);
    this.#state.append(readBody({ ...copyOf("request", request), type: "task.cancelling" }));
  }

  /** The tokens that the task has used so far. */
  usage(usage: Usage, more: Pick<TaskUsage, "by_model" | "cost"> = {}): void {
    const state = this.#state;
    state.expect(...live);
    const given = copyOf("more", more);
    const body = readBody({ ...given, type: "task.usage", cumulative: true, usage });
    refuseFlaws(usageFlaws(body.usage, state.usage), "Pass totals so far.");
    state.append(body);
    state.usage = body.usage;
  }

  /** The model gets a note that is not its input. */
  hint(hint: Hint): void {
    this.#state.expect(...live);
    this.#state.append(readBody({ type: "task.hint.added", hint }));
  }

  /** An event of the application. */
  custom(name: string, value: unknown): void {
    this.#state.expect(...live);
    this.#state.append(readBody({ type: "task.custom", name, value }));
  }

  /** Ends the task and closes what is open: approvals are cancelled, and calls without a result get an empty one. */
  end(end: TaskEnd): void {
    const state = this.#state;
    const { taskId: id } = state;
    const given = copyOf("end", end);
    const { status } = given;
    if (!isTerminal(status)) refuse("A task cannot end with this status.", "Use `completed`.");
    const isCut = status === "failed" || status === "cancelled";
    state.expect("in_progress", "suspended", ...(isCut ? (["queued"] as const) : []));
    const fields = { completed_at: state.now(), ...pick(given, ...endFields) };
    const task = { ...fields, id, object: "task", status } as const;
    const body = readBody({ type: `task.${status}`, task } as BodyOf<`task.${typeof status}`>);
    refuseFlaws(
      causeFlaws(body.task),
      "Pass `error` with `failed`, and `incomplete_details` with `incomplete`.",
    );
    refuseFlaws(usageFlaws(body.task.usage, state.usage), "Pass totals so far.");
    for (const item of state.items) state.checkChildEnded(item);
    if (state.status === "suspended" && !isCut) this.resume("continued");
    for (const { approval_id } of this.pending) this.resolve(approval_id, { decision: "cancel" });
    const cut = status === "cancelled" ? "cancelled" : "incomplete";
    for (const item of state.items.filter(({ isOpen }) => isOpen)) {
      const isText = item.type === "message" || item.type === "reasoning";
      const isWhole = isText && !isCut && !item.parts.some(({ isEmptyImage }) => isEmptyImage);
      this.close(item, { status: isWhole ? "completed" : cut });
    }
    for (const [call_id, call] of isCut ? [] : state.calls) {
      if (call.status !== "completed" || state.results.has(call_id)) continue;
      let resultId = `${call.id.slice(0, 100)}_result`;
      while (state.byId.has(resultId)) resultId += "_";
      this.close(this.open({ type: "tool_result", id: resultId, call_id }), { status: cut });
    }
    state.append(body);
    state.status = status;
  }
}
