import type { TextAnnotationAdded } from "../event.ts";
import type { Annotation } from "../task.ts";
import type { AnyBlock, Check, CheckedTask } from "./checked.ts";
import { foldInto, itemOf, report } from "./checked.ts";
import { isSame, show } from "./problem.ts";

/** Checks and folds an annotation of an open text; its range is checked when the text is complete. */
export function checkAdded(
  check: Check,
  part: AnyBlock | undefined,
  event: TextAnnotationAdded,
): void {
  if (part?.status !== "in_progress" || part.type !== "text") {
    report(check, "I4", `no open text at block_index ${event.block_index}`);
    return;
  }
  const { annotation_index: at, annotation } = event;
  const { text = "", annotations: { length: next } = [] } = part;
  if (at !== next) report(check, "A20", `annotation_index must be ${next}, got ${at}`);
  if (annotation.end_index > text.length)
    report(check, "A1", `the text so far ends at ${text.length}, before the citation`);
  check.sentAt.set(annotation, check.index);
  foldInto(check, { ...event, annotation_index: next });
}

/** Checks the annotations of a complete text: their ranges, their targets, and that none is missing. */
export function checkAnnotations(
  check: Check,
  task: CheckedTask,
  block: AnyBlock,
  added: readonly Annotation[] = [],
): void {
  if (block.type !== "text") return;
  const { text = "", annotations = [] } = block;
  for (const annotation of added)
    checkRange(check, text, annotation, check.sentAt.get(annotation) ?? check.index);
  for (const [at, annotation] of annotations.entries()) {
    checkRange(check, text, annotation, check.index);
    checkTarget(check, task, annotation);
    const before = added[at];
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

function checkTarget(check: Check, task: CheckedTask, annotation: Annotation): void {
  const { target } = annotation;
  const cited = target === undefined ? undefined : check.tasks.get(target.task_id);
  if (target === undefined || cited === undefined) return;
  const item = itemOf(cited, target.item_id);
  if (item === undefined) {
    if (!check.options.filtered)
      report(check, "A17", `the target ${show(target.item_id)} does not exist`);
    return;
  }
  if (item.type === "discarded") {
    report(check, "A17", `the target ${show(item.id)} was discarded`);
    return;
  }
  const block = item.block_list?.[target.block_index];
  if (block === undefined) {
    report(check, "A17", `${show(item.id)} has no block ${target.block_index}`);
    return;
  }
  const { reference_id: number = annotation.reference_id } = block;
  if (cited === task && number !== annotation.reference_id)
    report(check, "A17", `the target has the number ${number}, not ${annotation.reference_id}`);
}
