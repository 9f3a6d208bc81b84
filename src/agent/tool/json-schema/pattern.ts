// Matches regular expressions in time that is linear in the text. The expressions of callers and servers cannot be given
// to the engine of the platform, which backtracks: `^(a+)+$` takes a minute for thirty characters.

/** A compiled pattern. */
export interface Pattern {
  /** How many steps a character costs at most. */
  readonly states: number;
  /** Whether a part of the text matches. */
  test(text: string): boolean;
}

/** More states would make a character too expensive. */
const maxStates = 2_000;

type State =
  | { readonly type: "char"; readonly fits: (char: string) => boolean; next: number }
  | { readonly type: "split"; readonly next: number[] }
  | { readonly type: "start" | "end" | "word" | "notWord"; next: number }
  | { readonly type: "match" };

/** Compiles a regular expression with the syntax of the `u` flag; throws when it is invalid or cannot be bounded. */
export function compilePattern(source: string): Pattern {
  new RegExp(source, "u"); // throws for invalid syntax, which the parser below relies on
  const states: State[] = [];
  const add = (state: State): number => {
    if (states.length >= maxStates) throw new Error(`the pattern "${cut(source)}" is too large`);
    return states.push(state) - 1;
  };
  const match = add({ type: "match" });
  const start = new Parser(source).alternatives()(match, add);
  return { states: states.length, test: (text) => isMatch(states, start, text) };
}

/** Adds the states of a part, from the last to the first; returns its first state. */
type Fragment = (next: number, add: (state: State) => number) => number;

const wordChar = /[A-Za-z0-9_]/;
/** A class, an escape of one character or a character. */
const atom =
  /\[(?:\\.|[^\]\\])*\]|\\(?:u\{[0-9a-fA-F]+\}|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|c[a-zA-Z]|[pP]\{[^}]*\}|.)|./suy;
const quantifier = /(?:[*+?]|\{(\d+)(,(\d*))?\})\??/y;

class Parser {
  readonly #source: string;
  #at = 0;

  constructor(source: string) {
    this.#source = source;
  }

  alternatives(): Fragment {
    const options = [this.#sequence()];
    while (this.#source[this.#at] === "|") {
      this.#at += 1;
      options.push(this.#sequence());
    }
    const [only] = options;
    if (options.length === 1 && only) return only;
    return (next, add) => add({ type: "split", next: options.map((option) => option(next, add)) });
  }

  #sequence(): Fragment {
    const parts: Fragment[] = [];
    while (this.#at < this.#source.length && !/[|)]/.test(this.#source[this.#at] as string)) {
      parts.push(this.#quantified(this.#term()));
    }
    return (next, add) => parts.reduceRight((after, part) => part(after, add), next);
  }

  #term(): Fragment {
    const source = this.#source;
    const rest = source.slice(this.#at, this.#at + 4);
    if (rest.startsWith("(")) return this.#group(rest);
    const types = { "^": "start", $: "end", "\\b": "word", "\\B": "notWord" } as const;
    for (const [text, type] of Object.entries(types)) {
      if (!rest.startsWith(text)) continue;
      this.#at += text.length;
      return (next, add) => add({ type, next });
    }
    if (/^\\[1-9k]/.test(rest)) throw refused(source, "a reference to a group");
    atom.lastIndex = this.#at;
    const [text = ""] = atom.exec(source) ?? [];
    this.#at += text.length;
    const fits = charTest(text);
    return (next, add) => add({ type: "char", fits, next });
  }

  #group(rest: string): Fragment {
    if (/^\(\?<?[=!]/.test(rest)) throw refused(this.#source, "a look-around");
    const prefix = /\((?:\?:|\?<[^>]*>)?/y;
    prefix.lastIndex = this.#at;
    const [text = ""] = prefix.exec(this.#source) ?? [];
    this.#at += text.length;
    if (this.#source[this.#at] === "?") throw refused(this.#source, "a group with flags");
    const inner = this.alternatives();
    this.#at += 1; // the closing bracket
    return inner;
  }

  #quantified(part: Fragment): Fragment {
    quantifier.lastIndex = this.#at;
    const [text, least, hasComma, most] = quantifier.exec(this.#source) ?? [];
    if (text === undefined) return part;
    this.#at += text.length;
    if (text.startsWith("*")) return repeat(part, 0, Number.POSITIVE_INFINITY);
    if (text.startsWith("+")) return repeat(part, 1, Number.POSITIVE_INFINITY);
    if (text.startsWith("?")) return repeat(part, 0, 1);
    const min = Number(least);
    const max = hasComma === undefined ? min : most ? Number(most) : Number.POSITIVE_INFINITY;
    return repeat(part, min, max);
  }
}

function repeat(part: Fragment, min: number, max: number): Fragment {
  return (next, add) => {
    let first = next;
    if (max === Number.POSITIVE_INFINITY) {
      const loop: number[] = [];
      first = add({ type: "split", next: loop });
      loop.push(part(first, add), next);
    } else {
      for (let n = min; n < max; n++) {
        first = add({ type: "split", next: [part(first, add), next] });
      }
    }
    for (let n = 0; n < min; n++) first = part(first, add);
    return first;
  };
}

/** One character at a time cannot backtrack, so the platform tests it. */
function charTest(source: string): (char: string) => boolean {
  const expression = new RegExp(`^(?:${source})$`, "u");
  const known = new Map<string, boolean>();
  return (char) => {
    const stored = known.get(char);
    if (stored !== undefined) return stored;
    const fits = expression.test(char);
    if (known.size < 256) known.set(char, fits);
    return fits;
  };
}

/** Follows all states at once, so each character is read once. */
function isMatch(states: readonly State[], start: number, text: string): boolean {
  const chars = Array.from(text);
  let current = new Set<number>();
  for (let at = 0; at <= chars.length; at++) {
    // A match may begin at any character.
    if (reaches(states, start, chars, at, current)) return true;
    const char = chars[at];
    if (char === undefined) return false;
    const following = new Set<number>();
    for (const index of current) {
      const state = states[index] as State;
      if (state.type !== "char" || !state.fits(char)) continue;
      if (reaches(states, state.next, chars, at + 1, following)) return true;
    }
    current = following;
  }
  return false;
}

/** Adds a state and those that follow it without a character; returns true at a match. */
function reaches(
  states: readonly State[],
  first: number,
  chars: readonly string[],
  at: number,
  found: Set<number>,
): boolean {
  const waiting = [first];
  for (let index = waiting.pop(); index !== undefined; index = waiting.pop()) {
    if (found.has(index)) continue;
    found.add(index);
    const state = states[index] as State;
    if (state.type === "match") return true;
    if (state.type === "split") waiting.push(...state.next);
    else if (state.type !== "char" && isAt(state.type, chars, at)) waiting.push(state.next);
  }
  return false;
}

function isAt(
  type: "start" | "end" | "word" | "notWord",
  chars: readonly string[],
  at: number,
): boolean {
  if (type === "start") return at === 0;
  if (type === "end") return at === chars.length;
  const isWord = (char: string | undefined) => char !== undefined && wordChar.test(char);
  return (isWord(chars[at - 1]) !== isWord(chars[at])) === (type === "word");
}

function refused(source: string, part: string): Error {
  return new Error(
    `the pattern "${cut(source)}" has ${part}, which cannot be checked in bounded time`,
  );
}

function cut(source: string): string {
  return source.length > 80 ? `${source.slice(0, 80)}…` : source;
}
