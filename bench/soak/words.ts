/** What every talking model of the soak says. */
export const words: readonly string[] = Array.from({ length: 60 }, (_, n) => `word${n} `);

/** The same as one text. */
export const wholeText: string = words.join("");
