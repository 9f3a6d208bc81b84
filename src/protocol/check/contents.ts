import type {
  ImageDelta,
  LogEvent,
  OutputItemDiscarded,
  ReferenceAdded,
  ToolResultProgress,
} from "../event.ts";
import { normalBlock } from "../first-form.ts";
import { kindOf } from "../shape.ts";
import { checkAdded, checkAnnotations } from "./annotations.ts";
import type { AnyBlock, AnyItem, Check, CheckedTask } from "./checked.ts";
import { foldInto, report } from "./checked.ts";
import { show } from "./problem.ts";

/** The events that build an item's parts. */
export type PartEvent = Exclude<
  Extract<LogEvent, { readonly item_id: string; readonly output_index: number }>,
  { readonly child_task_id: string } | OutputItemDiscarded | ReferenceAdded | ToolResultProgress
>;
/** The lists of an item that hold its parts; the arguments of a call are a part as well. */
export type ListName = "block_list" | "summary" | "content" | "arguments";

/** A part's event with the part that it is about. */
interface Change {
  readonly event: PartEvent;
  readonly item: AnyItem;
  readonly name: ListName;
  readonly at: number;
  /** The parts of the list before the event. */
  readonly parts: readonly AnyBlock[];
  readonly part: AnyBlock | undefined;
  readonly isOpen: boolean;
}

/** Checks and folds an event of a part: a part is opened at most once and closed once. */
export function checkPart(check: Check, task: CheckedTask, item: AnyItem, event: PartEvent): void {
  const [name, at] = placeOf(event);
  const parts = partsOf(item, name);
  const part = parts[at];
  const change = { event, item, name, at, parts, part, isOpen: part?.status === "in_progress" };
  if (event.type === "task.text.annotation.added") checkAdded(check, part, event);
  else if (event.type.endsWith(".delta")) checkDelta(check, change);
  else if (event.type.endsWith(".added")) checkOpened(check, change);
  else checkClosed(check, task, change);
}

/** The list and the index of the part that an event is about, by its type: it may carry indexes that it does not need. */
function placeOf(event: PartEvent): readonly [name: ListName, at: number] {
  const indexes = event as unknown as Readonly<Record<string, number>>;
  if (event.type.startsWith("task.tool_call")) return ["arguments", 0];
  if (event.type.startsWith("task.reasoning_text")) return ["content", indexes.content_index ?? 0];
  if (event.type.startsWith("task.reasoning")) return ["summary", indexes.summary_index ?? 0];
  return ["block_list", indexes.block_index ?? 0];
}

/** The parts in a list of an item; there are no arguments before they begin. */
export function partsOf(
  item: AnyItem,
  name: ListName,
  isDone = item.arguments_status === "completed",
): readonly AnyBlock[] {
  if (name !== "arguments") return item[name] ?? [];
  const { arguments: text = "" } = item;
  if (text === "" && !isDone) return [];
  return [{ type: "text", text, ...(!isDone && { status: "in_progress" }) }];
}

/** The object that grows with the deltas of a part. */
function grownBy(item: AnyItem, name: ListName, part: AnyBlock | undefined): object {
  return name === "arguments" || part === undefined ? item : part;
}

function checkDelta(check: Check, { event, item, name, at, parts, part, isOpen }: Change): void {
  const { item: preview, delta = "" } = event as { item?: AnyBlock; delta?: string };
  if (preview) checkForm(check, preview);
  const what = `a ${preview ? "preview" : "delta"} for ${at}, which`;
  const hasOpening = name === "block_list" || name === "summary";
  if (part === undefined && (hasOpening || at > parts.length)) {
    report(check, "I8", `${what} was not opened`);
    return;
  }
  const kind = kindOf(part?.type);
  if (part && (!isOpen || (kind === "image") !== (preview !== undefined))) {
    report(check, "I4", `${what} is ${isOpen ? `a ${kind}` : "already done"}`);
    return;
  }
  if (event.type === "task.image.delta") checkPreview(check, event, part);
  const before = check.streamed.get(grownBy(item, name, part));
  if (startsInHalf(delta) && (before ?? endsInHalf(part?.text ?? "")))
    report(check, "surrogate", "the delta begins in the middle of a character");
  foldInto(check, event);
  const isSplit = endsInHalf(delta);
  if (delta !== "" && before !== isSplit)
    check.streamed.set(grownBy(item, name, partsOf(item, name)[at]), isSplit);
}

function checkPreview(check: Check, event: ImageDelta, part: AnyBlock | undefined): void {
  const { partial_image_index: index, item } = event;
  const last = part?.partial_image_index ?? -1;
  if (index <= last)
    report(check, "I9", `partial_image_index ${index} does not come after ${last}`);
  if (item.image_url.url === "") report(check, "I9", "the preview has no url");
}

function checkOpened(check: Check, { event, item, name, at, parts, part, isOpen }: Change): void {
  if (name === "block_list") checkForm(check, (event as { item: AnyBlock }).item);
  if (at > parts.length) {
    report(check, "I2", `index ${at}, but ${parts.length} is next`);
    return;
  }
  if (part) report(check, "A5", `the part at ${at} is opened again`);
  // Later events belong to the second part; reporting each of them would repeat this problem.
  if (part && !isOpen) forget(item, name, at);
  foldInto(check, event);
}

function checkClosed(check: Check, task: CheckedTask, change: Change): void {
  const { event, item, name, at, parts, part, isOpen } = change;
  const fields = event as { item?: AnyBlock; text?: string; arguments?: string };
  const block = name === "block_list" ? fields.item : undefined;
  const kind = block ? kindOf(block.type) : name === "content" ? "reasoning_text" : "text";
  const value = fields.item ? valueIn(fields.item) : (fields.text ?? fields.arguments ?? "");
  if (block) {
    checkForm(check, block);
    checkTaskBlock(check, task, item, block);
    if (kind === "image" && value === "") report(check, "I9", "the image has no url");
    if (block.status !== undefined || block.partial_image_index !== undefined)
      report(check, "I4", `the part at ${at} is done, but its block says that it is not`);
  }
  if (at > parts.length) report(check, "I2", `index ${at}, but ${parts.length} is next`);
  else {
    if (part) checkSame(check, change, part, kind, value);
    if (part && block && isOpen) checkNames(check, at, part, block, item.type);
    foldInto(check, event);
  }
  if (block) checkAnnotations(check, task, block, part?.annotations);
}

/** A part closes once, as what it opened as, with the text that its deltas make. */
function checkSame(
  check: Check,
  { item, name, at, isOpen }: Change,
  part: AnyBlock,
  kind: string,
  value: string,
): void {
  if (!isOpen) {
    report(check, "A5", `the part at ${at} is already done`);
    forget(item, name, at);
  } else if (kindOf(part.type) !== kind) {
    report(check, "I4", `the part at ${at} is a ${kindOf(part.type)}, not a ${kind}`);
  } else if (check.streamed.has(grownBy(item, name, part)) && valueIn(part) !== value) {
    report(check, "I5", `the deltas make ${show(valueIn(part))}, done says ${show(value)}`);
  }
}

/** A part keeps its id and its number. */
function checkNames(check: Check, at: number, part: AnyBlock, block: AnyBlock, type: string) {
  const numbered = { id: block.id, reference_id: normalBlock(block, type).reference_id };
  for (const name of ["id", "reference_id"] as const) {
    const [before, now] = [part[name], numbered[name]];
    if (before !== undefined && before !== now)
      report(check, "I4", `${name} of the part at ${at} is ${show(before)}, not ${show(now)}`);
  }
}

/** Removes a part that is done, so that the fold takes the one that follows. */
function forget(item: AnyItem, name: ListName, at: number): void {
  const edited = item as unknown as Record<string, unknown>;
  if (name === "arguments") delete edited.arguments_status;
  else (edited[name] as unknown[])[at] = undefined;
}

/** Reports a block in the first form of the protocol. */
export function checkForm(check: Check, block: AnyBlock): void {
  if (check.options.legacy) return;
  if (block.type === "image_url")
    report(check, "A3", 'the type of an image must be "image", got "image_url"');
  const hint = "send the number to cite as reference_id";
  if (block.id !== undefined && typeof block.id !== "string")
    report(check, "A16", `the id of a block must be a string; ${hint}`);
}

/** A `task` block must name a child of this task; in a tool result, the child of its call. */
export function checkTaskBlock(
  check: Check,
  task: CheckedTask,
  item: AnyItem,
  block: AnyBlock,
): void {
  if (block.type !== "task" || check.lenient) return;
  const { task_id: id = "" } = block;
  const parentId = check.children.get(id)?.parentId ?? check.tasks.get(id)?.sent.parent_task_id;
  if (parentId !== task.id || (item.call_id ?? id) !== id)
    report(check, "I12", `${show(id)} is not a child of this ${item.call_id ? "call" : "task"}`);
}

/** The text of a block, or the url of an image. */
export function valueIn(block: AnyBlock): string {
  return (kindOf(block.type) === "image" ? block.image_url?.url : block.text) ?? "";
}

function endsInHalf(text: string): boolean {
  const unit = text.charCodeAt(text.length - 1);
  return unit >= 0xd800 && unit <= 0xdbff;
}

function startsInHalf(text: string): boolean {
  const unit = text.charCodeAt(0);
  return unit >= 0xdc00 && unit <= 0xdfff;
}
