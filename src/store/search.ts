import type { Block, Message } from "../protocol/message.ts";
import type { SearchMatch } from "../protocol/store.ts";

/** A message to look into, and where it stands. */
export interface SearchCandidate {
  readonly sessionId: string;
  readonly index: number;
  readonly message: Message;
}

/** Words that have to follow each other. */
export type Phrase = readonly string[];

interface Word {
  readonly word: string;
  /** Where it begins in the text. */
  readonly at: number;
}

/** A pasted book is found by its beginning. */
const longestText = 65_536;
const mostPhrases = 32;
/** Shorter words are not taken for beginnings: too much begins with them. */
const shortestBeginning = 3;
const excerptLength = 160;

/** What a search looks for; nothing when the text has no words. */
export function phrasesOf(text: string): readonly Phrase[] {
  return text
    .split(/\s+/)
    .map((term) => wordsOf(term).map(({ word }) => word))
    .filter((phrase) => phrase.length > 0)
    .slice(0, mostPhrases);
}

/** Whether a word also stands for the longer ones that begin with it. */
export function isBeginning(word: string): boolean {
  return word.length >= shortestBeginning;
}

/** What a message is found by: its words with spaces between. */
export function searchWords(message: Message): string {
  return wordsOf(searchText(message))
    .map(({ word }) => word)
    .join(" ");
}

/** Those candidates that have every phrase, the best first, else in the order they came. */
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
  found.sort((one, other) => other.score - one.score);
  return found.slice(0, limit).map(({ match }) => match);
}

/**
 * Often and in few words is best. It depends on the message alone: a rank that counted how rare a word is would tell
 * one user something of what the others have written.
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

/** What was said and what tools gave; neither thoughts nor notes about the conversation. */
function searchText(message: Message): string {
  return message.content.flatMap(textsOf).join("\n").slice(0, longestText);
}

function textsOf(block: Block): readonly string[] {
  if (block.type === "text" || block.type === "hint") return [block.text];
  return block.type === "tool_result" ? block.output.flatMap(textsOf) : [];
}

// Scripts that put no spaces between words are found letter by letter.
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
  // A cut may have halved a letter at either end.
  const whole = piece.replace(/^[\udc00-\udfff]|[\ud800-\udbff]$/g, "");
  return `${start > 0 ? "…" : ""}${whole}${end < text.length ? "…" : ""}`;
}
