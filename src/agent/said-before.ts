import type { WireBlock } from "../protocol/task.ts";
import { isSame } from "./plain.ts";

/**
 * What a call has shown before it had to wait. Its tool runs again from the start and says it again: as long as that is
 * the same, it need not be shown twice.
 */
export class SaidBefore {
  #left: readonly WireBlock[];

  constructor(blocks: readonly WireBlock[]) {
    this.#left = blocks;
  }

  /** What is new in a piece of text. */
  newIn(text: string): string {
    const [next, ...rest] = this.#left;
    if (next?.type === "text" && next.text.startsWith(text)) {
      const left = next.text.slice(text.length);
      this.#left = left === "" ? rest : [{ ...next, text: left }, ...rest];
      return "";
    }
    if (next?.type === "text" && text.startsWith(next.text)) {
      this.#left = rest;
      return this.newIn(text.slice(next.text.length));
    }
    this.#left = []; // it goes another way now
    return text;
  }

  /** Whether a block is there already. */
  has(block: WireBlock): boolean {
    const [next, ...rest] = this.#left;
    const { reference_id: _, ...bare } = next ?? {};
    const isThere = isSame(bare, block);
    this.#left = isThere ? rest : [];
    return isThere;
  }
}
