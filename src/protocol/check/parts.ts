import type {
  LogEvent,
  OutputItemDiscarded,
  ReferenceAdded,
  ToolResultProgress,
} from "../event.ts";
import { kindOf } from "../shape.ts";
import { checkAdded, checkAnnotations } from "./annotations.ts";
import type { Check, ItemState, PartState, SentBlock, TaskState } from "./state.ts";
import { endsInHalf, newPart, report, show } from "./state.ts";

/** The events that build an item's parts. */
export type PartEvent = Exclude<
  Extract<LogEvent, { readonly item_id: string; readonly output_index: number }>,
  { readonly child_task_id: string } | OutputItemDiscarded | ReferenceAdded | ToolResultProgress
>;

/** Checks an event of a part: a part is opened at most once and closed once. */
export function checkPart(check: Check, task: TaskState, item: ItemState, event: PartEvent): void {
  switch (event.type) {
    case "task.reasoning_summary_item.added":
      openPart(check, item.summary, event.summary_index, newPart("text", true, event.item.text));
      return;
    case "task.reasoning_summary_text.delta":
      append(check, item.summary, event.summary_index, event.delta);
      return;
    case "task.reasoning_summary_item.done":
      closePart(check, item.summary, event.summary_index, "text", event.item.text);
      return;
    case "task.reasoning_text.delta":
      openSilently(item.content, event.content_index, "reasoning_text");
      append(check, item.content, event.content_index, event.delta);
      return;
    case "task.reasoning_text.done":
      closePart(check, item.content, event.content_index, "reasoning_text", event.text);
      return;
    case "task.tool_call_arguments.delta":
      openSilently(item.arguments, 0, "text");
      append(check, item.arguments, 0, event.delta);
      return;
    case "task.tool_call_arguments.done":
      closePart(check, item.arguments, 0, "text", event.arguments);
      return;
    default:
      checkBlock(check, task, item, event);
      return;
  }
}

function checkBlock(
  check: Check,
  task: TaskState,
  holder: ItemState,
  event: Extract<PartEvent, { readonly block_index: number }>,
): void {
  const at = event.block_index;
  const { blocks } = holder;
  switch (event.type) {
    case "task.text.added":
    case "task.image.added":
      checkForm(check, event.item);
      openPart(check, blocks, at, { ...partOf(event.item, check.index), open: true });
      return;
    case "task.text.delta":
      append(check, blocks, at, event.delta);
      return;
    case "task.text.annotation.added":
      checkAdded(check, blocks[at], event);
      return;
    case "task.image.delta":
      checkForm(check, event.item);
      replace(check, blocks, at, event.partial_image_index, valueIn(event.item));
      return;
    default: {
      const { item } = event;
      const added = blocks[at]?.annotations ?? [];
      checkForm(check, item);
      checkTaskBlock(check, task, holder, item);
      const kind = kindOf(item.type);
      if (kind === "image" && valueIn(item) === "") report(check, "I9", "the image has no url");
      closePart(check, blocks, at, kind, valueIn(item), item);
      checkAnnotations(check, task, item, added);
    }
  }
}

/** Reports a block in the first form of the protocol. */
export function checkForm(check: Check, block: SentBlock): void {
  if (check.options.legacy) return;
  if (block.type === "image_url")
    report(check, "A3", 'the type of an image must be "image", got "image_url"');
  if (block.id !== undefined && typeof block.id !== "string") {
    report(
      check,
      "A16",
      "the id of a block must be a string; send the number to cite as reference_id",
    );
  }
}

/** A `task` block must name a child of this task; in a tool result, the child of its call. */
export function checkTaskBlock(
  check: Check,
  task: TaskState,
  item: ItemState,
  block: SentBlock,
): void {
  if (block.type !== "task" || check.lenient) return;
  const id = block.task_id ?? "";
  const parentId = check.children.get(id)?.parentId ?? check.tasks.get(id)?.parentId;
  if (parentId !== task.id || (item.callId ?? id) !== id)
    report(check, "I12", `${show(id)} is not a child of this ${item.callId ? "call" : "task"}`);
}

/** The text of a block, or the url of an image. */
export function valueIn(block: SentBlock): string {
  return (kindOf(block.type) === "image" ? block.image_url?.url : block.text) ?? "";
}

function openPart(check: Check, parts: PartState[], at: number, part: PartState): void {
  if (at > parts.length) report(check, "I2", `index ${at}, but ${parts.length} is next`);
  else if (at === parts.length) parts.push(part);
  else {
    report(check, "A5", `the part at ${at} is opened again`);
    // Later events belong to the second part; reporting each of them would repeat this problem.
    if (!parts[at]?.open) parts[at] = part;
  }
}

/** Raw reasoning and arguments have no event that opens them. */
function openSilently(parts: PartState[], at: number, kind: string): void {
  if (at === parts.length) parts.push(newPart(kind, true, ""));
}

/** The open part that a delta or a preview is for. */
function openPartAt(check: Check, parts: PartState[], at: number, kind: "image" | "text") {
  const part = parts[at];
  const isFitting = (part?.kind === "image") === (kind === "image");
  if (part?.open && isFitting) return part;
  const what = `a ${kind === "image" ? "preview" : "delta"} for ${at}, which`;
  if (part === undefined) report(check, "I8", `${what} was not opened`);
  else report(check, "I4", `${what} is ${part.open ? `a ${part.kind}` : "already done"}`);
  return undefined;
}

function append(check: Check, parts: PartState[], at: number, delta: string): void {
  const part = openPartAt(check, parts, at, "text");
  if (part === undefined || delta === "") return;
  if (part.endsInHalf && startsInHalf(delta))
    report(check, "surrogate", "the delta begins in the middle of a character");
  part.endsInHalf = endsInHalf(delta);
  part.text += delta;
  part.deltas++;
}

function replace(check: Check, parts: PartState[], at: number, partial: number, url: string): void {
  const part = openPartAt(check, parts, at, "image");
  if (part === undefined) return;
  if (partial <= part.lastPartial)
    report(check, "I9", `partial_image_index ${partial} does not come after ${part.lastPartial}`);
  if (url === "") report(check, "I9", "the preview has no url");
  part.lastPartial = partial;
}

function closePart(
  check: Check,
  parts: PartState[],
  at: number,
  kind: string,
  text: string,
  block?: SentBlock,
): void {
  const known = parts[at];
  if (block?.status !== undefined || block?.partial_image_index !== undefined)
    report(check, "I4", `the part at ${at} is done, but its block says that it is not`);
  if (at > parts.length) {
    report(check, "I2", `index ${at}, but ${parts.length} is next`);
    return;
  }
  parts[at] = block === undefined ? newPart(kind, false, text) : partOf(block, check.index);
  if (known === undefined) return;
  if (!known.open) report(check, "A5", `the part at ${at} is already done`);
  else if (known.kind !== kind) {
    report(check, "I4", `the part at ${at} is a ${known.kind}, not a ${kind}`);
  } else if (known.deltas > 0 && known.text !== text) {
    report(check, "I5", `the deltas make ${show(known.text)}, done says ${show(text)}`);
  }
  for (const name of ["id", "reference_id"] as const) {
    const [before, now] = [known.block?.[name], block?.[name]];
    if (known.open && before !== undefined && before !== now)
      report(check, "I4", `${name} of the part at ${at} is ${show(before)}, not ${show(now)}`);
  }
}

/** The state of a block that is at the given index of the stream. */
export function partOf(block: SentBlock, index: number): PartState {
  const isOpen = block.status === "in_progress";
  const part = newPart(kindOf(block.type), isOpen, valueIn(block), block);
  part.lastPartial = block.partial_image_index ?? -1;
  part.annotations = (block.annotations ?? []).map((annotation) => ({ annotation, index }));
  return part;
}

function startsInHalf(text: string): boolean {
  const unit = text.charCodeAt(0);
  return unit >= 0xdc00 && unit <= 0xdfff;
}
