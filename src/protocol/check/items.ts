import type {
  LogEvent,
  OutputItemAdded,
  OutputItemDiscarded,
  OutputItemDone,
  ReferenceAdded,
  ToolResultProgress,
} from "../event.ts";
import { normalBlock } from "../first-form.ts";
import { pick } from "../fold/draft.ts";
import { checkAnnotations } from "./annotations.ts";
import { checkResult } from "./calls.ts";
import type { AnyBlock, AnyItem, Check, CheckedTask } from "./checked.ts";
import { foldInto, itemAt, report } from "./checked.ts";
import { checkOutlived } from "./children.ts";
import {
  checkForm,
  checkPart,
  checkTaskBlock,
  type ListName,
  type PartEvent,
  partsOf,
  valueIn,
} from "./contents.ts";
import { isSame, show } from "./problem.ts";

type ItemEvent =
  | OutputItemAdded
  | OutputItemDone
  | OutputItemDiscarded
  | ReferenceAdded
  | ToolResultProgress
  | PartEvent;

/** The types of items that a part's event is for, by the prefix of its type. */
const itemTypes: readonly (readonly [prefix: string, types: readonly string[]])[] = [
  ["task.reasoning_", ["reasoning"]],
  ["task.tool_call_", ["tool_call"]],
  ["task.tool_result.", ["tool_result"]],
  ["task.reference.", []],
  ["task.", ["tool_result", "message"]],
];

/** The fields of an item that do not change. */
const fixed = ["call_id", "name", "provider_call_id", "purpose"] as const;

/** Checks and folds an event of an item or its parts; one that belongs to no open item is not folded. */
export function checkItem(check: Check, task: CheckedTask, event: ItemEvent): void {
  if (event.type === "task.output_item.added") {
    checkItemAdded(check, task, event);
    return;
  }
  const at = event.output_index;
  const item = itemAt(task, at);
  if (item === undefined) {
    report(check, "I4", `no item was added at output_index ${at}`);
    return;
  }
  const id = event.type === "task.output_item.done" ? event.item.id : event.item_id;
  if (id !== item.id) report(check, "I3", `the item at ${at} is ${show(item.id)}, not ${show(id)}`);
  if (event.type === "task.output_item.discarded") {
    checkDiscarded(check, task, item, event);
    return;
  }
  if (item.status !== "in_progress") {
    const state = item.type === "discarded" ? "discarded" : "done";
    report(check, "I4", `${event.type} on ${show(item.id)}, which is ${state}`);
    return;
  }
  if (event.type === "task.output_item.done") checkItemDone(check, task, item, event);
  else checkContents(check, task, item, event);
}

function checkDiscarded(
  check: Check,
  task: CheckedTask,
  item: AnyItem,
  event: OutputItemDiscarded,
): void {
  if (item.type === "discarded") report(check, "I4", `${show(item.id)} was already discarded`);
  checkOutlived(check, item);
  // A discarded call may be sent again, with the same call id.
  const { type, call_id: callId = "" } = item;
  if (type === "tool_call") check.callIds.delete(callId);
  const kept = type === "tool_call" ? task.calls : task.results;
  if (kept.get(callId) === event.output_index) kept.delete(callId);
  foldInto(check, { ...event, item_id: item.id });
}

/** Checks and folds an event of an open item that adds to it. */
function checkContents(
  check: Check,
  task: CheckedTask,
  item: AnyItem,
  event: ReferenceAdded | ToolResultProgress | PartEvent,
): void {
  const types = itemTypes.find(([prefix]) => event.type.startsWith(prefix))?.[1] ?? [];
  if (types.length > 0 && !types.includes(item.type)) {
    report(check, "I3", `${event.type} on ${show(item.id)}, which is a ${show(item.type)}`);
  } else if (event.type === "task.reference.added") {
    foldInto(check, event);
  } else if (event.type === "task.tool_result.progress") {
    if (event.call_id !== item.call_id)
      report(check, "I3", `the call of ${show(item.id)} is ${show(item.call_id)}`);
    foldInto(check, event);
  } else {
    checkPart(check, task, item, event);
  }
}

function checkItemAdded(check: Check, task: CheckedTask, event: OutputItemAdded): void {
  const { output_index: at } = event;
  const sent = event.item as AnyItem;
  const known = itemAt(task, at);
  if (known !== undefined) {
    const state = known.type === "discarded" ? "of a discarded item" : `of ${show(known.id)}`;
    report(check, "I2", `output_index ${at} is the index ${state}`);
    return;
  }
  const next = task.node.output.length;
  if (at < next || (at > next && !check.options.filtered))
    report(check, "I2", `output_index ${at}, but ${next} is next`);
  checkProjection(check, sent);
  if (!check.options.legacy) {
    if (sent.status !== "in_progress")
      report(check, "A23", `an item must open as in_progress, got ${show(sent.status)}`);
    checkIds(check, task, sent);
  }
  if (sent.type === "tool_result") checkResult(check, task, sent);
  checkShell(check, sent);
  foldInto(check, { ...event, item: { ...event.item, status: "in_progress" } } as LogEvent);
  rememberItem(check, task, at, sent);
}

/** Adds a folded item to the indexes of its task. */
export function rememberItem(check: Check, task: CheckedTask, at: number, sent: AnyItem): void {
  const item = itemAt(task, at);
  if (item === undefined) return;
  check.sentAt.set(item, check.index);
  task.itemAt.set(item.id, at);
  if (sent.call_id === undefined) return;
  if (sent.type === "tool_call") check.callIds.add(sent.call_id);
  (sent.type === "tool_call" ? task.calls : task.results).set(sent.call_id, at);
}

/** An item opens empty. */
function checkShell(check: Check, sent: AnyItem): void {
  const { error, child_task_id: child, encrypted_content: signature } = sent;
  const lists = [sent.block_list, sent.summary, sent.content, sent.arguments];
  if (lists.some((list) => list?.length) || (error ?? child ?? signature) !== undefined)
    report(check, "I4", `${show(sent.id)} opens with contents that belong to later events`);
}

function checkIds(check: Check, task: CheckedTask, sent: AnyItem): void {
  if (task.itemAt.has(sent.id)) report(check, "A9", `the task has an item ${show(sent.id)}`);
  if (sent.type === "tool_call" && check.callIds.has(sent.call_id ?? ""))
    report(check, "A9", `the call id ${show(sent.call_id)} was used before`);
}

/** The wire carries the blocks for people, not the model's content. */
function checkProjection(check: Check, sent: AnyItem): void {
  if ((sent.type === "tool_result" || sent.type === "message") && sent.content !== undefined)
    report(check, "I10", `a ${sent.type} must not have content`);
}

function checkItemDone(
  check: Check,
  task: CheckedTask,
  item: AnyItem,
  event: OutputItemDone,
): void {
  const sent = event.item as AnyItem;
  const { id, type } = item;
  if (sent.type !== type) {
    report(check, "I3", `${show(id)} is a ${show(type)}, not ${show(sent.type)}`);
    foldInto(check, { ...event, item: { id, type, status: sent.status } } as LogEvent);
    return;
  }
  for (const name of fixed) {
    const [before, now] = [item[name], sent[name]];
    if (now !== undefined && now !== before)
      report(check, "I3", `${name} of ${show(id)} is ${show(before)}, not ${show(now)}`);
  }
  checkProjection(check, sent);
  checkFinalStatus(check, item, sent);
  checkOutlived(check, item);
  const isFinished = (sent.status ?? "completed") === "completed";
  const whole = (name: ListName) =>
    checkWhole(check, name, partsOf(item, name), isFinished, item, sent);
  const hasBlocks = type === "tool_result" || type === "message";
  if (type === "tool_call") whole("arguments");
  else if (type === "reasoning") {
    whole("summary");
    if (partsOf(item, "content").length > 0) whole("content");
  } else if (hasBlocks) {
    checkContainer(check, item, sent);
    if (sent.progress !== undefined) report(check, "I6", "done repeats the progress");
    if (sent.block_list !== undefined || !holdsChild(check, task, item)) whole("block_list");
  }
  foldInto(check, { ...event, item: { ...sent, id, ...pick(item, ...fixed) } } as LogEvent);
  if (hasBlocks) checkBlocks(check, task, item, sent);
}

function checkFinalStatus(check: Check, { id }: AnyItem, { status, error }: AnyItem): void {
  if (!check.options.legacy && (status ?? "in_progress") === "in_progress")
    report(check, "A23", `an item must close with its final status, got ${show(status)}`);
  const isFinished = (status ?? "completed") === "completed";
  if (error ? isFinished : status === "failed")
    report(check, "L3", `${show(id)} is ${status} with ${error ? "an" : "no"} error`);
}

/** Whether an item holds a child, or may hold one whose start the stream does not have. */
function holdsChild(check: Check, task: CheckedTask, item: AnyItem): boolean {
  const { call_id: callId } = item;
  if (check.held.has(item)) return true;
  if (callId === undefined) return false;
  return (
    check.lenient ||
    (check.options.legacy === true && callId !== task.id && check.tasks.has(callId))
  );
}

/** An item that holds a child names it when it closes, and does not repeat its output. */
function checkContainer(check: Check, item: AnyItem, sent: AnyItem): void {
  if (sent.type !== "tool_result" || check.options.legacy) return;
  const childId = check.held.get(item);
  if (childId !== undefined && sent.child_task_id !== childId) {
    report(check, "I11", `${show(item.id)} closes without the child_task_id ${show(childId)}`);
  } else if (sent.child_task_id !== undefined && childId === undefined && !check.lenient) {
    report(check, "link", `${show(sent.child_task_id)} was not started on ${show(item.id)}`);
  }
  const nested = ["reasoning", "tool_call", "tool_result", "message"];
  if (sent.block_list?.some((block) => nested.includes(block.type)))
    report(check, "I11", `${show(item.id)} repeats its child's output`);
}

/** The list in `done` must be complete and agree with the list that was assembled. */
function checkWhole(
  check: Check,
  name: ListName,
  parts: readonly AnyBlock[],
  isFinished: boolean,
  item: AnyItem,
  sent: AnyItem,
): void {
  const hasDeltas = (part: AnyBlock) => check.streamed.has(name === "arguments" ? item : part);
  const open = parts.findIndex(
    (part) => part.status === "in_progress" && (hasDeltas(part) || name !== "arguments"),
  );
  if (open >= 0 && isFinished) report(check, "L3", `${name} ${open} was opened and never done`);
  if (sent[name] === undefined) {
    report(check, "I6", `done has no ${name}`);
    return;
  }
  const blocks = partsOf(sent, name, true);
  if (parts.length > 0 && blocks.length !== parts.length) {
    report(check, "I6", `done has ${blocks.length} of ${name}, ${parts.length} were sent`);
    return;
  }
  for (const [at, part] of parts.entries()) {
    const block = normalBlock(blocks[at] as AnyBlock, item.type);
    // A part that was interrupted closes with its item, which must repeat its deltas.
    const agrees =
      part.status === "in_progress"
        ? !hasDeltas(part) || valueIn(block) === valueIn(part)
        : isSameBlock(part, block);
    if (!agrees) report(check, "I6", `${name} ${at} differs from its own events`);
  }
}

/** A result that fails loses the number of its blocks, and one that is cited may get it at its end. */
function isSameBlock(part: AnyBlock, block: AnyBlock): boolean {
  const { reference_id: before, annotations: added = [], ...left } = part;
  const { reference_id: now, annotations = [], ...right } = block;
  return (before ?? now) === (now ?? before) && isSame(added, annotations) && isSame(left, right);
}

/** Checks the blocks of a closed item. */
function checkBlocks(check: Check, task: CheckedTask, before: AnyItem, sent: AnyItem): void {
  for (const [at, block] of (sent.block_list ?? []).entries()) {
    const part = before.block_list?.[at];
    checkForm(check, block);
    checkTaskBlock(check, task, before, block);
    checkAnnotations(check, task, block, part?.status === "in_progress" ? part.annotations : []);
  }
}
