import { refuted } from "./check.ts";
import { sentencesOf, withoutCitable } from "./passages.ts";
import type { View } from "./view.ts";
import { bare } from "./words.ts";

/** A statement of the sources: its number, where results have numbers, and its place, where that was said. */
export interface Evidence {
  readonly statement: string;
  readonly id?: number;
  readonly place?: string;
}

/** What the reports in a view have found, each statement once; what a check did not find is left out. */
export function evidenceIn(view: View): readonly Evidence[] {
  const reports = [...view.calls.map(({ output }) => output), ...view.told];
  const found = new Map<string, Evidence>();
  for (const evidence of reports.flatMap(findingsIn)) {
    const key = bare(evidence.statement);
    // A number that stands for nothing is not repeated.
    const isKnown = evidence.id === undefined || view.citable.has(evidence.id);
    if (isKnown && !found.has(key)) found.set(key, evidence);
  }
  for (const claim of reports.flatMap(refuted)) found.delete(bare(claim));
  return [...found.values()];
}

/** The statements of a report that come with a number, a place (file:line) or both. */
export function findingsIn(report: string): readonly Evidence[] {
  const lines = withoutCitable(report).matchAll(
    /^(.*?) ?(?:\[\^(\d+)\](?: ?\(([^()\s]+:\d+)\))?|\(([^()\s]+:\d+)\))/gm,
  );
  return Array.from(lines, ([, before = "", id, placed, unnumbered]) => {
    const line = before.replace(/^\s*[-*] +(?:supported: )?/, "");
    const place = placed ?? unnumbered;
    return {
      statement: sentencesOf(line).at(-1) ?? "",
      ...(id !== undefined && { id: Number(id) }),
      ...(place !== undefined && { place }),
    };
  }).filter(({ statement }) => statement !== "");
}

/** Whether a text has a sentence that rests on evidence. */
export function restsOn(text: string, evidence: readonly Evidence[]): boolean {
  const known = new Set(evidence.map(({ statement }) => bare(statement)));
  return sentencesOf(text).some((sentence) => known.has(bare(sentence)));
}

/** A text with the number of its source after every sentence that has one. */
export function cite(text: string, evidence: readonly Evidence[]): string {
  const ids = new Map(evidence.map(({ statement, id }) => [bare(statement), id]));
  const withNumber = (sentence: string) => {
    const id = ids.get(bare(sentence));
    return id === undefined ? sentence : `${sentence}[^${id}]`;
  };
  return text
    .split("\n")
    .map((line) => sentencesOf(line).map(withNumber).join(" "))
    .join("\n");
}
