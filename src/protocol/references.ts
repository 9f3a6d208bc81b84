import { RivuletError } from "./error.ts";
import type { Block } from "./message.ts";
import { type Citation, type ReferenceLookup, ReferenceParser } from "./reference-parser.ts";
import type { BlockAddress, WireBlock } from "./task.ts";

/** A tool result that may be cited: what the model reads and what people see of it. */
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

/** What one number stands for. */
export interface ReferenceEntry {
  readonly referenceId: number;
  /** Where it is shown: a block of this task, or of the descendant that brought it. */
  readonly target: BlockAddress;
  /** What the model reads, without the markers. */
  readonly content: readonly Block[];
  /** The number it had in the child that cited it. */
  readonly origin?: { readonly taskId: string; readonly referenceId: number };
}

/** A pool as plain data; entries of several records of one task may be put together. */
export interface ReferencePoolRecord {
  readonly taskId: string;
  readonly entries: readonly ReferenceEntry[];
}

const tags = ["added_by_reference_manager"] as const;

/** The numbers that one task's messages may cite as `[^n]`, and what each stands for. */
export class ReferencePool implements ReferenceLookup {
  readonly taskId: string;
  readonly #entries = new Map<number, ReferenceEntry>();
  readonly #embedded = new Map<string, number>();
  #last = 0;

  constructor(taskId: string) {
    this.taskId = taskId;
  }

  /** The pool that a record describes; the next number follows its highest. */
  static from(record: ReferencePoolRecord): ReferencePool {
    const pool = new ReferencePool(record.taskId);
    for (const entry of record.entries) {
      const { referenceId } = entry;
      if (!Number.isSafeInteger(referenceId) || referenceId < 1 || pool.#entries.has(referenceId)) {
        throw new RivuletError("invalid_references", `A pool cannot hold number ${referenceId}`, {
          hint: "Reference numbers are whole, begin with 1 and stand for one entry each.",
        });
      }
      pool.#keep(entry);
    }
    return pool;
  }

  /** The pool as plain data, from which `from` makes it again. */
  toJSON(): ReferencePoolRecord {
    return { taskId: this.taskId, entries: [...this.#entries.values()] };
  }

  /** The block that a number cites. */
  target(referenceId: number): BlockAddress | undefined {
    return this.#entries.get(referenceId)?.target;
  }

  /** A number for a result that is shown before it is complete. It stands for nothing until it is added. */
  reserve(): number {
    this.#last += 1;
    return this.#last;
  }

  /** Gives a tool result of this task a number, one for all its blocks. */
  add(result: CitableResult): NumberedResult {
    const referenceId = result.referenceId ?? this.reserve();
    const target = {
      task_id: this.taskId,
      item_id: result.itemId,
      block_index: result.blockIndex ?? 0,
    };
    this.#keep({ referenceId, target, content: result.content });
    return {
      referenceId,
      content: marked(referenceId, result.content),
      display: result.display.map((block) => ({ ...block, reference_id: referenceId })),
    };
  }

  /**
   * Takes in what a child's final message cites. A number of the child gets one number here, also when the child is
   * embedded again; what it does not cite stays out, and a number that it does not know stays as it is.
   */
  embed(child: ReferencePool, message: readonly Block[]): EmbeddedResult {
    const renumbered = new Map<number, number>();
    const pool: Block[] = [];
    const rewritten = message.map((block) => {
      if (block.type !== "text") return block;
      let text = "";
      let end = 0;
      for (const citation of citations(block.text, child)) {
        let number = renumbered.get(citation.reference_id);
        if (number === undefined) {
          const entry = this.#embedEntry(child, citation);
          number = entry.referenceId;
          renumbered.set(citation.reference_id, number);
          pool.push(...marked(number, entry.content));
        }
        text += `${block.text.slice(end, citation.start_index)}[^${number}]`;
        end = citation.end_index;
      }
      return end === 0 ? block : { ...block, text: text + block.text.slice(end) };
    });
    return { pool, message: rewritten, renumbered };
  }

  #embedEntry(child: ReferencePool, { reference_id, target }: Citation): ReferenceEntry {
    const origin = { taskId: child.taskId, referenceId: reference_id };
    const known = this.#entries.get(this.#embedded.get(originKey(origin)) ?? 0);
    if (known) return known;
    const content = child.#entries.get(reference_id)?.content ?? [];
    return this.#keep({ referenceId: this.#last + 1, target, content, origin });
  }

  #keep(entry: ReferenceEntry): ReferenceEntry {
    this.#entries.set(entry.referenceId, entry);
    this.#last = Math.max(this.#last, entry.referenceId);
    if (entry.origin) this.#embedded.set(originKey(entry.origin), entry.referenceId);
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

function citations(text: string, lookup: ReferenceLookup): readonly Citation[] {
  const parser = new ReferenceParser(lookup);
  return [...parser.push(text).annotations, ...parser.end().annotations];
}

function originKey(origin: NonNullable<ReferenceEntry["origin"]>): string {
  return `${origin.taskId} ${origin.referenceId}`;
}
