import { fileError, shown } from "./file-error.ts";

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

/** The lines of a file for reading, without their ends; undefined when it is no text at all. */
export function linesOf(data: Uint8Array): readonly string[] | undefined {
  if (isBinary(data)) return undefined;
  const lines = new TextDecoder().decode(data).split(/\r?\n/);
  return lines.at(-1) === "" ? lines.slice(0, -1) : lines;
}

/** What an edit has made of a text, or why it made nothing. */
export type Edit =
  | { readonly text: string; readonly count: number }
  | { readonly problem: "missing" | "several" };

/** Replaces one text by another: the only one there is, or all. */
export function editText(
  text: string,
  oldText: string,
  newText: string,
  { all = false }: { readonly all?: boolean } = {},
): Edit {
  const count = text.split(oldText).length - 1;
  if (count === 0) {
    // A model does not see the carriage returns in what it has read.
    const old = oldText.replaceAll(/\r?\n/g, "\r\n");
    if (old === oldText || !text.includes(old)) return { problem: "missing" };
    return editText(text, old, newText.replaceAll(/\r?\n/g, "\r\n"), { all });
  }
  const first = text.indexOf(oldText);
  const isSeveral = text.indexOf(oldText, first + 1) >= 0; // also where two overlap
  if (all) return { text: text.split(oldText).join(newText), count };
  if (isSeveral) return { problem: "several" };
  const after = text.slice(first + oldText.length);
  return { text: text.slice(0, first) + newText + after, count: 1 };
}
