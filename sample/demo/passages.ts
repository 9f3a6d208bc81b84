import type { View } from "./view.ts";
import { normalizeText } from "./words.ts";

/** A sentence with the line of its file where it starts, and the heading above it. */
export interface Sentence {
  readonly text: string;
  readonly line: number;
  readonly heading: string;
}

/** A line of a search result. */
export interface FoundLine {
  readonly path: string;
  readonly line: number;
  readonly text: string;
}

/** A result that can be cited by its number. */
export type CitableText = { readonly id: number; readonly text: string };

/** A statement from the sources, with its citation number and its `path:line` where the report has them. */
export interface Evidence {
  readonly statement: string;
  readonly id?: number;
  readonly place?: string;
}

const segmenter = new Intl.Segmenter("en", { granularity: "sentence" });

/** Splits prose into sentences. */
export function sentencesOf(text: string): readonly string[] {
  const sentences = Array.from(segmenter.segment(text), ({ segment }) => segment.trim());
  return sentences.filter((sentence) => sentence !== "");
}

/** Splits the output of `read_file` into sentences; a sentence may span several lines. */
export function sentencesOfFile(output: string): readonly Sentence[] {
  const sentences: Sentence[] = [];
  let paragraph: { line: number; start: number }[] = [];
  let text = "";
  let heading = "";
  const closeParagraph = () => {
    for (const { segment, index } of segmenter.segment(text)) {
      const sentence = segment.trim();
      const start = index + segment.indexOf(sentence);
      const line = paragraph.findLast((row) => row.start <= start)?.line;
      if (line !== undefined && /\p{L}.*[.!?]["”)]?$/u.test(sentence)) {
        sentences.push({ text: sentence, line, heading });
      }
    }
    paragraph = [];
    text = "";
  };
  for (const [, number = "", content = ""] of output.matchAll(/^ *(\d+)\t(.*)$/gm)) {
    const isBreak = /^\s*(?:#|$)/.test(content);
    const item = /^\s*(?:[-*+]|\d+\.)\s+(.*)$/.exec(content)?.[1];
    if (isBreak || item !== undefined) closeParagraph();
    heading = /^#+ +(.*)$/.exec(content)?.[1] ?? heading;
    if (isBreak) continue;
    paragraph.push({ line: Number(number), start: text.length });
    text += `${(item ?? content).trim()} `;
  }
  closeParagraph();
  return sentences;
}

/** Returns the first heading in the output of `read_file`. */
export function titleOfFile(output: string): string {
  return /^ *\d+\t#+ +(.*)$/m.exec(output)?.[1] ?? "";
}

/** Parses the output of `grep_files`. */
export function foundLines(output: string): readonly FoundLine[] {
  const lines = output.matchAll(/^(.+?):(\d+): ?(.*)$/gm);
  return Array.from(lines, ([, path = "", line, text = ""]) => ({
    path,
    line: Number(line),
    text,
  }));
}

/** A numbered result; one that contains others, such as the report of a child, is no source itself. */
const frame =
  /<referencable-item>\nID: (\d+)\n((?:(?!<referencable-item>)[\s\S])*?)\n?<\/referencable-item>\n?/g;

/** Returns the numbered results in a text. */
export function citableTexts(text: string): readonly CitableText[] {
  const frames = text.matchAll(frame);
  return Array.from(frames, ([, id, content = ""]) => ({ id: Number(id), text: content }));
}

/** Returns the citation marker of a result; "" when it has no number. */
export function markerOf(output: string): string {
  const [first] = citableTexts(output);
  return first === undefined ? "" : `[^${first.id}]`;
}

/** Removes the frame that numbers a result. */
export function withoutFrame(output: string): string {
  return citableTexts(output)[0]?.text ?? output;
}

/** Removes all numbered results from a text. */
export function withoutCitable(text: string): string {
  return text.replace(frame, "").replace(/^<\/?referencable-item>\n?/gm, "");
}

/**
 * Returns the statements in all reports, each once and without those that a check did not find. Of several sources that
 * contain the whole statement, the shortest is the best: a reader finds the statement in it at once.
 */
export function evidenceIn(view: View): readonly Evidence[] {
  const reports = [...view.calls.map(({ output }) => output), ...view.notices];
  const found = new Map<string, Evidence>();
  for (const evidence of reports.flatMap(findingsIn)) {
    const key = normalizeText(evidence.statement);
    const hasSource = evidence.id === undefined || view.citable.has(evidence.id);
    const earlier = found.get(key);
    if (hasSource && (!earlier || sourceLength(view, evidence) < sourceLength(view, earlier)))
      found.set(key, evidence);
  }
  for (const report of reports) {
    for (const [, claim = ""] of report.matchAll(/^- not found: (.+)$/gm)) {
      found.delete(normalizeText(claim));
    }
  }
  return [...found.values()];
}

function sourceLength({ citable }: View, { id, statement }: Evidence): number {
  const { text = "" } = (id === undefined ? undefined : citable.get(id)) ?? {};
  // A sentence may span several lines of a file that was read.
  const plain = normalizeText(text.replace(/^ *\d+\t/gm, ""));
  return plain.includes(normalizeText(statement)) ? text.length : Number.POSITIVE_INFINITY;
}

/** Returns the statements of a report that have a number, a place (`path:line`) or both. */
export function findingsIn(report: string): readonly Evidence[] {
  const lines = withoutCitable(report).matchAll(
    /^(.*?) ?(?:\[\^(\d+)\](?: ?\(([^()\s]+:\d+)\))?|\(([^()\s]+:\d+)\))/gm,
  );
  return Array.from(lines, ([, before = "", id, numberedPlace, plainPlace]) => {
    const line = before.replace(/^\s*[-*] +(?:supported: )?/, "");
    const place = numberedPlace ?? plainPlace;
    return {
      statement: sentencesOf(line).at(-1) ?? "",
      ...(id !== undefined && { id: Number(id) }),
      ...(place !== undefined && { place }),
    };
  }).filter(({ statement }) => statement !== "");
}

/** Adds the citation number after every sentence that has one. */
export function cite(text: string, evidence: readonly Evidence[]): string {
  const ids = new Map(evidence.map(({ statement, id }) => [normalizeText(statement), id]));
  const citeSentence = (sentence: string) => {
    const id = ids.get(normalizeText(sentence));
    return id === undefined ? sentence : `${sentence}[^${id}]`;
  };
  const lines = text.split("\n").map((line) => sentencesOf(line).map(citeSentence).join(" "));
  return lines.join("\n");
}
