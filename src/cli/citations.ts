import { taskOf } from "../protocol/select.ts";
import type { Annotation, Item, MessageItem, Task, Tree, WireBlock } from "../protocol/task.ts";

/** A marker of a message, and the line that it rests on. */
export interface Citation {
  readonly marker: string;
  /** A file and a line, or who has it when it is no file. */
  readonly place: string;
  readonly text: string;
}

/** What a message cites, in its order: the line of each cited result that is nearest to what the message says. */
export function citationsOf(tree: Tree, message: MessageItem): readonly Citation[] {
  const citations = new Map<string, Citation>();
  for (const block of message.block_list) {
    if (!isText(block)) continue;
    let end = 0;
    for (const annotation of block.annotations ?? []) {
      const statement = block.text.slice(end, annotation.start_index);
      // Two markers in a row stand for the same statement.
      if (statement.trim() !== "") end = annotation.end_index;
      const citation = resolve(
        tree,
        annotation,
        lastSentence(statement || block.text.slice(0, end)),
      );
      if (citation) citations.set(`${citation.marker} ${citation.place}`, citation);
    }
  }
  return [...citations.values()];
}

/** The text of a message's or a result's blocks. */
export function textOf(blocks: readonly WireBlock[]): string {
  return blocks.map((block) => (isText(block) ? block.text : `(${block.type})`)).join("\n");
}

function resolve(tree: Tree, annotation: Annotation, statement: string): Citation | undefined {
  const { marker = `[^${annotation.reference_id}]`, target } = annotation;
  const task = taskOf(tree, target?.task_id);
  const item = task?.output.find(({ id }) => id === target?.item_id);
  if (!task || item?.type !== "tool_result") return undefined;
  const block = item.block_list[target?.block_index ?? 0];
  if (block === undefined) return undefined;
  const lines = linesOf(textOf([block]), pathOf(task, item.call_id));
  const words = wordsOf(statement);
  const [nearest] = lines.toSorted((a, b) => nearness(b.text, words) - nearness(a.text, words));
  const who = task.source?.path ?? task.sessionId ?? task.id;
  return { marker, place: nearest?.place ?? who, text: nearest?.text ?? textOf([block]) };
}

/** The lines of a result that come from a file: of one that was read, or of those that were searched. */
function linesOf(result: string, path: string): readonly { place: string; text: string }[] {
  const read = Array.from(result.matchAll(/^ *(\d+)\t(.*)$/gm), ([, line, text = ""]) => ({
    place: `${path}:${line}`,
    text,
  }));
  if (path !== "" && read.length > 0) return read;
  return Array.from(result.matchAll(/^(.+?:\d+): (.*)$/gm), ([, place = "", text = ""]) => ({
    place,
    text,
  }));
}

/** The file that a call was about. */
function pathOf(task: Task, callId: string): string {
  const call = task.output.find((item) => item.type === "tool_call" && item.call_id === callId);
  return argumentOf(call, "path");
}

function argumentOf(item: Item | undefined, name: string): string {
  if (item?.type !== "tool_call") return "";
  try {
    const value: unknown = (JSON.parse(item.arguments) as Record<string, unknown> | null)?.[name];
    return typeof value === "string" ? value : "";
  } catch {
    return ""; // not yet complete, or never JSON
  }
}

/** How much of a statement a line says, and the shorter the line, the nearer. */
function nearness(line: string, statement: ReadonlySet<string>): number {
  const words = wordsOf(line);
  const shared = [...words].filter((word) => statement.has(word)).length;
  return shared / (words.size + statement.size - shared || 1);
}

function wordsOf(text: string): ReadonlySet<string> {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu));
}

function lastSentence(text: string): string {
  const segments = new Intl.Segmenter("en", { granularity: "sentence" }).segment(text.trim());
  return Array.from(segments, ({ segment }) => segment).at(-1) ?? "";
}

function isText(
  block: WireBlock,
): block is WireBlock & { text: string; annotations?: readonly Annotation[] } {
  return block.type === "text";
}
