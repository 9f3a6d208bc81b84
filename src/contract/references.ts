import { readInput, readText } from "../base/argument.ts";
import { RivuletError } from "../base/error.ts";
import { isObject } from "../base/plain.ts";
import {
  type BlockAddress,
  type Citation,
  isIndex,
  isText,
  type ReferenceLookup,
  ReferenceParser,
  type WireBlock,
} from "../protocol/index.ts";
import { areBlocks, type Block } from "./message.ts";

/** A tool result that may be cited: its content for the model and its blocks for people. */
export interface CitableResult {
  readonly itemId: string;
  readonly content: readonly Block[];
  readonly display: readonly WireBlock[];
  /** The block that a citation leads to; the first one by default. */
  readonly blockIndex?: number;
  /** The number that was reserved for it; the next one by default. */
  readonly referenceId?: number;
}

/** A tool result with its number: between markers for the model, on every block for people. */
export interface NumberedResult {
  readonly referenceId: number;
  readonly content: readonly Block[];
  readonly display: readonly WireBlock[];
}

/** A child's result as its parent's model reads it: first what the child cites, then its message, in the parent's numbers. */
export interface EmbeddedResult {
  readonly pool: readonly Block[];
  readonly message: readonly Block[];
  /** The child's numbers, in the order of their first citation, and the parent's. */
  readonly renumbered: ReadonlyMap<number, number>;
}

/** The result that a number cites. */
export interface ReferenceEntry {
  readonly referenceId: number;
  /** The block that people see: of this task, or of the descendant that cited it. */
  readonly target: BlockAddress;
  /** The content for the model, without the markers. */
  readonly content: readonly Block[];
  /** The number it had in the child that cited it. */
  readonly origin?: { readonly taskId: string; readonly referenceId: number };
}

/** A pool as plain data; entries of several records of one task may be merged. */
export interface ReferencePoolRecord {
  readonly taskId: string;
  readonly entries: readonly ReferenceEntry[];
}

function isReadable({ target, content }: ReferenceEntry): boolean {
  return isObject(target) && areBlocks(content);
}

const tags = ["added_by_reference_manager"] as const;

/** The numbers that the messages of a task may cite as `[^n]`, and the results that they cite. */
export class ReferencePool implements ReferenceLookup {
  readonly taskId: string;
  readonly #entries = new Map<number, ReferenceEntry>();
  readonly #embedded = new Map<string, number>();
  #last = 0;

  constructor(taskId: string) {
    this.taskId = readText("taskId", taskId);
  }

  /** The pool that a record describes; the next number follows its highest. */
  static from(record: ReferencePoolRecord): ReferencePool {
    const expected = "an object with taskId and entries";
    readInput("record", expected, record, () => record.entries.every(isReadable));
    const pool = new ReferencePool(record.taskId);
    for (const entry of record.entries) pool.#keep(entry);
    return pool;
  }

  /** The pool as plain data; `from` restores it. */
  toJSON(): ReferencePoolRecord {
    return { taskId: this.taskId, entries: [...this.#entries.values()] };
  }

  /** Whether no result has a number yet. */
  get isEmpty(): boolean {
    return this.#entries.size === 0;
  }

  /** The block that a number cites. */
  target(referenceId: number): BlockAddress | undefined {
    return this.#entries.get(referenceId)?.target;
  }

  /** Reserves a number for a result that is not complete yet; `add` assigns it. */
  reserve(): number {
    this.#last += 1;
    return this.#last;
  }

  /** Gives a tool result of this task a number, one for all its blocks; a number is given once. */
  add(result: CitableResult): NumberedResult {
    const expected = "an object with itemId, content, display and, if present, blockIndex";
    const read = readInput("result", expected, result, () => {
      const { blockIndex = 0, itemId, content, display } = result;
      const fits = isIndex(blockIndex) && isText(itemId) && display.every(isObject);
      return fits && areBlocks(content) && { ...result, blockIndex };
    });
    const { blockIndex, itemId, content, display, referenceId = this.reserve() } = read;
    const target = {
      task_id: this.taskId,
      item_id: itemId,
      block_index: blockIndex,
    };
    this.#keep({ referenceId, target, content });
    return {
      referenceId,
      content: marked(referenceId, content),
      display: display.map((block) => ({ ...block, reference_id: referenceId })),
    };
  }

  /**
   * Adds the results that a child's final message cites. Each number of the child gets one number here, also if the child
   * is embedded again. A number that the child's pool does not have gets a backslash, so that it is text here as well.
   */
  embed(child: ReferencePool, message: readonly Block[]): EmbeddedResult {
    readInput("child", "a ReferencePool", child, () => #entries in child);
    readInput("message", "an array of blocks", message, () => areBlocks(message));
    const renumbered = new Map<number, number>();
    const pool: Block[] = [];
    const rewritten = message.map((block) => {
      if (block.type !== "text") return block;
      let text = "";
      let end = 0;
      for (const { reference_id, marker, start_index, end_index } of markersIn(block.text)) {
        const cited = child.#entries.get(reference_id);
        let number = renumbered.get(reference_id);
        if (cited && number === undefined) {
          const entry = this.#embedEntry(child, cited);
          number = entry.referenceId;
          renumbered.set(reference_id, number);
          pool.push(...marked(number, entry.content));
        }
        text += block.text.slice(end, start_index);
        text += number === undefined ? `\\${marker}` : `[^${number}]`;
        end = end_index;
      }
      return end === 0 ? block : { ...block, text: text + block.text.slice(end) };
    });
    return { pool, message: rewritten, renumbered };
  }

  #embedEntry(child: ReferencePool, cited: ReferenceEntry): ReferenceEntry {
    const { referenceId, target, content } = cited;
    const origin = { taskId: child.taskId, referenceId };
    const known = this.#entries.get(this.#embedded.get(originKey(origin)) ?? 0);
    return known ?? this.#keep({ referenceId: this.#last + 1, target, content, origin });
  }

  #keep(entry: ReferenceEntry): ReferenceEntry {
    const { referenceId, origin } = entry;
    if (!Number.isSafeInteger(referenceId) || referenceId < 1 || this.#entries.has(referenceId)) {
      throw new RivuletError(
        "invalid_references",
        `A pool cannot take number ${String(referenceId)}`,
        {
          hint: "Reference numbers are whole, begin with 1 and stand for one entry each.",
        },
      );
    }
    this.#entries.set(referenceId, entry);
    this.#last = Math.max(this.#last, referenceId);
    if (origin) this.#embedded.set(originKey(origin), referenceId);
    return entry;
  }
}

function marked(referenceId: number, content: readonly Block[]): Block[] {
  return [
    { type: "text", text: `<referencable-item>\nID: ${referenceId}`, tags },
    ...content,
    { type: "text", text: "</referencable-item>", tags },
  ];
}

/** Every marker outside of code, with any number. */
function markersIn(text: string): readonly Citation[] {
  if (!text.includes("[^")) return [];
  const target = { task_id: "", item_id: "", block_index: 0 };
  const parser = new ReferenceParser({ target: () => target });
  return [...parser.push(text).annotations, ...parser.end().annotations];
}

function originKey(origin: NonNullable<ReferenceEntry["origin"]>): string {
  return `${origin.taskId} ${origin.referenceId}`;
}
