import { refuted } from "./check.ts";
import { sentencesOf, withoutCitable } from "./passages.ts";
import type { View } from "./view.ts";
import { bare } from "./words.ts";

/** A statement of the sources, and its number. */
export interface Evidence {
  readonly statement: string;
  readonly id: number;
  /** Where it stands, as far as whoever found it has said. */
  readonly place?: string;
}

/** What the reports in a view say and cite, each statement once; what a check did not find is left out. */
export function evidenceIn(view: View): readonly Evidence[] {
  const found = new Map<string, Evidence>();
  for (const report of reportsIn(view)) {
    for (const evidence of citedIn(report)) {
      const key = bare(evidence.statement);
      // A number that stands for nothing is not repeated.
      if (!found.has(key) && view.citable.has(evidence.id)) found.set(key, evidence);
    }
  }
  for (const claim of reportsIn(view).flatMap(refuted)) found.delete(bare(claim));
  return [...found.values()];
}

/** What calls and background work have brought, without what can only be cited. */
export function reportsIn(view: View): readonly string[] {
  return [...view.calls.map(({ output }) => output), ...view.told].map(withoutCitable);
}

/** The statements of a report that carry a number. */
export function citedIn(report: string): readonly Evidence[] {
  const cited = report.matchAll(/^(.*?)\[\^(\d+)\](?: ?\(([^()\s]+:\d+)\))?/gm);
  return Array.from(cited, ([, before = "", id, place]) => {
    const line = before.replace(/^\s*[-*] +(?:supported: )?/, "");
    const statement = sentencesOf(line).at(-1) ?? "";
    return { statement, id: Number(id), ...(place !== undefined && { place }) };
  }).filter(({ statement }) => statement !== "");
}

/** A text with the number of its source after every sentence that has one. */
export function cite(text: string, evidence: readonly Evidence[]): string {
  const ids = new Map(evidence.map(({ statement, id }) => [bare(statement), id]));
  return text
    .split("\n")
    .map((line) =>
      sentencesOf(line)
        .map((sentence) => {
          const id = ids.get(bare(sentence));
          return id === undefined ? sentence : `${sentence}[^${id}]`;
        })
        .join(" "),
    )
    .join("\n");
}
