import { evidenceIn, foundLines, markerOf, sentencesOfFile, titleOfFile } from "./passages.ts";
import { type Query, queryOf, type RankedSentence, rankFiles, rankSentences } from "./rank.ts";
import { correctWords, isCorrectable, similarPattern } from "./spelling.ts";
import { checkTask, delegate, spawnCalls, teamIn, waitFor } from "./team.ts";
import { callsOf, directoryOf, type MadeCall, type Move, offers, type View } from "./view.ts";
import { joinWords, normalizeText, patternFor, stemsOf, synonymsIn, type Term } from "./words.ts";

const maxFiles = 3;
const maxFindings = 3;
const minRelativeFile = 0.7; // relative to the score of the best file
const minRelativeSentence = 0.5; // relative to the score of the best sentence

/** The report of a researcher without findings begins with this; the lead recognizes it. */
export const nothingFound = /^The (?:library says|files say) nothing about /;

/** Searches files for the terms of a question, reads the best ones and reports the sentences that answer it. */
export function research(view: View): Move | undefined {
  if (!offers(view, "grep_files", "read_file")) return undefined;
  const { lookup, search, spelling } = searchesIn(view);
  const synonyms = synonymsIn(foundLines(lookup?.output ?? "").map(({ text }) => text));
  const asked = queryOf(view.question, synonyms);
  if (asked.terms.length === 0)
    return { text: `${saysNothing(view)} this: it has no words to look for.` };
  const words = joinWords(asked.terms.map(({ word }) => word));
  const thesaurus = thesaurusIn(view);
  if (thesaurus !== undefined && lookup === undefined)
    return grep(`I look up other words for ${words}.`, patternFor(asked.terms), thesaurus);
  if (search === undefined) {
    const related = asked.terms.some(({ alike }) => alike.length > 0)
      ? ", and for related words"
      : "";
    // The titles show which other files there are, so that the rare terms can be told from the common ones.
    const pattern = `^# |${patternFor(asked.terms)}`;
    return grep(`I search for ${words}${related}.`, pattern, directoryOf(view).path);
  }
  if (search.isError) return { text: `The search failed: ${search.output}` };
  if (foundLines(search.output).length === 0 && /\bthe search timed out\b/.test(search.output))
    return { text: "The search timed out before it found anything." };

  const doubtful = missingTerms(asked, search.output).filter(isCorrectable);
  if (doubtful.length > 0 && spelling === undefined) {
    const unknown = joinWords(doubtful.map(({ word }) => word));
    const thinking = `No file has ${unknown}. I search for words that are spelled alike.`;
    return grep(thinking, similarPattern(doubtful), directoryOf(view).path);
  }
  const output = [search.output, spelling?.output ?? ""].join("\n");
  const lines = distinctLines(output);
  const query = queryOf(correctWords(view.question, doubtful, lines), synonyms);
  const { files, weights } = rankFiles(lines, query);
  const [best] = files;
  if (best === undefined) return { text: noAnswer(view, missingTerms(query, output)) };
  const reads = callsOf(view, "read_file");
  if (reads.length > 0) {
    const findings = findingsOf(reads, query.measure !== undefined, (read) => {
      const file = { path: String(read.input.path), title: titleOfFile(read.output) };
      const marker = markerOf(read.output);
      const ranked = rankSentences(sentencesOfFile(read.output), file, query, weights);
      return ranked.map((sentence) => ({ ...sentence, marker }));
    });
    return checkedReport(view, findings, missingTerms(query, output));
  }
  const paths = files
    .filter(({ score }) => score >= best.score * minRelativeFile)
    .slice(0, maxFiles)
    .map(({ path }) => path);
  return {
    thinking: `${joinWords(paths)} ${paths.length === 1 ? "fits" : "fit"} best. I read that.`,
    calls: paths.map((path) => ({ name: "read_file", input: { path } })),
  };
}

/** The file with synonyms that the system prompt names, if there is one. */
function thesaurusIn({ system }: View): string | undefined {
  return /`([\w./-]*\bsynonyms\.\w+)`/.exec(system)?.[1];
}

/** The searches of a researcher: for synonyms, for the terms, and for words that are spelled alike. */
function searchesIn(view: View) {
  const searches = callsOf(view, "grep_files");
  const thesaurus = thesaurusIn(view);
  const lookup = searches.find(({ input }) => thesaurus !== undefined && input.path === thesaurus);
  const [search, spelling] = searches.filter((call) => call !== lookup);
  return { lookup, search, spelling };
}

function grep(thinking: string, pattern: string, path: string | undefined): Move {
  const input = { pattern, ignore_case: true, ...(path !== undefined && { path }) };
  return { thinking, calls: [{ name: "grep_files", input }] };
}

function distinctLines(output: string) {
  const lines = foundLines(output).map((line) => [`${line.path}:${line.line}`, line] as const);
  return [...new Map(lines).values()];
}

/** The terms that no line of a search result has. */
function missingTerms({ terms }: Query, output: string): readonly Term[] {
  const found = stemsOf(
    foundLines(output)
      .map(({ path, text }) => `${path} ${text}`)
      .join(" "),
  );
  return terms.filter(({ stem, alike }) => ![stem, ...alike].some((each) => found.has(each)));
}

/** A sentence that answers the question, with its citation marker. */
type Finding = RankedSentence & { readonly marker: string };

/** Returns the best sentences, in the order of the files. */
function findingsOf(
  reads: readonly MadeCall[],
  asksForMeasure: boolean,
  rank: (read: MadeCall) => readonly Finding[],
): readonly Finding[] {
  const all = reads.filter(({ isError }) => !isError).flatMap(rank);
  // Figures that hardly belong to the question are no answer, even if there are no better ones.
  const compared = asksForMeasure ? all.filter(({ isAnswer }) => isAnswer) : all;
  const best = Math.max(0, ...compared.map(({ score }) => score));
  const kept = all
    .filter(({ isAnswer, score }) => isAnswer && score > 0 && score >= best * minRelativeSentence)
    .sort((a, b) => b.score - a.score)
    .slice(0, maxFindings);
  return all.filter((finding) => kept.includes(finding));
}

/** Reports the findings; with a critic in the team, only those that it confirms. */
function checkedReport(view: View, findings: readonly Finding[], missing: readonly Term[]): Move {
  if (findings.length === 0) return { text: noAnswer(view, missing) };
  const critic = offers(view, "agent_spawn") ? teamIn(view.system).critic : undefined;
  const count = findings.length === 1 ? "1 finding" : `${findings.length} findings`;
  const thinking = `${count}. ${critic} checks them before I report.`;
  const move =
    delegate(view, critic, { task: checkTask(findings.map(({ text }) => text)), thinking }) ??
    waitFor(view, spawnCalls(view, critic));
  if (move !== undefined) return move;
  const confirmed = new Map(
    evidenceIn(view).map(({ statement, id }) => [normalizeText(statement), id]),
  );
  const isConfirmed = ({ text }: Finding) =>
    critic === undefined || confirmed.has(normalizeText(text));
  const kept = findings.filter(isConfirmed);
  if (kept.length === 0)
    return { text: `${noAnswer(view, [])} The check did not confirm the findings.` };
  const files = joinWords([...new Set(kept.map(({ path }) => path))]);
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

function saysNothing(view: View): string {
  const { path } = directoryOf(view);
  return path === "library" ? "The library says nothing about" : "The files say nothing about";
}

/** Names the words that no file has, or the question if the files have all of its words but no answer. */
function noAnswer(view: View, missing: readonly Term[]): string {
  const words = joinWords(missing.map(({ word }) => word));
  const { text } = queryOf(view.question, new Map());
  return `${saysNothing(view)} ${words === "" ? `this question: ${text}` : `${words}.`}`;
}
