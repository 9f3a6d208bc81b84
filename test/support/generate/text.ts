import type { Annotation } from "../../../src/protocol/task.ts";
import type { Random } from "../random.ts";
import type { PoolEntry } from "./world.ts";

const words = [
  "the ",
  "river ",
  "runs ",
  "15C",
  "👩‍🚀 ",
  "naïve ",
  "漢字",
  "𝒳²",
  "\n",
  '"quoted" ',
  "`code` ",
  "🇫🇷",
  "e\u0301 ",
  "\u2028",
  "[not a note] ",
  "\\u0041",
  "🌧",
];

/** A text with what it cites. */
export interface CitingText {
  readonly text: string;
  readonly annotations: readonly Annotation[];
}

/** Some words, many of them beyond the first plane of Unicode. */
export function randomText(random: Random, most: number): string {
  let text = "";
  for (let left = random.int(1, most); left > 0; left--) text += random.pick(words);
  return text;
}

/** Some words with `[^n]` after some of them, and where each of those stands. */
export function citingText(random: Random, pool: readonly PoolEntry[]): CitingText {
  let text = randomText(random, 5);
  const annotations: Annotation[] = [];
  for (let left = pool.length > 0 ? random.int(1, 3) : 0; left > 0; left--) {
    const { number, target } = random.pick(pool);
    const marker = `[^${number}]`;
    annotations.push({
      type: "reference_to_block",
      reference_id: number,
      start_index: text.length,
      end_index: text.length + marker.length,
      ...(random.chance(0.8) && { marker }),
      target,
    });
    text += marker + randomText(random, 3);
  }
  return { text, annotations };
}

/** Cuts a text into pieces, between characters and never inside one. */
export function chunks(random: Random, text: string): string[] {
  const points = [...text];
  const pieces: string[] = [];
  for (let from = 0; from < points.length; ) {
    const to = from + random.int(1, Math.max(1, Math.ceil(points.length / 2)));
    pieces.push(points.slice(from, to).join(""));
    from = to;
  }
  return pieces;
}
