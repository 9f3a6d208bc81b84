/** The kind of figure that a question asks for. */
export interface Measure {
  /** The question without the words that ask for the figure. */
  readonly rest: string;
  /** Whether it asks for the largest, the highest and so on. */
  readonly isSuperlative: boolean;
  /** Whether a sentence has such a figure. */
  isIn(sentence: string): boolean;
}

const number =
  /\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|(?:twen|thir|for|fif|six|seven|eigh|nine)ty|half|third|quarter|fifth|sixth|seventh|tenth|hundreds?|thousands?|millions?|billions?|dozens?|few|several)\b/i;
const distance = /\b(?:milli|centi|kilo)?met(?:re|er)s?\b|\bmiles?\b|\bfeet\b/i;
const time =
  /\b(?:seconds?|minutes?|hours?|days?|weeks?|months?|seasons?|years?|decades?|centur(?:y|ies))\b/i;
const date = /\b1\d{3}\b|\b20\d\d\b|\byears ago\b|\bcentury\b|\b(?:1\d|20)\d0s\b/i;
const share =
  /\bpercent\b|%|\b(?:half|thirds?|quarters?|fifths?|sixths?|sevenths?|tenths?|thousandths?|share|part)\b/i;

/** Which words ask for a figure, and what the sentence with the answer has beside a number. */
const measures: readonly (readonly [asks: RegExp, ...has: readonly RegExp[]])[] = [
  [/\bhow (?:long|wide|far)\b(?= (?:does|do|did|has|have|had|can|will|until|before|ago)\b)/i, time],
  [/\bhow long\b|\blength of\b/i, distance, /\blong\b|\blength\b|\bshorten/i],
  [/\bhow (?:high|tall)\b|\bheight of\b/i, distance, /\bhigh\b|\bheight\b|\brises?\b|\bthan\b/i],
  [/\bhow deep\b|\bdepth of\b/i, distance, /\bdeep\b|\bdepth\b/i],
  [/\bhow (?:wide|broad)\b|\bwidth of\b/i, distance, /\bwide\b|\bwidth\b/i],
  [/\bhow far\b/i, distance],
  [/\bhow fast\b|\bhow quick(?:ly)?\b|\b(?:speed|rate) (?:of|at)\b/i, distance, time],
  [/\bhow old\b/i, time],
  [
    /\bhow heavy\b|\bweight of\b|\bhow much (?:does|do) .* weigh\b/i,
    /\b(?:kilo)?grams?\b|\btonn?es?\b/i,
  ],
  [/\bwhen\b(?= (?:was|were|did|have|has|had)\b)|\b(?:what|which) year\b/i, date],
  [
    /\bhow (?:big|large)\b|\barea of\b|\bsize of\b/i,
    /\bkilometres?\b|\bmetres?\b|\bpercent\b|\bof\b/i,
  ],
  [
    /\b(?:what|which|how (?:much|large|big|great)(?: of)?)(?: an?)? (?:share|percentage|percent|proportion|fraction|part)(?: of)?\b/i,
    share,
  ],
  [/\bhow (?:many|much)\b/i],
];

/** Superlatives, each with the forms that answer it. */
const superlatives: readonly (readonly [asks: RegExp, answers: RegExp])[] = [
  [/\b(?:largest|biggest|greatest)\b/i, /\b(?:largest|biggest|greatest)\b/i],
  [/\b(?:highest|tallest)\b/i, /\b(?:highest|tallest)\b/i],
  [/\blongest\b/i, /\blongest\b/i],
  [/\bdeepest\b/i, /\bdeepest\b/i],
  [/\boldest\b/i, /\boldest\b|\bfirst\b/i],
  [/\b(?:smallest|shortest|fastest|widest)\b/i, /\b(?:smallest|shortest|fastest|widest)\b/i],
];

/** Finds the figure or the superlative that a question asks for; undefined if it asks for neither. */
export function measureIn(question: string): Measure | undefined {
  const figure = measures.find(([asks]) => asks.test(question));
  const superlative = superlatives.find(([asks]) => asks.test(question));
  if (figure === undefined && superlative === undefined) return undefined;
  const [asks, ...has] = figure ?? [/(?!)/];
  const needed = [...(figure ? [number, ...has] : []), ...(superlative ? [superlative[1]] : [])];
  const rest = question.replace(asks, " ").replace(superlative?.[0] ?? /(?!)/, " ");
  const isSuperlative = superlative !== undefined;
  return {
    rest,
    isSuperlative,
    isIn: (sentence) => needed.every((pattern) => pattern.test(sentence)),
  };
}
