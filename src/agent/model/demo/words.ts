/** A word of a question that is worth looking for. */
export interface Term {
  readonly stem: string;
  readonly word: string;
  /** Written with a capital inside a sentence, or a number: it means one thing and nothing else will do. */
  readonly isName: boolean;
}

// Words that stand in any English question, whatever it is about, and those by which a task is given.
const stopWords = new Set(
  `a about above across after again against all almost along also although always am among an and
  another answer any anyone anything are around article articles as at away back be became because
  become been before being below between both but by call came can cannot cause come could
  describe did do does doing done down during each either else end enough ever every example
  explain few figure file files find first for from further gave get give given go goes gone good
  got great had happen has have having he help her here him his how however if important in
  instead into is it its itself just keep kind know known large last least less let like likely
  little look made main make many may me mean might more most much must my near need never new no
  nor not nothing now number of off often old on once one only onto or other our out over own part
  people perhaps place please put question quite rather really reason said same say says see seem
  several shall she should show since small so some someone something sometimes still such take
  tell text than that the their them then there these they thing this those though through thus to
  together too two type under until up upon us use very want was way we well were what whatever
  when where whether which while who whole whom whose why will with within without word work would
  yes yet you your`.split(/\s+/),
);

/** The words of a text, in lower case, without marks. */
function wordsOf(text: string): readonly string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}]+(?:['’][\p{L}]+)?/gu) ?? [];
}

/** What the forms of a word have in common: enough of English for deltas and delta, eroded and erode. */
function stem(word: string): string {
  let base = word.toLowerCase().replace(/['’]s?$/u, "");
  if (base.length > 4 && base.endsWith("ies")) base = `${base.slice(0, -3)}y`;
  else if (/(?:s|x|z|ch|sh)es$/.test(base)) base = base.slice(0, -2);
  else if (base.length > 3 && /[^sui]s$/.test(base)) base = base.slice(0, -1);
  const inflected = /^(.*[aeiouy].*?)(?:ing|ed)$/.exec(base)?.[1];
  if (inflected !== undefined && inflected.length >= 3) {
    base = inflected.replace(/([bdgmnprt])\1$/, "$1");
  }
  if (base.length > 6 && base.endsWith("tion")) base = base.slice(0, -3);
  if (base.length > 3) base = base.replace(/e$/, "").replace(/y$/, "i");
  return base;
}

/** The stems of a text. */
export function stemsOf(text: string): ReadonlySet<string> {
  return new Set(wordsOf(text).map(stem));
}

/** The words of a question that say what it is about, each once, in their order. */
export function termsOf(question: string): readonly Term[] {
  const terms = new Map<string, Term>();
  for (const [index, word] of (question.match(/[\p{L}\p{N}]+(?:['’]\p{L}+)?/gu) ?? []).entries()) {
    const base = stem(word);
    if (base.length < 2 || isStopWord(word)) continue;
    const isName = /^\p{N}/u.test(word) || (index > 0 && /^\p{Lu}\p{Ll}/u.test(word));
    const known = terms.get(base);
    if (known === undefined) terms.set(base, { stem: base, word, isName });
    else if (isName && !known.isName) terms.set(base, { ...known, isName });
  }
  return [...terms.values()];
}

/** A regular expression that finds the lines in which a term may stand. */
export function patternFor(terms: readonly Term[]): string {
  // A stem may end in the i of a y that is gone.
  const stems = terms.map(({ stem }) => stem.replace(/i$/, "").replace(/[^\p{L}\p{N}]/gu, "."));
  return `\\b(?:${stems.join("|")})`;
}

/** A text in the form in which two copies of it are the same: without marks, spaces and case. */
export function bare(text: string): string {
  return wordsOf(text).join(" ");
}

/** Words as they are said: one, two and three. */
export function listed(words: readonly string[]): string {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

function isStopWord(word: string): boolean {
  const lower = word.toLowerCase();
  return stopWords.has(lower) || stopWords.has(lower.replace(/(?:s|ed|ing)$/, ""));
}
