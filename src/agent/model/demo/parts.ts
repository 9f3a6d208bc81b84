import { listed, termsOf } from "./words.ts";

const mostParts = 4;

/** The parts of a question that can be looked into side by side; never fewer than two. */
export function partsOf(question: string): readonly string[] {
  const [whole = "", ...others] = question
    .split(/\?\s+|;\s+|,?\s+and\s+(?=(?:how|why|what|when|where|who|which|do|does|is|are|can)\b)/i)
    .map((part) => capitalized(part.replace(/[?.!\s]+$/, "").trim()))
    .filter((part) => termsOf(part).length > 0)
    .slice(0, mostParts);
  if (others.length === 0) return [`${whole}?`, `${whole}? Look for figures and examples.`];
  const subject = subjectOf(whole);
  return [
    `${whole}?`,
    ...others.map((part) => `${part}?${refersBack(part) ? ` This is about ${subject}.` : ""}`),
  ];
}

/** What a part means that says "they" or "it". */
function subjectOf(part: string): string {
  const words = termsOf(part).map(({ word }) => word);
  // In "how do deltas form" the last word says what happens, the others to what.
  const endsInVerb =
    /\b(?:do|does|did|can|will)\b/i.test(part) && part.endsWith(words.at(-1) ?? "");
  return listed(endsInVerb && words.length > 1 ? words.slice(0, -1) : words);
}

function refersBack(part: string): boolean {
  return (
    /\b(?:they|them|their|it|its|these|those|this|that)\b/i.test(part) || termsOf(part).length < 2
  );
}

function capitalized(part: string): string {
  return part.charAt(0).toUpperCase() + part.slice(1);
}
