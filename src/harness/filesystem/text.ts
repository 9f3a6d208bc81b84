import { fileError, quotePath } from "./file-error.ts";

const newline = 0x0a;
const carriageReturn = 0x0d;
const maxEditedCharacters = 64 * 1024 * 1024; // larger results would fail anyway, after using memory

/** Decodes a file so that encoding the text gives the same bytes; throws `not_text`. */
export function exactText(data: Uint8Array, path: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    throw fileError("not_text", `${quotePath(path)} is not UTF-8 text.`);
  }
}

/** Returns whether the beginning of a file has a NUL byte. */
export function isBinary(data: Uint8Array): boolean {
  return data.subarray(0, 8_000).includes(0);
}

/** Returns at most `limit` lines from number `first` on, and decodes only these; undefined for a binary file. */
export function linesOf(data: Uint8Array, first: number, limit: number) {
  if (isBinary(data)) return undefined;
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const lines: string[] = [];
  let total = 0;
  let start = hasByteOrderMark(data) ? 3 : 0;
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

/** Returns whether a file starts with a byte order mark, which is three bytes and not part of the first line. */
export function hasByteOrderMark(data: Uint8Array): boolean {
  return data[0] === 0xef && data[1] === 0xbb && data[2] === 0xbf;
}

/** Why an edit failed. */
export type EditProblem = "missing" | "several" | "too long";

/** Replaces the only occurrence of a text, or all of them. */
export function editText(
  text: string,
  oldText: string,
  newText: string,
  { all = false }: { readonly all?: boolean } = {},
): { readonly text: string; readonly count: number } | { readonly problem: EditProblem } {
  const pieces = text.split(oldText);
  const count = pieces.length - 1;
  if (count === 0) {
    // read_file does not show carriage returns to the model.
    const old = oldText.replaceAll(/\r?\n/g, "\r\n");
    if (old === oldText || !text.includes(old)) return { problem: "missing" };
    return editText(text, old, newText.replaceAll(/\r?\n/g, "\r\n"), { all });
  }
  const first = text.indexOf(oldText);
  const isSeveral = text.indexOf(oldText, first + 1) >= 0; // also if two overlap
  if (isSeveral && !all) return { problem: "several" };
  const length = text.length + count * (newText.length - oldText.length);
  if (length > maxEditedCharacters) return { problem: "too long" };
  return { text: pieces.join(newText), count };
}
