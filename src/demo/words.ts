/** A word of a question that is worth searching for. */
export interface Term {
  readonly stem: string;
  readonly word: string;
  /** Capitalized inside a sentence, or a number: an answer must have this very word. */
  readonly isName: boolean;
}

const maxParts = 4;

// Words of any English question or instruction; they say nothing about its subject.
const stopWords = new Set(
  `a about above across advantage after again against all almost along also although always am among an and another answer
  any anyone anything are around article articles as at away back bad be became because become been before being below
  between both but by call came can cannot cause come could describe did disadvantage do does doing done down during each
  either else end enough ever every example explain few figure file files find first for from further gave get
  give given go goes gone good got great had happen has have having he help her here him his how however if
  important in instead into is it its itself just keep kind know known large last least less let like likely
  little look made main make many may me mean might more most much must my near need never new no nor not nothing
  now number of off often old on once one only onto or other our out over own part people perhaps place please put
  question quite rather really reason said same say says see seem several shall she should show since small so
  some someone something sometimes still such take tell text than that the their them then there these they thing
  this those though through thus to together too two type under until up upon us use very want was way we well
  were what whatever when where whether which while who whole whom whose why will with within without word work
  world worlds would yes yet you your`.split(/\s+/),
);

function wordsOf(text: string): readonly string[] {
  return text.match(/[\p{L}\p{N}]+(?:['’]\p{L}+)?/gu) ?? [];
}

/** Maps inflected forms to one stem, well enough for "deltas" and "delta", "eroded" and "erode". */
function stemOf(word: string): string {
  let stem = word.toLowerCase().replace(/['’]s?$/u, "");
  if (stem.length > 4 && stem.endsWith("ies")) stem = `${stem.slice(0, -3)}y`;
  else if (/(?:s|x|z|ch|sh)es$/.test(stem)) stem = stem.slice(0, -2);
  else if (stem.length > 3 && /[^sui]s$/.test(stem)) stem = stem.slice(0, -1);
  const inflected = /^(.*[aeiouy].*?)(?:ing|ed)$/.exec(stem)?.[1];
  if (inflected !== undefined && inflected.length >= 3) {
    stem = inflected.replace(/([bdgmnprt])\1$/, "$1");
  }
  if (stem.length > 6 && stem.endsWith("tion")) stem = stem.slice(0, -3);
  if (stem.length > 3) stem = stem.replace(/e$/, "").replace(/y$/, "i");
  return stem;
}

/**
 * Words that often answer for each other. The model matches words, not meanings: this short list is all that it knows
 * about them.
 */
const kin: ReadonlyMap<string, readonly string[]> = new Map(
  [
    "stop prevent block protect reduce",
    "shrink sink lose loss lost decline disappear",
    "kill die death harm destroy damage",
    "eat food feed",
    "build make construct",
    "tall high height",
    "long length",
    "deep depth",
    "fast speed quick",
    "begin start source origin",
    "danger risk threat",
    "drought dry",
    "heat warm hot temperature",
    "old age ancient",
    "clean filter pure",
  ].flatMap((group) => {
    const stems = group.split(" ").map(stemOf);
    return stems.map((stem) => [stem, stems] as const);
  }),
);

/** Whether a term also stands for other words. */
export function hasKin({ stem }: Term): boolean {
  return kin.has(stem);
}

/** Returns the stems of a text, and those of the words that answer for them. */
export function stemsOf(text: string): ReadonlySet<string> {
  const stems = wordsOf(text.toLowerCase()).map(stemOf);
  return new Set(stems.flatMap((stem) => kin.get(stem) ?? [stem]));
}

/** Returns the terms of a question, each once, in order. */
export function termsOf(question: string): readonly Term[] {
  const terms = new Map<string, Term>();
  for (const [index, word] of wordsOf(question).entries()) {
    const stem = stemOf(word);
    const lower = word.toLowerCase().replace(/['’]s?$/u, "");
    const isStopWord = stopWords.has(lower) || stopWords.has(lower.replace(/(?:s|ed|ing)$/, ""));
    if (stem.length < 2 || isStopWord) continue;
    const isName = /^\p{N}/u.test(word) || (index > 0 && /^\p{Lu}\p{Ll}/u.test(word));
    const term = terms.get(stem) ?? { stem, word, isName };
    terms.set(stem, { ...term, isName: isName || term.isName });
  }
  return [...terms.values()];
}

/** Returns a regular expression for lines that may have one of the terms. */
export function patternFor(terms: readonly Term[]): string {
  // A final "i" may stand for a "y".
  const stems = terms
    .flatMap(({ stem }) => kin.get(stem) ?? [stem])
    .map((stem) => stem.replace(/i$/, "").replace(/[^\p{L}\p{N}]/gu, "."));
  return `\\b(?:${stems.join("|")})`;
}

/** Removes punctuation, case and extra spaces, so that copies of a text compare equal. */
export function normalizeText(text: string): string {
  return wordsOf(text.toLowerCase()).join(" ");
}

/** Joins words as in "a, b and c". */
export function joinWords(words: readonly string[]): string {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

/** Removes the wish for a report from a question: what is asked, and the title of a report on it. */
export function topicOf(question: string): { readonly text: string; readonly title: string } {
  const asked = question
    .replace(
      /,?\s*(?:\band\s+|\bthen\s+|\bplease\s+)*\bpublish (?:it|this|that|the \w+|a report(?! (?:on|about|of) (?!(?:it|this|that)\b)))(?: (?:on|about|of) (?:it|this|that))?\b[.!]?/gi,
      "",
    )
    .trim();
  const wish =
    /^(?:please |can you |could you )*(?:write|make|prepare|create|publish|give me|i want|i need)(?: me)? (?:an? |the )?(?:short |brief |long )?(?:report|text|summary|article|overview) (?:on|about|of) (.+?)[.?!]*$/is;
  const [, subject] = wish.exec(asked === "" ? question : asked) ?? [];
  if (subject === undefined) return { text: asked, title: asked };
  const title = subject.charAt(0).toUpperCase() + subject.slice(1);
  return { text: `What do the files say about ${subject}?`, title };
}

/** Splits "about dams, floods and wetlands" into a question for each. */
function listedParts(question: string): readonly string[] {
  const [, before = "", list = ""] =
    /^(.*\b(?:about|of|between|on)\s+)([\p{L} -]+(?:, [\p{L} -]+)+,? (?:and|or) [\p{L} -]+)[?.!]*$/isu.exec(
      question,
    ) ?? [];
  return list === "" ? [question] : list.split(/,? (?:and|or) |, /).map((item) => before + item);
}

/** Splits a question into its questions. */
function clausesOf(question: string): readonly string[] {
  return listedParts(question)
    .join("? ")
    .split(/\?\s+|;\s+|,?\s+and\s+(?=(?:how|why|what|when|where|who|which|do|does|is|are|can)\b)/i)
    .map((part) => part.replace(/[?.!\s]+$/, "").trim())
    .map((part) => part.charAt(0).toUpperCase() + part.slice(1))
    .filter((part) => termsOf(part).length > 0);
}

/** Splits a question into at least two parts that can be researched in parallel; `earlier` is the question before it. */
export function partsOf(question: string, earlier = ""): readonly string[] {
  const [first = "", ...others] = clausesOf(question).slice(0, maxParts);
  const [before] = refersBack(first) ? clausesOf(topicOf(earlier).text) : [];
  const hint = before === undefined ? "" : ` This is about ${subjectOf(before)}.`;
  if (others.length === 0)
    return [`${first}?${hint}`, `${first}?${hint} Look for figures and examples.`];
  const subject = subjectOf(before ?? first);
  const isList = listedParts(question).length > 1;
  const lacksSubject = (part: string) => !isList && refersBack(part);
  return [
    `${first}?${hint}`,
    ...others.map((part) => `${part}?${lacksSubject(part) ? ` This is about ${subject}.` : ""}`),
  ];
}

function subjectOf(part: string): string {
  const words = termsOf(part).map(({ word }) => word);
  // In "how do deltas form" the last word is the verb.
  const endsInVerb =
    /\b(?:do|does|did|can|will)\b/i.test(part) && part.endsWith(words.at(-1) ?? "");
  return joinWords(endsInVerb && words.length > 1 ? words.slice(0, -1) : words);
}

function refersBack(part: string): boolean {
  const hasPronoun = /\b(?:they|them|their|it|its|these|those|this|that)\b/i.test(part);
  return hasPronoun || (termsOf(part).length < 2 && !isSubject(part));
}

/** Whether a question has nothing but a subject, as in "What about beavers?" and "And waterfalls?". */
function isSubject(part: string): boolean {
  const asks = /\b(?:how|why|what|when|where|who|which|is|are|was|were|do|does|did|can|will)\b/i;
  return (
    /\b(?:what|how|tell me) (?:\w+ )?about\b|^what (?:is|are) /i.test(part) || !asks.test(part)
  );
}
