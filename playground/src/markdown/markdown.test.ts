import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import { Markdown, type RenderCitation } from "./markdown.tsx";

const renderCitation: RenderCitation = (annotation, text) =>
  createElement("sup", {}, annotation ? annotation.reference_id : `?${text}`);

function html(text: string, options: Partial<Parameters<typeof Markdown>[0]> = {}): string {
  return renderToStaticMarkup(
    createElement(Markdown, { text, isOpen: false, renderCitation, ...options }),
  );
}
const open = (text: string) => html(text, { isOpen: true });

describe("Markdown", () => {
  it.each([
    [
      "**bold** and *slanted* and `code`",
      "<p><strong>bold</strong> and <em>slanted</em> and <code>code</code></p>",
    ],
    ["# Title\ntext", '<p class="md-h" data-level="1">Title</p><p>text</p>'],
    ["- a\n- b\n  - c", "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>"],
    ["3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'],
    ["> said\n> twice", "<blockquote><p>said twice</p></blockquote>"],
    ["```ts\na < b\n```", '<pre class="md-code"><code>a &lt; b</code></pre>'],
    [
      "| a | b |\n|---|---|\n| 1 | 2 |",
      '<div class="md-table"><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table></div>',
    ],
    ["snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</p>"],
    ["one\n\ntwo", "<p>one</p><p>two</p>"],
    ["a \\*star\\*", "<p>a *star*</p>"],
  ])("shows %j", (text, expected) => {
    expect(html(text)).toBe(expected);
  });

  it("never runs or loads what a text contains", () => {
    expect(html("<script>alert(1)</script> <img src=x onerror=alert(1)>")).not.toMatch(
      /<(script|img)/,
    );
    expect(html("[x](javascript:alert(1)) [y](data:text/html,1)")).not.toContain("href");
    expect(html("![x](https://evil.example/pixel.png)")).not.toContain("<img");
    const link = html("[x](https://example.org/a_b)");
    expect(link).toContain('href="https://example.org/a_b"');
    expect(link).toContain('rel="noopener noreferrer nofollow"');
  });

  it("puts citations where their indexes say, also in lists and tables", () => {
    const text = "- one[^1]\n- two **three[^2]**\n\n| a |\n|---|\n| four[^3] |";
    const annotations = [1, 2, 3].map((n) => {
      const start_index = text.indexOf(`[^${n}]`);
      return {
        ...{ type: "reference_to_block" as const, reference_id: n },
        ...{ start_index, end_index: start_index + 4 },
      };
    });
    const shown = html(text, { annotations });
    expect(shown).toContain("one<sup>1</sup>");
    expect(shown).toContain("<strong>three<sup>2</sup></strong>");
    expect(shown).toContain("four<sup>3</sup>");
    expect(shown).not.toContain("[^");
  });

  it("aligns the columns of a table as its rule says", () => {
    const shown = html("| river | km | ends |\n|:---|---:|:-:|\n| Rhine | 1,233 | sea |");
    expect(shown).toContain('<td>Rhine</td><td data-align="right">1,233</td>');
    expect(shown).toContain('<th data-align="right">km</th><th data-align="center">ends</th>');
  });

  it("shows no syntax at any point while a text is being written", () => {
    const text = [
      "## A title",
      "Some **bold words**, *slanted ones*, `code here` and a [link](https://example.org/x).",
      "- first **item**[^1]",
      "- second item",
      "",
      "1. number one",
      "",
      "> a quote with `code`",
      "",
      "| head | two |",
      "|------|-----|",
      "| cell | ~~gone~~ |",
      "",
      "```js",
      "const x = 1;",
      "```",
      "The end.",
    ].join("\n");
    for (let length = 1; length <= text.length; length++) {
      const visible = open(text.slice(0, length)).replace(/<[^>]*>/g, "");
      expect(visible, text.slice(0, length)).not.toMatch(/\*|`|~~|\[|\]\(|^\s*#|\||&gt;\s*$|---/);
    }
  });

  it("marks where one process stopped and the next continued", () => {
    const shown = html("The coarse sand first", { seam: "The coarse".length });
    expect(shown).toMatch(
      /^<p>The coarse<i class="seam"[^>]*><\/i><span class="fresh"> sand first/,
    );
  });
});
