import {
  type Annotation,
  type MessageItem,
  type Task,
  type Tree,
  taskOf,
  type WireBlock,
} from "../protocol/index.ts";

/** A source line of a message, by the marker that cites it. */
export interface Citation {
  readonly marker: string;
  /** `path:line`, or the path of the task when the source is not a file. */
  readonly place: string;
  readonly text: string;
}

/** A message with its sources. */
export interface CitedText {
  readonly text: string;
  readonly citations: readonly Citation[];
}

/**
 * Returns a message with the source of each statement: the line of the cited result that is most similar to it. Markers
 * are numbered from 1 in the order of the text, because the numbers in the stream count through a whole session.
 */
export function citedText(tree: Tree, message: MessageItem): CitedText {
  const citations = new Map<string, Citation>();
  const texts = message.block_list.map((block) => {
    if (!isText(block)) return `(${block.type})`;
    let [text, written, end] = ["", 0, 0];
    for (const annotation of block.annotations ?? []) {
      const between = block.text.slice(end, annotation.start_index);
      // Adjacent markers belong to the same statement.
      if (between.trim() !== "") end = annotation.end_index;
      const statement = lastSentence(between || block.text.slice(0, end));
      const source = resolve(tree, annotation, statement);
      const key = source?.place ?? "";
      if (source && !citations.has(key))
        citations.set(key, { marker: `[^${citations.size + 1}]`, ...source });
      const marker = citations.get(key)?.marker;
      text += block.text.slice(written, annotation.start_index);
      text += marker ?? block.text.slice(annotation.start_index, annotation.end_index);
      written = annotation.end_index;
    }
    return text + block.text.slice(written);
  });
  return { text: texts.join("\n"), citations: [...citations.values()] };
}

/** Joins the text of blocks. */
export function textOf(blocks: readonly WireBlock[]): string {
  return blocks.map((block) => (isText(block) ? block.text : `(${block.type})`)).join("\n");
}

type SourceLine = Omit<Citation, "marker">;

function resolve(tree: Tree, { target }: Annotation, statement: string): SourceLine | undefined {
  const task = taskOf(tree, target?.task_id);
  const item = task?.output.find(({ id }) => id === target?.item_id);
  if (!task || item?.type !== "tool_result") return undefined;
  const block = item.block_list[target?.block_index ?? 0];
  if (block === undefined) return undefined;
  const lines = linesOf(textOf([block]), pathOf(task, item.call_id));
  const words = wordsOf(statement);
  const [best] = lines.toSorted((a, b) => similarity(b.text, words) - similarity(a.text, words));
  const place = task.source?.path ?? task.sessionId ?? task.id;
  return best ?? { place, text: textOf([block]) };
}

function linesOf(result: string, path: string): readonly SourceLine[] {
  const read = Array.from(result.matchAll(/^ *(\d+)\t(.*)$/gm), ([, line, text = ""]) => ({
    place: `${path}:${line}`,
    text,
  }));
  if (path !== "" && read.length > 0) return read;
  const matches = result.matchAll(/^(.+?:\d+): (.*)$/gm);
  return Array.from(matches, ([, place = "", text = ""]) => ({ place, text }));
}

function pathOf(task: Task, callId: string): string {
  const call = task.output.find((item) => item.type === "tool_call" && item.call_id === callId);
  if (call?.type !== "tool_call") return "";
  try {
    const { path } = JSON.parse(call.arguments) as { readonly path?: unknown };
    return typeof path === "string" ? path : "";
  } catch {
    return ""; // incomplete or invalid JSON, or null
  }
}

function similarity(line: string, statement: ReadonlySet<string>): number {
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

type TextBlock = WireBlock & { text: string; annotations?: readonly Annotation[] };
function isText(block: WireBlock): block is TextBlock {
  return block.type === "text";
}
