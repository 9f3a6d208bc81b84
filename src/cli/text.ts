import { stripVTControlCharacters } from "node:util";

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });
const ascii = /^[\x20-\x7e]*$/;
const wide =
  /\p{Emoji_Presentation}|\p{Regional_Indicator}|\ufe0f|[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6]|[\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
const invisible = /^[\p{Mn}\p{Me}\p{Cf}]+$/u;

/** How many columns of a terminal a text takes; styles take none. */
export function widthOf(styled: string): number {
  const text = stripVTControlCharacters(styled);
  if (ascii.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemes.segment(text)) width += widthOfGrapheme(segment);
  return width;
}

function widthOfGrapheme(grapheme: string): number {
  if (invisible.test(grapheme)) return 0;
  return wide.test(grapheme) ? 2 : 1;
}

/** The beginning of a plain text that fits; a cut is marked with `…`. */
export function cutTo(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  return `${takeWidth(text, Math.max(0, width - 1)).head}${width > 0 ? "…" : ""}`;
}

/** As many of the parts as fit, from the first on, with ` · ` between them. */
export function joinFitting(parts: readonly string[], width: number): string {
  let text = "";
  for (const part of parts) {
    const longer = text === "" ? part : `${text} · ${part}`;
    if (widthOf(longer) > width) break;
    text = longer;
  }
  return text;
}

/** The text, cut or filled with spaces to a width. */
export function column(text: string, width: number): string {
  const cut = cutTo(text, width);
  return cut + " ".repeat(Math.max(0, width - widthOf(cut)));
}

function takeWidth(text: string, width: number): { readonly head: string; readonly rest: string } {
  let [used, at] = [0, 0];
  for (const { segment, index } of graphemes.segment(text)) {
    used += widthOfGrapheme(segment);
    if (used > width) break;
    at = index + segment.length;
  }
  return { head: text.slice(0, at), rest: text.slice(at) };
}

/** Breaks a plain text into rows at spaces; rows keep the indent of their line, and wide words are split. */
export function wrap(text: string, width: number): readonly string[] {
  return text.split("\n").flatMap((line) => {
    const [indent = ""] = /^ */.exec(line) ?? [];
    if (indent === "" || indent.length > width / 2) return wrapLine(line, Math.max(1, width));
    return wrapLine(line.slice(indent.length), width - indent.length).map((row) => indent + row);
  });
}

function wrapLine(line: string, width: number): readonly string[] {
  if (widthOf(line) <= width) return [line];
  const rows: string[] = [];
  let row = "";
  let used = 0;
  for (const word of line.split(/(?<= )(?=\S)/)) {
    const size = widthOf(word.trimEnd());
    if (used > 0 && used + size > width) {
      rows.push(row.trimEnd());
      [row, used] = ["", 0];
    }
    let rest = word;
    while (widthOf(rest.trimEnd()) > width - used) {
      const { head, rest: after } = takeWidth(rest, width);
      // A character that is wider than the row takes a row of its own.
      const piece = head === "" ? ([...graphemes.segment(rest)][0]?.segment ?? rest) : head;
      rows.push(piece);
      rest = head === "" ? rest.slice(piece.length) : after;
    }
    row += rest;
    used += widthOf(rest);
  }
  return [...rows, row.trimEnd()];
}

/** Removes control characters, so that an agent's text cannot control the terminal. */
export function printable(text: string): string {
  return text
    .replaceAll("\t", " ")
    .replace(/[^\P{Cc}\n]/gu, "")
    .replace(/[\u202a-\u202e\u2066-\u2069]/g, "");
}
