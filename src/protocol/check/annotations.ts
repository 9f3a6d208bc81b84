import type { TextAnnotationAdded } from "../event.ts";
import type { Annotation } from "../task.ts";
import type { SentBlock } from "./shape.ts";
import type { Check, PartState, TaskState } from "./state.ts";
import { report, show } from "./state.ts";

/** An annotation that comes while its text still grows; its range is looked at when the text is whole. */
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
      `annotation_index ${event.annotation_index}, not ${part.annotations.length}`,
    );
  }
  part.annotations.push({ annotation: event.annotation, index: check.index });
}

/** The annotations of a text that is whole: right ranges, targets that exist, none lost that was shown before. */
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
    if (before !== undefined && !sameAnnotation(before, annotation)) {
      report(check, "A20", `the annotation at ${at} differs from the one that was added`);
    }
  }
  if (annotations.length < added.length) {
    report(check, "A20", `done has ${annotations.length} annotations, ${added.length} were added`);
  }
}

/** Whether two mentions of an annotation say the same. */
export function sameAnnotation(one: Annotation, other: Annotation): boolean {
  return (
    one.reference_id === other.reference_id &&
    one.start_index === other.start_index &&
    one.end_index === other.end_index
  );
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
    if (!check.lenient) report(check, "A17", `the target ${show(target.item_id)} does not exist`);
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
  if (cited !== task || block.referenceId === undefined) return;
  if (block.referenceId !== annotation.reference_id) {
    report(
      check,
      "A17",
      `the target's number is ${block.referenceId}, not ${annotation.reference_id}`,
    );
  }
}
