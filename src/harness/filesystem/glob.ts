import { readArgument, required, text } from "../../base/options.ts";
import { fileError, quotePath } from "./file-error.ts";

/** A pattern for a list; "any" matches any number of its values. */
type Pattern<Value> = readonly ("any" | ((value: Value) => boolean))[];

const maxPattern = 1_000;
const maxBraces = 32;
const maxAlternatives = 256;
const maxExpanded = 4_000; // total characters of all alternatives

/**
 * Compiles a glob: `*` and `?` within a name, `**` across names, `[a-z]`, `[!a-z]`, `{a,b}`, and `\` to escape. Matching
 * costs at most the length of all alternatives times that of the path; unlike a regular expression it cannot blow up.
 */
export function compileGlob(pattern: string) {
  readArgument("pattern", pattern, required(text, '"**/*.md"'));
  if (pattern === "" || pattern.length > maxPattern || /\p{Cc}/u.test(pattern)) {
    throw invalid(pattern, `it must have 1 to ${maxPattern} characters on one line`);
  }
  const alternatives = expandBraces(pattern).map((text) => pathPattern(text, pattern));
  return {
    /** The directory names that every match starts with. */
    prefix: /[{\\]/.test(pattern) ? [] : literalPrefix(pattern),
    matches(path: string): boolean {
      const names = path.split("/").map((name) => [...name]);
      return alternatives.some((alternative) => matchList(alternative, names));
    },
  };
}

function pathPattern(alternative: string, pattern: string): Pattern<readonly string[]> {
  const names = alternative.split("/").filter((name) => name !== "" && name !== ".");
  if (alternative.startsWith("/") || names.includes("..") || names.length === 0) {
    throw invalid(pattern, "it must be relative and stay below the searched directory");
  }
  return names.map((name) => {
    if (/^\*{2,}$/.test(name)) return "any";
    const characters = namePattern([...name], pattern);
    return (candidate) => matchList(characters, candidate);
  });
}

function literalPrefix(pattern: string): readonly string[] {
  const names = pattern.split("/").filter((name) => name !== "" && name !== ".");
  const magic = names.findIndex((name) => /[*?[]/.test(name));
  return names.slice(0, magic < 0 ? -1 : magic);
}

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
      throw invalid(pattern, `its braces expand to more than ${maxAlternatives} patterns`);
    }
  }
  if (done.join("").length > maxExpanded) {
    throw invalid(pattern, `its braces expand to more than ${maxExpanded} characters`);
  }
  return done;
}

/** Finds the first `{…,…}`; braces without a comma or a partner are ordinary characters. */
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

function namePattern(characters: readonly string[], pattern: string): Pattern<string> {
  const parts: Pattern<string>[number][] = [];
  for (let at = 0; at < characters.length; at++) {
    const character = characters[at] as string;
    if (character === "*") {
      if (parts.at(-1) !== "any") parts.push("any");
    } else if (character === "?") parts.push(() => true);
    else if (character === "[") {
      const end = characters.indexOf("]", at + (/[!^\]]/.test(characters[at + 1] ?? "") ? 3 : 2));
      if (end < 0) throw invalid(pattern, "a [ has no ]");
      parts.push(characterClass(characters.slice(at + 1, end)));
      at = end;
    } else {
      const literal = character === "\\" ? characters[++at] : character;
      if (literal === undefined) throw invalid(pattern, "it ends with a backslash");
      parts.push((candidate) => candidate === literal);
    }
  }
  return parts;
}

function characterClass(members: readonly string[]): (character: string) => boolean {
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

/** Backtracking to the last wildcard is enough: an earlier one could only skip more. */
function matchList<Value>(pattern: Pattern<Value>, list: readonly Value[]): boolean {
  let at = 0;
  let next = 0;
  let lastAny = -1;
  let tried = 0; // end of the last wildcard
  while (next < list.length) {
    const entry = pattern[at];
    if (entry === "any") {
      lastAny = at++;
      tried = next;
    } else if (entry?.(list[next] as Value)) {
      at++;
      next++;
    } else if (lastAny >= 0) {
      at = lastAny + 1;
      next = ++tried;
    } else return false;
  }
  return pattern.slice(at).every((entry) => entry === "any");
}

function invalid(pattern: string, problem: string): Error {
  return fileError("invalid_pattern", `The glob ${quotePath(pattern)} cannot be used: ${problem}.`);
}
