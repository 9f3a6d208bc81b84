import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Block } from "../../src/contract/message.ts";
import { ReferencePool } from "../../src/contract/references.ts";
import { type Citation, ReferenceParser } from "../../src/protocol/reference-parser.ts";
import type { BlockAddress } from "../../src/protocol/task.ts";
import { isDeep } from "../../src/testing/deep.ts";

const targetOf = (n: number): BlockAddress => ({
  task_id: "task_r",
  item_id: `fco_${n}`,
  block_index: 0,
});
/** Every number but 2 is known. */
const lookup = { target: (n: number) => (n === 2 ? undefined : targetOf(n)) };

/** The rules of the parser once more, with the whole text in hand and no care for speed. */
function citationsOfWholeText(text: string): Citation[] {
  return paragraphsOf(text).flatMap(({ from, to }) => citationsIn(text.slice(0, to), from));
}

/** What lies between fences, blank lines and the beginnings of list items. */
function paragraphsOf(text: string): { from: number; to: number }[] {
  const paragraphs: { from: number; to: number }[] = [];
  let isNext = true; // whether the next line begins a paragraph
  let isList = false;
  let closing: ((line: string) => boolean) | undefined;
  let from = 0;
  for (const line of text.split("\n")) {
    const to = from + line.length;
    const [prefix] = /^([ \t\r>]|([-*+]|\d+[.)])(?=[ \t\r]|$))*/.exec(line) ?? [""];
    const rest = line.slice(prefix.length);
    const isItem = /[^ \t\r>]/.test(prefix);
    if (closing) {
      if (closing(line)) closing = undefined;
    } else {
      if (/^[^ \t\r]/.test(line)) isList = false;
      if (isItem) isList = true;
      const mayOpen = isList || prefix.includes(">") || widthOf(prefix) <= 3;
      const fence = mayOpen ? /^(`{3,}(?=[^`]*$)|~{3,})/.exec(rest)?.[0] : undefined;
      if (fence !== undefined) closing = closingOf(fence, prefix);
      const isText = fence === undefined && rest !== "";
      const last = paragraphs.at(-1);
      if (isText && last && !isNext && !isItem) last.to = to;
      else if (isText) paragraphs.push({ from, to });
      isNext = !isText;
    }
    from = to + 1;
  }
  return paragraphs;
}

/** Whether a line ends the block that this fence began. */
function closingOf(fence: string, prefix: string): (line: string) => boolean {
  const before = prefix.includes(">") ? "[ \\t\\r>]*" : "[ \\t\\r]*";
  const closing = new RegExp(`^(${before})${fence[0]}{${fence.length},}[ \\t\\r]*$`);
  return (line) => {
    const match = closing.exec(line);
    return match !== null && widthOf(match[1] ?? "") <= widthOf(prefix) + 3;
  };
}

function widthOf(prefix: string): number {
  return prefix.replace(/[\t\r]/g, "    ").length;
}

/** The citations of a paragraph that goes to the text's end. */
function citationsIn(text: string, from: number): Citation[] {
  const found: Citation[] = [];
  const next = /\\[\\`[]|`+|\[\^([1-9][0-9]{0,8})\]/g;
  next.lastIndex = from;
  for (let match = next.exec(text); match; match = next.exec(text)) {
    const [marker] = match;
    if (marker.startsWith("`")) {
      const run = new RegExp(`(?<!\`)${marker}(?!\`)`, "g");
      run.lastIndex = next.lastIndex;
      if (run.test(text)) next.lastIndex = run.lastIndex;
    }
    const reference_id = Number(match[1]);
    const target = match[1] === undefined ? undefined : lookup.target(reference_id);
    if (target === undefined) continue;
    const type = "reference_to_block" as const;
    const [start_index, end_index] = [match.index, next.lastIndex];
    found.push({ type, reference_id, start_index, end_index, marker, target });
  }
  return found;
}

const mayBeKept = /^(?:\[(?:\^(?:[1-9][0-9]{0,8})?)?|[\ud800-\udbff])?$/;

/** Parses the deltas and checks on the way what holds after each of them. */
function parse(deltas: readonly string[]): readonly Citation[] {
  const parser = new ReferenceParser(lookup);
  const annotations: Citation[] = [];
  let received = "";
  let shown = "";
  for (const delta of deltas) {
    const step = parser.push(delta);
    received += delta;
    shown += step.text;
    annotations.push(...step.annotations);
    const kept = received.slice(shown.length);
    if (shown + kept !== received) throw new Error("the text was changed");
    if (!mayBeKept.test(kept)) throw new Error(`kept back ${JSON.stringify(kept)}`);
    if (/[\ud800-\udbff]$/.test(shown) && kept === "") throw new Error("half a pair shown");
    const last = step.annotations.at(-1);
    if (last && last.end_index > shown.length) throw new Error("cited before it was shown");
  }
  const rest = parser.end();
  if (shown + rest.text !== received) throw new Error("the text was changed");
  annotations.push(...rest.annotations);
  for (const { start_index, end_index, marker } of annotations) {
    if (received.slice(start_index, end_index) !== marker) throw new Error("a wrong range");
  }
  return annotations;
}

function* splitsInThree(text: string): Generator<string[]> {
  for (let i = 0; i <= text.length; i++) {
    for (let j = i; j <= text.length; j++) {
      yield [text.slice(0, i), text.slice(i, j), text.slice(j)];
    }
  }
}

/** Cuts a text at places that are given as fractions. */
function cut(text: string, fractions: readonly number[]): string[] {
  const places = fractions.map((f) => Math.floor(f * (text.length + 1))).sort((a, b) => a - b);
  return [...places, text.length].map((place, i) => text.slice(places[i - 1] ?? 0, place));
}

const nasty = fc
  .array(
    fc.oneof(
      { weight: 3, arbitrary: fc.constantFrom("[^1]", "[^3]", "[^123456789]", "`", "\n") },
      {
        weight: 2,
        arbitrary: fc.constantFrom(
          "[",
          "^",
          "1",
          "2",
          "0",
          "]",
          "``",
          "```",
          "~~~",
          "\n\n",
          " ",
          "a",
          "\\",
          "- ",
          "1) ",
          "> ",
          "\n- ",
          "\n> ",
        ),
      },
      {
        weight: 1,
        arbitrary: fc.constantFrom(
          ...["[^2]", "[^01]", "[^1234567890]", "~", "````", "~~~~", "\n```\n", "\n~~~\n"],
          ...["   ", "    ", "\t", "\r", "\r\n", "🌦", "\ud83c", "\udf26", "é", "晴"],
          ...["-", "*", "+", ">", ".", ")", "\\\\", "\\[^1]", "\\`", "12. ", "\n   ```\n"],
        ),
      },
    ),
    { maxLength: 40 },
  )
  .map((pieces) => pieces.join(""));
const fractions = fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), {
  maxLength: 20,
});

describe("ReferenceParser", () => {
  it.each([
    "Sunny 🌦[^1], `[^3]`[^12] ``a ` [^4]`` ` [^5]\n\n[^6] ` x\n```js [^7]\n[^8]\n```\n[^9][^2] [^1",
    "a ``` [^1] `[^3]` [^4]\n ~~~ [^5]\n~~\n~~~~ \r\n\ud83c[^6]\ud83c\udf26[^[^7]] [^8]``` [^9]`\n \t\n[^10]",
    "``` [^1] ` [^3]\n``` [^4]\n``\n    ```\n[^5]\n\n\t```\n[^123456789][^1234567890]\n   ``````\n[^6]\n`````\n",
    "1. it`s [^1]\n2. ```js\n   [^3]\n\n   [^4]\n   ```\n\n    ~~~\n    [^5]\n\n    ~~~\n- that`s [^6]\n\n    [^7] `\\`[^8]\\`[^9]",
    "> - ```\n>   [^1]\n> - ```\n>\n>     ```\n> \\`[^3]\\` \\[^4]\n\n    ```\n[^5] `a\\` [^6] ``[^7]\\``\n-x [^8]\n12.",
  ])("gives the same for every split in two and three of %j", (text) => {
    const expected = citationsOfWholeText(text);
    expect(expected.length).toBeGreaterThanOrEqual(3);
    const wanted = JSON.stringify(expected);
    for (const deltas of splitsInThree(text)) {
      expect(JSON.stringify(parse(deltas)), JSON.stringify(deltas)).toBe(wanted);
    }
    expect(parse(text.split(""))).toEqual(expected);
  });

  it("agrees with the rules applied to the whole text, for any text and any deltas", () => {
    fc.assert(
      fc.property(nasty, fractions, (text, places) => {
        const wanted = JSON.stringify(citationsOfWholeText(text));
        for (const deltas of [[text], text.split(""), cut(text, places)]) {
          expect(JSON.stringify(parse(deltas))).toBe(wanted);
        }
      }),
      { numRuns: isDeep ? 2_000_000 : 30_000 },
    );
  });
});

describe("ReferencePool", () => {
  const text = (value: string): Block => ({ type: "text", text: value });
  const number = fc.integer({ min: 1, max: 6 });
  // Children know the first three to five, the parent whatever it has given out, and nobody those from 90 on.
  const message = fc
    .array(
      fc.oneof(
        number.map((n) => `[^${n}]`),
        fc.integer({ min: 90, max: 99 }).map((n) => `[^${n}]`),
        fc.constantFrom(" ", "`", "\n", "\n\n", "\n```\n", "a", "🌦", "\\", "\n- ", "\n> "),
      ),
      { maxLength: 20 },
    )
    .map((pieces) => pieces.join(""));
  const step = fc.oneof(
    fc.record({ type: fc.constant("add" as const) }),
    fc.record({ type: fc.constant("embed" as const), child: fc.nat(2), message }),
  );

  function targetsOf(content: string, pool: ReferencePool): BlockAddress[] {
    const parser = new ReferenceParser(pool);
    const annotations = [...parser.push(content).annotations, ...parser.end().annotations];
    return annotations.map((annotation) => annotation.target);
  }

  function childPool(index: number): ReferencePool {
    const pool = new ReferencePool(`call_${index}`);
    for (let n = 1; n <= 3 + index; n++) {
      pool.add({ itemId: `fco_${index}_${n}`, content: [text(`${index}/${n}`)], display: [] });
    }
    return pool;
  }

  it("cites the same blocks after embedding and after a restart", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const pool = new ReferencePool("task_r");
        const earlier: { after: string; before: BlockAddress[] }[] = [];
        for (const [i, each] of steps.entries()) {
          const restored = ReferencePool.from(JSON.parse(JSON.stringify(pool)));
          if (each.type === "add") {
            const result = { itemId: `fco_${i}`, content: [text(`${i}`)], display: [] };
            expect(pool.add(result)).toEqual(restored.add(result));
          } else {
            const child = childPool(each.child);
            const message = [text(each.message)];
            const embedded = pool.embed(child, message);
            expect(restored.embed(child, message)).toEqual(embedded);
            const [rewritten] = embedded.message;
            const after = rewritten?.type === "text" ? rewritten.text : "";
            const before = targetsOf(each.message, child);
            expect(targetsOf(after, pool)).toEqual(before);
            earlier.push({ after, before });
            const distinct = new Set(before.map((target) => target.item_id));
            expect(embedded.renumbered.size).toBe(distinct.size);
            expect(embedded.pool).toHaveLength(3 * distinct.size);
          }
          expect(restored.toJSON()).toEqual(pool.toJSON());
        }
        // Numbers that were given out since then change nothing.
        for (const { after, before } of earlier) expect(targetsOf(after, pool)).toEqual(before);
      }),
      { numRuns: isDeep ? 100_000 : 2_000 },
    );
  });
});
