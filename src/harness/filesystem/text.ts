import { fileError, shown } from "./file-error.ts";

const newline = 0x0a;
const carriageReturn = 0x0d;
const maxEdited = 64 * 1024 * 1024; // characters; to make a longer text only to refuse it would take memory

/** The text of a file, exactly: to write it back changes nothing. Bytes that are no text are an error. */
export function exactText(data: Uint8Array, path: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    throw fileError("not_text", `${shown(path)} is not UTF-8 text.`);
  }
}

/** Whether it is something else than text, by the look of its beginning. */
export function isBinary(data: Uint8Array): boolean {
  return data.subarray(0, 8_000).includes(0);
}

/** Some lines of a file, and how many it has. */
export interface Lines {
  readonly lines: readonly string[];
  readonly total: number;
}

/**
 * The lines of a file from number `first` on, at most `limit`, without their ends; undefined when it is no text at all.
 * Only these are taken out of it, since a file of the largest size may have millions.
 */
export function linesOf(data: Uint8Array, first: number, limit: number): Lines | undefined {
  if (isBinary(data)) return undefined;
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const lines: string[] = [];
  let total = 0;
  let start = hasMark(data) ? 3 : 0;
  for (let at = start; at <= data.length; at++) {
    const isEnd = at === data.length;
    if (isEnd ? at === start : data[at] !== newline) continue;
    total += 1;
    if (total >= first && lines.length < limit) {
      const end = !isEnd && data[at - 1] === carriageReturn ? at - 1 : at;
      lines.push(decoder.decode(data.subarray(start, end)));
    }
    start = at + 1;
  }
  return { lines, total };
}

/** Whether it begins with a byte order mark, which is three bytes and not part of the first line. */
export function hasMark(data: Uint8Array): boolean {
  return data[0] === 0xef && data[1] === 0xbb && data[2] === 0xbf;
}

/** What an edit has made of a text, or why it made nothing. */
export type Edit =
  | { readonly text: string; readonly count: number }
  | { readonly problem: EditProblem };

/** Why an edit made nothing. */
export type EditProblem = "missing" | "several" | "too long";

/** Replaces one text by another: the only one there is, or all. */
export function editText(
  text: string,
  oldText: string,
  newText: string,
  { all = false }: { readonly all?: boolean } = {},
): Edit {
  const pieces = text.split(oldText);
  const count = pieces.length - 1;
  if (count === 0) {
    // A model does not see the carriage returns in what it has read.
    const old = oldText.replaceAll(/\r?\n/g, "\r\n");
    if (old === oldText || !text.includes(old)) return { problem: "missing" };
    return editText(text, old, newText.replaceAll(/\r?\n/g, "\r\n"), { all });
  }
  const first = text.indexOf(oldText);
  const isSeveral = text.indexOf(oldText, first + 1) >= 0; // also where two overlap
  if (isSeveral && !all) return { problem: "several" };
  const length = text.length + count * (newText.length - oldText.length);
  if (length > maxEdited) return { problem: "too long" };
  return { text: pieces.join(newText), count };
}
