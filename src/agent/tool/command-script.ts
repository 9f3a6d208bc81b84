/** One simple command of a script. */
export interface SimpleCommand {
  /** The words without quotes; undefined: only the shell knows the word, or how many it is. */
  readonly words: readonly (string | undefined)[];
  /** Whether it writes to or reads from a file by a redirection. */
  readonly redirects: boolean;
}

/** A script as it is written, without what its commands run themselves. */
export interface Script {
  readonly commands: readonly SimpleCommand[];
  /** The assignments before commands, without quotes; a NUL stands for each expansion. */
  readonly assignments: readonly string[];
  /** All words without quotes; a NUL stands for each expansion. */
  readonly texts: readonly string[];
  /** Whether `commands` is everything that runs, in plain sight; if not, no rule may allow the script. */
  readonly isPlain: boolean;
  /** Whether it may run commands that are not in `commands`. */
  readonly isOpaque: boolean;
}

const maxLength = 100_000;

/** Reserved words that only separate commands. */
const separators = new Set([
  ...["if", "then", "else", "elif", "fi", "while", "until", "do", "done", "time", "!", "{", "}"],
]);
/** Words after which the shell reads something other than a command. */
const unreadable = new Set(["case", "for", "select", "function", "coproc", "[[", "(("]);
const harmlessTarget = "/dev/null";
/** The name of an assignment. */
export const assignment = /^(\w+)(?:\[.*\])?\+?=/s;
// With quotes in its name it is the name of a command.
const unquotedAssignment = /^\w+(?:\+?=|\[)/;

/** Splits a script into its simple commands. It does not read every script, but it never takes one for less than it is. */
export function readScript(text: string): Script {
  const commands: SimpleCommand[] = [];
  const assignments: string[] = [];
  const texts: string[] = [];
  let isPlain = true;
  let isOpaque = false;
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
  if (text.length > maxLength) hide();
  let at = isOpaque ? text.length : 0;
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
        const { word, literal, end } = readWord(text, at);
        texts.push(literal);
        if (end === at) hide();
        at = end;
        if (word !== harmlessTarget) redirects = true;
        if (word === undefined) hide();
        continue;
      }
      const { word, literal, end, isQuoted, isExpanded, runs } = readWord(text, at);
      texts.push(literal);
      if (runs || end === at) hide();
      if (isExpanded) isPlain = false;
      const raw = text.slice(at, end);
      at = Math.max(end, at + 1);
      const isFirst = words.length === 0;
      const reserved = isFirst && !isQuoted ? (word ?? "") : "";
      if (isFirst && unquotedAssignment.test(raw) && assignment.test(literal)) {
        isPlain = false; // a variable can change what a program does
        assignments.push(literal);
      } else if (separators.has(reserved)) isPlain = false;
      else if (unreadable.has(reserved)) hide();
      else words.push(word);
    }
  }
  endCommand();
  return { commands, assignments, texts, isPlain, isOpaque };
}

interface Word {
  /** Undefined when only the shell knows it. */
  readonly word: string | undefined;
  /** Without quotes; a NUL stands for each expansion. */
  readonly literal: string;
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
  const unclosed = () => ({
    word: undefined,
    literal: word,
    end: text.length,
    isQuoted: true,
    isExpanded: true,
    runs: true,
  });
  const expand = () => {
    isExpanded = true;
    // Only a plain variable is certain to run nothing.
    runs ||= !/^\$(?:\w+|[?#@*!$-]|\{\w+\})/.test(text.slice(at, at + 200));
    word += "\0";
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
      if (end < 0) return unclosed();
      word += text.slice(at + 1, end);
      at = end + 1;
    } else if (character === '"') {
      isQuoted = true;
      for (at++; text[at] !== '"'; at++) {
        if (at >= text.length) return unclosed();
        if (text[at] === "`" || text[at] === "$") {
          expand();
          continue;
        }
        if (text[at] === "\\" && /["\\$`\n]/.test(text[at + 1] ?? "")) at++;
        word += text[at];
      }
      at++;
    } else {
      const expands = character === "`" || character === "$";
      if (expands) expand();
      if (character < " " || character === "\u007f") runs = true;
      // Braces make several words of one, except for the placeholder of find and xargs.
      if (character === "{" && !/^\{(?:\}|\s|$)/.test(text.slice(at, at + 2))) isExpanded = true;
      if (/[*?[]/.test(character)) isKnown = false;
      if (!expands) word += character;
      at++;
    }
  }
  const isLiteral = isKnown && !isExpanded;
  const seen = { literal: word, end: at, isQuoted, isExpanded, runs };
  return { word: isLiteral ? word : undefined, ...seen };
}
