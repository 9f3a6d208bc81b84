/** Where a text is in a body, counted from its first byte, and its length in bytes. */
export type Place = readonly [at: number, length: number];

/** Collects texts in one binary value: a client sends it as it is, and a list of texts as one long escaped text. */
export class Body {
  readonly #texts: string[] = [];
  #length = 0;

  get length(): number {
    return this.#length;
  }

  add(text: string): Place {
    const at = this.#length;
    const length = Buffer.byteLength(text);
    this.#texts.push(text);
    this.#length += length;
    return [at, length];
  }

  toBuffer(): Buffer {
    return Buffer.from(this.#texts.join(""));
  }
}
