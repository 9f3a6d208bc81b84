import { describe, expect, it } from "vitest";
import { type ParsedText, ReferenceParser } from "./reference-parser.ts";
import type { BlockAddress } from "./task.ts";

const targetOf = (n: number): BlockAddress => ({
  task_id: "call_r1",
  item_id: `fco_${n}`,
  block_index: 0,
});
/** Numbers below 100 are known. */
const lookup = { target: (n: number) => (n < 100 ? targetOf(n) : undefined) };

function parse(deltas: readonly string[]): ParsedText[] {
  const parser = new ReferenceParser(lookup);
  return [...deltas.map((delta) => parser.push(delta)), parser.end()];
}

/** The numbers cited in a text. */
function cited(text: string): number[] {
  return parse([text]).flatMap(({ annotations }) => annotations.map((a) => a.reference_id));
}

describe("ReferenceParser", () => {
  it("finds a marker, with its range and its target", () => {
    const text = "The weather in Paris is sunny with a temperature of 15C.[^1]";
    expect(parse([text])).toEqual([
      {
        text,
        annotations: [
          {
            type: "reference_to_block",
            reference_id: 1,
            start_index: 56,
            end_index: 60,
            marker: "[^1]",
            target: targetOf(1),
          },
        ],
      },
      { text: "", annotations: [] },
    ]);
  });

  it("counts UTF-16 code units", () => {
    const text = "🌦 é\u{1F468}\u200D\u{1F469} 晴[^2]";
    const [annotation] = parse([text])[0]?.annotations ?? [];
    expect(text.slice(annotation?.start_index, annotation?.end_index)).toBe("[^2]");
  });

  it("holds back only text that may become a marker", () => {
    const shown = parse(["It is 15C", ".[", "^", "1", "2] and [", "x [^", "a", " [^1"]);
    expect(shown.map(({ text }) => text)).toEqual([
      "It is 15C",
      ".",
      "",
      "",
      "[^12] and ",
      "[x ",
      "[^a",
      " ",
      "[^1",
    ]);
    expect(shown.map(({ annotations }) => annotations.length)).toEqual([0, 0, 0, 0, 1, 0, 0, 0, 0]);
  });

  it("holds back nothing after a backslash", () => {
    const texts = parse(["a\\", "[", "^1]\\", "\\", "[^1"]).map(({ text }) => text);
    expect(texts).toEqual(["a\\", "[", "^1]\\", "\\", "", "[^1"]);
  });

  it("holds back at most the digits of a number", () => {
    const parser = new ReferenceParser(lookup);
    expect(parser.push("[^123456789").text).toBe("");
    expect(parser.push("0").text).toBe("[^1234567890");
    expect(parser.push("]").text).toBe("]");
  });

  it("keeps the halves of a surrogate pair together", () => {
    const [high, low] = ["\ud83c", "\udf26"];
    const texts = (deltas: string[]) => parse(deltas).map(({ text }) => text);
    expect(texts([`a${high}`, `${low}b`])).toEqual(["a", "🌦b", ""]);
    expect(texts([high, "", low])).toEqual(["", "", "🌦", ""]);
    expect(texts([high, "b"])).toEqual(["", `${high}b`, ""]);
    expect(texts([high, high, low])).toEqual(["", high, "🌦", ""]);
    expect(texts([`[${high}`, low])).toEqual(["[", "🌦", ""]);
    expect(texts([`a${high}`])).toEqual(["a", high]);
    expect(texts([`a${low}`])).toEqual([`a${low}`, ""]);
  });

  it("returns a plain delta as it is", () => {
    expect(parse(["plain words", ""])).toEqual([
      { text: "plain words", annotations: [] },
      { text: "", annotations: [] },
      { text: "", annotations: [] },
    ]);
  });

  it.each([
    ["unknown numbers", "[^100] [^999999999]"],
    ["zero and leading zeros", "[^0] [^01]"],
    ["other brackets", "[1] [^] [^ 1] [^1 ] [^a] [^-1] [^1 [^\n1] ^[1] [^1\n] [^１]"],
    ["an inline code span", "see `a[^1]` and ``b ` [^2]``"],
    ["a code span over two lines", "see `a[^1]\nb[^2]` there"],
    ["a code span that a line's start closes", "see ``a[^1]\n``"],
    ["a fenced block", "```js\na[^1]\n\n[^2]\n```"],
    ["a fenced block of tildes", "~~~ `x` ~~~ [^1]\n[^2]\n```\n[^3]\n~~~"],
    ["an indented fence", "   ```\n[^1]\n   ```"],
    ["a fence's info", "``` [^1]\n```"],
    ["a fence's info at the end", "```[^1]"],
    ["a fence that nothing closes", "a\n\n```\n[^1]\n\n[^2]\n"],
    ["a fence closed by too few", "````\n[^1]\n```\n[^2]"],
    ["a fence closed by the other kind", "```\n[^1]\n~~~\n[^2]"],
    ["a closing fence with words", "```\n[^1]\n``` js\n[^2]"],
    ["a closing fence too far in", "```\n[^1]\n    ```\n[^2]"],
    ["CRLF", "```\r\n[^1]\r\n\r\n```"],
    ["a fence on a list marker's line", "- ```js\n  [^1]\n\n  [^2]\n  ```"],
    ["the same with a number", "12) ~~~ [^1]\n    [^2]\n    ~~~"],
    ["a fence under a list item", "10. foo\n\n    ```\n    [^1]\n\n    [^2]\n    ```"],
    ["a fence far in under a list item", "* foo\n\n\t\t```\n[^1]\n\n[^2]\n\t\t```"],
    ["a fence under an empty list item", "-\n      ```\n[^1]\n\n[^2]"],
    ["a fence in a quote", "> ```\n> [^1]\n>\n> [^2]\n> ```"],
    ["a fence in a list in a quote", "> 1. - ```\n>      [^1]\n>\n> [^2]\n>      ```"],
    ["a fence far in in a quote", ">      ```\n> [^1]\n>\n> [^2]"],
    ["a list that code does not end", "- a\n  ```\nb\n  ```\n\n      ```\n[^1]\n\n[^2]"],
    ["a list marker before a fence's end", "- ```\n  [^1]\n- ```\n  [^2]"],
    ["a quote marker before a fence's end", "```md\n> ```\n> [^1]\n> ```\n[^2]\n"],
    ["a fence's end far in", "- ```py\n      ```\n  [^1]"],
    ["a marker after a backslash", "\\[^1] [\\[^2] \\\\\\[^3] [^4\\]"],
    ["a code span with a backslash at its end", "`a\\` `[^1]` `b [^2]\\` c"],
    ["a span that a backslash makes shorter", "\\``[^1]`"],
    ["a span that a run after a backslash closes", "``[^1]\\``"],
  ])("finds none in %s", (_, text) => {
    expect(cited(text)).toEqual([]);
  });

  it.each([
    ["several", "[^1][^22] [^3]", [1, 22, 3]],
    ["brackets around and before", "[[^1]] [^[^2] [[^3]", [1, 2, 3]],
    ["a footnote's definition", "[^1]: source", [1]],
    ["after a code span", "`a` [^1]", [1]],
    ["after a backtick that nothing closes", "a ` b [^1]", [1]],
    ["between runs of different length", "a ` b [^1] `` c [^2]", [1, 2]],
    ["before a pair after an open run", "``` a [^1] `[^2]` [^3] ``[^4]`` [^5]", [1, 3, 5]],
    ["a paragraph's end ends an open run", "a ` [^1]\n\n [^2] ` [^3]", [1, 2, 3]],
    ["a line of white space ends a paragraph", "a ` [^1]\n \t\r\n [^2] ` [^3]", [1, 2, 3]],
    ["a fence ends an open run", "a ``` [^1]\n```\n[^2]\n```\n[^3]", [1, 3]],
    ["a fence of tildes does", "a ` [^1]\n~~~\n` [^2]\n~~~\n[^3]", [1, 3]],
    ["after a fenced block", "```\n[^1]\n```  \t\n[^2]", [2]],
    ["after a longer closing fence", "```\n[^1]\n`````\n[^2]", [2]],
    ["after a CRLF fenced block", "```\r\n[^1]\r\n```\r\n[^2]", [2]],
    ["a fence's line with a backtick in it", "``` a [^1] ` b [^2]\n[^3]", [1, 2, 3]],
    ["a code span of three at a line's start", "``` [^1] ``` [^2]", [2]],
    ["not at a line's start", "a ```\n[^1]", [1]],
    ["a fence too far in", "    ```\n[^1]", [1]],
    ["a tab before the fence", "\t```\n[^1]", [1]],
    ["two tildes", "~~[^1]~~\n~~\n[^2]", [1, 2]],
    ["tildes within a line", "a ~~~\n[^1]", [1]],
    [
      "after a fence on a list marker's line",
      "1. ```js\n   x[^1]\n   ```\n\nafter [^2] more [^3]",
      [2, 3],
    ],
    ["after a fence that ends at the margin", "- ```js\n  [^1]\n```\n[^2]", [2]],
    ["after a fence under a list item", "- a\n    ```\n\n[^1]\n    ```\n- b [^2]", [2]],
    ["after a fence in a quote", "> > ```\n> > [^1]\n> > ```\n[^2]", [2]],
    ["a fence too far in after a list", "- a\n\nb\n\n    ```\n[^1]", [1]],
    ["each item of a list for itself", "- it`s [^1]\n- that`s [^2]", [1, 2]],
    ["each numbered item", "1. it`s [^1]\n2) that`s [^2]\n* `[^3]`", [1, 2]],
    ["what only looks like a list", "`[^1]\n-a `[^2]\n1.5 `[^3]\n** `[^4]\n1 `[^5]", [2, 4, 5]],
    [
      "in list items and quotes",
      "- [^1]\n2. [^2]\n> [^3]\n>[^4]\n-[^5]\n6.[^6]",
      [1, 2, 3, 4, 5, 6],
    ],
    ["between backticks after backslashes", "\\`[^1]\\`", [1]],
    ["after a backslash that another one escapes", "\\\\[^1] \\a[^2] \\\n[^3]", [1, 2, 3]],
    ["after a fence's line with an escaped backtick", "``` \\` [^1]\n[^2]", [1, 2]],
    ["no fence after a backslash", "\\```\n[^1]\n\n[^2]", [1, 2]],
  ])("finds %s", (_, text, numbers) => {
    expect(cited(text)).toEqual(numbers);
  });

  it("returns text after an open backtick at once, and citations when they are certain", () => {
    const shown = parse(["a ` b[^1]", " c", "\n\n", "d"]);
    expect(shown.map(({ text }) => text)).toEqual(["a ` b[^1]", " c", "\n\n", "d", ""]);
    expect(shown.map(({ annotations }) => annotations.length)).toEqual([0, 0, 1, 0, 0]);
  });

  it("does not wait after a backtick that opens no span", () => {
    const shown = parse(["\\` [^1]", "\n- it`s [^2]", "\n- "]);
    expect(shown.map(({ annotations }) => annotations.length)).toEqual([1, 0, 1, 0]);
  });

  it("holds any number of citations until a paragraph ends", () => {
    expect(cited(`\`${"[^1]".repeat(300_000)}`)).toHaveLength(300_000);
  });

  it("reads a text once, even with open backticks", { timeout: 10_000 }, () => {
    const runs = Array.from({ length: 1500 }, (_, i) => `${"`".repeat(i + 1)}[^1] `).join("");
    const text = runs + "a".repeat(2_000_000);
    const parser = new ReferenceParser(lookup);
    for (let at = 0; at < text.length; at += 20) parser.push(text.slice(at, at + 20));
    expect(parser.end().annotations).toHaveLength(1500);
  });
});
