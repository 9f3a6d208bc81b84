import { matchesGlob } from "../../base/glob.ts";
import { nameOf, readRuns, startsIn } from "./command-runs.ts";
import { readScript, type SimpleCommand } from "./command-script.ts";

/** The pattern of a rule, as words. */
function patternWords(pattern: string): readonly string[] {
  return pattern.split(/[ \t]+/).filter((word) => word !== "");
}

/** The words that a command must begin with; a last `*` stands for any number of further words. */
function beginningOf(pattern: string): { readonly globs: readonly string[]; isOpen: boolean } {
  const words = patternWords(pattern);
  const isOpen = words.length > 1 && words.at(-1) === "*";
  return { globs: isOpen ? words.slice(0, -1) : words, isOpen };
}

/** Returns whether a rule can use a pattern: one simple command, whose words may have globs. */
export function isCommandPattern(pattern: unknown): boolean {
  if (typeof pattern !== "string") return false;
  const { commands, isPlain } = readScript(pattern.replaceAll(/[*?]/g, "x"));
  return isPlain && commands.length === 1 && patternWords(pattern).length > 0;
}

/** Returns whether the patterns together allow everything that a script runs. */
export function areAllowed(script: string, patterns: readonly string[]): boolean {
  const { commands, isPlain } = readRuns(script);
  if (!isPlain || commands.length === 0) return false;
  const beginnings = patterns.map(beginningOf);
  return commands.every(({ words }) =>
    beginnings.some(
      ({ globs, isOpen }) =>
        (isOpen || words.length === globs.length) && beginsWith(words, globs) === true,
    ),
  );
}

/**
 * Whether a pattern matches a command of a script: `unknown` if only the shell can tell, `hidden` if the script gives an
 * interpreter commands that cannot be read here.
 */
export function restricts(script: string, pattern: string): boolean | "unknown" | "hidden" {
  const { globs } = beginningOf(pattern);
  const { commands, isOpaque, isHidden } = readRuns(script);
  let isUnknown = isOpaque;
  for (const { words } of commands) {
    for (const start of startsIn(words)) {
      const match = beginsWith(words.slice(start, start + globs.length), globs, true);
      if (match === true) return true;
      if (match === "unknown") isUnknown = true;
    }
  }
  if (isHidden) return "hidden";
  return isUnknown ? "unknown" : false;
}

/** `isByName`: the program may also be called by its path. */
function beginsWith(
  words: SimpleCommand["words"],
  globs: readonly string[],
  isByName = false,
): boolean | "unknown" {
  for (const [index, glob] of globs.entries()) {
    if (index >= words.length) return false;
    const word = words[index];
    if (word === undefined) return "unknown";
    const isNamed = isByName && index === 0 && matchesGlob(glob, nameOf(word));
    if (!isNamed && !matchesGlob(glob, word)) return false;
  }
  return true;
}
