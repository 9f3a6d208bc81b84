/** A run of backticks: a backslash takes one from a run that opens a span, and none from a run that closes one. */
export interface Backticks {
  readonly opens: number;
  readonly closes: number;
}

/** Holds the citations after a run of backticks until it is certain whether they are in a code span. */
export class CodeSpans<Found extends object> {
  /** A run that may open a span, and the citations after it. */
  #waiting: (Backticks | Found)[] = [];

  /** Whether a run may have opened a span, so that citations have to wait. */
  get isOpen(): boolean {
    return this.#waiting.length > 0;
  }

  /** Adds a citation after the open run. */
  wait(found: Found): void {
    this.#waiting.push(found);
  }

  /** Adds the next run: it closes a span, and the citations in it are code, or it may open one. */
  backticks(run: Backticks): void {
    const [first] = this.#waiting;
    if (first && isBackticks(first) && first.opens === run.closes) this.#waiting = [];
    else if (first || run.opens > 0) this.#waiting.push(run);
  }

  /** Ends the paragraph: pairs the remaining runs and returns the citations outside of the pairs. */
  end(): readonly Found[] {
    const waiting = this.#waiting;
    this.#waiting = [];
    const closedBy = new Array<number | undefined>(waiting.length);
    const nearest = new Map<number, number>();
    for (let i = waiting.length - 1; i >= 0; i--) {
      const entry = waiting[i] as Backticks | Found;
      if (!isBackticks(entry)) continue;
      closedBy[i] = nearest.get(entry.opens);
      nearest.set(entry.closes, i);
    }
    const outside: Found[] = [];
    for (let i = 0; i < waiting.length; i++) {
      const entry = waiting[i] as Backticks | Found;
      if (isBackticks(entry)) i = closedBy[i] ?? i;
      else outside.push(entry);
    }
    return outside;
  }
}

function isBackticks(entry: object): entry is Backticks {
  return "opens" in entry;
}
