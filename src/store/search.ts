import type { Block, Message, SearchMatch } from "../contract/index.ts";

/** A message with its place. */
export interface SearchCandidate {
  readonly sessionId: string;
  readonly index: number;
  readonly message: Message;
}

/** Words that must follow each other. */
export type Phrase = readonly string[];

interface Word {
  readonly word: string;
  /** The index of its first character in the text. */
  readonly at: number;
}

/** Only the first part of a very long message is indexed. */
const longestText = 65_536;
const mostPhrases = 32;
/** Shorter words match only themselves: too many words begin with them. */
const shortestBeginning = 3;
const excerptLength = 160;

/** The phrases of a search text; empty when it has no words. */
export function phrasesOf(text: string): readonly Phrase[] {
  return text
    .split(/\s+/)
    .map((term) => wordsOf(term).map(({ word }) => word))
    .filter((phrase) => phrase.length > 0)
    .slice(0, mostPhrases);
}

/** Whether a word also matches longer words that begin with it. */
export function isBeginning(word: string): boolean {
  return word.length >= shortestBeginning;
}

/** The words of a text, without case and accents, as `phrasesOf` finds them. */
export function plainWords(text: string): readonly string[] {
  return wordsOf(text).map(({ word }) => word);
}

/** The words of a message, separated by spaces, for an index. */
export function searchWords(message: Message): string {
  return wordsOf(searchText(message))
    .map(({ word }) => word)
    .join(" ");
}

/** The candidates that contain every phrase, best match first; ties keep their order. */
export function bestMatches(
  candidates: Iterable<SearchCandidate>,
  phrases: readonly Phrase[],
  limit: number,
): SearchMatch[] {
  if (phrases.length === 0) return [];
  const found: { readonly match: SearchMatch; readonly score: number }[] = [];
  for (const { sessionId, index, message } of candidates) {
    const text = searchText(message);
    const words = wordsOf(text);
    const places = phrases.map((phrase) => placesOf(phrase, words));
    if (places.some(({ length }) => length === 0)) continue;
    const first = Math.min(...places.map(([place = 0]) => place));
    const excerpt = excerptOf(text, words[first]?.at ?? 0);
    const match = { sessionId, index, role: message.role, excerpt };
    found.push({ match, score: scoreOf(places, words.length) });
  }
  found.sort((a, b) => b.score - a.score);
  return found.slice(0, limit).map(({ match }) => match);
}

/**
 * Many matches in a short message rank high. The rank depends on the message alone: one that counts how rare a word is
 * would reveal something about the messages of other users.
 */
function scoreOf(places: readonly (readonly number[])[], words: number): number {
  let score = 0;
  for (const { length } of places) score += length / (length + 1 + words / 200);
  return score;
}

function placesOf(phrase: Phrase, words: readonly Word[]): readonly number[] {
  const last = phrase.length - 1;
  const fits = (at: number) =>
    phrase.every((wanted, offset) => {
      const word = words[at + offset]?.word;
      if (offset < last || !isBeginning(wanted)) return word === wanted;
      return word?.startsWith(wanted);
    });
  return words.flatMap((_, at) => (fits(at) ? [at] : []));
}

/** Texts and tool results, without reasoning and metadata. */
function searchText(message: Message): string {
  return message.content.flatMap(textsOf).join("\n").slice(0, longestText);
}

function textsOf(block: Block): readonly string[] {
  if (block.type === "text" || block.type === "hint") return [block.text];
  return block.type === "tool_result" ? block.output.flatMap(textsOf) : [];
}

// In scripts without spaces between words, each letter counts as a word.
const runs =
  /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}]|[[\p{L}\p{N}\p{M}]--[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}]]+/gv;

/** Runs of letters and digits, without case and accents. */
function wordsOf(text: string): readonly Word[] {
  const words: Word[] = [];
  for (const { 0: run, index: at } of text.matchAll(runs)) {
    const plain = run
      .normalize("NFKD")
      .toLowerCase()
      .replace(/\p{M}+/gu, "");
    for (const word of plain.match(/[\p{L}\p{N}]+/gu) ?? []) words.push({ word, at });
  }
  return words;
}

function excerptOf(text: string, at: number): string {
  const start = Math.max(0, at - excerptLength / 4);
  const end = start + excerptLength;
  const piece = text.slice(start, end).replace(/\s+/g, " ").trim();
  // The cut may have split a surrogate pair at either end.
  const whole = piece.replace(/^[\udc00-\udfff]|[\ud800-\udbff]$/g, "");
  return `${start > 0 ? "…" : ""}${whole}${end < text.length ? "…" : ""}`;
}
