import type { TextAnnotationAdded } from "../event.ts";
import type { Annotation } from "../task.ts";
import type { Check, PartState, SentBlock, TaskState } from "./state.ts";
import { isSame, report, show } from "./state.ts";

/** Checks an annotation of an open text; its range is checked when the text is complete. */
export function checkAdded(
  check: Check,
  part: PartState | undefined,
  event: TextAnnotationAdded,
): void {
  if (part === undefined || !part.open || part.kind !== "text") {
    report(check, "I4", `no open text at block_index ${event.block_index}`);
    return;
  }
  if (event.annotation_index !== part.annotations.length) {
    report(
      check,
      "A20",
      `annotation_index must be ${part.annotations.length}, got ${event.annotation_index}`,
    );
  }
  if (event.annotation.end_index > part.text.length)
    report(check, "A1", `the text so far ends at ${part.text.length}, before the citation`);
  part.annotations.push({ annotation: event.annotation, index: check.index });
}

/** Checks the annotations of a complete text: their ranges, their targets, and that none is missing. */
export function checkAnnotations(
  check: Check,
  task: TaskState,
  block: SentBlock,
  added: PartState["annotations"] = [],
): void {
  if (block.type !== "text") return;
  const { text = "", annotations = [] } = block;
  for (const { annotation, index } of added) checkRange(check, text, annotation, index);
  for (const [at, annotation] of annotations.entries()) {
    checkRange(check, text, annotation, check.index);
    checkTarget(check, task, annotation);
    const before = added[at]?.annotation;
    if (before !== undefined && !isSame(before, annotation))
      report(check, "A20", `the annotation at ${at} differs from the one that was added`);
  }
  if (annotations.length < added.length)
    report(check, "A20", `done has ${annotations.length} annotations, ${added.length} were added`);
}

function checkRange(check: Check, text: string, annotation: Annotation, index: number): void {
  const { start_index: start, end_index: end } = annotation;
  const marker = annotation.marker ?? `[^${annotation.reference_id}]`;
  const found = text.slice(start, end);
  if (found === marker && end <= text.length) return;
  report(check, "A1", `${start}..${end} is ${show(found)}, not ${show(marker)}`, index);
}

function checkTarget(check: Check, task: TaskState, annotation: Annotation): void {
  const { target } = annotation;
  const cited = target === undefined ? undefined : check.tasks.get(target.task_id);
  if (target === undefined || cited === undefined) return;
  const item = cited.itemById.get(target.item_id);
  if (item === undefined) {
    if (!check.options.filtered)
      report(check, "A17", `the target ${show(target.item_id)} does not exist`);
    return;
  }
  if (item.state === "discarded") {
    report(check, "A17", `the target ${show(item.id)} was discarded`);
    return;
  }
  const block = item.blocks[target.block_index];
  if (block === undefined) {
    report(check, "A17", `${show(item.id)} has no block ${target.block_index}`);
    return;
  }
  // The first form sends the number to cite as `id`.
  const number = block.block?.reference_id ?? block.block?.id;
  if (cited !== task || typeof number !== "number" || number === annotation.reference_id) return;
  report(check, "A17", `the target has the number ${number}, not ${annotation.reference_id}`);
}
