import {
  evidenceIn,
  type FoundLine,
  foundLines,
  markerOf,
  type Sentence,
  sentencesOfFile,
  titleOfFile,
} from "./passages.ts";
import { checkTask, delegate, spawnCalls, teamIn, waitFor } from "./team.ts";
import { callsOf, type MadeCall, type Move, offers, type View } from "./view.ts";
import {
  hasKin,
  joinWords,
  normalizeText,
  patternFor,
  stemsOf,
  type Term,
  termsOf,
} from "./words.ts";

const maxFiles = 3;
const maxFindings = 3;
const maxClaims = 12;
const searchedWords = 6; // a claim may continue on the next line, so the search uses only its first words
const minCoverage = 0.4; // a file that covers less of the question does not answer it
const minRelativeCoverage = 0.8; // relative to the file with the best coverage
const minRelativeScore = 0.5; // relative to the best sentence
const continuationFactor = 0.6; // a sentence often continues the answer of the sentence before it

/** The report of a researcher without findings; the lead recognizes it. */
export const nothingFound = "The files do not answer this.";

/** Searches files for the terms of a question, reads the best ones and reports the sentences that answer it. */
export function research(view: View): Move | undefined {
  if (!offers(view, "grep_files", "read_file")) return undefined;
  const terms = termsOf(view.question);
  if (terms.length === 0) return { text: `${nothingFound} It has no words to look for.` };
  const search = callsOf(view, "grep_files")[0];
  if (search === undefined) {
    const input = { pattern: patternFor(terms), ignore_case: true, ...directoryOf(view) };
    return {
      thinking: `I search for ${joinWords(terms.map(({ word }) => word))}${terms.some(hasKin) ? ", and for related words" : ""}.`,
      calls: [{ name: "grep_files", input }],
    };
  }
  if (search.isError) return { text: `The search failed: ${search.output}` };

  const lines = foundLines(search.output);
  if (lines.length === 0 && /\bthe search timed out\b/.test(search.output))
    return { text: "The search timed out before it found anything." };
  const weights = weigh(terms, lines);
  const files = rankFiles(lines, weights).filter(({ coverage }) => coverage >= minCoverage);
  if (files.length === 0) return { text: noAnswer(terms, lines) };
  const reads = callsOf(view, "read_file");
  if (reads.length > 0)
    return checkedReport(view, findingsOf(reads, view.question, weights), terms);
  const [{ coverage: best } = { coverage: 0 }] = files;
  const paths = files
    .filter(({ coverage }) => coverage >= best * minRelativeCoverage)
    .slice(0, maxFiles)
    .map(({ path }) => path);
  return {
    thinking: `${lines.length} lines match, most of them in ${joinWords(paths)}. I read that.`,
    calls: paths.map((path) => ({ name: "read_file", input: { path } })),
  };
}

/** A sentence that answers the question, with its place and the stems of its file. */
interface Finding {
  readonly text: string;
  readonly path: string;
  readonly line: number;
  readonly marker: string;
  /** 0 for a sentence without a figure, if the question asks for figures. */
  readonly score: number;
  readonly relevance: number;
  readonly stems: ReadonlySet<string>;
}

/** The best findings, in the order of the files, and all stems of the files. */
function findingsOf(reads: readonly MadeCall[], question: string, weights: Weights) {
  const all = reads
    .filter(({ isError }) => !isError)
    .flatMap((read) => scoreFile(read, question, weights));
  const ranked = all.toSorted((a, b) => b.score - a.score).slice(0, maxFindings);
  // A figure that hardly belongs to the question is no answer, even if there is no better figure.
  const best = Math.max(0, ...all.map(({ relevance }) => relevance));
  const kept = ranked.filter(({ score }) => score > 0 && score >= best * minRelativeScore);
  return { findings: all.filter((finding) => kept.includes(finding)), all };
}

/** Reports the findings; with a critic in the team, only those that it confirms. */
function checkedReport(
  view: View,
  { findings, all }: ReturnType<typeof findingsOf>,
  terms: readonly Term[],
): Move {
  if (findings.length === 0) return { text: nothingFound };
  const critic = offers(view, "agent_spawn") ? teamIn(view.system).critic : undefined;
  const count = findings.length === 1 ? "1 finding" : `${findings.length} findings`;
  const thinking = `${count}. ${critic} checks them before I report.`;
  const move =
    delegate(view, critic, checkTask(findings.map(({ text }) => text)), thinking) ??
    waitFor(view, spawnCalls(view, critic));
  if (move !== undefined) return move;
  const confirmed = new Map(
    evidenceIn(view).map(({ statement, id }) => [normalizeText(statement), id]),
  );
  const isConfirmed = ({ text }: Finding) =>
    critic === undefined || confirmed.has(normalizeText(text));
  const kept = findings.filter(isConfirmed);
  if (kept.length === 0) return { text: `${nothingFound} The check did not confirm the findings.` };
  const files = joinWords([...new Set(kept.map(({ path }) => path))]);
  const missing = terms.filter(({ stem }) => !all.some(({ stems }) => stems.has(stem)));
  const words = joinWords(missing.map(({ word }) => word));
  return {
    text: [
      `${kept.length === 1 ? "1 finding" : `${kept.length} findings`} in ${files}${critic === undefined ? "" : `, checked by ${critic}`}:`,
      ...kept.map(({ text, path, line, marker }) => {
        const id = confirmed.get(normalizeText(text));
        return `- ${text}${id === undefined ? marker : `[^${id}]`} (${path}:${line})`;
      }),
      ...(missing.length > 0 ? [`They do not mention ${words}.`] : []),
    ].join("\n"),
  };
}

function scoreFile({ input, output }: MadeCall, question: string, weights: Weights): Finding[] {
  const title = titleOfFile(output);
  const asksForFigures = /\bfigures\b/i.test(question);
  let previous = 0;
  return sentencesOfFile(output).map(({ text, line }) => {
    const own = scoreSentence(text, title, question, weights);
    const isWanted = !asksForFigures || /\d|\bsuch as\b|\bfor example\b/i.test(text);
    const relevance = Math.max(own, previous * continuationFactor);
    const score = isWanted ? relevance : 0;
    previous = own;
    return {
      ...{ text, line, score, relevance, path: String(input.path), marker: markerOf(output) },
      stems: stemsOf(`${text} ${title}`),
    };
  });
}

function noAnswer(terms: readonly Term[], lines: readonly Sentence[]): string {
  const stems = stemsOf(lines.map(({ text }) => text).join(" "));
  const missing = terms.filter(({ stem }) => !stems.has(stem)).map(({ word }) => word);
  const gap = missing.length === 0 ? "covers all of it" : `mentions ${joinWords(missing)}`;
  return `${nothingFound} No file ${gap}.`;
}

/** Searches the files for each claim of a list and reports which are there word for word. */
export function checkClaims(view: View): Move | undefined {
  const items = view.question.matchAll(/^\s*[-*] +(.+)$/gm);
  const claims = Array.from(items, ([, item = ""]) => item.trim()).slice(0, maxClaims);
  if (!/\bcheck\b|\bverify\b/i.test(view.question) || claims.length === 0) return undefined;
  if (!offers(view, "grep_files")) return undefined;
  const searches = callsOf(view, "grep_files");
  if (searches.length === 0) {
    return {
      thinking: `${claims.length === 1 ? "1 claim" : `${claims.length} claims`}. I search for each in the files.`,
      calls: claims.map((claim) => ({
        name: "grep_files",
        input: { pattern: beginningOf(claim), literal: true, ...directoryOf(view) },
      })),
    };
  }
  const verdicts = claims.map((claim, index) => {
    const { output = "", isError = true } = searches[index] ?? {};
    const line = foundLines(output).find(({ text }) => hasClaim(text, claim));
    if (isError || line === undefined) return `- not found: ${claim}`;
    return `- supported: ${claim}${markerOf(output)} (${line.path}:${line.line})`;
  });
  const count = verdicts.filter((verdict) => verdict.startsWith("- supported")).length;
  return { text: `${count} of ${claims.length} claims are in the files.\n${verdicts.join("\n")}` };
}

function beginningOf(claim: string): string {
  return claim.split(" ").slice(0, searchedWords).join(" ");
}

/** A line has the claim if it contains all of it, or ends within it. */
function hasClaim(line: string, claim: string): boolean {
  const [inLine, claimed] = [normalizeText(line), normalizeText(claim)];
  const start = inLine.indexOf(normalizeText(beginningOf(claim)));
  return start >= 0 && (inLine.includes(claimed) || claimed.startsWith(inLine.slice(start)));
}

/** Lists the files of a directory with their titles; if it can read them, one after the other, with what each is about. */
export function catalogue(view: View): Move | undefined {
  if (!/\bcatalogue\b/i.test(view.question) || !offers(view, "grep_files")) return undefined;
  const search = callsOf(view, "grep_files")[0];
  const directory = directoryOf(view);
  if (search === undefined) {
    return {
      thinking: "The first heading of a file is its title.",
      calls: [{ name: "grep_files", input: { pattern: "^# ", ...directory } }],
    };
  }
  if (search.isError) return { text: `The catalogue failed: ${search.output}` };
  const files = foundLines(search.output)
    .filter(({ line }) => line === 1)
    .map(({ path, text }) => ({ path, title: text.replace(/^# +/, "") }))
    .sort((a, b) => a.path.localeCompare(b.path));
  const where = directory.path === undefined ? "the workspace" : `${directory.path}/`;
  const count = files.length === 1 ? "1 file" : `${files.length} files`;
  const reads = callsOf(view, "read_file");
  const next = offers(view, "read_file") ? files[reads.length] : undefined;
  const last = files[reads.length - 1];
  if (next !== undefined) {
    const said = last && `${last.title}: ${openingOf(reads.at(-1))}`;
    const calls = [{ name: "read_file", input: { path: next.path } }];
    return { text: said ?? `There are ${count} with a title in ${where}.`, calls };
  }
  const lines = files.map(({ path, title }, index) =>
    [`- ${title} (${path})`, reads[index] && sentencesOfFile(reads[index].output)[0]?.text]
      .filter(Boolean)
      .join(": "),
  );
  return { text: [`There are ${count} with a title in ${where}.`, ...lines].join("\n") };
}

/** The first paragraph of a file, shortened to two sentences. */
function openingOf(read: MadeCall | undefined): string {
  const sentences = read === undefined ? [] : sentencesOfFile(read.output).slice(0, 2);
  return sentences.map(({ text }) => text).join(" ");
}

/** Finds the directory that the question or the system prompt names, written as in `library/`. */
function directoryOf(view: View): { readonly path?: string } {
  const named = /\b(?:in|under|from|of) `([\w.-]+(?:\/[\w.-]+)*)\/`/;
  const path = (named.exec(view.question) ?? named.exec(view.system))?.[1];
  return path === undefined ? {} : { path };
}

/** A rare stem weighs more. */
type Weights = ReadonlyMap<string, number>;

/** Weighs terms by how many files have them. A missing term weighs most, a missing name twice that. */
function weigh(terms: readonly Term[], lines: readonly FoundLine[]): Weights {
  const found = lines.map(({ text, path }) => ({ stems: stemsOf(text), path }));
  return new Map(
    terms.map(({ stem, isName }) => {
      const hits = found.filter(({ stems }) => stems.has(stem));
      const count = new Set(hits.map(({ path }) => path)).size;
      return [stem, count === 0 && isName ? 2 : 1 / (1 + Math.log(1 + count))];
    }),
  );
}

/**
 * Ranks the files of a search result by coverage, then by total weight of their hits. A term in the name of a file
 * counts twice, unless the question has a name that no file has: then no file is about it.
 */
function rankFiles(lines: readonly FoundLine[], weights: Weights) {
  const total = weightOf(weights.keys(), weights);
  const lacksName = [...weights.values()].some((weight) => weight > 1);
  const named = (path: string) => (lacksName ? [] : stemsOf(path));
  const files = new Map<string, { readonly stems: Set<string>; hits: number }>();
  for (const { path, text } of lines) {
    const file = files.get(path) ?? { stems: new Set(), hits: 0 };
    files.set(path, file);
    const stems = stemsOf(`${text} ${path}`);
    for (const stem of stems) file.stems.add(stem);
    file.hits += weightOf(stems, weights);
  }
  return Array.from(files, ([path, { stems, hits }]) => ({
    path,
    coverage: (weightOf(stems, weights) + weightOf(named(path), weights)) / total,
    hits,
  })).sort((a, b) => b.coverage - a.coverage || b.hits - a.hits || a.path.localeCompare(b.path));
}

/** Scores a sentence by its terms, half of its title's other terms and typical words of such an answer. */
export function scoreSentence(
  sentence: string,
  title: string,
  question: string,
  weights: Weights,
): number {
  const own = stemsOf(sentence);
  const value = weightOf(own, weights);
  if (value === 0) return 0;
  const inTitle = [...stemsOf(title)].filter((stem) => !own.has(stem));
  const fromTitle = weightOf(inTitle, weights) / 2;
  const hasCue = cues.some(([asks, answers]) => asks.test(question) && answers.test(sentence));
  const named = namedShare(new Set([...own, ...inTitle]), question, weights);
  return (value + fromTitle + (hasCue ? 0.2 : 0)) * Math.max(named, 0.3);
}

const cues: readonly (readonly [asks: RegExp, answers: RegExp])[] = [
  [
    /\bwhy\b|\bcaus|\breason/i,
    /\bbecause\b|\bsince\b|\bso that\b|\bas a result\b|\bcaus|\bdue to\b/i,
  ],
  [
    /\bfigures\b|\bhow (?:many|much|long|far|fast|old|big|large)\b|\bwhen\b/i,
    /\d|\bpercent\b|\bhalf\b|\bthird\b/i,
  ],
  [/\bstop|\bprevent|\bprotect/i, /\bh[eo]lds? \w+ back\b|\bprotect|\bprevent|\bsafe/i],
  [/\bwhat (?:is|are)\b/i, /\b(?:is|are) (?:a|an|the|where|what)\b/i],
];

/** Returns the share of the question's names that the stems have; 1 when it has no names. */
function namedShare(stems: ReadonlySet<string>, question: string, weights: Weights): number {
  const names = termsOf(question)
    .filter(({ stem, isName }) => isName && weights.has(stem))
    .map(({ stem }) => stem);
  if (names.length === 0) return 1;
  const present = names.filter((stem) => stems.has(stem));
  return weightOf(present, weights) / weightOf(names, weights);
}

function weightOf(stems: Iterable<string>, weights: Weights): number {
  let total = 0;
  for (const stem of stems) total += weights.get(stem) ?? 0;
  return total;
}
