import { citableTexts, foundLines, sentencesOfFile, titleOfFile } from "./passages.ts";
import { rankFiles, scoreSentence, type Weights, weigh } from "./rank.ts";
import { callsOf, type MadeCall, type Move, offers, type View } from "./view.ts";
import { listed, patternFor, stemsOf, type Term, termsOf } from "./words.ts";

const filesToRead = 3;
const mostFindings = 3;
/** A file that speaks of less than this of the question does not answer it. */
const leastCoverage = 0.4;
/** Nor is it read when another one speaks of so much more. */
const worthReading = 0.8;
/** Of the best sentence's score. */
const worthSaying = 0.5;
const goesOn = 0.6;
const figuresAsked = /\bfigures\b/i;
const figures = /\d|\bsuch as\b|\bfor example\b/i;

/** Said by a researcher that has found nothing, and understood by whoever sent it. */
export const nothingFound = "The files do not answer this.";

/** Searches files for what a question is about, reads those that speak of most of it, and reports their sentences. */
export function research(view: View): Move | undefined {
  if (!offers(view, "grep_files", "read_file")) return undefined;
  const terms = termsOf(view.question);
  if (terms.length === 0) return { text: `${nothingFound} It has no words to look for.` };
  const search = callsOf(view, "grep_files")[0];
  if (search === undefined) return searchFor(terms, view);
  if (search.isError) return { text: `The search failed: ${search.output}` };

  const lines = foundLines(search.output);
  const weights = weigh(terms, lines);
  const files = rankFiles(lines, weights).filter(({ coverage }) => coverage >= leastCoverage);
  if (files.length === 0) return { text: notThere(terms, lines) };
  const reads = callsOf(view, "read_file");
  if (reads.length > 0) return { text: report(reads, view.question, terms, weights) };
  const [{ coverage: best } = { coverage: 0 }] = files;
  const paths = files
    .filter(({ coverage }) => coverage >= best * worthReading)
    .slice(0, filesToRead)
    .map(({ path }) => path);
  return {
    thinking: `${lines.length} lines, most to the point in ${listed(paths)}. I read them.`,
    calls: paths.map((path) => ({ name: "read_file", input: { path } })),
  };
}

/** The directory that a task or a system prompt says to look in, written as in `this/one/`. */
export function directoryOf(view: View): { readonly path?: string } {
  const named = /\b(?:in|under|from|of) `([\w.-]+(?:\/[\w.-]+)*)\/`/;
  const path = (named.exec(view.question) ?? named.exec(view.system))?.[1];
  return path === undefined ? {} : { path };
}

function searchFor(terms: readonly Term[], view: View): Move {
  const words = listed(terms.map(({ word }) => word));
  const input = { pattern: patternFor(terms), ignore_case: true, ...directoryOf(view) };
  return {
    thinking: `I look for ${words}.`,
    calls: [{ name: "grep_files", input }],
  };
}

function report(
  reads: readonly MadeCall[],
  question: string,
  terms: readonly Term[],
  weights: Weights,
): string {
  const found = reads
    .filter(({ isError }) => !isError)
    .flatMap((read) => scored(read, question, weights));
  const ranked = found.toSorted((a, b) => b.score - a.score).slice(0, mostFindings);
  const best = ranked[0]?.score ?? 0;
  const kept = found.filter((one) => ranked.includes(one) && one.score >= best * worthSaying);
  if (best === 0) return nothingFound;
  const open = terms.filter(({ stem }) => !found.some(({ stems }) => stems.has(stem)));
  const words = listed(open.map(({ word }) => word));
  return [
    "This is what the files say:",
    ...kept.map(({ said }) => said),
    ...(open.length > 0 ? [`They say nothing of ${words}.`] : []),
  ].join("\n");
}

/** The sentences of a file with how well they answer. One that follows a good answer often goes on with it. */
function scored({ input, output }: MadeCall, question: string, weights: Weights) {
  const title = titleOfFile(output);
  const marker = citableTexts(output).map(({ id }) => `[^${id}]`)[0] ?? "";
  let before = 0;
  return sentencesOfFile(output).map(({ text, line }) => {
    const own = scoreSentence(text, title, question, weights);
    const isWanted = !figuresAsked.test(question) || figures.test(text);
    const score = isWanted ? Math.max(own, before * goesOn) : 0;
    before = own;
    return {
      said: `- ${text}${marker} (${input.path}:${line})`,
      score,
      stems: stemsOf(`${text} ${title}`),
    };
  });
}

function notThere(terms: readonly Term[], lines: readonly { text: string }[]): string {
  const known = stemsOf(lines.map(({ text }) => text).join(" "));
  const missing = terms.filter(({ stem }) => !known.has(stem)).map(({ word }) => word);
  if (missing.length === 0) return `${nothingFound} No file speaks of all of it.`;
  return `${nothingFound} No file speaks of ${listed(missing)}.`;
}
