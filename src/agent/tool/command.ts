import { matchesGlob } from "./glob.ts";

/** One simple command of a script. */
interface SimpleCommand {
  /** The words without quotes; undefined: only the shell knows the word, or how many it is. */
  readonly words: readonly (string | undefined)[];
  /** Whether it writes to or reads from a file by a redirection. */
  readonly redirects: boolean;
}

/** What rules can know about a script. */
interface Script {
  readonly commands: readonly SimpleCommand[];
  /** Whether `commands` is everything that runs, in plain sight; if not, no rule may allow the script. */
  readonly isPlain: boolean;
  /** Whether it may run commands that are not in `commands`. */
  readonly isOpaque: boolean;
}

const maxLength = 100_000;
const maxNesting = 5;

/** Reserved words that only separate commands. */
const separators = new Set([
  ...["if", "then", "else", "elif", "fi", "while", "until", "do", "done", "time", "!", "{", "}"],
]);
/** Words after which the shell reads something other than a command. */
const unreadable = new Set(["case", "for", "select", "function", "coproc", "[[", "(("]);
/** Programs that run the rest of their arguments as a command. */
const prefixes = new Set([
  ...["builtin", "busybox", "chrt", "chroot", "command", "doas", "env", "exec", "find", "flock"],
  ...["ionice", "nice", "nohup", "nsenter", "parallel", "setsid", "stdbuf", "strace", "sudo"],
  ...["taskset", "time", "timeout", "unshare", "watch", "xargs"],
]);
/** Programs that run a text among their arguments as a script. */
const interpreters = new Set([
  ...["ash", "bash", "dash", "eval", "ksh", "script", "sh", "ssh", "su", "trap", "watch", "zsh"],
  ...["find", "env", "parallel"],
]);
/** Commands that change what later words mean, or run a file. */
const redefining = new Set(["alias", "source", ".", "shopt", "set", "enable", "hash", "unalias"]);
const harmlessTarget = "/dev/null";

/** Splits a script into its simple commands. It does not read every script, but it never takes one for less than it is. */
function readScript(text: string, nesting = 0): Script {
  const commands: SimpleCommand[] = [];
  let isPlain = true;
  let isOpaque = text.length > maxLength || nesting > maxNesting;
  if (isOpaque) return { commands, isPlain: false, isOpaque };
  let words: (string | undefined)[] = [];
  let redirects = false;
  const hide = () => {
    isPlain = false;
    isOpaque = true;
  };
  const endCommand = () => {
    if (words.length > 0 || redirects) {
      commands.push({ words, redirects });
      if (redirects) isPlain = false;
    }
    words = [];
    redirects = false;
  };
  let at = 0;
  while (at < text.length) {
    const rest = text.slice(at, at + 2);
    const character = text[at] as string;
    if (character === " " || character === "\t") at++;
    else if (character === "#") {
      const end = text.indexOf("\n", at);
      at = end < 0 ? text.length : end;
    } else if (rest === "\\\n") at += 2;
    else if (/[\n;|&]/.test(character) && rest !== "&>") {
      endCommand();
      at++;
    } else if (character === "(" || character === ")") {
      isPlain = false;
      // A function, an array, or arithmetic.
      if (character === "(" && (words.length > 0 || rest === "((")) hide();
      endCommand();
      at++;
    } else {
      const redirection = /^(?:\d*|&)(<<<|<<-?|<>|>>|>\||[<>])\s*/.exec(text.slice(at, at + 40));
      if (redirection) {
        at += redirection[0].length;
        if (redirection[1] === "<<" || redirection[1] === "<<-") hide(); // what follows is no command
        const duplicate = /^&(?:\d|-)(?![^\s;|&<>()])/.exec(text.slice(at, at + 3));
        if (duplicate) {
          at += duplicate[0].length;
          continue;
        }
        const { word, end } = readWord(text, at);
        if (end === at) hide();
        at = end;
        if (word !== harmlessTarget) redirects = true;
        if (word === undefined) hide();
        continue;
      }
      const { word, end, isQuoted, isExpanded, runs } = readWord(text, at);
      if (runs || end === at) hide();
      if (isExpanded) isPlain = false;
      at = Math.max(end, at + 1);
      const reserved = words.length === 0 && !isQuoted ? (word ?? "") : "";
      // A variable can change what a program does.
      if (separators.has(reserved) || /^\w+(?:\[.*\])?\+?=/.test(reserved)) isPlain = false;
      else if (unreadable.has(reserved)) hide();
      else words.push(word);
    }
  }
  endCommand();
  for (const { words } of [...commands]) {
    const [first] = words;
    const name = first && nameOf(first);
    if (name === undefined || redefining.has(name)) hide();
    if (name === undefined || !interpreters.has(name)) continue;
    const scripts = words.slice(1);
    const joined = scripts.includes(undefined) ? undefined : scripts.join(" ");
    for (const script of [...scripts, joined]) {
      const inner = script === undefined ? undefined : readScript(script, nesting + 1);
      if (inner === undefined || inner.isOpaque) hide();
      else commands.push(...inner.commands);
    }
  }
  return { commands, isPlain, isOpaque };
}

interface Word {
  /** Undefined when only the shell knows it. */
  readonly word: string | undefined;
  readonly end: number;
  readonly isQuoted: boolean;
  /** Whether the shell replaces parts of it, other than by the names of files. */
  readonly isExpanded: boolean;
  /** Whether it runs commands itself. */
  readonly runs: boolean;
}

/** Reads one word. */
function readWord(text: string, start: number): Word {
  let word = "";
  let at = start;
  let isKnown = true;
  let isQuoted = false;
  let isExpanded = false;
  let runs = false;
  const unclosed = {
    word: undefined,
    end: text.length,
    isQuoted: true,
    isExpanded: true,
    runs: true,
  };
  const expand = () => {
    isExpanded = true;
    // Only a plain variable is certain to run nothing.
    runs ||= !/^\$(?:\w+|[?#@*!$-]|\{\w+\})/.test(text.slice(at, at + 200));
  };
  while (at < text.length) {
    const character = text[at] as string;
    if (/[\s;|&<>()]/.test(character)) {
      // A separator that bash does not know, or an end of line of another system.
      if (!/[ \t\n;|&<>()]/.test(character)) runs = true;
      else break;
    }
    if (character === "\\") {
      isQuoted = true;
      if (text[at + 1] !== "\n") word += text[at + 1] ?? "";
      at += 2;
    } else if (character === "'") {
      const end = text.indexOf("'", at + 1);
      isQuoted = true;
      if (end < 0) return unclosed;
      word += text.slice(at + 1, end);
      at = end + 1;
    } else if (character === '"') {
      isQuoted = true;
      for (at++; text[at] !== '"'; at++) {
        if (at >= text.length) return unclosed;
        if (text[at] === "`" || text[at] === "$") expand();
        if (text[at] === "\\" && /["\\$`\n]/.test(text[at + 1] ?? "")) at++;
        word += text[at];
      }
      at++;
    } else {
      if (character === "`" || character === "$") expand();
      if (character < " " || character === "\u007f") runs = true;
      // Braces make several words of one, except for the placeholder of find and xargs.
      if (character === "{" && !/^\{(?:\}|\s|$)/.test(text.slice(at, at + 2))) isExpanded = true;
      if (/[*?[]/.test(character)) isKnown = false;
      word += character;
      at++;
    }
  }
  const isLiteral = isKnown && !isExpanded;
  return { word: isLiteral ? word : undefined, end: at, isQuoted, isExpanded, runs };
}

function nameOf(word: string): string {
  return word.slice(word.lastIndexOf("/") + 1);
}

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
  const { commands, isPlain } = readScript(script);
  if (!isPlain || commands.length === 0) return false;
  const beginnings = patterns.map(beginningOf);
  return commands.every(({ words }) =>
    beginnings.some(
      ({ globs, isOpen }) =>
        (isOpen || words.length === globs.length) && beginsWith(words, globs) === true,
    ),
  );
}

/** Whether a pattern matches a command of a script: `unknown` if only the shell can tell. */
export function restricts(script: string, pattern: string): boolean | "unknown" {
  const { globs } = beginningOf(pattern);
  const { commands, isOpaque } = readScript(script);
  let isUnknown = isOpaque;
  for (const { words } of commands) {
    const [first] = words;
    const isPrefix = first !== undefined && prefixes.has(nameOf(first));
    for (let start = 0; start < (isPrefix ? words.length : 1); start++) {
      const match = beginsWith(words.slice(start), globs, true);
      if (match === true) return true;
      if (match === "unknown") isUnknown = true;
    }
  }
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
