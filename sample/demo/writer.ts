import { fitOf } from "./rank.ts";
import type { Move, View } from "./view.ts";
import { normalizeText, stemsOf } from "./words.ts";

/** The findings for one part of a question. */
export type Notes = { readonly part: string; readonly sentences: readonly string[] };

/** Writes a text from the notes in the question, if there are any. */
export function compose(view: View): Move | undefined {
  const notes = readNotes(view.question);
  if (notes.length === 0) return undefined;
  const thinking = "I write one paragraph for each part, the main point first.";
  return { thinking, text: writeParagraphs(notes) };
}

/** The task of a writer. */
export function notesTask(question: string, notes: readonly Notes[]): string {
  const parts = notes.map(({ part, sentences }) =>
    [`Notes on: ${part}`, ...sentences.map((sentence) => `- ${sentence}`)].join("\n"),
  );
  return [`Write the answer to: ${question}`, ...parts].join("\n\n");
}

function readNotes(task: string): readonly Notes[] {
  const sections = task.split(/^Notes on: /m).slice(1);
  return sections.map((section) => ({
    part: section.split("\n", 1)[0]?.trim() ?? "",
    sentences: Array.from(section.matchAll(/^- (.+)$/gm), ([, sentence = ""]) => sentence),
  }));
}

/** Writes a paragraph for each part: the best sentence first, the others in order, none repeated. */
export function writeParagraphs(notes: readonly Notes[]): string {
  const used = new Set<string>();
  const paragraphs = notes.map(({ part, sentences }) => {
    const fresh = sentences.filter((sentence) => {
      const isNew = !isRepeated(sentence, used);
      used.add(normalizeText(sentence));
      return isNew;
    });
    const main = mainPoint(part, fresh);
    return [main, ...fresh.filter((sentence) => sentence !== main)].join(" ").trim();
  });
  return paragraphs.filter((paragraph) => paragraph !== "").join("\n\n");
}

/** The sentence that fits a question best. */
export function mainPoint(question: string, sentences: readonly string[]): string | undefined {
  return sentences.toSorted((a, b) => fitOf(b, question) - fitOf(a, question))[0];
}

/** A sentence counts as repeated when it shares nearly all words with an earlier one. */
function isRepeated(sentence: string, used: ReadonlySet<string>): boolean {
  const stems = stemsOf(sentence);
  return [...used].some((earlier) => {
    const others = stemsOf(earlier);
    const shared = [...stems].filter((stem) => others.has(stem)).length;
    return shared / (stems.size + others.size - shared) > 0.7;
  });
}
