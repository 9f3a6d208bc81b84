import { joinWords, termsOf } from "./words.ts";

const maxParts = 4;

/** Ends a part that is about figures. */
export const figuresAdvice = " Look for figures and examples.";

/** Introduces the subject of a part that does not name it. */
export const subjectAdvice = " This is about ";

/** Removes the wish for a report from a question: what is asked, and the title of a report on it. */
export function topicOf(question: string): { readonly text: string; readonly title: string } {
  const asked = question
    .replace(
      /,?\s*(?:\band\s+|\bthen\s+|\bplease\s+)*\bpublish (?:it|this|that|the \w+|a report(?! (?:on|about|of) (?!(?:it|this|that)\b)))(?: (?:on|about|of) (?:it|this|that))?\b[.!]?/gi,
      "",
    )
    .trim();
  const wish =
    /^(?:please |can you |could you )*(?:write|make|prepare|create|publish|give me|i want|i need)(?: me)? (?:an? |the )?(?:short |brief |long )?(?:report|text|summary|article|overview) (?:on|about|of) (.+?)[.?!]*$/is;
  const [, subject] = wish.exec(asked === "" ? question : asked) ?? [];
  if (subject === undefined) return { text: asked, title: asked };
  const title = subject.charAt(0).toUpperCase() + subject.slice(1);
  return { text: `What do the files say about ${subject}?`, title };
}

/** Splits "about dams, floods and wetlands" into a question for each. */
function listedParts(question: string): readonly string[] {
  const [, before = "", list = ""] =
    /^(.*\b(?:about|of|between|on)\s+)([\p{L} -]+(?:, [\p{L} -]+)+,? (?:and|or) [\p{L} -]+)[?.!]*$/isu.exec(
      question,
    ) ?? [];
  return list === "" ? [question] : list.split(/,? (?:and|or) |, /).map((item) => before + item);
}

/** Splits a question into its questions. */
function clausesOf(question: string): readonly string[] {
  return listedParts(question)
    .join("? ")
    .split(/\?\s+|;\s+|,?\s+and\s+(?=(?:how|why|what|when|where|who|which|do|does|is|are|can)\b)/i)
    .map((part) => part.replace(/[?.!\s]+$/, "").trim())
    .map((part) => part.charAt(0).toUpperCase() + part.slice(1))
    .filter((part) => termsOf(part).length > 0);
}

/** Splits a question into at least two parts that can be researched in parallel; `earlier` is the question before it. */
export function partsOf(question: string, earlier = ""): readonly string[] {
  const [first = "", ...others] = clausesOf(question).slice(0, maxParts);
  const [before] = refersBack(first) ? clausesOf(topicOf(earlier).text) : [];
  const hint = before === undefined ? "" : `${subjectAdvice}${subjectOf(before)}.`;
  if (others.length === 0) return [`${first}?${hint}`, `${first}?${hint}${figuresAdvice}`];
  const subject = subjectOf(before ?? first);
  const isList = listedParts(question).length > 1;
  const lacksSubject = (part: string) => !isList && refersBack(part);
  return [
    `${first}?${hint}`,
    ...others.map((part) => `${part}?${lacksSubject(part) ? `${subjectAdvice}${subject}.` : ""}`),
  ];
}

function subjectOf(part: string): string {
  const words = termsOf(part).map(({ word }) => word);
  // In "how do deltas form" the last word is the verb.
  const endsInVerb =
    /\b(?:do|does|did|can|will)\b/i.test(part) && part.endsWith(words.at(-1) ?? "");
  return joinWords(endsInVerb && words.length > 1 ? words.slice(0, -1) : words);
}

function refersBack(part: string): boolean {
  const hasPronoun = /\b(?:they|them|their|it|its|these|those|this|that)\b/i.test(part);
  return hasPronoun || (termsOf(part).length < 2 && !isSubject(part) && !namesSubject(part));
}

/** Whether a verb is followed by a subject of the question's own, as in "Why do wetlands matter?". */
function namesSubject(part: string): boolean {
  const [, subject] = /\b(?:is|are|was|were|do|does|did|can|will) (\p{L}+)/iu.exec(part) ?? [];
  return termsOf(part).some(({ word }) => word === subject);
}

/** Whether a question has nothing but a subject, as in "What about beavers?" and "And waterfalls?". */
function isSubject(part: string): boolean {
  const asks = /\b(?:how|why|what|when|where|who|which|is|are|was|were|do|does|did|can|will)\b/i;
  return (
    /\b(?:what|how|tell me) (?:\w+ )?about\b|^what (?:is|are) /i.test(part) || !asks.test(part)
  );
}
