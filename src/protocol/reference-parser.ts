import type { Annotation, BlockAddress } from "./task.ts";

/** Knows what a number cites; a `ReferencePool` is one. */
export interface ReferenceLookup {
  target(referenceId: number): BlockAddress | undefined;
}

/** A citation found in a text, with its marker and its target. */
export type Citation = Required<Annotation>;

/** What may be shown now, and the citations that became certain with it. */
export interface ParsedText {
  readonly text: string;
  readonly annotations: readonly Citation[];
}

type Phase =
  | "indent" // the white space that begins a line
  | "run" // backticks or tildes
  | "text" // the rest of a line
  | "fenced" // the rest of a line of a fenced block
  | "fence_tail"; // what follows a run that may close a fenced block
interface Run {
  readonly place: "opening" | "inline" | "closing";
  readonly character: string;
  length: number;
}

// No leading zeros and at most nine digits: a number has one spelling, and what is kept back is short.
const marker = /\[\^([1-9][0-9]{0,8})\]/y;
const markerPrefix = /\[(?:\^(?:[1-9][0-9]{0,8})?)?$/y;
const special = /[[`\n]/g;
const none: readonly Citation[] = Object.freeze([]);

/**
 * Finds `[^n]` in one text block while it streams: the same citations however the text is cut into deltas.
 * No text is kept back, except what may be the beginning of a marker and the first half of a surrogate pair.
 *
 * A marker in code is plain text. A fenced block begins with a line of three or more backticks or tildes, indented
 * by at most three spaces, and goes on to a fence at least as long or to the end of the text. In the paragraphs
 * between (which end with a blank line, a fence or the text), a run of backticks opens a code span if a run of the
 * same length follows in the paragraph, else it is text. Only the future can tell: the citations after an open run
 * come when its span or its paragraph ends, their text comes at once.
 */
export class ReferenceParser {
  readonly #lookup: ReferenceLookup;
  #phase: Phase = "indent";
  #indent = 0;
  #run: Run = { place: "inline", character: "`", length: 0 };
  /** Backticks that began this line: a fence, unless another backtick follows on the line. */
  #opener: { readonly length: number; readonly citations: Citation[] } | undefined;
  #fence: { readonly character: string; readonly length: number } | undefined;
  /** An open run of backticks (its length) and what followed it: further runs, and citations. */
  #waiting: (number | Citation)[] = [];
  #found: Citation[] = [];
  /** What was received and not shown. */
  #held = "";
  /** Where that begins in the whole text. */
  #offset = 0;

  constructor(lookup: ReferenceLookup) {
    this.#lookup = lookup;
  }

  /** Takes the next piece of the text. */
  push(delta: string): ParsedText {
    const input = this.#held + delta;
    let end = this.#scan(input);
    // The scanner has seen this half and may see it again: to it, a surrogate is a letter like any other.
    if (end === input.length && isHighSurrogate(input.charCodeAt(end - 1))) end -= 1;
    return this.#show(input, end);
  }

  /** Takes the end of the text, and shows what was kept back: no marker, since it was not complete. */
  end(): ParsedText {
    if (this.#phase === "run") this.#endRun();
    this.#endParagraph();
    return this.#show(this.#held, this.#held.length);
  }

  #show(input: string, end: number): ParsedText {
    const isAll = end === input.length;
    const text = isAll ? input : input.slice(0, end);
    this.#held = isAll ? "" : input.slice(end);
    this.#offset += end;
    if (this.#found.length === 0) return { text, annotations: none };
    const annotations = this.#found;
    this.#found = [];
    return { text, annotations };
  }

  /** Reads the input up to its end, or to what may be the beginning of a marker there; returns that place. */
  #scan(input: string): number {
    let at = 0;
    while (at < input.length) {
      const character = input[at] as string;
      switch (this.#phase) {
        case "indent":
          if (character === "\n") {
            this.#indent = 0;
            if (!this.#fence) this.#endParagraph();
            at += 1;
          } else if (isBlank(character)) {
            this.#indent += character === " " ? 1 : 4;
            at += 1;
          } else if (this.#indent <= 3 && this.#mayBeFence(character)) {
            this.#beginRun(this.#fence ? "closing" : "opening", character);
          } else {
            this.#phase = this.#fence ? "fenced" : "text";
          }
          break;

        case "run":
          if (character === this.#run.character) {
            this.#run.length += 1;
            at += 1;
          } else {
            this.#endRun();
          }
          break;

        case "text": {
          special.lastIndex = at;
          if (!special.test(input)) return input.length;
          at = special.lastIndex - 1;
          if (input[at] === "\n") {
            if (this.#opener) this.#openFence("`", this.#opener.length);
            this.#beginLine();
            at += 1;
          } else if (input[at] === "`") {
            this.#rejectOpener();
            this.#beginRun("inline", "`");
          } else {
            marker.lastIndex = at;
            markerPrefix.lastIndex = at;
            const match = marker.exec(input);
            if (match) this.#cite(match[0], Number(match[1]), this.#offset + at);
            else if (markerPrefix.test(input)) return at;
            at += match ? match[0].length : 1;
          }
          break;
        }

        case "fenced": {
          const lineEnd = input.indexOf("\n", at);
          if (lineEnd < 0) return input.length;
          this.#beginLine();
          at = lineEnd + 1;
          break;
        }

        case "fence_tail":
          if (character === "\n") {
            this.#fence = undefined;
            this.#beginLine();
          } else if (!isBlank(character)) {
            this.#phase = "fenced";
          }
          at += 1;
          break;
      }
    }
    return at;
  }

  #beginLine(): void {
    this.#phase = "indent";
    this.#indent = 0;
  }

  #mayBeFence(character: string): boolean {
    if (this.#fence) return character === this.#fence.character;
    return character === "`" || character === "~";
  }

  #beginRun(place: Run["place"], character: string): void {
    this.#phase = "run";
    this.#run = { place, character, length: 0 };
  }

  #endRun(): void {
    const { place, character, length } = this.#run;
    this.#phase = "text";
    if (place === "closing") {
      this.#phase = this.#fence && length >= this.#fence.length ? "fence_tail" : "fenced";
    } else if (place === "opening" && length >= 3) {
      if (character === "`") this.#opener = { length, citations: [] };
      else this.#openFence(character, length);
    } else if (character === "`") {
      this.#backticks(length);
    }
  }

  #openFence(character: string, length: number): void {
    this.#endParagraph();
    this.#opener = undefined;
    this.#fence = { character, length };
    this.#phase = "fenced";
  }

  /** What looked like a fence is an ordinary run of backticks, with text after it. */
  #rejectOpener(): void {
    if (!this.#opener) return;
    const { length, citations } = this.#opener;
    this.#opener = undefined;
    this.#backticks(length);
    for (const citation of citations) this.#place(citation);
  }

  #backticks(length: number): void {
    if (this.#waiting[0] === length) this.#waiting = [];
    else this.#waiting.push(length);
  }

  #cite(text: string, referenceId: number, start: number): void {
    const target = this.#lookup.target(referenceId);
    if (target === undefined) return;
    this.#place({
      type: "reference_to_block",
      reference_id: referenceId,
      start_index: start,
      end_index: start + text.length,
      marker: text,
      target,
    });
  }

  #place(citation: Citation): void {
    if (this.#opener) this.#opener.citations.push(citation);
    else if (this.#waiting.length > 0) this.#waiting.push(citation);
    else this.#found.push(citation);
  }

  /** The runs that still wait pair off among themselves; what lies outside of the pairs is cited. */
  #endParagraph(): void {
    const waiting = this.#waiting;
    if (waiting.length === 0) return;
    this.#waiting = [];
    const closedBy = new Array<number | undefined>(waiting.length);
    const nearest = new Map<number, number>();
    for (let i = waiting.length - 1; i >= 0; i--) {
      const entry = waiting[i] as number | Citation;
      if (typeof entry !== "number") continue;
      closedBy[i] = nearest.get(entry);
      nearest.set(entry, i);
    }
    for (let i = 0; i < waiting.length; i++) {
      const entry = waiting[i] as number | Citation;
      if (typeof entry === "number") i = closedBy[i] ?? i;
      else this.#found.push(entry);
    }
  }
}

function isBlank(character: string): boolean {
  return character === " " || character === "\t" || character === "\r";
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
