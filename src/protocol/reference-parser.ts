import { readInput, readText } from "../base/argument.ts";
import { CodeSpans } from "./code-spans.ts";
import type { Annotation, BlockAddress } from "./task.ts";

/** Looks up the block that a number cites; a `ReferencePool` implements it. */
export interface ReferenceLookup {
  target(referenceId: number): BlockAddress | undefined;
}

/** A citation found in a text, with its marker and its target. */
export type Citation = Required<Annotation>;

/** The text that may be shown now, and the citations that are certain now. */
export interface ParsedText {
  readonly text: string;
  readonly annotations: readonly Citation[];
}

type Phase =
  | "prefix" // white space, quote markers and list markers that begin a line
  | "number" // digits there, of which a list marker may come
  | "bullet" // what is a list marker if white space follows
  | "run" // backticks or tildes
  | "text" // the rest of a line
  | "escape" // what follows a backslash
  | "fenced" // the rest of a line of a fenced block
  | "fence_tail"; // what follows a run that may close a fenced block
interface Run {
  readonly place: "opening" | "inline" | "escaped" | "closing";
  readonly character: string;
  length: number;
}
interface Fence {
  readonly character: string;
  readonly length: number;
  readonly column: number;
  readonly isQuoted: boolean;
}

// No leading zeros and at most nine digits, so that a number has one spelling and the parser holds back little text.
const marker = /\[\^([1-9][0-9]{0,8})\]/y;
const markerPrefix = /\[(?:\^(?:[1-9][0-9]{0,8})?)?$/y;
const special = /[[`\n\\]/g;
const hasSpecial = /[[`\n\\]/;
const none: readonly Citation[] = /* @__PURE__ */ Object.freeze([]);

/**
 * Finds `[^n]` in one text block while it streams: the same citations however the text is cut into deltas.
 * It holds back only text that may begin a marker, and the first half of a surrogate pair.
 *
 * A marker in code is plain text, and so is one after a backslash. A fenced block begins with three or more backticks or
 * tildes at the start of a line, after any quote and list markers, indented by at most three spaces or, in a quote or a
 * list, by any amount. It ends at a fence at least as long and at most three columns further in, or at the end of the
 * text. In the paragraphs between (which end with a blank line, a list marker, a fence or the text), a run of backticks
 * opens a code span if a run of the same length follows in the paragraph, else it is text; a backslash before the run
 * takes a backtick from it, except where it closes a span. The parser returns text at once, and the citations after an
 * open run when its span or its paragraph ends.
 *
 * This is not all of Markdown. A list ends at a line that begins at the margin without a list marker. What ends a list
 * or a quote does not end a fenced block in it; indented code is text; headings and cells of tables end no paragraph.
 */
export class ReferenceParser {
  readonly #lookup: ReferenceLookup;
  #phase: Phase = "prefix";
  /** How wide this line's prefix is. */
  #column = 0;
  #isQuoted = false;
  #inList = false;
  #run: Run = { place: "inline", character: "`", length: 0 };
  /** Backticks that began this line: a fence, unless another backtick follows on the line. */
  #opener: { readonly length: number; readonly citations: Citation[] } | undefined;
  #fence: Fence | undefined;
  readonly #spans = new CodeSpans<Citation>();
  #found: Citation[] = [];
  /** Text that was received and not shown. */
  #held = "";
  /** The offset of that text in the whole text. */
  #offset = 0;

  constructor(lookup: ReferenceLookup) {
    const fits = () => typeof lookup.target === "function" && lookup;
    this.#lookup = readInput("lookup", "an object with target()", lookup, fits);
  }

  /** Parses the next piece of the text. */
  push(delta: string): ParsedText {
    if (this.takePlain(delta)) return { text: delta, annotations: none };
    const input = this.#held + delta;
    let end = this.#scan(input);
    // The scanner has seen this half and may see it again: to it, a surrogate is a letter like any other.
    if (end === input.length && isHighSurrogate(input.charCodeAt(end - 1))) end -= 1;
    return this.#show(input, end);
  }

  /**
   * Parses the next piece if it is plain text in the middle of a line, as most are, and returns true: all of it may be
   * shown. Otherwise it changes nothing. It allocates no object, because it runs for every delta.
   */
  takePlain(delta: string): boolean {
    if (typeof delta !== "string") readText("delta", delta);
    if (this.#phase !== "text" || this.#held !== "" || hasSpecial.test(delta)) return false;
    if (isHighSurrogate(delta.charCodeAt(delta.length - 1))) return false;
    this.#offset += delta.length;
    return true;
  }

  /** Ends the text and returns what was held back, which is an incomplete marker and so is text. */
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
        case "prefix":
          if (this.#takePrefix(character)) at += 1;
          break;

        case "number":
          if (isDigit(character) || character === "." || character === ")") {
            if (!isDigit(character)) this.#phase = "bullet";
            this.#column += 1;
            at += 1;
          } else {
            this.#phase = "text";
          }
          break;

        case "bullet":
          if (isBlank(character) || character === "\n") this.#beginItem();
          else this.#phase = "text";
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
          } else if (input[at] === "\\") {
            this.#phase = "escape";
            at += 1;
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

        case "escape":
          this.#phase = "text";
          if (character === "`") {
            this.#rejectOpener();
            this.#beginRun("escaped", "`");
          } else if (character === "[" || character === "\\") {
            at += 1;
          }
          break;

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
    this.#phase = "prefix";
    this.#column = 0;
    this.#isQuoted = false;
  }

  /** Reads on in a line's prefix; false leaves the character to the phase that it begins. */
  #takePrefix(character: string): boolean {
    const fence = this.#fence;
    if (character === "\n") {
      if (!fence) this.#endParagraph();
      this.#beginLine();
      return true;
    }
    if (isBlank(character)) {
      this.#column += character === " " ? 1 : 4;
      return true;
    }
    if (this.#column === 0 && !fence) this.#inList = false;
    if (character === ">" && (!fence || fence.isQuoted)) {
      this.#column += 1;
      this.#isQuoted = true;
      return true;
    }
    return this.#beginContent(character);
  }

  /** Begins what follows a line's prefix; false leaves the character to the phase that it begins. */
  #beginContent(character: string): boolean {
    const fence = this.#fence;
    if (fence) {
      const mayClose = character === fence.character && this.#column <= fence.column + 3;
      if (mayClose) this.#beginRun("closing", character);
      else this.#phase = "fenced";
    } else if (character === "-" || character === "*" || character === "+") {
      this.#column += 1;
      this.#phase = "bullet";
      return true;
    } else if (isDigit(character)) {
      this.#phase = "number";
    } else {
      const mayOpen = this.#column <= 3 || this.#inList || this.#isQuoted;
      const isFence = mayOpen && (character === "`" || character === "~");
      if (isFence) this.#beginRun("opening", character);
      else this.#phase = "text";
    }
    return false;
  }

  #beginItem(): void {
    this.#endParagraph();
    this.#inList = true;
    this.#phase = "prefix";
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
      this.#spans.backticks({ opens: place === "escaped" ? length - 1 : length, closes: length });
    }
  }

  #openFence(character: string, length: number): void {
    this.#endParagraph();
    this.#opener = undefined;
    this.#fence = { character, length, column: this.#column, isQuoted: this.#isQuoted };
    this.#phase = "fenced";
  }

  /** Treats a run that looked like a fence as an ordinary run of backticks. */
  #rejectOpener(): void {
    if (!this.#opener) return;
    const { length, citations } = this.#opener;
    this.#opener = undefined;
    this.#spans.backticks({ opens: length, closes: length });
    for (const citation of citations) this.#place(citation);
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
    else if (this.#spans.isOpen) this.#spans.wait(citation);
    else this.#found.push(citation);
  }

  #endParagraph(): void {
    if (!this.#spans.isOpen) return;
    for (const citation of this.#spans.end()) this.#found.push(citation);
  }
}

function isDigit(character: string): boolean {
  return character >= "0" && character <= "9";
}

function isBlank(character: string): boolean {
  return character === " " || character === "\t" || character === "\r";
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
