import type { FoundLine } from "./passages.ts";
import { stemsOf, type Term, termsOf } from "./words.ts";

/** How much each term tells: the fewer lines have it, the more. */
export type Weights = ReadonlyMap<string, number>;

/** A file and how much of the question it speaks of, from 0 to 1. */
export interface RankedFile {
  readonly path: string;
  readonly coverage: number;
}

/** Weighs the terms by the lines that a search for them has found. What is nowhere weighs most, a name twice that. */
export function weigh(terms: readonly Term[], lines: readonly FoundLine[]): Weights {
  const stems = lines.map(({ text }) => stemsOf(text));
  return new Map(
    terms.map(({ stem, isName }) => {
      const count = stems.filter((line) => line.has(stem)).length;
      return [stem, count === 0 && isName ? 2 : 1 / (1 + Math.log(1 + count))];
    }),
  );
}

/** The files in which something was found, the one that speaks of most of the question first. */
export function rankFiles(lines: readonly FoundLine[], weights: Weights): readonly RankedFile[] {
  const total = sum(weights.values());
  const stems = new Map<string, Set<string>>();
  const hits = new Map<string, number>();
  for (const { path, text } of lines) {
    const known = stems.get(path) ?? new Set();
    stems.set(path, known);
    let hit = 0;
    for (const stem of stemsOf(`${text} ${path}`)) {
      known.add(stem);
      hit += weights.get(stem) ?? 0;
    }
    hits.set(path, (hits.get(path) ?? 0) + hit);
  }
  return [...stems]
    .map(([path, known]) => ({ path, coverage: weightOf(known, weights) / total }))
    .sort(
      (a, b) =>
        b.coverage - a.coverage ||
        (hits.get(b.path) ?? 0) - (hits.get(a.path) ?? 0) ||
        a.path.localeCompare(b.path),
    );
}

/** How well a sentence answers: what it says of the terms, half of what its title says, and the words that a question of this kind waits for. */
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
  const cue = cues.some(([asked, told]) => asked.test(question) && told.test(sentence)) ? 0.2 : 0;
  const named = namedIn(new Set([...own, ...inTitle]), question, weights);
  return (value + fromTitle + cue) * Math.max(named, 0.3);
}

const cues: readonly (readonly [asked: RegExp, told: RegExp])[] = [
  [
    /\bwhy\b|\bcaus|\breason/i,
    /\bbecause\b|\bsince\b|\bso that\b|\bas a result\b|\bcaus|\bdue to\b/i,
  ],
  [/\bfigures\b|\bhow (?:many|much|long|far|fast|old|big|large)\b|\bwhen\b/i, /\d/],
  [/\bwhat (?:is|are)\b/i, /\b(?:is|are) (?:a|an|the|where|what)\b/i],
];

/** How much of what a question calls by name is there, from 0 to 1; 1 when it names nothing. */
function namedIn(stems: ReadonlySet<string>, question: string, weights: Weights): number {
  const names = termsOf(question)
    .filter(({ stem, isName }) => isName && weights.has(stem))
    .map(({ stem }) => stem);
  if (names.length === 0) return 1;
  const there = names.filter((stem) => stems.has(stem));
  return weightOf(there, weights) / weightOf(names, weights);
}

function weightOf(stems: Iterable<string>, weights: Weights): number {
  return sum([...stems].map((stem) => weights.get(stem) ?? 0));
}

function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
