/** A word of a question that is worth searching for. */
export interface Term {
  readonly stem: string;
  readonly word: string;
  /** Capitalized inside a sentence, or a number: an answer must have this very word. */
  readonly isName: boolean;
  /** Stems of words that may answer for it. */
  readonly alike: readonly string[];
}

// Words of any English question or instruction; they say nothing about its subject.
const stopWords = new Set(
  `a about above across actually advantage affect after again against all almost along also although always am among an
  and another answer any anyone anything are around article articles as at away back bad be became because become
  been before being below benefit between both but by call came can cannot cause come compare cope could currently
  deal describe did differ difference different disadvantage discuss do does doing done dont down during each effect
  either else end enough ever every exactly example exist explain few figure file files find first for from
  further gave generally get give given go goes gone good got great had handle happen has have having he hello help
  her here hey hi him his how however hows if im impact important in influence instead interesting into involve is
  issue it its itself just keep kind know known large last least less let like likely little look made main make
  many matter may md me mean mention might more most much must my near need never new no nor not nothing now number
  occur of off often ok old on once one only onto or other our out over own part people perhaps place please pls plz
  problem put question quite rather really reason relate role said same say says see seem several shall she should
  show since small so some someone something sometimes sort still such take talk tell text than thank thanks that
  the their them then there these they thing this those though through thus to today together too true two type
  under until up upon ur us use usually very want was wat way we well were what whatever whats when where whether
  which while who whole whom whose why will with within without word work world worlds wot would write yes yet you your`.split(
    /\s+/,
  ),
);

/** Returns the words of a text. */
export function wordsOf(text: string): readonly string[] {
  return text.match(/[\p{L}\p{N}]+(?:['’]\p{L}+)?/gu) ?? [];
}

/** Maps the forms of a word to one stem that all of them begin with: "deltas", "eroded", "surfer", "salty". */
export function stemOf(word: string): string {
  let stem = word.toLowerCase().replace(/['’]\p{L}*$/u, "");
  if (stem.length > 4 && stem.endsWith("ies")) stem = `${stem.slice(0, -3)}y`;
  else if (/(?:s|x|z|ch|sh)es$/.test(stem)) stem = stem.slice(0, -2);
  else if (stem.length > 3 && /[^sui]s$/.test(stem)) stem = stem.slice(0, -1);
  const inflected = /^(.*[aeiouy].*?)(?:ing|ed)$/.exec(stem)?.[1];
  if (inflected !== undefined && inflected.length >= 3) {
    const isCut = /^[^aeiou]*[aeiou][^aeiouwxy]$/.test(inflected); // "moving" comes from "move"
    stem = isCut ? `${inflected}e` : withoutDouble(inflected);
  }
  if (stem.length > 6 && stem.endsWith("tion")) stem = stem.slice(0, -3);
  const derived = /^(.{4,}?)(?:ers?|est|ly|ness|ment|ful)$/.exec(stem)?.[1];
  if (derived !== undefined) stem = withoutDouble(derived);
  return stem.length > 4 ? stem.replace(/[eiy]$/, "") : stem; // but "care" is not "car"
}

function withoutDouble(stem: string): string {
  return stem.replace(/([bdgmnprt])\1$/, "$1");
}

/** Stems by a stem that they may answer for. */
export type Synonyms = ReadonlyMap<string, readonly string[]>;

/** Reads groups of words that answer for each other, one group per line; a word may be in several groups. */
export function synonymsIn(lines: readonly string[]): Synonyms {
  const found = new Map<string, readonly string[]>();
  for (const line of lines) {
    const stems = wordsOf(line).map(stemOf);
    for (const stem of stems) found.set(stem, [...(found.get(stem) ?? []), ...stems]);
  }
  return found;
}

/** The English that the model knows. It matches words, not meanings; a workspace can add words of its subject. */
const commonSynonyms = synonymsIn([
  "stop prevent block protect reduce",
  "shrink decline disappear loss lost lose",
  "kill die died dying death dead",
  "harm destroy damage",
  "eat food feed",
  "build make construct",
  "tall high height",
  "long length",
  "deep depth",
  "wide width broad",
  "fast speed quick",
  "begin start source origin",
  "danger risk threat",
  "drought dry",
  "heat warm hot temperature",
  "old age ancient",
  "clean filter pure",
  "big large great huge",
  "form create",
  "sink sank sunk",
  "rise rose risen",
  "fall fell fallen",
  "freeze froze frozen",
  "shrink shrank shrunk",
  "break broke broken",
  "grow grew grown",
  "dig dug",
]);

/** Returns the stems of a text. */
export function stemsOf(text: string): ReadonlySet<string> {
  return new Set(wordsOf(text.toLowerCase()).map(stemOf));
}

/** Returns the terms of a question, each once, in order, with the words that may answer for them. */
export function termsOf(question: string, synonyms: Synonyms = new Map()): readonly Term[] {
  const terms = new Map<string, Term>();
  for (const [index, word] of wordsOf(question).entries()) {
    const stem = stemOf(word);
    if (stem.length < 2 || isStopWord(word)) continue;
    const isName = /^\p{N}/u.test(word) || (index > 0 && /^\p{Lu}\p{Ll}/u.test(word));
    const term = terms.get(stem);
    const related = [...(commonSynonyms.get(stem) ?? []), ...(synonyms.get(stem) ?? [])];
    const alike = [...new Set(related)].filter((other) => other !== stem);
    terms.set(stem, {
      stem,
      word: term?.word ?? word,
      alike,
      isName: isName || term?.isName === true,
    });
  }
  return [...terms.values()];
}

function isStopWord(word: string): boolean {
  const lower = word.toLowerCase().replace(/['’]\p{L}*$/u, "");
  return stopWords.has(lower) || stopWords.has(lower.replace(/(?:s|ed|ing)$/, ""));
}

/** Returns a regular expression for lines that may have one of the terms. */
export function patternFor(terms: readonly Term[]): string {
  const stems = terms
    .flatMap(({ stem, alike }) => [stem, ...alike])
    .map((stem) => stem.replace(/[^\p{L}\p{N}]/gu, "."));
  return `\\b(?:${[...new Set(stems)].join("|")})`;
}

/** Removes punctuation, case and extra spaces, so that copies of a text compare equal. */
export function normalizeText(text: string): string {
  return wordsOf(text.toLowerCase()).join(" ");
}

/** Joins words as in "a, b and c". */
export function joinWords(words: readonly string[], last: "and" | "or" = "and"): string {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} ${last} ${words.at(-1)}`;
}
