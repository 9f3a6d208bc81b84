import type { Message } from "../../contract/index.ts";
import { isBeginning, type Phrase, searchWords } from "../search.ts";

/** PostgreSQL stores at most 256 places of a word, up to this one, and words up to 2 kB. */
const mostPlaces = 250;
const lastPlace = 16_383;
const mostBytes = 1_500;
/** Marks a message of which some places are not in the index; no text contains a word with this sign. */
const loose = "'@'";

/** The words of a message with their places, as a `tsvector`: its parser must not see the text itself. */
export function wordsVector(message: Message): string {
  const places = new Map<string, number[]>();
  let isLoose = false;
  for (const [index, word] of searchWords(message).split(" ").entries()) {
    if (word === "") continue;
    const kept = cut(word);
    const found = places.get(kept) ?? [];
    if (found.length < mostPlaces && index < lastPlace) found.push(index + 1);
    else isLoose = true;
    places.set(kept, found);
  }
  const words = [...places].map(([word, at]) =>
    at.length > 0 ? `'${word}':${at.join()}` : `'${word}'`,
  );
  return (isLoose ? [...words, loose] : words).join(" ");
}

/** A `tsquery` that finds every message with the phrases, and perhaps others. */
export function wordsQuery(phrases: readonly Phrase[], userId: string | null | undefined): string {
  const wanted = phrases.map((phrase) => {
    const words = phrase.map((word, index) => {
      const isPart = index === phrase.length - 1 && isBeginning(word);
      return `'${beginning(word)}'${isPart || beginning(word) !== word ? ":*" : ""}`;
    });
    if (words.length === 1) return words[0];
    return `((${words.join(" <-> ")}) | (${loose} & ${words.join(" & ")}))`;
  });
  const owner = typeof userId === "string" ? [userWord(userId)] : [];
  return [...owner, ...wanted].join(" & ");
}

/** The user of a session as a word, so that messages of other users cost nothing. */
function userWord(userId: string): string {
  return `'@${Buffer.from(userId).toString("hex")}'`;
}

/** The beginning of a word that is too long for the index. */
function cut(word: string): string {
  return Buffer.byteLength(word) <= mostBytes ? word : beginning(word);
}

function beginning(word: string): string {
  return word.slice(0, mostBytes / 3).replace(/[\ud800-\udbff]$/, "");
}
