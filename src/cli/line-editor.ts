import { widthOf } from "./text.ts";

/** A key as Node's `readline` reports it, with the text that it types. */
export interface Key {
  readonly name: string;
  readonly ctrl: boolean;
  readonly meta: boolean;
  readonly text: string;
}

/** A line that is being typed; `at` is the place of the cursor. */
export interface Line {
  readonly text: string;
  readonly at: number;
}

/** The line before anything is typed. */
export const emptyLine: Line = { text: "", at: 0 };

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

/** The line after a key; the same line if the key does not edit. */
export function editLine(line: Line, key: Key): Line {
  const { text, at } = line;
  const [before, after] = [text.slice(0, at), text.slice(at)];
  const command = key.ctrl ? `ctrl-${key.name}` : key.meta ? `meta-${key.name}` : key.name;
  switch (command) {
    case "backspace":
    case "ctrl-h":
      return at === 0 ? line : join(dropLast(before), after);
    case "delete":
    case "ctrl-d":
      return after === "" ? line : join(before, dropFirst(after));
    case "left":
    case "ctrl-b":
      return { text, at: dropLast(before).length };
    case "right":
    case "ctrl-f":
      return { text, at: text.length - dropFirst(after).length };
    case "home":
    case "ctrl-a":
      return { text, at: before.lastIndexOf("\n") + 1 };
    case "end":
    case "ctrl-e":
      return { text, at: after.includes("\n") ? at + after.indexOf("\n") : text.length };
    case "ctrl-u":
      return join("", after);
    case "ctrl-k":
      return join(before, "");
    case "ctrl-w":
    case "meta-backspace":
      return join(before.replace(/\S+\s*$/, ""), after);
    case "meta-b":
    case "ctrl-left":
      return { text, at: before.replace(/\S+\s*$/, "").length };
    case "meta-f":
    case "ctrl-right":
      return { text, at: text.length - after.replace(/^\s*\S+/, "").length };
    default:
      return key.ctrl || key.meta || key.text === "" ? line : join(before + key.text, after);
  }
}

function join(before: string, after: string): Line {
  return { text: before + after, at: before.length };
}

function dropLast(text: string): string {
  const last = [...graphemes.segment(text)].at(-1);
  return last === undefined ? text : text.slice(0, last.index);
}

function dropFirst(text: string): string {
  const [first] = graphemes.segment(text);
  return first === undefined ? text : text.slice(first.segment.length);
}

/** The rows of a line on a screen, with the place of the cursor; every row is at most `width` columns wide. */
export function layOut({ text, at }: Line, width: number) {
  const rows = [""];
  const starts = [0];
  let [used, row, column] = [0, 0, 0];
  const mark = () => {
    row = rows.length - 1;
    column = used;
  };
  const add = (start: number) => {
    rows.push("");
    starts.push(start);
    used = 0;
  };
  for (const { segment, index } of graphemes.segment(text)) {
    const size = widthOf(segment);
    if (segment !== "\n" && used + size > width) add(index);
    if (index === at) mark();
    if (segment === "\n") add(index + 1);
    else {
      rows[rows.length - 1] += segment;
      used += size;
    }
  }
  if (at === text.length) {
    if (used >= width) add(text.length);
    mark();
  }
  return { rows, starts, row, column };
}

/** The line with the cursor one row up (-1) or down (1); undefined when it is in the first or last row. */
export function moveByRow(line: Line, width: number, step: -1 | 1): Line | undefined {
  const { rows, starts, row, column } = layOut(line, width);
  const [text, start] = [rows[row + step], starts[row + step]];
  if (text === undefined || start === undefined) return undefined;
  let [used, at] = [0, start];
  for (const { segment, index } of graphemes.segment(text)) {
    used += widthOf(segment);
    if (used > column) break;
    at = start + index + segment.length;
  }
  return { text: line.text, at };
}
