import type { DatabaseSync } from "node:sqlite";
import type { Clock } from "../../base/clock.ts";
import { isBeginning, type Phrase, phrasesOf, plainWords } from "../../store/index.ts";
import { FileCache, type FileView } from "../workspace.ts";
import { blocksOf } from "./facts.ts";
import { dailyFiles, memoryFile } from "./memory-files.ts";

/** A list item or paragraph of a memory file. */
export interface Passage {
  readonly path: string;
  /** The number of its first line, from 1. */
  readonly line: number;
  readonly text: string;
}

/** Finds the passages with the most and the rarest of the words, the best first. */
export interface MemoryIndex {
  search(query: string, limit: number): readonly Passage[];
}

const maxIndexes = 16;
const maxPassages = 5_000;
const maxPassage = 2_000;

/** Searches the memory of a scope; an index is opened again when a file has changed. */
export function memorySearch(
  clock: Clock,
): (view: FileView, text: string, limit: number) => Promise<readonly Passage[]> {
  const passages = new FileCache<readonly Passage[]>(clock, ({ path, data }) =>
    passagesOf(path, new TextDecoder().decode(data)),
  );
  const indexes = new Map<string, { from: readonly unknown[]; index: Promise<MemoryIndex> }>();

  async function indexOf(view: FileView): Promise<MemoryIndex> {
    const paths = [memoryFile, ...(await dailyFiles(view.files))];
    const found = await Promise.all(paths.map((path) => passages.get(view, path)));
    const from = found.filter((list) => list !== undefined);
    const known = indexes.get(view.key);
    const isKnown =
      known?.from.length === from.length && known.from.every((list, at) => list === from[at]);
    const entry = known && isKnown ? known : { from, index: openIndex(from.flat()) };
    indexes.delete(view.key); // the newest entry is the last
    indexes.set(view.key, entry);
    const [oldest] = indexes.keys();
    if (indexes.size > maxIndexes && oldest !== undefined) indexes.delete(oldest);
    return entry.index;
  }

  return async (view, text, limit) => {
    const found = (await indexOf(view)).search(text, limit * 2);
    // A fact is in the daily file and, after a merge, in the memory file too.
    return [...new Map(found.toReversed().map((passage) => [passage.text, passage])).values()]
      .toReversed()
      .slice(0, limit);
  };
}

/** The passages of a memory file; headings and blank lines are none. */
export function passagesOf(path: string, text: string): readonly Passage[] {
  return blocksOf(text.replaceAll("\r\n", "\n")).flatMap(({ line, lines }) => {
    const joined = lines.join("\n").trim();
    if (joined === "" || joined.startsWith("#")) return [];
    return [{ path, line, text: joined.slice(0, maxPassage).toWellFormed() }];
  });
}

/** Opens an index: FTS5 where the runtime has it, else the same ranking in JavaScript. */
export async function openIndex(passages: readonly Passage[]): Promise<MemoryIndex> {
  const indexed = passages.slice(0, maxPassages);
  try {
    const { DatabaseSync } = await import("node:sqlite");
    return ftsIndex(indexed, new DatabaseSync(":memory:"));
  } catch {
    return plainIndex(indexed);
  }
}

/** An index in SQLite. Its words are normalized like those of sessions, and it has the passages of one scope alone. */
export function ftsIndex(passages: readonly Passage[], database: DatabaseSync): MemoryIndex {
  database.exec(
    "CREATE VIRTUAL TABLE passages USING fts5(words, content = '', tokenize = 'ascii')",
  );
  const insert = database.prepare("INSERT INTO passages (rowid, words) VALUES (?, ?)");
  database.exec("BEGIN");
  for (const [index, { text }] of passages.entries()) insert.run(index, plainWords(text).join(" "));
  database.exec("COMMIT");
  const select = database.prepare(
    "SELECT rowid AS id FROM passages WHERE passages MATCH ? ORDER BY bm25(passages), rowid LIMIT ?",
  );
  return {
    search(query, limit) {
      const phrases = phrasesOf(query);
      if (phrases.length === 0) return [];
      const match = phrases.map(quote).join(" OR ");
      return select.all(match, limit).flatMap(({ id }) => passages[Number(id)] ?? []);
    },
  };
}

function quote(phrase: Phrase): string {
  return `"${phrase.join(" ")}"${isBeginning(phrase.at(-1) ?? "") ? " *" : ""}`;
}

const k1 = 1.2;
const b = 0.75;
const leastWeight = 1e-6;

/** An index without SQLite, with the formula and the constants of FTS5's bm25. */
export function plainIndex(passages: readonly Passage[]): MemoryIndex {
  const documents = passages.map(({ text }) => plainWords(text));
  const total = documents.reduce((sum, { length }) => sum + length, 0);
  const average = total / Math.max(1, documents.length);
  return {
    search(query, limit) {
      const counts = phrasesOf(query).map((phrase) =>
        documents.map((words) => countOf(phrase, words)),
      );
      const weights = counts.map((perDocument) => {
        const hits = perDocument.filter((count) => count > 0).length;
        const weight = Math.log((documents.length - hits + 0.5) / (hits + 0.5));
        return weight > 0 ? weight : leastWeight;
      });
      const scored = documents.flatMap(({ length }, index) => {
        let score = 0;
        for (const [term, perDocument] of counts.entries()) {
          const count = perDocument[index] ?? 0;
          const norm = count + k1 * (1 - b + (b * length) / average);
          score += ((weights[term] ?? 0) * (count * (k1 + 1))) / norm;
        }
        return score > 0 ? [{ index, score }] : [];
      });
      scored.sort((one, two) => two.score - one.score || one.index - two.index);
      return scored.slice(0, limit).flatMap(({ index }) => passages[index] ?? []);
    },
  };
}

function countOf(phrase: Phrase, words: readonly string[]): number {
  const last = phrase.length - 1;
  const fits = (at: number) =>
    phrase.every((wanted, offset) => {
      const word = words[at + offset];
      if (offset < last || !isBeginning(wanted)) return word === wanted;
      return word?.startsWith(wanted);
    });
  return words.filter((_, at) => fits(at)).length;
}
