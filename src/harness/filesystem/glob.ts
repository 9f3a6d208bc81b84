import { fileError, shown } from "./file-error.ts";

/** A glob, ready to be asked. */
export interface Glob {
  /** The names that every match begins with, without the last name. */
  readonly prefix: readonly string[];
  matches(path: string): boolean;
}

/** `**`, or what a name must look like. */
type Part = "any" | readonly Token[];
type Token =
  | { readonly type: "star" }
  | { readonly type: "one"; accepts(character: string): boolean };

const maxPattern = 1_000;
const maxBraces = 32;
const maxAlternatives = 256;
const maxExpanded = 4_000; // characters of all alternatives together

/**
 * `*` and `?` within a name, `**` across names, `[a-z]` and `[!a-z]`, `{one,other}`; `\` takes the next character as it
 * is. A match costs at most the length of all alternatives times that of the path: no pattern makes it blow up, as a
 * regular expression could.
 */
export function compileGlob(pattern: string): Glob {
  if (pattern === "" || pattern.length > maxPattern || /\p{Cc}/u.test(pattern)) {
    throw invalid(pattern, `it must have 1 to ${maxPattern} characters on one line`);
  }
  const alternatives = expandBraces(pattern).map((alternative) => partsOf(alternative, pattern));
  return {
    prefix: /[{\\]/.test(pattern) ? [] : literalPrefix(pattern),
    matches(path) {
      const names = path.split("/").map((name) => [...name]);
      return alternatives.some((parts) => matchParts(parts, names));
    },
  };
}

function partsOf(alternative: string, pattern: string): readonly Part[] {
  const names = alternative.split("/").filter((name) => name !== "" && name !== ".");
  if (alternative.startsWith("/") || names.includes("..") || names.length === 0) {
    throw invalid(pattern, "it must be relative and stay below the directory that is searched");
  }
  return names.map((name) => (/^\*{2,}$/.test(name) ? "any" : tokensOf(name, pattern)));
}

function literalPrefix(pattern: string): readonly string[] {
  const names = pattern.split("/").filter((name) => name !== "" && name !== ".");
  const magic = names.findIndex((name) => /[*?[]/.test(name));
  return names.slice(0, magic < 0 ? -1 : magic);
}

/** Each text that the braces stand for, from the first pair inwards and onwards. */
function expandBraces(pattern: string): readonly string[] {
  if (pattern.split("{").length - 1 > maxBraces) {
    throw invalid(pattern, `it has more than ${maxBraces} braces`);
  }
  const done: string[] = [];
  const open = [pattern];
  for (let text = open.pop(); text !== undefined; text = open.pop()) {
    const pair = firstBraces(text);
    if (!pair) done.push(text);
    else open.push(...pair.choices.map((choice) => pair.before + choice + pair.after).reverse());
    if (done.length + open.length > maxAlternatives) {
      throw invalid(pattern, `its braces stand for more than ${maxAlternatives} patterns`);
    }
  }
  if (done.join("").length > maxExpanded) {
    throw invalid(pattern, `its braces stand for more than ${maxExpanded} characters`);
  }
  return done;
}

/** The first `{…,…}`; braces without a comma, or without their other half, are ordinary characters. */
function firstBraces(text: string) {
  for (let start = 0; start < text.length; start++) {
    if (text[start] === "\\") start++;
    else if (text[start] === "{") {
      const commas: number[] = [];
      const end = closingBrace(text, start, commas);
      if (end < 0 || commas.length === 0) continue;
      const edges = [start, ...commas, end];
      const choices = edges.slice(1).map((edge, i) => text.slice((edges[i] ?? 0) + 1, edge));
      return { before: text.slice(0, start), choices, after: text.slice(end + 1) };
    }
  }
  return undefined;
}

function closingBrace(text: string, start: number, commas: number[]): number {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const character = text[at];
    if (character === "\\") at++;
    else if (character === "{") depth++;
    else if (character === "," && depth === 1) commas.push(at);
    else if (character === "}" && --depth === 0) return at;
  }
  return -1;
}

function tokensOf(name: string, pattern: string): readonly Token[] {
  const characters = [...name];
  const tokens: Token[] = [];
  for (let at = 0; at < characters.length; at++) {
    const character = characters[at] as string;
    if (character === "*") {
      if (tokens.at(-1)?.type !== "star") tokens.push({ type: "star" });
    } else if (character === "?") tokens.push({ type: "one", accepts: () => true });
    else if (character === "[") {
      const end = characters.indexOf("]", at + (/[!^\]]/.test(characters[at + 1] ?? "") ? 3 : 2));
      if (end < 0) throw invalid(pattern, "a [ has no ]");
      tokens.push({ type: "one", accepts: classOf(characters.slice(at + 1, end)) });
      at = end;
    } else {
      const literal = character === "\\" ? characters[++at] : character;
      if (literal === undefined) throw invalid(pattern, "it ends with a backslash");
      tokens.push({ type: "one", accepts: (candidate) => candidate === literal });
    }
  }
  return tokens;
}

function classOf(members: readonly string[]): (character: string) => boolean {
  const isNot = members[0] === "!" || members[0] === "^";
  const ranges: (readonly [string, string])[] = [];
  for (let at = isNot ? 1 : 0; at < members.length; at++) {
    const from = members[at] as string;
    const isRange = members[at + 1] === "-" && at + 2 < members.length;
    const to = isRange ? (members[at + 2] as string) : from;
    if (isRange) at += 2;
    ranges.push([from, to]);
  }
  return (character) => ranges.some(([from, to]) => from <= character && character <= to) !== isNot;
}

/** Goes back to the last `**` only: if that cannot be made to fit, an earlier one cannot either. */
function matchParts(parts: readonly Part[], names: readonly (readonly string[])[]): boolean {
  return wildcard(
    parts,
    names,
    (part) => part === "any",
    (part, name) => part !== "any" && matchName(part, name),
  );
}

function matchName(tokens: readonly Token[], characters: readonly string[]): boolean {
  return wildcard(
    tokens,
    characters,
    (token) => token.type === "star",
    (token, character) => token.type === "one" && token.accepts(character),
  );
}

/** Matches a list against a pattern in which some entries stand for any number of others. */
function wildcard<P, T>(
  pattern: readonly P[],
  list: readonly T[],
  isAny: (entry: P) => boolean,
  fits: (entry: P, value: T) => boolean,
): boolean {
  let at = 0;
  let next = 0;
  let lastAny = -1;
  let tried = 0; // how far the last wildcard reaches
  while (next < list.length) {
    const entry = pattern[at];
    if (entry !== undefined && isAny(entry)) {
      lastAny = at++;
      tried = next;
    } else if (entry !== undefined && fits(entry, list[next] as T)) {
      at++;
      next++;
    } else if (lastAny >= 0) {
      at = lastAny + 1;
      next = ++tried;
    } else return false;
  }
  return pattern.slice(at).every(isAny);
}

function invalid(pattern: string, problem: string): Error {
  return fileError("invalid_pattern", `The glob ${shown(pattern)} cannot be used: ${problem}.`);
}
