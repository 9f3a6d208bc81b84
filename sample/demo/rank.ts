import { meetsDemands } from "./demands.ts";
import { type Measure, measureIn } from "./measure.ts";
import { figuresAdvice, subjectAdvice } from "./parts.ts";
import type { FoundLine, Sentence } from "./passages.ts";
import { type Synonyms, stemOf, stemsOf, type Term, termsOf, wordsOf } from "./words.ts";

/** The parameters of BM25: how soon more of the same term stop to count, and how much a long text is discounted. */
const [saturation, lengthDiscount] = [1.2, 0.75];
const titleHits = 4; // a term in the title or the name of a file counts like so many more in its text
const synonymValue = 0.75; // relative to the word of the question
const contextValue = 0.4; // of a term in the title, the heading or the sentence before, relative to the sentence itself
const minFileShare = 0.5; // of the weight of the terms: a file with less does not answer the question
const minSentenceShare = 0.5;
const minMeasureShare = 0.8; // a figure of something else is wrong, not vague
const minAskedShare = 0.45; // of the weight of the terms that the title of the file does not have
const minNameShare = 0.6; // of the weight of the names in the question
const minWeight = 0.38; // of the terms in a file, relative to a term that no file has: common words alone say nothing

const leadValue = 1.5; // of the first sentence of an article about a term: it says what the rest explains
const continuedValue = 0.7; // of a sentence that continues the one before it, relative to that one
const continuation = /^(?:They|It|This|These|Such|So|Then|Its|Their|There|For this|In this)\b/;
const minorValue = 0.4; // of a term that says little about the subject, relative to the others
const hintValue = 0.8; // of a term from the question before
const minorStems = stemsOf("form formed create change live");

/** The terms and the figure that a question looks for. */
export interface Query {
  readonly text: string;
  readonly terms: readonly Term[];
  /** The values of terms that say little about the subject, or that come from the question before. */
  readonly minor: ReadonlyMap<Term, number>;
  /** The terms of the question before, if this one refers to its subject. */
  readonly hints: readonly Term[];
  /** The kind of figure that answers it; undefined for other questions. */
  readonly measure: Measure | undefined;
  /** Whether only sentences with figures or examples count. */
  readonly wantsFigures: boolean;
}

/** Reads a question. Words that say which figure is asked for are no terms: the answer has the figure instead. */
export function queryOf(question: string, synonyms: Synonyms): Query {
  const wantsFigures = question.endsWith(figuresAdvice);
  const asked = wantsFigures ? question.slice(0, -figuresAdvice.length) : question;
  const [text = "", subject = ""] = asked.split(subjectAdvice);
  const measure = measureIn(text);
  const own = termsOf(measure?.rest ?? text, synonyms);
  const hints = termsOf(subject, synonyms).filter(({ stem }) =>
    own.every((it) => it.stem !== stem),
  );
  const minor = new Map([
    ...hints.map((term) => [term, hintValue] as const),
    // "How long do beavers live" asks for a figure of exactly that.
    ...own
      .filter(({ stem }) => measure === undefined && minorStems.has(stem))
      .map((term) => [term, minorValue] as const),
  ]);
  return { text, terms: [...own, ...hints], minor, hints, measure, wantsFigures };
}

/** The weight of each term: rare ones weigh more (the inverse document frequency of BM25). */
export type Weights = ReadonlyMap<Term, number>;

/** Ranks the files of a search result by BM25 and weighs the terms. The result must contain the titles of all files. */
export function rankFiles(lines: readonly FoundLine[], { terms, minor }: Query) {
  const paths = [...new Set(lines.map(({ path }) => path))];
  const files = paths.map((path) => {
    const own = lines.filter((line) => line.path === path);
    const title = own.find(({ line }) => line === 1)?.text ?? "";
    return {
      path,
      text: own.flatMap(({ text }) => wordsOf(text)).map(stemOf),
      title: stemsOf(`${title} ${path.replace(/^.*\//, "")}`),
    };
  });
  const hits = (term: Term, { text, title }: (typeof files)[number]) =>
    countOf(term, text) + titleHits * countOf(term, title);
  const weights: Weights = new Map(
    terms.map((term) => {
      // A word that the files have is as rare as it is, however common its synonyms are.
      const exact = files.filter(
        ({ text, title }) => text.includes(term.stem) || title.has(term.stem),
      );
      const count = exact.length || files.filter((file) => hits(term, file) > 0).length;
      const weight = Math.log(1 + (files.length - count + 0.5) / (count + 0.5));
      const isUnknownName = count === 0 && term.isName;
      return [term, weight * (isUnknownName ? 2 : 1) * (minor.get(term) ?? 1)];
    }),
  );
  const names = namesIn(lines);
  const most = Math.log(1 + (files.length + 0.5) / 0.5);
  const ranked = files.map((file) => {
    const score = sumOf(terms, (term) => {
      const count = hits(term, file);
      return weightOf(term, weights) * (count / (count + saturation));
    });
    const share = shareOf(terms, weights, (term) => hits(term, file) > 0);
    const found = terms.filter((term) => hits(term, file) > 0);
    const isTitled = terms.some((term) => countOf(term, file.title) > 0);
    const isNamed = found.some((term) => term.isName || names.has(term.stem));
    const isTelling =
      isTitled || isNamed || sumOf(found, (term) => weightOf(term, weights)) >= most * minWeight;
    return { path: file.path, score, isFitting: share >= minFileShare && isTelling };
  });
  ranked.sort((a, b) => b.score - a.score || a.path.localeCompare(b.path));
  return { files: ranked.filter(({ isFitting }) => isFitting), weights };
}

/** The stems of words that are capitalized inside a line; people often write them without capitals. */
function namesIn(lines: readonly FoundLine[]): ReadonlySet<string> {
  const words = lines.flatMap(({ text }) => text.match(/(?<=[\p{Ll},;:] )\p{Lu}\p{Ll}+/gu) ?? []);
  return new Set(words.map(stemOf));
}

/** A sentence of a file with its value for a question. */
export interface RankedSentence extends Sentence {
  readonly path: string;
  readonly score: number;
  /** Whether it has the figure that the question asks for, if it asks for one. */
  readonly isAnswer: boolean;
}

/** Ranks the sentences of one file by BM25, with the title, the heading and the sentence before as context. */
export function rankSentences(
  sentences: readonly Sentence[],
  file: { readonly path: string; readonly title: string },
  query: Query,
  weights: Weights,
): readonly RankedSentence[] {
  const { terms, hints, measure, wantsFigures, text: question } = query;
  const title = stemsOf(`${file.title} ${file.path.replace(/^.*\//, "")}`);
  const stems = sentences.map(({ text }) => wordsOf(text).map(stemOf));
  const average = sumOf(stems, ({ length }) => length) / Math.max(1, stems.length);
  const names = terms.filter(({ isName }) => isName);
  const others = terms.filter(({ isName }) => !isName);
  const asked = terms.filter((term) => countOf(term, title) === 0);
  const minShare = measure === undefined ? minSentenceShare : minMeasureShare;
  let previous = 0;
  return sentences.map((sentence, index) => {
    const { text, heading } = sentence;
    const own = stems[index] ?? [];
    const follows = sentences[index - 1]?.heading === heading;
    const before = follows ? (stems[index - 1] ?? []) : [];
    // The largest thing in an article about rivers need not be a river.
    const around = measure?.isSuperlative ? [] : [...title, ...stemsOf(heading)];
    const context = new Set([...around, ...before]);
    const discount =
      saturation * (1 - lengthDiscount + (lengthDiscount * own.length) / Math.max(1, average));
    const value = (term: Term) => {
      const count = countOf(term, own);
      const nearby = count > 0 ? 0 : Math.min(1, countOf(term, context)) * contextValue;
      return (count * (saturation + 1)) / (count + discount) + nearby;
    };
    const has = (term: Term) => countOf(term, own) > 0 || countOf(term, context) > 0;
    const share = shareOf(terms, weights, has);
    const nameShare = shareOf(names, weights, has);
    const total = sumOf(terms, (term) => weightOf(term, weights) * value(term));
    // A figure may stand alone: "The longest one known is 800 metres long."
    const hasOwn = measure !== undefined || terms.some((term) => countOf(term, own) > 0);
    const hasSubject = hints.length === 0 || hints.some(has);
    const isMet = meetsDemands(query, text, (term) => countOf(term, own) > 0);
    // A name in passing does not answer what is asked about it.
    const isPassing = others.length > 0 && !others.some(has) && !beginsWith(names, own);
    const askedShare = shareOf(
      asked,
      weights,
      (term) => countOf(term, [...own, ...stemsOf(heading)]) > 0,
    );
    const isAbout =
      Math.min(share / minShare, nameShare / minNameShare, askedShare / minAskedShare) >= 1 &&
      hasOwn &&
      hasSubject &&
      !isPassing &&
      isMet;
    const isContinued = follows && continuation.test(text);
    const score = Math.max(isAbout ? total : 0, isContinued ? previous * continuedValue : 0);
    previous = score;
    const isFigure = !wantsFigures || /\d|\bsuch as\b|\bfor example\b/i.test(text);
    const isAnswer = isFigure && (measure === undefined || measure.isIn(text));
    const isLead = index === 0 && terms.some((term) => countOf(term, title) > 0);
    const factor = cueFactor(question, text) * subjectFactor(terms, own) * (isLead ? leadValue : 1);
    return { ...sentence, path: file.path, isAnswer, score: score * factor };
  });
}

/** How often a term is among stems; a synonym counts less. */
function countOf({ stem, alike }: Term, stems: Iterable<string>): number {
  let count = 0;
  for (const other of stems) {
    if (other === stem) count += 1;
    else if (alike.includes(other)) count += synonymValue;
  }
  return count;
}

/** The share of the weight of terms that have something; 1 without terms. */
function shareOf(terms: readonly Term[], weights: Weights, has: (term: Term) => boolean): number {
  const total = sumOf(terms, (term) => weightOf(term, weights));
  return total === 0 ? 1 : sumOf(terms.filter(has), (term) => weightOf(term, weights)) / total;
}

const weightOf = (term: Term, weights: Weights) => weights.get(term) ?? 0;

function sumOf<T>(items: readonly T[], value: (item: T) => number): number {
  return items.reduce((sum, item) => sum + value(item), 0);
}

const cues: readonly (readonly [asks: RegExp, answers: RegExp])[] = [
  [
    /\bwhy\b|\bcaus|\breason/i,
    /\bbecause\b|\bsince\b|\bso\b|\bdo it to\b|\bas a result\b|\bcaus|\bdue to\b|\bfor this\b/i,
  ],
  [/\bstop|\bprevent|\bprotect/i, /\bh[eo]lds? \w+ back\b|\bprotect|\bprevent|\bkeeps?\b|\bsafe/i],
  [
    /\bwhat (?:is|are|does)\b/i,
    /^(?:An?|The) [\w -]+ (?:is|are|means|forms|happens|begins)\b|\bcalled\b/,
  ],
  [
    /\bhow (?:do|does|did|is|are|was|were)\b/i,
    /\b(?:forms?|begins?|starts?|happens?) (?:where|when|as|with|by)\b/,
  ],
  [/\bwho\b/i, /\w \p{Lu}\p{Ll}+|\bpeople\b/u],
  [/\bwhen\b|\bhow (?:many|much|old)\b/i, /\d/],
];
const cueValue = 1.6;
const subjectValue = 1.2;

/** Words that are typical of an answer make a sentence more likely. */
function cueFactor(question: string, sentence: string): number {
  return cues.some(([asks, answers]) => asks.test(question) && answers.test(sentence))
    ? cueValue
    : 1;
}

/** A sentence that begins with a term is about it. */
function subjectFactor(terms: readonly Term[], stems: readonly string[]): number {
  return beginsWith(terms, stems) ? subjectValue : 1;
}

function beginsWith(terms: readonly Term[], stems: readonly string[]): boolean {
  return terms.some((term) => countOf(term, stems.slice(0, 2)) > 0);
}

/** How well a sentence fits a question by its words alone, for a writer that sees no files. */
export function fitOf(sentence: string, question: string): number {
  const { terms, measure } = queryOf(question, new Map());
  const stems = wordsOf(sentence).map(stemOf);
  const count = sumOf(terms, (term) => Math.min(1, countOf(term, stems)));
  const isMeasured = measure?.isIn(sentence) === true;
  const factor = cueFactor(question, sentence) * subjectFactor(terms, stems);
  return (count + (isMeasured ? 1 : 0)) * factor;
}
