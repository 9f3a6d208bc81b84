import type { View } from "./view.ts";
import { stemsOf, termsOf } from "./words.ts";

/** The changes that a person asks for during the work, or in the denial of a report. */
export interface Wishes {
  /** Whether the text is published; undefined if the message does not say. */
  readonly publishes?: boolean;
  /** Keeps only the main point of each part. */
  readonly isBrief?: boolean;
  /** Leaves out sentences with one of these stems. */
  readonly without?: ReadonlySet<string>;
  /** Keeps only sentences with one of these stems. */
  readonly only?: ReadonlySet<string>;
  readonly title?: string;
  /** Another question to answer. */
  readonly asks?: string;
  /** Whether that question replaces the earlier ones. */
  readonly isInstead?: boolean;
}

const end = "(?=[.,;!?]|$| and | but | please\\b)";
const leavesOut = new RegExp(
  `\\b(?:without|except(?: for)?|leave out|leaving out|skip|omit|remove|drop|delete|(?:do not|don't) (?:mention|include))(?: the| any| all)?(?: parts?| sentences?)?(?: about| on)? (.+?)${end}`,
  "i",
);
const restricts = new RegExp(
  `\\b(?:only|focus|concentrate|just)(?: (?:write|talk|report|look|answer))?(?: on| about| at| for)?(?: the)? (.+?)${end}`,
  "i",
);
const renames =
  /\b(?:title(?: should be|:| to| it)?|call it|name it|rename it(?: to)?)\s+["“']?([^"”'.\n]+)["”']?/i;
const adds = /\b(?:add|include|mention|cover|also|what about|how about|something about|instead)\b/i;

/** Reads a message; one that says nothing to act on gives no wishes. */
export function wishesIn(message: string): Wishes {
  const [, excluded] = leavesOut.exec(message) ?? [];
  const [, focus] = excluded === undefined ? (restricts.exec(message) ?? []) : [];
  const [, title] = renames.exec(message) ?? [];
  const isBrief =
    /\b(?:short(?:er|en)?|brief(?:ly|er)?|concise|too long|less text|one sentence|cut it)\b/i;
  const isUnwanted =
    /\b(?:do not|don't|never|no need to|without|stop) publish(?:ing)?\b|\bno report\b/i;
  const asks = questionIn(message);
  return {
    ...(isUnwanted.test(message)
      ? { publishes: false }
      : /\bpublish\b/i.test(message) && { publishes: true }),
    ...(isBrief.test(message) && { isBrief: true }),
    ...(excluded !== undefined && termsOf(excluded).length > 0 && { without: termStems(excluded) }),
    ...(focus !== undefined && termsOf(focus).length > 0 && { only: termStems(focus) }),
    ...(title !== undefined && { title: title.trim() }),
    ...(asks !== undefined && excluded === undefined && { asks }),
    ...(asks !== undefined && /\binstead\b/i.test(message) && { isInstead: true }),
  };
}

/** Whether the wishes leave a sentence in. */
export function isWanted(sentence: string, wishes: readonly Wishes[]): boolean {
  const stems = stemsOf(sentence);
  return wishes.every(
    ({ without, only }) =>
      (without === undefined || !hasAny(stems, without)) &&
      (only === undefined || hasAny(stems, only)),
  );
}

export function hasAny(stems: ReadonlySet<string>, wanted: ReadonlySet<string>): boolean {
  return [...wanted].some((stem) => stems.has(stem));
}

/** Names the messages since the question that change nothing. */
export function ignoredMessages({ steering }: View): readonly string[] {
  return steering
    .filter((message) => Object.keys(wishesIn(message)).length === 0)
    .map((message) => `I could not act on this message: ${message}`);
}

function termStems(text: string): ReadonlySet<string> {
  return stemsOf(
    termsOf(text)
      .map(({ word }) => word)
      .join(" "),
  );
}

/** The question in a message: its own, or one about the subject that it wants to be added. */
function questionIn(message: string): string | undefined {
  const question = /(?:^|[.!,;] *)((?:how|why|what|when|where|who|which)\b(?! about\b)[^.?!]*)\??/i;
  const [, asked] = question.exec(message.replace(/,? +instead\b/i, "")) ?? [];
  if (asked !== undefined && termsOf(asked).length > 0)
    return `${asked.charAt(0).toUpperCase()}${asked.slice(1).trim()}?`;
  if (!adds.test(message)) return undefined;
  const subject = message.replace(
    /\b(?:please|add|include|mention|cover|also|what|how|about|something|instead|publish|report|it|a|an|the|section|part|paragraph|on|to|research|write|look|at|into|tell|me|and|but|of|answer|can|you|should|be)\b/gi,
    " ",
  );
  const words = termsOf(subject).map(({ word }) => word);
  return words.length === 0 ? undefined : `What do the files say about ${words.join(" ")}?`;
}
