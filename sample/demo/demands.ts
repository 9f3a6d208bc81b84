import { stemOf, type Term } from "./words.ts";

/** Each captures a word that the sentence of the answer must have itself: the title and nearby sentences do not count. */
const demands: readonly RegExp[] = [
  /\bhow many (?:of the )?(\p{L}+)/iu, // the counted things
  /\bwho (\p{L}+)/iu, // the deed
  /\bwhat (?:do|does|did) (?:the )?\p{L}+ (\p{L}+)\W*$/iu,
  /\b(?:stop|prevent|keep|protect|save)s? (?:the |their )?(\p{L}+) from\b/iu,
];

const asksForMaking = /\bhow (?:do|does|did|can) .+ (?:make|produce) \p{L}+\W*$/iu;
const making =
  /\b(?:ma[dk]e|produc|buil[dt]|form|creat|caus|giv|leav|left|cut|carv|dig|dug|turn|driv|provid)/i;

/** Returns whether a sentence has the terms that a question insists on; `has` looks for one in the sentence itself. */
export function meetsDemands(
  { text, terms }: { readonly text: string; readonly terms: readonly Term[] },
  sentence: string,
  has: (term: Term) => boolean,
): boolean {
  if (asksForMaking.test(text) && !making.test(sentence)) return false;
  const stems = demands.map((demand) => stemOf(demand.exec(text)?.[1] ?? ""));
  return terms.every((term) => !stems.includes(term.stem) || has(term));
}
