/** The arguments of a call: parsed, and their text as well when it could not be parsed. */
export interface ToolInput {
  readonly input: unknown;
  readonly raw?: string;
}

// A value nested much deeper than any tool takes: whatever walks it, and be it to store it, would run out of stack.
const deepest = 500;

/** Reads the arguments that a model wrote. No text at all is how some providers say "no arguments". */
export function parseToolInput(text: string): ToolInput {
  if (text.trim() === "") return { input: {} };
  if (isTooDeep(text)) return { input: {}, raw: text };
  try {
    return { input: JSON.parse(text) };
  } catch {
    return { input: {}, raw: text };
  }
}

function isTooDeep(text: string): boolean {
  let depth = 0;
  let inString = false;
  for (let index = 0; index < text.length; index++) {
    const character = text.charCodeAt(index);
    if (inString) {
      if (character === backslash) index += 1;
      else if (character === quote) inString = false;
    } else if (character === quote) inString = true;
    else if (character === openBrace || character === openBracket) {
      depth += 1;
      if (depth > deepest) return true;
    } else if (character === closeBrace || character === closeBracket) depth -= 1;
  }
  return false;
}

const quote = 0x22;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;
