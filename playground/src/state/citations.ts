import { type Annotation, type Task, type Tree, taskOf, type WireBlock } from "rivulet/protocol";
import type { Place } from "./ui.ts";

/** A citation with the line that it stands on. */
export interface Source {
  /** Counts from 1 in every message. */
  readonly number: number;
  readonly place: Place | undefined;
  /** `path:line`; undefined if the source is not a file. */
  readonly file: string | undefined;
  readonly quote: string;
  readonly taskId: string | undefined;
}

/** The sources of a text by the first index of their citations, in order of appearance. */
export function sourcesOf(
  tree: Tree,
  text: string,
  annotations: readonly Annotation[] = [],
  before: readonly Source[] = [],
): ReadonlyMap<number, Source> {
  const found = new Map<number, Source>();
  const known = new Map(before.map((source) => [keyOf(source), source]));
  let end = 0;
  for (const annotation of annotations.toSorted((a, b) => a.start_index - b.start_index)) {
    const between = text.slice(end, annotation.start_index);
    // Adjacent citations stand on the same statement.
    const statement = lastSentence(between.trim() === "" ? text.slice(0, end) : between);
    if (between.trim() !== "") end = annotation.end_index;
    const source = resolve(tree, annotation, statement);
    const same = known.get(keyOf(source));
    const shown = same ?? { ...source, number: known.size + 1 };
    known.set(keyOf(shown), shown);
    found.set(annotation.start_index, shown);
  }
  return found;
}

function keyOf({ place, file, quote }: Omit<Source, "number">): string {
  return file ?? `${place?.taskId} ${place?.itemId} ${place?.blockIndex} ${quote}`;
}

function resolve(tree: Tree, { target, reference_id }: Annotation, statement: string) {
  const nothing = {
    place: undefined,
    file: undefined,
    quote: `Reference ${reference_id}`,
    taskId: undefined,
  };
  const task = taskOf(tree, target?.task_id);
  const item = task?.output.find(({ id }) => id === target?.item_id);
  if (target === undefined || task === undefined || item?.type !== "tool_result") return nothing;
  const block = item.block_list[target.block_index];
  const text = block === undefined ? "" : textOfBlock(block);
  const words = wordsOf(statement);
  const [best] = linesOf(text, filePath(task, item.call_id)).toSorted(
    (a, b) => similarity(b.text, words) - similarity(a.text, words),
  );
  const quote = best?.text ?? text.slice(0, 300);
  const { item_id: itemId, block_index: blockIndex } = target;
  return {
    place: { taskId: task.id, itemId, blockIndex, quote },
    file: best?.place,
    quote,
    taskId: task.id,
  };
}

function textOfBlock(block: WireBlock): string {
  return block.type === "text" ? block.text : `(${block.type})`;
}

/** The lines of a file that was read, or of a search. */
function linesOf(result: string, path: string): readonly { place: string; text: string }[] {
  const read = Array.from(result.matchAll(/^ *(\d+)\t(.*)$/gm), ([, line, text = ""]) => ({
    place: `${path}:${line}`,
    text,
  }));
  if (path !== "" && read.length > 0) return read;
  const matches = result.matchAll(/^(.+?:\d+): (.*)$/gm);
  return Array.from(matches, ([, place = "", text = ""]) => ({ place, text }));
}

function filePath(task: Task, callId: string): string {
  const call = task.output.find((item) => item.type === "tool_call" && item.call_id === callId);
  if (call?.type !== "tool_call") return "";
  try {
    const { path } = JSON.parse(call.arguments) as { readonly path?: unknown };
    return typeof path === "string" ? path : "";
  } catch {
    return ""; // incomplete or invalid JSON
  }
}

function similarity(line: string, statement: ReadonlySet<string>): number {
  const words = wordsOf(line);
  let shared = 0;
  for (const word of words) if (statement.has(word)) shared += 1;
  return shared / (words.size + statement.size - shared || 1);
}

function wordsOf(text: string): ReadonlySet<string> {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu));
}

function lastSentence(text: string): string {
  const segments = new Intl.Segmenter("en", { granularity: "sentence" }).segment(text.trim());
  let last = "";
  for (const { segment } of segments) last = segment;
  return last;
}
