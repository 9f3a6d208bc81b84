/**
 * How many tokens a text may have, without asking any model: four characters make one, and a character of a script that
 * is written without spaces (Chinese, Japanese, Korean), or an emoji, is one by itself. Good for a budget, not for a bill.
 */
export function estimateTokens(text: string): number {
  return Math.ceil(weigh(text).quarters / 4);
}

/** How many characters from the beginning of a text fit into so many tokens. */
export function fittingCharacters(text: string, tokens: number): number {
  return weigh(text, Math.max(0, tokens) * 4).characters;
}

const firstWideCharacter = 0x2e80;

/** In quarters of a token, as far as there is room. */
function weigh(text: string, room = Number.POSITIVE_INFINITY) {
  let quarters = 0;
  let characters = 0;
  for (; characters < text.length; characters++) {
    const next = quarters + (text.charCodeAt(characters) < firstWideCharacter ? 1 : 4);
    if (next > room) break;
    quarters = next;
  }
  return { quarters, characters };
}
