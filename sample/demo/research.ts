import { evidenceIn, foundLines, markerOf, sentencesOfFile, titleOfFile } from "./passages.ts";
import { type Query, queryOf, type RankedSentence, rankFiles, rankSentences } from "./rank.ts";
import { correctWords, isCorrectable, similarPattern } from "./spelling.ts";
import { checkTask, delegate, spawnCalls, teamIn, waitFor } from "./team.ts";
import { callsOf, directoryOf, type MadeCall, type Move, offers, type View } from "./view.ts";
import { ignoredMessages, isWanted, type Wishes, wishesIn } from "./wishes.ts";
import { joinWords, normalizeText, patternFor, stemsOf, synonymsIn, type Term } from "./words.ts";

const maxFiles = 3;
const maxFindings = 3;
const minRelativeFile = 0.7; // relative to the score of the best file
const minRelativeSentence = 0.5; // relative to the score of the best sentence

/** The report of a researcher without findings begins with this; the lead recognizes it. */
export const nothingFound = /^The (?:library has|files have) nothing that answers /;

/** The findings of the files about one question; `failure` if they could not be searched. */
interface Result {
  readonly findings: readonly Finding[];
  readonly missing: readonly Term[];
  readonly failure?: string;
}

/** Searches files for the terms of a question, reads the best ones and reports the sentences that answer it. */
export function research(view: View): Move | undefined {
  if (!offers(view, "grep_files", "read_file")) return undefined;
  const wishes = view.steering.map(wishesIn);
  const questions = questionsIn(view, wishes);
  const results: Result[] = [];
  for (const question of questions) {
    const next = search(view, question);
    if ("calls" in next) return next;
    results.push(next);
  }
  const failure = results.find((result) => result.failure !== undefined)?.failure;
  if (failure !== undefined) return { text: failure };
  const found = results.flatMap(({ findings }) => findings);
  const missing = results.flatMap((result) => result.missing);
  if (found.length === 0)
    return report(noAnswer(view, questions, missing), ...ignoredMessages(view));
  const wanted = wantedFindings(found, wishes);
  if (wanted.length === 0) return report("With these changes nothing is left of the findings.");
  return (
    checkedReport(view, wanted, missing) ??
    report(`${noAnswer(view, questions, [])} The check did not confirm the findings.`)
  );
}

/** The question of the task and those of messages; one that a message asks instead replaces those before it. */
function questionsIn({ question }: View, wishes: readonly Wishes[]): readonly string[] {
  const from = wishes.findLastIndex(({ isInstead }) => isInstead);
  const added = wishes.slice(Math.max(0, from)).flatMap(({ asks }) => asks ?? []);
  return from < 0 ? [question, ...added] : added;
}

/** Leaves out what a message does not want, and sentences that answer two questions. */
function wantedFindings(found: readonly Finding[], wishes: readonly Wishes[]): readonly Finding[] {
  const distinct = new Map(found.map((finding) => [`${finding.path}:${finding.text}`, finding]));
  const wanted = [...distinct.values()].filter(({ text }) => isWanted(text, wishes));
  if (!wishes.some(({ isBrief }) => isBrief)) return wanted;
  const best = Math.max(...wanted.map(({ score }) => score));
  return wanted.filter(({ score }) => score === best).slice(0, 1);
}

/** The next step of the search for one question, or its result. Earlier steps are recognized by their input. */
function search(view: View, question: string): Result | Required<Pick<Move, "thinking" | "calls">> {
  const plain = queryOf(question, new Map()).terms;
  if (plain.length === 0) return { findings: [], missing: [] };
  const words = joinWords(plain.map(({ word }) => word));
  const thesaurus = thesaurusIn(view);
  const lookup = thesaurus === undefined ? undefined : grepCall(view, patternFor(plain), thesaurus);
  if (thesaurus !== undefined && lookup === undefined)
    return grep(`I look up other words for ${words}.`, patternFor(plain), thesaurus);
  const synonyms = synonymsIn(foundLines(lookup?.output ?? "").map(({ text }) => text));
  const asked = queryOf(question, synonyms);
  const { path: directory } = directoryOf(view);
  // The titles show which other files there are, so that the rare terms can be told from the common ones.
  const pattern = `^# |${patternFor(asked.terms)}`;
  const search = grepCall(view, pattern, directory);
  if (search === undefined) {
    const isRelated = asked.terms.some(({ alike }) => alike.length > 0);
    const related = isRelated ? ", and for related words" : "";
    return grep(`I search for ${words}${related}.`, pattern, directory);
  }
  const failed = { findings: [], missing: [] };
  if (search.isError) return { ...failed, failure: `The search failed: ${search.output}` };
  if (foundLines(search.output).length === 0 && /\bthe search timed out\b/.test(search.output))
    return { ...failed, failure: "The search timed out before it found anything." };

  const doubtful = missingTerms(asked, search.output).filter(isCorrectable);
  const similar = similarPattern(doubtful);
  const spelling = doubtful.length === 0 ? undefined : grepCall(view, similar, directory);
  if (doubtful.length > 0 && spelling === undefined) {
    const unknown = joinWords(doubtful.map(({ word }) => word));
    const thinking = `No file has ${unknown}. I search for words that are spelled alike.`;
    return grep(thinking, similar, directory);
  }
  const output = [search.output, spelling?.output ?? ""].join("\n");
  const lines = distinctLines(output);
  const query = queryOf(correctWords(question, doubtful, lines), synonyms);
  const { files, weights } = rankFiles(lines, query);
  const missing = missingTerms(query, output);
  const paths = files
    .filter(({ score }) => score >= (files[0]?.score ?? 0) * minRelativeFile)
    .slice(0, maxFiles)
    .map(({ path }) => path);
  const done = callsOf(view, "read_file");
  const unread = paths.filter((path) => done.every(({ input }) => input.path !== path));
  if (unread.length > 0) {
    return {
      thinking: `${joinWords(unread)} ${unread.length === 1 ? "fits" : "fit"} best. I read that.`,
      calls: unread.map((path) => ({ name: "read_file", input: { path } })),
    };
  }
  const reads = done.filter(({ input }) => paths.includes(String(input.path)));
  const findings = findingsOf(reads, query.measure !== undefined, (read) => {
    const file = { path: String(read.input.path), title: titleOfFile(read.output) };
    const marker = markerOf(read.output);
    const ranked = rankSentences(sentencesOfFile(read.output), file, query, weights);
    return ranked.map((sentence) => ({ ...sentence, marker }));
  });
  return { findings, missing };
}

/** The file with synonyms that the system prompt names, if there is one. */
function thesaurusIn({ system }: View): string | undefined {
  return /`([\w./-]*\bsynonyms\.\w+)`/.exec(system)?.[1];
}

function grepInput(pattern: string, path: string | undefined) {
  return { pattern, ignore_case: true, ...(path !== undefined && { path }) };
}

function grep(thinking: string, pattern: string, path: string | undefined) {
  return { thinking, calls: [{ name: "grep_files", input: grepInput(pattern, path) }] };
}

function grepCall(view: View, pattern: string, path: string | undefined): MadeCall | undefined {
  const wanted = grepInput(pattern, path);
  return callsOf(view, "grep_files").find(
    ({ input }) => input.pattern === wanted.pattern && input.path === wanted.path,
  );
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

/** Reports the findings; with a critic in the team, only those that it confirms, and undefined if it confirms none. */
function checkedReport(
  view: View,
  findings: readonly Finding[],
  missing: readonly Term[],
): Move | undefined {
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
  if (kept.length === 0) return undefined;
  const files = joinWords([...new Set(kept.map(({ path }) => path))]);
  const words = joinWords(missing.map(({ word }) => word));
  return report(
    `${kept.length === 1 ? "1 finding" : `${kept.length} findings`} in ${files}${critic === undefined ? "" : `, checked by ${critic}`}:`,
    ...kept.map(({ text, path, line, marker }) => {
      const id = confirmed.get(normalizeText(text));
      return `- ${text}${id === undefined ? marker : `[^${id}]`} (${path}:${line})`;
    }),
    ...(missing.length > 0 ? [`They do not mention ${words}.`] : []),
    ...ignoredMessages(view),
  );
}

function report(...lines: readonly string[]): Move {
  return { text: lines.join("\n") };
}

/** Quotes the last question, and names the words that no file has. */
function noAnswer(view: View, questions: readonly string[], missing: readonly Term[]): string {
  const isLibrary = directoryOf(view).path === "library";
  const { text, terms } = queryOf(questions.at(-1) ?? "", new Map());
  const words = missing.map(({ word }) => `“${word}”`);
  return [
    `The ${isLibrary ? "library has" : "files have"} nothing that answers “${text}”${/[.?!]$/.test(text) ? "" : "."}`,
    ...(terms.length === 0 ? ["It has no words to look for."] : []),
    ...(words.length === 0
      ? []
      : [`No ${isLibrary ? "article" : "file"} mentions ${joinWords(words, "or")}.`]),
  ].join(" ");
}
