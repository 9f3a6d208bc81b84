import { memo } from "react";

/** A line of a diff. */
interface DiffLine {
  readonly kind: "same" | "add" | "del";
  readonly number: number;
  readonly text: string;
  /** The part that differs from the line that it replaces. */
  readonly mark?: readonly [from: number, to: number];
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

/** Marks what differs between a removed line and the line in its place. */
function markWords(lines: readonly DiffLine[]): DiffLine[] {
  return lines.map((line, index) => {
    const pair = line.kind === "del" ? lines[index + 1] : lines[index - 1];
    const isPair = pair && line.kind !== "same" && pair.kind !== "same" && pair.kind !== line.kind;
    if (!isPair) return line;
    const [one, other] = [line.text, pair.text];
    let from = 0;
    while (from < one.length && one[from] === other[from]) from++;
    let back = 0;
    while (back < one.length - from && back < other.length - from) {
      if (one.at(-1 - back) !== other.at(-1 - back)) break;
      back++;
    }
    // Whole words, so that `The` becomes `the`, not `T` becomes `t`.
    const isWord = (letter: string | undefined) => /[\p{L}\p{N}_]/u.test(letter ?? "");
    const differs = (index: number) => isWord(one.at(index)) || isWord(other.at(index));
    while (from > 0 && isWord(one[from - 1]) && differs(from)) from--;
    while (back > 0 && isWord(one.at(-back)) && differs(-1 - back)) back--;
    return { ...line, mark: [from, one.length - back] as const };
  });
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

function marked({ text, mark }: DiffLine) {
  if (mark === undefined || mark[1] <= mark[0]) return text === "" ? " " : text;
  return (
    <>
      {text.slice(0, mark[0])}
      <mark>{text.slice(...mark)}</mark>
      {text.slice(mark[1])}
    </>
  );
}

/** The lines of a file that is written as a whole. */
export function writeLines(file: string | undefined, content: string): readonly DiffLine[] {
  if (file === undefined) return adds(content.replace(/\n$/, "").split("\n"), 1);
  return compare(file.replace(/\n$/, "").split("\n"), content.replace(/\n$/, "").split("\n"), 1);
}
