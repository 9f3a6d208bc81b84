import type { Annotation } from "rivulet/protocol";

/** A piece of a line of text. `from` is its place in the whole text. */
export type Inline =
  | { readonly type: "text"; readonly text: string; readonly from: number }
  | { readonly type: "code"; readonly text: string; readonly from: number }
  | { readonly type: "cite"; readonly annotation: Annotation | undefined; readonly text: string }
  | {
      readonly type: "strong" | "em" | "del";
      readonly children: readonly Inline[];
    }
  | { readonly type: "link"; readonly url: string; readonly children: readonly Inline[] }
  | { readonly type: "image"; readonly url: string; readonly alt: string };

/** What the inline parser knows about the text around. */
export interface InlineContext {
  /** Citations by their first index. */
  readonly annotations: ReadonlyMap<number, Annotation>;
  /** True: more text may follow, so open marks count as closed at the end. */
  readonly isOpen: boolean;
}

const marks = [
  { mark: "**", type: "strong" },
  { mark: "__", type: "strong" },
  { mark: "~~", type: "del" },
  { mark: "*", type: "em" },
  { mark: "_", type: "em" },
] as const;

/** Parses text that begins at index `from` of the whole text. Unknown syntax stays text; HTML is text. */
export function parseInline(text: string, from: number, context: InlineContext): Inline[] {
  const found: Inline[] = [];
  let plain = "";
  let plainFrom = from;
  const flush = (at: number) => {
    if (plain !== "") found.push({ type: "text", text: plain, from: plainFrom });
    plain = "";
    plainFrom = from + at;
  };
  for (let at = 0; at < text.length; ) {
    const special = specialAt(text, at, from, context);
    if (special === undefined) {
      if (plain === "") plainFrom = from + at;
      plain += text[at];
      at += 1;
      continue;
    }
    flush(at);
    found.push(...special.nodes);
    at = special.end;
    plainFrom = from + at;
  }
  flush(text.length);
  return found;
}

interface Special {
  readonly nodes: readonly Inline[];
  readonly end: number;
}

function specialAt(
  text: string,
  at: number,
  from: number,
  context: InlineContext,
): Special | undefined {
  const char = text[at] as string;
  const cited = context.annotations.get(from + at);
  if (cited) {
    const end = cited.end_index - from;
    return { nodes: [citeOf(cited, text.slice(at, end))], end: Math.max(end, at + 1) };
  }
  if (char === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) {
    const escaped: Inline = { type: "text", text: text[at + 1] ?? "", from: from + at + 1 };
    return { nodes: [escaped], end: at + 2 };
  }
  if (char === "`") return codeAt(text, at, from, context);
  if (char === "[" || (char === "!" && text[at + 1] === "["))
    return linkAt(text, at, from, context);
  if (char === "h") return addressAt(text, at, from);
  if ("*_~".includes(char)) return markAt(text, at, from, context);
  return undefined;
}

function citeOf(annotation: Annotation | undefined, text: string): Inline {
  return { type: "cite", annotation, text };
}

function codeAt(text: string, at: number, from: number, { isOpen }: InlineContext) {
  const ticks = /^`+/.exec(text.slice(at))?.[0] ?? "`";
  const start = at + ticks.length;
  const close = text.indexOf(ticks, start);
  if (close < 0 && !isOpen) return undefined;
  const end = close < 0 ? text.length : close;
  const code = text.slice(start, end);
  const nodes: Inline[] = code === "" ? [] : [{ type: "code", text: code, from: from + start }];
  return { nodes, end: close < 0 ? end : end + ticks.length };
}

function linkAt(text: string, at: number, from: number, context: InlineContext) {
  const isImage = text[at] === "!";
  const start = at + (isImage ? 2 : 1);
  const rest = text.slice(at);
  const note = /^\[\^(\w{1,8})\]/.exec(rest);
  if (note) return { nodes: [citeOf(undefined, note[1] ?? "")], end: at + note[0].length };
  const link =
    /^!?\[([^\]\n]{0,2000})\]\(([^()\s]{0,2000}(?:\([^()\s]*\)[^()\s]*)*)(?:\s+"[^"]*")?\)/.exec(
      rest,
    );
  if (link) {
    const [all, label = "", url = ""] = link;
    const nodes: readonly Inline[] = isImage
      ? [{ type: "image", url, alt: label }]
      : [{ type: "link", url, children: parseInline(label, from + start, context) }];
    return { nodes, end: at + all.length };
  }
  if (!context.isOpen) return undefined;
  // A link or a citation that is still being written: its text shows, its syntax does not.
  const open = /^!?\[(\^?)([^\]\n]*)(?:\](?:\([^)\n]*)?)?$/.exec(rest);
  if (!open) return undefined;
  const [, caret, label = ""] = open;
  const nodes = caret || isImage ? [] : parseInline(label, from + start, context);
  return { nodes, end: text.length };
}

function addressAt(text: string, at: number, from: number): Special | undefined {
  if (at > 0 && /\w/.test(text[at - 1] ?? "")) return undefined;
  const [url] = /^https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]]/.exec(text.slice(at)) ?? [];
  if (url === undefined) return undefined;
  const children: Inline[] = [{ type: "text", text: url, from: from + at }];
  return { nodes: [{ type: "link", url, children }], end: at + url.length };
}

function markAt(
  text: string,
  at: number,
  from: number,
  context: InlineContext,
): Special | undefined {
  const found = marks.find(({ mark }) => text.startsWith(mark, at));
  if (found === undefined) return undefined;
  const { mark, type } = found;
  const start = at + mark.length;
  const before = text[at - 1] ?? " ";
  const after = text[start];
  if (after === undefined) return context.isOpen ? { nodes: [], end: start } : undefined;
  const isWordInside = mark.startsWith("_") && /\w/.test(before);
  if (/\s/.test(after) || isWordInside) return undefined;
  const close = closeOf(text, start, mark);
  if (close === undefined && !context.isOpen) return undefined;
  // Half of a closing mark may have arrived.
  const end = close ?? text.length - (text.endsWith(mark[0] ?? "") && mark.length > 1 ? 1 : 0);
  const children = parseInline(text.slice(start, end), from + start, context);
  return {
    nodes: [{ type, children }],
    end: close === undefined ? text.length : end + mark.length,
  };
}

function closeOf(text: string, start: number, mark: string): number | undefined {
  for (let at = text.indexOf(mark, start + 1); at >= 0; at = text.indexOf(mark, at + 1)) {
    if (/\s/.test(text[at - 1] ?? " ")) continue;
    if (mark === "*" && (text[at + 1] === "*" || text[at - 1] === "*")) continue;
    if (mark.startsWith("_") && /\w/.test(text[at + mark.length] ?? "")) continue;
    return at;
  }
  return undefined;
}
