import type { FoundLine } from "./passages.ts";
import { type Term, wordsOf } from "./words.ts";

const minLetters = 5;
/** Short words differ by one letter and mean something else, as "planet" and "plant"; titles are what people ask for. */
const minUntitledLetters = 7;
const longWord = 8;

/** Whether a word that no file has may be a misspelled one. */
export function isCorrectable({ word }: Term): boolean {
  return word.length >= minLetters && /^\p{L}+$/u.test(word);
}

/** Returns a regular expression for words that differ from a word by a letter, and for long ones that begin alike. */
export function similarPattern(terms: readonly Term[]): string {
  const alternatives = terms.flatMap(({ stem }) => {
    const changed = Array.from(stem, (_, index) => [
      `${stem.slice(0, index)}.{0,2}${stem.slice(index + 1)}`,
      `${stem.slice(0, index)}..${stem.slice(index + 2)}`,
    ]);
    const beginning = stem.length >= longWord ? [stem.slice(0, 3)] : [];
    return [...changed.slice(1).flat(), ...beginning];
  });
  return `\\b(?:${[...new Set(alternatives)].join("|")})`;
}

/** Replaces misspelled words of a question by the nearest words of a search result. */
export function correctWords(
  question: string,
  doubtful: readonly Term[],
  lines: readonly FoundLine[],
): string {
  const corrections = new Map(
    doubtful.flatMap(({ word }) => {
      const near = nearestWord(word.toLowerCase(), lines);
      return near === undefined ? [] : [[word, near] as const];
    }),
  );
  return question.replace(/\p{L}+/gu, (word) => corrections.get(word) ?? word);
}

function nearestWord(word: string, lines: readonly FoundLine[]): string | undefined {
  const candidates = lines.flatMap(({ text, path, line }) => {
    const isTitle = line === 1 && text.startsWith("# ");
    return wordsOf(isTitle ? `${text} ${path}` : text).map((found) => ({ found, isTitle }));
  });
  const most = word.length >= longWord ? 2 : 1;
  let nearest: { readonly found: string; readonly distance: number } | undefined;
  for (const { found, isTitle } of candidates) {
    const lower = found.toLowerCase();
    if (lower[0] !== word[0] || (!isTitle && found.length < minUntitledLetters)) continue;
    const distance = distanceOf(singular(word), singular(lower));
    if (distance <= most && distance < (nearest?.distance ?? Number.POSITIVE_INFINITY))
      nearest = { found, distance };
  }
  return nearest?.found;
}

function singular(word: string): string {
  return word.replace(/ies$/, "y").replace(/([^s])s$/, "$1");
}

/** How many letters differ, where two neighbours in the wrong order count once. */
function distanceOf(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const at = (up: number, left: number) => rows[row - up]?.[column - left] ?? 0;
      const isSame = a[row - 1] === b[column - 1];
      const isSwapped = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      current.push(
        Math.min(
          at(1, 0) + 1,
          (current[column - 1] ?? 0) + 1,
          at(1, 1) + (isSame ? 0 : 1),
          isSwapped ? at(2, 2) + 1 : Number.POSITIVE_INFINITY,
        ),
      );
    }
    rows.push(current);
  }
  return rows[a.length]?.[b.length] ?? 0;
}
