import { stampEvery, stampGap } from "./wheel.ts";

/** Checks each character of a stream of the wheel: all of them follow from the first stamp. */
export class CheckedText {
  /** How many tokens were complete. */
  tokens = 0;
  /** The first difference. */
  wrong: string | undefined;
  #rest = "";
  #sinceStamp = -1;
  #stamp = 0;

  /** Takes the next part; returns the last stamp in it, in tenths of milliseconds. */
  add(part: string): number | undefined {
    const tokens = (this.#rest + part).split("~");
    this.#rest = tokens.pop() ?? "";
    let found: number | undefined;
    for (const token of tokens) found = this.#token(token) ?? found;
    return found;
  }

  #token(token: string): number | undefined {
    this.tokens += 1;
    this.#sinceStamp += this.#sinceStamp < 0 && this.#stamp === 0 ? 0 : 1;
    if (!token.startsWith("@")) {
      const isLate =
        this.#stamp === 0 ? this.tokens >= stampEvery + 1 : this.#sinceStamp >= stampEvery;
      if (token !== "word" || isLate) this.wrong ??= `token ${this.tokens} is "${token}"`;
      return undefined;
    }
    const stamp = Number.parseInt(token.slice(1), 36);
    const isNext =
      this.#stamp === 0 ||
      (this.#sinceStamp === stampEvery && Math.abs(stamp - this.#stamp - stampGap) <= 1);
    if (!isNext) this.wrong ??= `token ${this.tokens} is "${token}" after ${this.#stamp}`;
    this.#stamp = stamp;
    this.#sinceStamp = 0;
    return stamp;
  }
}
