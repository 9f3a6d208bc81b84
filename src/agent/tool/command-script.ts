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
  const reader = new ScriptReader(text);
  return reader.read();
}

class ScriptReader {
  readonly #text: string;
  readonly #commands: SimpleCommand[] = [];
  readonly #assignments: string[] = [];
  readonly #texts: string[] = [];
  #at = 0;
  #isPlain = true;
  #isOpaque = false;
  #words: (string | undefined)[] = [];
  #redirects = false;

  constructor(text: string) {
    this.#text = text;
  }

  read(): Script {
    if (this.#text.length > maxLength) {
      this.#hide();
      this.#at = this.#text.length;
    }
    while (this.#at < this.#text.length)
      if (!this.#skip() && !this.#readSeparator() && !this.#readRedirection()) this.#readWord();
    this.#endCommand();
    return {
      commands: this.#commands,
      assignments: this.#assignments,
      texts: this.#texts,
      isPlain: this.#isPlain,
      isOpaque: this.#isOpaque,
    };
  }

  #hide(): void {
    this.#isPlain = false;
    this.#isOpaque = true;
  }

  #endCommand(): void {
    if (this.#words.length > 0 || this.#redirects) {
      this.#commands.push({ words: this.#words, redirects: this.#redirects });
      if (this.#redirects) this.#isPlain = false;
    }
    this.#words = [];
    this.#redirects = false;
  }

  /** Skips what separates words. */
  #skip(): boolean {
    const character = this.#text[this.#at];
    if (character === " " || character === "\t") this.#at++;
    else if (character === "#") {
      const end = this.#text.indexOf("\n", this.#at);
      this.#at = end < 0 ? this.#text.length : end;
    } else if (this.#text.startsWith("\\\n", this.#at)) this.#at += 2;
    else return false;
    return true;
  }

  /** Ends a command. */
  #readSeparator(): boolean {
    const character = this.#text[this.#at] as string;
    const isGroup = character === "(" || character === ")";
    const isEnd = /[\n;|&]/.test(character) && !this.#text.startsWith("&>", this.#at);
    if (!isGroup && !isEnd) return false;
    if (isGroup) this.#isPlain = false;
    // A function, an array, or arithmetic.
    const isInner = this.#words.length > 0 || this.#text.startsWith("((", this.#at);
    if (character === "(" && isInner) this.#hide();
    this.#endCommand();
    this.#at++;
    return true;
  }

  #readRedirection(): boolean {
    const head = this.#text.slice(this.#at, this.#at + 40);
    const redirection = /^(?:\d*|&)(<<<|<<-?|<>|>>|>\||[<>])\s*/.exec(head);
    if (redirection === null) return false;
    this.#at += redirection[0].length;
    if (redirection[1] === "<<" || redirection[1] === "<<-") this.#hide(); // what follows is no command
    const duplicate = /^&(?:\d|-)(?![^\s;|&<>()])/.exec(this.#text.slice(this.#at, this.#at + 3));
    if (duplicate) {
      this.#at += duplicate[0].length;
      return true;
    }
    const { word, literal, end } = readWord(this.#text, this.#at);
    this.#texts.push(literal);
    if (end === this.#at || word === undefined) this.#hide();
    this.#at = end;
    if (word !== harmlessTarget) this.#redirects = true;
    return true;
  }

  #readWord(): void {
    const start = this.#at;
    const { word, literal, end, isQuoted, isExpanded, runs } = readWord(this.#text, start);
    this.#texts.push(literal);
    if (runs || end === start) this.#hide();
    if (isExpanded) this.#isPlain = false;
    this.#at = Math.max(end, start + 1);
    const isFirst = this.#words.length === 0;
    const reserved = isFirst && !isQuoted ? (word ?? "") : "";
    const raw = this.#text.slice(start, end);
    if (isFirst && unquotedAssignment.test(raw) && assignment.test(literal)) {
      this.#isPlain = false; // a variable can change what a program does
      this.#assignments.push(literal);
    } else if (separators.has(reserved)) this.#isPlain = false;
    else if (unreadable.has(reserved)) this.#hide();
    else this.#words.push(word);
  }
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
  return new WordReader(text, start).read();
}

class WordReader {
  readonly #text: string;
  #at: number;
  #word = "";
  #isKnown = true;
  #isQuoted = false;
  #isExpanded = false;
  #runs = false;

  constructor(text: string, start: number) {
    this.#text = text;
    this.#at = start;
  }

  read(): Word {
    let isClosed = true;
    while (isClosed && this.#at < this.#text.length && !this.#isEnd()) {
      const character = this.#text[this.#at] as string;
      if (character === "\\") this.#readEscape();
      else if (character === "'") isClosed = this.#readSingleQuotes();
      else if (character === '"') isClosed = this.#readDoubleQuotes();
      else this.#readPlain(character);
    }
    const literal = this.#word;
    if (!isClosed) {
      const end = this.#text.length;
      return { word: undefined, literal, end, isQuoted: true, isExpanded: true, runs: true };
    }
    const isLiteral = this.#isKnown && !this.#isExpanded;
    return {
      word: isLiteral ? literal : undefined,
      literal,
      end: this.#at,
      isQuoted: this.#isQuoted,
      isExpanded: this.#isExpanded,
      runs: this.#runs,
    };
  }

  #isEnd(): boolean {
    const character = this.#text[this.#at] as string;
    if (!/[\s;|&<>()]/.test(character)) return false;
    if (/[ \t\n;|&<>()]/.test(character)) return true;
    this.#runs = true; // a separator that bash does not know, or an end of line of another system
    return false;
  }

  #expand(): void {
    this.#isExpanded = true;
    // Only a plain variable is certain to run nothing.
    this.#runs ||= !/^\$(?:\w+|[?#@*!$-]|\{\w+\})/.test(this.#text.slice(this.#at, this.#at + 200));
    this.#word += "\0";
  }

  #readEscape(): void {
    const next = this.#text[this.#at + 1] ?? "";
    this.#isQuoted = true;
    if (next !== "\n") this.#word += next;
    this.#at += 2;
  }

  #readSingleQuotes(): boolean {
    const end = this.#text.indexOf("'", this.#at + 1);
    this.#isQuoted = true;
    if (end < 0) return false;
    this.#word += this.#text.slice(this.#at + 1, end);
    this.#at = end + 1;
    return true;
  }

  #readDoubleQuotes(): boolean {
    const text = this.#text;
    this.#isQuoted = true;
    for (this.#at++; text[this.#at] !== '"'; this.#at++) {
      if (this.#at >= text.length) return false;
      const character = text[this.#at];
      if (character === "`" || character === "$") {
        this.#expand();
        continue;
      }
      if (character === "\\" && /["\\$`\n]/.test(text[this.#at + 1] ?? "")) this.#at++;
      this.#word += text[this.#at];
    }
    this.#at++;
    return true;
  }

  #readPlain(character: string): void {
    const expands = character === "`" || character === "$";
    if (expands) this.#expand();
    else this.#word += character;
    if (character < " " || character === "\u007f") this.#runs = true;
    // Braces make several words of one, except for the placeholder of find and xargs.
    const isBrace = character === "{";
    if (isBrace && !/^\{(?:\}|\s|$)/.test(this.#text.slice(this.#at, this.#at + 2)))
      this.#isExpanded = true;
    if (/[*?[]/.test(character)) this.#isKnown = false;
    this.#at++;
  }
}
