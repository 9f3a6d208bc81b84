import { oneLine } from "../prompts.ts";

/** The facts of one part of a session, as a section of a daily file. */
export interface Entry {
  readonly id: string;
  readonly text: string;
}

const nothing = "NOTHING";
const maxFacts = 40;
const maxFact = 400;
const idPattern = /\[([0-9a-f]{12})\]$/;

/** Reads the facts in a model's answer; undefined if it is neither a list of facts nor says that there are none. */
export function readFacts(answer: string): readonly string[] | undefined {
  const lines = answer.split("\n").flatMap((line) => line.trim() || []);
  if (lines.length === 1 && lines[0]?.replace(/[.*`]/g, "") === nothing) return [];
  const facts = lines.flatMap((line) => /^[-*•]\s+(\S.*)$/.exec(line)?.[1] ?? []);
  // A few words around the list are harmless, an essay is not a list.
  if (facts.length === 0 || facts.length < lines.length / 2) return undefined;
  const plain = facts.map((fact) => oneLine(fact, maxFact)).filter((fact) => fact !== nothing);
  return [...new Set(plain)].slice(0, maxFacts);
}

/** Writes an entry: the heading says where the facts come from, and its id makes a repeated write harmless. */
export function entryOf(
  id: string,
  facts: readonly string[],
  origin: { readonly time: number; readonly sessionId: string },
): Entry {
  const time = new Date(origin.time).toISOString().slice(11, 16);
  const heading = `## ${time} UTC, session ${JSON.stringify(origin.sessionId)} [${id}]`;
  return { id, text: [heading, "", ...facts.map((fact) => `- ${fact}`)].join("\n") };
}

/** Whether an entry has more than its heading. */
export function hasFacts({ text }: Entry): boolean {
  return text.includes("\n- ");
}

/** The entries of a daily file; text before the first heading is an entry without an id. */
export function entriesIn(text: string): readonly Entry[] {
  const sections = text.replaceAll("\r\n", "\n").split(/^(?=## )/m);
  return sections.flatMap((section) => {
    const trimmed = section.trim();
    if (trimmed === "") return [];
    const [heading = ""] = trimmed.split("\n", 1);
    return [{ id: idPattern.exec(heading)?.[1] ?? "", text: trimmed }];
  });
}

/** The text of a daily file in which an entry is as given: added, replaced, or removed when undefined. */
export function withEntry(text: string, id: string, entry: Entry | undefined): string {
  const entries = entriesIn(text);
  const at = entries.findIndex((one) => one.id === id);
  if (entry && entries[at]?.text === entry.text) return text;
  if (!entry && at < 0) return text;
  const others = entries.filter((_, index) => index !== at);
  return joinEntries(entry ? others.toSpliced(at < 0 ? others.length : at, 0, entry) : others);
}

function joinEntries(entries: readonly Entry[]): string {
  return entries.map(({ text }) => `${text}\n`).join("\n");
}

/**
 * Removes every item of a list, and every other paragraph, that contains a text; case and spacing do not count. An entry
 * that loses all its facts goes with them.
 */
export function withoutText(
  text: string,
  wanted: string,
): { readonly text: string; readonly removed: number } {
  const isMatch = containing(wanted);
  if (!isMatch(text)) return { text, removed: 0 };
  let removed = 0;
  const kept = blocksOf(text).filter(({ lines }) => {
    const matches = isMatch(lines.join(" "));
    if (matches) removed += 1;
    return !matches;
  });
  const rest = kept.flatMap(({ lines }) => lines).join("\n");
  const entries = entriesIn(rest).filter((entry) => entry.id === "" || hasFacts(entry));
  const isDaily = entriesIn(text).some(({ id }) => id !== "");
  return { text: isDaily ? joinEntries(entries) : rest, removed };
}

/** A test whether a text contains another one; case and spacing do not count. */
export function containing(wanted: string): (text: string) => boolean {
  const fold = (text: string) => oneLine(text).normalize("NFKC").toLowerCase();
  const needle = fold(wanted);
  return (text) => fold(text).includes(needle);
}

/** A list item with its continuation lines, a paragraph, or a line between them. */
export interface TextPart {
  /** The number of its first line, from 1. */
  readonly line: number;
  readonly lines: readonly string[];
}

/** The parts of a Markdown text, in order; joined they are the text. */
export function blocksOf(text: string): readonly TextPart[] {
  const parts: { line: number; lines: string[] }[] = [];
  let isOpen = false;
  for (const [index, line] of text.split("\n").entries()) {
    const isBreak = line.trim() === "" || line.startsWith("#");
    const isItem = /^\s*(?:[-*+•]|\d{1,9}[.)])\s/.test(line);
    const last = parts.at(-1);
    if (isOpen && last && !isBreak && !isItem) last.lines.push(line);
    else parts.push({ line: index + 1, lines: [line] });
    isOpen = !isBreak;
  }
  return parts;
}
