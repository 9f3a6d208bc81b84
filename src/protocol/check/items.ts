import type {
  OutputItemAdded,
  OutputItemDiscarded,
  OutputItemDone,
  ReferenceAdded,
  ToolResultProgress,
} from "../event.ts";
import { kindOf } from "../shape.ts";
import { checkAnnotations } from "./annotations.ts";
import { checkResult } from "./calls.ts";
import { checkOutlived } from "./children.ts";
import type { PartEvent } from "./parts.ts";
import { checkForm, checkPart, checkTaskBlock, partOf, valueIn } from "./parts.ts";
import type { Check, ItemState, PartState, SentBlock, SentItem, TaskState } from "./state.ts";
import { addItem, isSame, newPart, report, show } from "./state.ts";

type ItemEvent =
  | OutputItemAdded
  | OutputItemDone
  | OutputItemDiscarded
  | ReferenceAdded
  | ToolResultProgress
  | PartEvent;

/** The types of items that a part's event is for, by the prefix of its type. */
const itemTypes = [
  ["task.reasoning_", ["reasoning"]],
  ["task.tool_call_", ["tool_call"]],
  ["task.tool_result.", ["tool_result"]],
  ["task.", ["tool_result", "message"]],
] as const;

/** Checks the events of items and their parts. */
export function checkItem(check: Check, task: TaskState, event: ItemEvent): void {
  if (event.type === "task.output_item.added") {
    checkItemAdded(check, task, event);
    return;
  }
  const at = event.output_index;
  const item = task.itemAt.get(at);
  if (item === undefined) {
    report(check, "I4", `no item was added at output_index ${at}`);
    return;
  }
  const id = event.type === "task.output_item.done" ? event.item.id : event.item_id;
  if (id !== item.id) report(check, "I3", `the item at ${at} is ${show(item.id)}, not ${show(id)}`);
  if (event.type === "task.output_item.discarded") {
    if (item.state === "discarded") report(check, "I4", `${show(item.id)} was already discarded`);
    checkOutlived(check, item);
    item.state = "discarded";
    // A discarded call may be sent again, with the same call id.
    if (item.type === "tool_call") check.callIds.delete(item.callId ?? "");
    const kept = item.type === "tool_call" ? task.calls : task.results;
    if (kept.get(item.callId ?? "") === item) kept.delete(item.callId ?? "");
    return;
  }
  if (item.state !== "open") {
    report(check, "I4", `${event.type} on ${show(item.id)}, which is ${item.state}`);
    return;
  }
  if (event.type === "task.output_item.done") {
    checkItemDone(check, task, item, event);
    return;
  }
  if (event.type === "task.reference.added") return;
  const [, fitting] = itemTypes.find(([start]) => event.type.startsWith(start)) ?? itemTypes[3];
  if (!(fitting as readonly string[]).includes(item.type)) {
    report(check, "I3", `${event.type} on ${show(item.id)}, which is a ${show(item.type)}`);
    return;
  }
  if (event.type !== "task.tool_result.progress") {
    checkPart(check, task, item, event);
    return;
  }
  if (event.call_id !== item.callId)
    report(check, "I3", `the call of ${show(item.id)} is ${show(item.callId)}`);
}

function checkItemAdded(check: Check, task: TaskState, event: OutputItemAdded): void {
  const { output_index: at, item: sent } = event;
  const known = task.itemAt.get(at);
  if (known !== undefined) {
    const state = known.state === "discarded" ? "of a discarded item" : `of ${show(known.id)}`;
    report(check, "I2", `output_index ${at} is the index ${state}`);
    return;
  }
  if (at < task.nextIndex || (at > task.nextIndex && !check.options.filtered))
    report(check, "I2", `output_index ${at}, but ${task.nextIndex} is next`);
  checkProjection(check, sent);
  if (!check.options.legacy) {
    if (sent.status !== "in_progress")
      report(check, "A23", `an item must open as in_progress, got ${show(sent.status)}`);
    checkIds(check, task, sent);
  }
  if (sent.type === "tool_result") checkResult(check, task, sent);
  checkShell(check, sent);
  const item = rememberItem(check, task, at, sent);
  if (item.type === "tool_result" && item.callId !== undefined && !check.results.has(item.callId)) {
    check.results.set(item.callId, { task, item });
  }
}

/** Adds an item and its parts to the state. */
export function rememberItem(check: Check, task: TaskState, at: number, sent: SentItem): ItemState {
  const item = addItem(check, task, at, sent);
  if (item.callId !== undefined && item.type === "tool_call") {
    check.callIds.add(item.callId);
    task.calls.set(item.callId, item);
  } else if (item.callId !== undefined) task.results.set(item.callId, item);
  for (const block of sent.block_list ?? []) item.blocks.push(partOf(block, check.index));
  for (const entry of sent.summary ?? []) item.summary.push(partOf(entry, check.index));
  if (item.type === "reasoning") {
    for (const text of sent.content ?? []) item.content.push(partOf(text, check.index));
  }
  // An item of an unknown type may hold anything under this name.
  if (item.type === "tool_call" && sent.arguments) {
    item.arguments.push(newPart("text", sent.arguments_status === undefined, sent.arguments));
  }
  return item;
}

/** An item opens empty. */
function checkShell(check: Check, sent: SentItem): void {
  const { error, child_task_id: child, encrypted_content: signature } = sent;
  const lists = [sent.block_list, sent.summary, sent.content, sent.arguments];
  if (lists.some((list) => list?.length) || (error ?? child ?? signature) !== undefined)
    report(check, "I4", `${show(sent.id)} opens with contents that belong to later events`);
}

function checkIds(check: Check, task: TaskState, sent: SentItem): void {
  if (task.itemById.has(sent.id)) report(check, "A9", `the task has an item ${show(sent.id)}`);
  if (sent.type === "tool_call" && check.callIds.has(sent.call_id ?? ""))
    report(check, "A9", `the call id ${show(sent.call_id)} was used before`);
}

/** The wire carries the blocks for people, not the model's content. */
function checkProjection(check: Check, sent: SentItem): void {
  if ((sent.type === "tool_result" || sent.type === "message") && sent.content !== undefined)
    report(check, "I10", `a ${sent.type} must not have content`);
}

function checkItemDone(
  check: Check,
  task: TaskState,
  item: ItemState,
  event: OutputItemDone,
): void {
  const sent: SentItem = event.item;
  item.state = "done";
  item.isCompleted = (sent.status ?? "completed") === "completed";
  if (sent.type !== item.type) {
    report(check, "I3", `${show(item.id)} is a ${show(item.type)}, not ${show(sent.type)}`);
    return;
  }
  for (const name of ["call_id", "name", "provider_call_id", "purpose"] as const) {
    const [before, now] = [item.sent[name], sent[name]];
    if (now !== undefined && now !== before)
      report(check, "I3", `${name} of ${show(item.id)} is ${show(before)}, not ${show(now)}`);
  }
  checkProjection(check, sent);
  if (!check.options.legacy && (sent.status ?? "in_progress") === "in_progress")
    report(check, "A23", `an item must close with its final status, got ${show(sent.status)}`);
  checkOutlived(check, item);
  const finished = item.isCompleted;
  if (sent.error ? finished : sent.status === "failed")
    report(
      check,
      "L3",
      `${show(item.id)} is ${sent.status} with ${sent.error ? "an" : "no"} error`,
    );
  if (sent.type === "tool_call") {
    const text =
      sent.arguments === undefined ? undefined : [{ type: "text", text: sent.arguments }];
    checkWhole(check, "arguments", item.arguments, text, finished);
    if (text) item.arguments[0] = newPart("text", false, text[0]?.text ?? "");
  } else if (sent.type === "reasoning") {
    checkWhole(check, "summary", item.summary, sent.summary, finished);
    if (item.content.length > 0) {
      checkWhole(check, "content", item.content, sent.content, finished);
    }
  } else if (sent.type === "tool_result" || sent.type === "message") {
    checkContainer(check, item, sent);
    if (sent.progress !== undefined) report(check, "I6", "done repeats the progress");
    const holdsChild = item.childId !== undefined || holdsUnlinked(check, task, item);
    if (sent.block_list !== undefined || !holdsChild) {
      checkWhole(check, "block_list", item.blocks, sent.block_list, finished);
    }
    checkBlocks(check, task, item, sent.block_list ?? []);
  }
}

/** Whether an item may hold a child whose start the stream does not have. */
function holdsUnlinked(check: Check, task: TaskState, item: ItemState): boolean {
  if (item.callId === undefined) return false;
  if (check.lenient) return true;
  return check.options.legacy === true && item.callId !== task.id && check.tasks.has(item.callId);
}

/** An item that holds a child names it when it closes, and does not repeat its output. */
function checkContainer(check: Check, item: ItemState, sent: SentItem): void {
  if (sent.type !== "tool_result" || check.options.legacy) return;
  if (item.childId !== undefined && sent.child_task_id !== item.childId) {
    report(check, "I11", `${show(item.id)} closes without the child_task_id ${show(item.childId)}`);
  } else if (sent.child_task_id !== undefined && item.childId === undefined && !check.lenient) {
    report(check, "link", `${show(sent.child_task_id)} was not started on ${show(item.id)}`);
  }
  const nested = ["reasoning", "tool_call", "tool_result", "message"];
  if (sent.block_list?.some((block) => nested.includes(block.type)))
    report(check, "I11", `${show(item.id)} repeats its child's output`);
}

/** The list in `done` must be complete and agree with the list that was assembled. */
function checkWhole(
  check: Check,
  name: string,
  parts: readonly PartState[],
  sent: readonly SentBlock[] | undefined,
  finished: boolean,
): void {
  const open = parts.findIndex((part) => part.open && (part.deltas > 0 || name !== "arguments"));
  if (open >= 0 && finished) report(check, "L3", `${name} ${open} was opened and never done`);
  if (sent === undefined) {
    report(check, "I6", `done has no ${name}`);
    return;
  }
  if (parts.length > 0 && sent.length !== parts.length) {
    report(check, "I6", `done has ${sent.length} of ${name}, ${parts.length} were sent`);
    return;
  }
  for (const [at, part] of parts.entries()) {
    if (!agrees(part, sent[at] as SentBlock))
      report(check, "I6", `${name} ${at} differs from its own events`);
  }
}

/** A part that was interrupted closes with its item, which must repeat its deltas. */
function agrees(part: PartState, block: SentBlock): boolean {
  if (part.open) return part.deltas === 0 || valueIn(block) === part.text;
  const { block: sent = block } = part;
  const [before, now] = [sent.reference_id, block.reference_id];
  // A result that fails loses the number of its blocks, and one that is cited may get it at its end.
  const isNumbered = (before ?? now) === (now ?? before);
  const hasValue = kindOf(block.type) === part.kind && valueIn(block) === part.text;
  return isNumbered && hasValue && isSame(comparable(sent), comparable(block));
}

/** A block without its number, which the first form sends as its id. */
function comparable({ reference_id: _, id, annotations = [], ...rest }: SentBlock) {
  return {
    ...rest,
    id: typeof id === "number" ? undefined : id,
    type: kindOf(rest.type),
    annotations,
  };
}

/** Checks the blocks of a closing item and adds them to the state, because others may cite them. */
function checkBlocks(
  check: Check,
  task: TaskState,
  item: ItemState,
  blocks: readonly SentBlock[],
): void {
  for (const [at, block] of blocks.entries()) {
    const part = item.blocks[at];
    checkForm(check, block);
    checkTaskBlock(check, task, item, block);
    checkAnnotations(check, task, block, part?.open ? part.annotations : []);
    item.blocks[at] = partOf(block, check.index);
  }
}
