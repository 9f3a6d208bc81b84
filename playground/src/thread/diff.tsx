import { Fragment, memo } from "react";

/** A line of a diff. */
interface DiffLine {
  readonly kind: "same" | "add" | "del";
  readonly number: number;
  readonly text: string;
  /** The parts that differ from the lines that it replaces. */
  readonly marks?: readonly (readonly [from: number, to: number])[];
}

/** The lines around an edit of a file. */
export function editLines(
  file: string | undefined,
  oldText: string,
  newText: string,
): readonly DiffLine[] {
  const at = file?.indexOf(oldText) ?? -1;
  const isFound = file !== undefined && at >= 0;
  // Whole lines are compared, so that the words around the edit stand beside it.
  const from = isFound ? file.lastIndexOf("\n", at - 1) + 1 : 0;
  const end = isFound ? file.indexOf("\n", at + oldText.length) : -1;
  const to = isFound ? (end < 0 ? file.length : end) : 0;
  const before = isFound ? file.slice(from, to) : oldText;
  const after = isFound
    ? file.slice(from, at) + newText + file.slice(at + oldText.length, to)
    : newText;
  const first = isFound ? file.slice(0, from).split("\n").length : 1;
  const above =
    isFound && from > 0
      ? file
          .slice(0, from - 1)
          .split("\n")
          .slice(-2)
      : [];
  const below =
    isFound && end >= 0
      ? file
          .slice(end + 1)
          .split("\n")
          .slice(0, 2)
      : [];
  const changed = compare(before.split("\n"), after.split("\n"), first);
  const lastNew = changed.findLast(({ kind }) => kind !== "del")?.number ?? first - 1;
  return [
    ...above.map((text, index) => same(text, first - above.length + index)),
    ...changed,
    ...below.map((text, index) => same(text, lastNew + 1 + index)),
  ];
}

function same(text: string, number: number): DiffLine {
  return { kind: "same", number, text };
}

/** Compares two lists of lines by their longest common part. */
function compare(old: readonly string[], next: readonly string[], first: number): DiffLine[] {
  if (old.length * next.length > 400_000) return [...dels(old, first), ...adds(next, first)];
  const lengths = table(old, next);
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < next.length) {
    if (i < old.length && j < next.length && old[i] === next[j]) {
      lines.push(same(old[i] as string, first + j));
      i++;
      j++;
    } else if (
      j >= next.length ||
      (i < old.length && at(lengths, i + 1, j) >= at(lengths, i, j + 1))
    )
      lines.push({ kind: "del", number: first + i, text: old[i++] as string });
    else lines.push({ kind: "add", number: first + j, text: next[j++] as string });
  }
  return markWords(lines);
}

const dels = (lines: readonly string[], first: number): DiffLine[] =>
  lines.map((text, index) => ({ kind: "del", number: first + index, text }));
const adds = (lines: readonly string[], first: number): DiffLine[] =>
  lines.map((text, index) => ({ kind: "add", number: first + index, text }));

function table(old: readonly string[], next: readonly string[]): number[][] {
  const lengths = Array.from({ length: old.length + 1 }, () =>
    new Array<number>(next.length + 1).fill(0),
  );
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = next.length - 1; j >= 0; j--) {
      const row = lengths[i] as number[];
      row[j] =
        old[i] === next[j]
          ? at(lengths, i + 1, j + 1) + 1
          : Math.max(at(lengths, i + 1, j), at(lengths, i, j + 1));
    }
  }
  return lengths;
}

const at = (lengths: readonly number[][], i: number, j: number) => lengths[i]?.[j] ?? 0;

interface Word {
  readonly text: string;
  readonly line: number;
  readonly from: number;
}

/** Marks the words that differ between removed lines and the lines in their place, wherever their lines break. */
function markWords(lines: readonly DiffLine[]): DiffLine[] {
  const marked = [...lines];
  for (let at = 0; at < lines.length; ) {
    let end = at;
    while (end < lines.length && lines[end]?.kind !== "same") end++;
    const words = (kind: DiffLine["kind"]) => wordsOf(lines, at, end, kind);
    const [old, next] = [words("del"), words("add")];
    if (old.length > 0 && next.length > 0 && old.length * next.length <= 400_000)
      for (const word of differing(old, next)) addMark(marked, word);
    at = end + 1;
  }
  return marked;
}

function wordsOf(
  lines: readonly DiffLine[],
  from: number,
  to: number,
  kind: DiffLine["kind"],
): readonly Word[] {
  return lines.slice(from, to).flatMap((line, index) =>
    line.kind === kind
      ? Array.from(line.text.matchAll(/[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu), (match) => ({
          text: match[0],
          line: from + index,
          from: match.index,
        }))
      : [],
  );
}

/** The words of either list that are not in their longest common part. */
function differing(old: readonly Word[], next: readonly Word[]): readonly Word[] {
  const texts = (words: readonly Word[]) => words.map(({ text }) => text);
  const lengths = table(texts(old), texts(next));
  const found: Word[] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < next.length) {
    const [one, other] = [old[i], next[j]];
    if (one && other && one.text === other.text) {
      i++;
      j++;
    } else if (one && (!other || at(lengths, i + 1, j) >= at(lengths, i, j + 1))) {
      found.push(one);
      i++;
    } else if (other) {
      found.push(other);
      j++;
    }
  }
  return found;
}

/** Marks that only a space parts become one. */
function addMark(lines: DiffLine[], { line: index, from, text }: Word): void {
  const line = lines[index];
  if (line === undefined) return;
  const { marks = [] } = line;
  const to = from + text.length;
  const last = marks.at(-1);
  const joins = last !== undefined && line.text.slice(last[1], from).trim() === "";
  const kept = joins ? marks.slice(0, -1) : marks;
  lines[index] = { ...line, marks: [...kept, [joins ? last[0] : from, to]] };
}

const signs = { same: " ", add: "+", del: "−" } as const;
const classes = { same: "", add: "a", del: "d" } as const;

interface DiffProps {
  readonly path: string;
  readonly lines: readonly DiffLine[];
}

/** The change of a file. */
export const Diff = memo(function Diff({ path, lines }: DiffProps) {
  const [first, last] = [lines[0]?.number, lines.at(-1)?.number];
  return (
    <div className="diff" role="group" aria-label={`Change of ${path}`}>
      <div className="h">
        {path}
        {first !== undefined &&
          (first === last ? `, line ${first}` : `, lines ${first} to ${last}`)}
      </div>
      {lines.map((line, index) => (
        <div key={index.toString()} className={classes[line.kind]}>
          <span>{line.number}</span>
          <span>{signs[line.kind]}</span>
          <span>{marked(line)}</span>
        </div>
      ))}
    </div>
  );
});

function marked({ text, marks = [] }: DiffLine) {
  if (marks.length === 0) return text === "" ? " " : text;
  return (
    <>
      {marks.map(([from, to], index) => (
        <Fragment key={from}>
          {text.slice(marks[index - 1]?.[1] ?? 0, from)}
          <mark>{text.slice(from, to)}</mark>
        </Fragment>
      ))}
      {text.slice(marks.at(-1)?.[1])}
    </>
  );
}

/** The lines of a file that is written as a whole. */
export function writeLines(file: string | undefined, content: string): readonly DiffLine[] {
  if (file === undefined) return adds(content.replace(/\n$/, "").split("\n"), 1);
  return compare(file.replace(/\n$/, "").split("\n"), content.replace(/\n$/, "").split("\n"), 1);
}
