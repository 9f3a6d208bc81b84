import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Block } from "../../src/protocol/message.ts";
import { type Citation, ReferenceParser } from "../../src/protocol/reference-parser.ts";
import { ReferencePool } from "../../src/protocol/references.ts";
import type { BlockAddress } from "../../src/protocol/task.ts";

const deep = process.env.RIVULET_DEEP === "1";

const targetOf = (n: number): BlockAddress => ({
  task_id: "task_r",
  item_id: `fco_${n}`,
  block_index: 0,
});
/** Every number but 2 is known. */
const lookup = { target: (n: number) => (n === 2 ? undefined : targetOf(n)) };

/** The rules of the parser once more, with the whole text in hand and no care for speed. */
function citationsOfWholeText(text: string): Citation[] {
  const code: { from: number; to: number }[] = [];
  let paragraph: { from: number; to: number } | undefined;
  let fence: string | undefined;
  const endParagraph = () => {
    if (paragraph) code.push(...spansOf(text.slice(paragraph.from, paragraph.to), paragraph.from));
    paragraph = undefined;
  };
  let from = 0;
  for (const line of text.split("\n")) {
    const to = from + line.length;
    const opening = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})/.exec(line)?.[1];
    if (fence !== undefined) {
      code.push({ from, to });
      const closing = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}[ \\t\\r]*$`);
      if (closing.test(line)) fence = undefined;
    } else if (opening !== undefined) {
      endParagraph();
      code.push({ from, to });
      fence = opening;
    } else if (/^[ \t\r]*$/.test(line)) {
      endParagraph();
    } else {
      paragraph = { from: paragraph?.from ?? from, to };
    }
    from = to + 1;
  }
  endParagraph();

  return [...text.matchAll(/\[\^([1-9][0-9]{0,8})\]/g)].flatMap((match) => {
    const reference_id = Number(match[1]);
    const target = lookup.target(reference_id);
    const start_index = match.index;
    const inCode = code.some((range) => range.from <= start_index && start_index < range.to);
    if (inCode || !target) return [];
    const end_index = start_index + match[0].length;
    const type = "reference_to_block" as const;
    return [{ type, reference_id, start_index, end_index, marker: match[0], target }];
  });
}

function spansOf(paragraph: string, offset: number): { from: number; to: number }[] {
  const runs = [...paragraph.matchAll(/`+/g)];
  const spans: { from: number; to: number }[] = [];
  for (let i = 0; i < runs.length; i++) {
    const closing = runs.findIndex((run, j) => j > i && run[0].length === runs[i]?.[0].length);
    if (closing < 0) continue;
    spans.push({
      from: offset + (runs[i]?.index ?? 0),
      to: offset + (runs[closing]?.index ?? 0) + (runs[closing]?.[0].length ?? 0),
    });
    i = closing;
  }
  return spans;
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
        ),
      },
      {
        weight: 1,
        arbitrary: fc.constantFrom(
          ...["[^2]", "[^01]", "[^1234567890]", "~", "````", "~~~~", "\n```\n", "\n~~~\n"],
          ...["   ", "    ", "\t", "\r", "\r\n", "🌦", "\ud83c", "\udf26", "é", "晴"],
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
      { numRuns: deep ? 2_000_000 : 30_000 },
    );
  });
});

describe("ReferencePool", () => {
  const text = (value: string): Block => ({ type: "text", text: value });
  const number = fc.integer({ min: 1, max: 6 });
  // Numbers from 90 on are known to nobody.
  const message = fc
    .array(
      fc.oneof(
        number.map((n) => `[^${n}]`),
        fc.integer({ min: 90, max: 99 }).map((n) => `[^${n}]`),
        fc.constantFrom(" ", "`", "\n", "\n\n", "\n```\n", "a", "🌦"),
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

  it("leads to the same blocks after embedding, and goes on the same after a restart", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const pool = new ReferencePool("task_r");
        for (const [i, each] of steps.entries()) {
          const restored = ReferencePool.from(JSON.parse(JSON.stringify(pool)));
          if (each.type === "add") {
            const result = { itemId: `fco_${i}`, content: [text(`${i}`)], display: [] };
            expect(pool.add(result)).toEqual(restored.add(result));
          } else {
            const child = childPool(each.child);
            // Numbers that the child does not know but the parent may are another matter.
            const known = each.message.replace(/\[\^([4-6])\]/g, (marker, n) =>
              child.target(Number(n)) ? marker : "[^90]",
            );
            const embedded = pool.embed(child, [text(known)]);
            expect(restored.embed(child, [text(known)])).toEqual(embedded);
            const [rewritten] = embedded.message;
            const after = rewritten?.type === "text" ? rewritten.text : "";
            const before = targetsOf(known, child);
            expect(targetsOf(after, pool)).toEqual(before);
            const distinct = new Set(before.map((target) => target.item_id));
            expect(embedded.renumbered.size).toBe(distinct.size);
            expect(embedded.pool).toHaveLength(3 * distinct.size);
          }
          expect(restored.toJSON()).toEqual(pool.toJSON());
        }
      }),
      { numRuns: deep ? 100_000 : 2_000 },
    );
  });
});
