import { scoreSentence } from "./rank.ts";
import type { Move, View } from "./view.ts";
import { bare, stemsOf, termsOf } from "./words.ts";

/** What is known about one part of a question. */
export interface Notes {
  readonly part: string;
  readonly sentences: readonly string[];
}

/** Makes a text out of notes, when that is what is asked for. */
export function compose(view: View): Move | undefined {
  const notes = readNotes(view.question);
  if (notes.length === 0) return undefined;
  return {
    thinking: "One paragraph for each part, the main point first.",
    text: paragraphs(notes),
  };
}

/** The task by which a writer is given notes. */
export function notesTask(question: string, notes: readonly Notes[]): string {
  const parts = notes.map(({ part, sentences }) =>
    [`Notes on: ${part}`, ...sentences.map((sentence) => `- ${sentence}`)].join("\n"),
  );
  return [`Write the answer to: ${question}`, ...parts].join("\n\n");
}

/** A paragraph for each part: the sentence that says most comes first, and nothing is said twice. */
export function paragraphs(notes: readonly Notes[]): string {
  const said = new Set<string>();
  return notes
    .map(({ part, sentences }) => {
      const terms = termsOf(part);
      const weights = new Map(terms.map(({ stem }) => [stem, 1]));
      const fresh = sentences.filter((sentence) => {
        const isNew = !said.has(bare(sentence)) && !isNearly(sentence, said);
        said.add(bare(sentence));
        return isNew;
      });
      // What follows the main point stays in the order of its source.
      const main = fresh.reduce<string | undefined>(
        (best, one) =>
          best === undefined || score(one, part, weights) > score(best, part, weights) ? one : best,
        undefined,
      );
      return [main, ...fresh.filter((one) => one !== main)].join(" ").trim();
    })
    .filter((paragraph) => paragraph !== "")
    .join("\n\n");
}

function readNotes(task: string): readonly Notes[] {
  return task
    .split(/^Notes on: /m)
    .slice(1)
    .map((section) => ({
      part: section.split("\n", 1)[0]?.trim() ?? "",
      sentences: Array.from(section.matchAll(/^- (.+)$/gm), ([, sentence = ""]) => sentence),
    }));
}

function score(sentence: string, part: string, weights: ReadonlyMap<string, number>): number {
  return scoreSentence(sentence, "", part, weights);
}

/** Whether something that was said has nearly all the same words. */
function isNearly(sentence: string, said: ReadonlySet<string>): boolean {
  const stems = stemsOf(sentence);
  return [...said].some((other) => {
    const others = stemsOf(other);
    const shared = [...stems].filter((stem) => others.has(stem)).length;
    return shared / (stems.size + others.size - shared) > 0.7;
  });
}
