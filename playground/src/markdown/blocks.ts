/** A line of a block and its place in the whole text. */
export interface Line {
  readonly text: string;
  readonly from: number;
}
/** An entry of a list with the lists inside it. */
export interface Entry {
  readonly lines: readonly Line[];
  readonly children: readonly Parsed[];
}
/** A block of Markdown. */
export type Parsed =
  | { readonly type: "paragraph"; readonly lines: readonly Line[] }
  | { readonly type: "heading"; readonly level: number; readonly line: Line }
  | { readonly type: "rule" }
  | { readonly type: "code"; readonly language: string; readonly text: string }
  | { readonly type: "quote"; readonly children: readonly Parsed[] }
  | {
      readonly type: "list";
      readonly start: number | undefined;
      readonly entries: readonly Entry[];
    }
  | {
      readonly type: "table";
      readonly head: readonly Line[];
      readonly rows: readonly Line[][];
      /** Where the text of each column stands; undefined: at the left. */
      readonly aligns: readonly ("right" | "center" | undefined)[];
    };

/** A piece of text that is parsed by itself. */
export interface Chunk {
  readonly text: string;
  readonly from: number;
}

const fence = /^ {0,3}(`{3,}|~{3,})/;
const marker = /^(\s*)([-*+]|\d{1,9}[.)])(?:\s+|$)/;

/** Splits a text at blank lines outside code, so that a text that grows changes only its last chunk. */
export function chunksOf(text: string): readonly Chunk[] {
  const chunks: Chunk[] = [];
  let start = -1;
  let open: string | undefined;
  let at = 0;
  const end = (to: number) => {
    if (start >= 0) chunks.push({ text: text.slice(start, to).trimEnd(), from: start });
    start = -1;
  };
  for (const line of text.split("\n")) {
    const mark = fence.exec(line)?.[1];
    if (open !== undefined) {
      if (mark?.startsWith(open) && line.trim() === mark) open = undefined;
      if (open === undefined) end(at + line.length);
    } else if (mark !== undefined) {
      end(at);
      start = at;
      open = mark;
    } else if (line.trim() === "") end(at);
    else if (start < 0) start = at;
    at += line.length + 1;
  }
  if (start >= 0) chunks.push({ text: text.slice(start), from: start });
  return chunks;
}

/** Parses a chunk; `isOpen`: more text may follow, so half a mark at the end is left out. */
export function parseChunk({ text, from }: Chunk, isOpen: boolean): readonly Parsed[] {
  let at = from;
  const lines = text.split("\n").map((line) => {
    const placed = { text: line, from: at };
    at += line.length + 1;
    return placed;
  });
  const opening = fence.exec(text)?.[1];
  if (opening !== undefined) return [codeOf(lines, opening)];
  if (isOpen) dropHalfMark(lines);
  return blocksOf(lines, isOpen);
}

/** The beginning of a heading, a list, a table or a fence is no text yet. */
function dropHalfMark(lines: Line[]): void {
  const last = lines.at(-1);
  if (last && /^\s*([-*+]|\d{1,3}[.)]?|#{1,6}|>|`{1,3}|~{1,3}|-{2,}|\|)\s*$/.test(last.text))
    lines.pop();
}

function codeOf(lines: readonly Line[], opening: string): Parsed {
  const [first, ...rest] = lines;
  const isClosed = rest.at(-1)?.text.trim().startsWith(opening) ?? false;
  const body = isClosed ? rest.slice(0, -1) : rest;
  const language = first?.text.trim().slice(opening.length).trim() ?? "";
  // Half of a closing fence is no code.
  const text = body.map((line) => line.text).join("\n");
  return { type: "code", language, text: isClosed ? text : text.replace(/\n?[`~]{1,2}$/, "") };
}

function blocksOf(lines: readonly Line[], isOpen: boolean): readonly Parsed[] {
  const blocks: Parsed[] = [];
  for (let at = 0; at < lines.length; ) {
    const line = lines[at] as Line;
    const heading = /^ {0,3}(#{1,6})\s+/.exec(line.text);
    const run = (test: (line: Line, index: number) => boolean) => {
      let end = at + 1;
      while (end < lines.length && test(lines[end] as Line, end)) end++;
      return lines.slice(at, end);
    };
    if (heading) {
      const [all, level = "#"] = heading;
      const shown = { text: line.text.slice(all.length), from: line.from + all.length };
      blocks.push({ type: "heading", level: level.length, line: shown });
      at += 1;
    } else if (/^ {0,3}([-*_])( *\1){2,}\s*$/.test(line.text)) {
      blocks.push({ type: "rule" });
      at += 1;
    } else if (line.text.startsWith(">")) {
      const quoted = run(({ text }) => text.startsWith(">"));
      blocks.push({ type: "quote", children: blocksOf(quoted.map(unquoted), isOpen) });
      at += quoted.length;
    } else if (marker.test(line.text)) {
      const list = run(({ text }) => marker.test(text) || /^\s{2,}\S/.test(text) || !isBreak(text));
      blocks.push(listOf(list));
      at += list.length;
    } else if (isTable(lines, at, isOpen)) {
      const rows = run(({ text }) => text.includes("|"));
      blocks.push(tableOf(rows));
      at += rows.length;
    } else {
      const paragraph = run(({ text }, index) => !isBreak(text) && !isTable(lines, index, false));
      blocks.push({ type: "paragraph", lines: paragraph });
      at += paragraph.length;
    }
  }
  return blocks;
}

/** Whether a line ends the paragraph before it. */
function isBreak(text: string): boolean {
  return /^ {0,3}#{1,6}\s/.test(text) || text.startsWith(">") || marker.test(text);
}

function unquoted({ text, from }: Line): Line {
  const [prefix = ""] = /^>\s?/.exec(text) ?? [];
  return { text: text.slice(prefix.length), from: from + prefix.length };
}

function listOf(lines: readonly Line[]): Parsed {
  const first = marker.exec(lines[0]?.text ?? "");
  const indent = first?.[1]?.length ?? 0;
  const number = Number.parseInt(first?.[2] ?? "", 10);
  const entries: { lines: Line[]; inner: Line[] }[] = [];
  for (const line of lines) {
    const found = marker.exec(line.text);
    const last = entries.at(-1);
    if (found && (found[1]?.length ?? 0) <= indent + 1) {
      const [prefix] = found;
      const shown = { text: line.text.slice(prefix.length), from: line.from + prefix.length };
      entries.push({ lines: [shown], inner: [] });
    } else if (last && (found || last.inner.length > 0)) last.inner.push(line);
    else if (last) {
      const trimmed = line.text.trimStart();
      last.lines.push({ text: trimmed, from: line.from + line.text.length - trimmed.length });
    }
  }
  return {
    type: "list",
    start: Number.isNaN(number) ? undefined : number,
    entries: entries.map(({ lines: own, inner }) => ({
      lines: own,
      children: inner.length > 0 ? [listOf(inner)] : [],
    })),
  };
}

const separator = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-*:?\s*)*\|?\s*$/;

function isTable(lines: readonly Line[], at: number, isOpen: boolean): boolean {
  const [line, next] = [lines[at]?.text ?? "", lines[at + 1]?.text];
  if (!line.includes("|")) return false;
  if (next === undefined) return isOpen && line.startsWith("|");
  return next.includes("-") && next.includes("|") && separator.test(next);
}

function tableOf([head, rule, ...rows]: readonly Line[]): Parsed {
  const aligns = (rule ? cellsOf(rule) : []).map(({ text }) => {
    if (!text.endsWith(":")) return undefined;
    return text.startsWith(":") ? "center" : "right";
  });
  return { type: "table", head: head ? cellsOf(head) : [], rows: rows.map(cellsOf), aligns };
}

function cellsOf({ text, from }: Line): Line[] {
  const cells: Line[] = [];
  for (const match of text.matchAll(/(?:\\.|[^|\\])+/g)) {
    const [cell] = match;
    const isEdge =
      cell.trim() === "" && (match.index === 0 || match.index + cell.length === text.length);
    if (isEdge) continue;
    const start = cell.length - cell.trimStart().length;
    cells.push({ text: cell.trim(), from: from + match.index + start });
  }
  return cells;
}
