/** The most mentions that are looked up in one text, and the longest that is. */
const maxMentions = 50;
const maxLength = 1_000;

// Not after what an address, a handle in a URL or a "\@" has before its "@". Unquoted it ends at a space, a quote, a
// bracket of a tag, or punctuation outside of ASCII, which a Chinese sentence puts right behind it.
const mention = /(?<![\w.+%@/\\-])@(?:"([^"\n]+)"|((?:(?![\s"`<>]|(?![!-~])\p{P}).)+))/gu;
const closing = /[.,;:!?)\]}'*_~]+$/;

/**
 * What a text mentions as `@path` or `@"a path"`, outside of code: for each mention the ways in which it can be read,
 * the most likely first, since a sentence may go on right behind it.
 */
export function mentionsIn(text: string): readonly (readonly string[])[] {
  const ways: (readonly string[])[] = [];
  for (const [, quoted, plain = ""] of withoutCode(text).matchAll(mention)) {
    if (ways.length === maxMentions) break;
    if ((quoted ?? plain).length > maxLength) continue;
    const spellings = quoted === undefined ? [plain, plain.replace(closing, "")] : [quoted];
    ways.push([...new Set(spellings)].filter((path) => path !== ""));
  }
  return ways;
}

/** Without fenced blocks and without spans between backticks. */
function withoutCode(text: string): string {
  if (!text.includes("`") && !text.includes("~~~")) return text;
  const kept: string[] = [];
  let fence: string | undefined;
  for (const line of text.split("\n")) {
    const mark = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})/.exec(line)?.[1];
    if (fence === undefined && mark === undefined) kept.push(line);
    else if (fence === undefined) fence = mark;
    else if (mark?.startsWith(fence) && line.trim() === mark) fence = undefined;
  }
  return withoutSpans(kept.join("\n"));
}

/** A span goes from some backticks to the next that are as many. */
function withoutSpans(text: string): string {
  const pieces = text.split(/(`+)/); // every second piece is backticks
  const next: number[] = [];
  const latest = new Map<number, number>();
  for (let index = pieces.length - 2; index > 0; index -= 2) {
    const { length } = pieces[index] as string;
    next[index] = latest.get(length) ?? 0;
    latest.set(length, index);
  }
  let kept = "";
  for (let index = 0; index < pieces.length; index++) {
    const end = index % 2 === 1 ? next[index] : 0;
    if (end) index = end;
    // Something has to stand where the code was, or its neighbours would grow together.
    kept += end ? " " : pieces[index];
  }
  return kept;
}
