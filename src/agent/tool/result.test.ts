import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RivuletError, reasonOf } from "../../base/error.ts";
import { toWireBlock } from "../../contract/item-content.ts";
import { type ToolResultBlock, type ToolUseBlock, textOf } from "../../contract/message.ts";
import { type RanCall, ranCall, ranMark, readResult, textResult } from "./result.ts";

const png = { data: "aW1hZ2U=", mimeType: "image/png" };
const dataUrl = "data:image/png;base64,aW1hZ2U=";
const shown = (returned: unknown, max?: number) => {
  const result = readResult(returned, max);
  if (!result.ok) throw new Error(result.message);
  return result;
};
const modelText = (returned: unknown, max?: number) => textOf(shown(returned, max).content);

describe("the model reads", () => {
  it.each([
    ["a string", "sunny", "sunny"],
    ["a number", 3, "3"],
    ["a boolean", false, "false"],
    ["null", null, "null"],
    ["an object", { a: [1, { b: null }] }, '{"a":[1,{"b":null}]}'],
    ["an array without blocks", [1, { type: "text", text: "a" }], '[1,{"type":"text","text":"a"}]'],
    ["a date", new Date(0), '"1970-01-01T00:00:00.000Z"'],
    ["an object with more than content", { content: "a", size: 1 }, '{"content":"a","size":1}'],
    ["a block that only the harness may write", { type: "answer" }, '{"type":"answer"}'],
    ["a text without text", { type: "text" }, '{"type":"text"}'],
    ["an empty object", {}, "{}"],
  ])("%s", (_, returned, text) => {
    expect(shown(returned)).toEqual({ ok: true, content: [{ type: "text", text }] });
  });

  it.each([
    ["nothing", undefined],
    ["an empty string", ""],
    ["whitespace", " \n"],
    ["no blocks", []],
    ["blank blocks", [{ type: "text", text: "" }]],
    ["empty content", { content: "" }],
  ])("a placeholder for %s", (_, returned) => {
    expect(modelText(returned)).toBe("(no output)");
  });

  it("blocks unchanged, without fields that only the harness may add", () => {
    const content = [
      { type: "text", text: "here" },
      { type: "image", source: png },
    ];
    const tagged = [{ ...content[0], tags: ["added_by_reference_manager"], id: 1 }, content[1]];
    expect(shown(tagged).content).toEqual(content);
    expect(shown(content[1]).content).toEqual([content[1]]);
  });
});

describe("people see", () => {
  it("the same as the model by default", () => {
    const source = { url: "https://example.com/a.pdf", mimeType: "application/pdf" };
    const returned = [
      { type: "text", text: "here" },
      { type: "image", source: png },
      { type: "image", source: { url: "https://example.com/a.png" } },
      { type: "file", source },
      { type: "audio", source: { data: "c291bmQ=", mimeType: "audio/wav" } },
    ];
    const result = shown(returned);
    expect(result).not.toHaveProperty("display");
    expect(result.content.map(toWireBlock)).toEqual([
      { type: "text", text: "here" },
      { type: "image", image_url: { url: dataUrl }, mime_type: "image/png" },
      { type: "image", image_url: { url: "https://example.com/a.png" } },
      { type: "file", url: source.url, mime_type: source.mimeType },
      { type: "audio", url: "data:audio/wav;base64,c291bmQ=", mime_type: "audio/wav" },
    ]);
  });

  it("the display, when there is one", () => {
    expect(shown({ content: "3 rows", display: "a table" })).toMatchObject({
      content: [{ type: "text", text: "3 rows" }],
      display: [{ type: "text", text: "a table" }],
    });
    expect(shown({ content: { rows: 3 }, display: [] })).toMatchObject({
      content: [{ type: "text", text: '{"rows":3}' }],
      display: [],
    });
  });

  it("the task of a child, and the name of a file", () => {
    const display = [
      { type: "task", task_id: "call_1" },
      { type: "file", url: "https://example.com/a", filename: "a.csv", secret: "no" },
      { type: "image_url", image_url: { url: dataUrl }, width: 3, height: 4 },
      { rows: 3 },
    ];
    expect(shown({ content: "x", display }).display).toEqual([
      { type: "task", task_id: "call_1" },
      { type: "file", url: "https://example.com/a", filename: "a.csv" },
      {
        type: "image",
        image_url: { url: dataUrl },
        mime_type: "image/png",
        width: 3,
        height: 4,
      },
      { type: "text", text: '{"rows":3}' },
    ]);
  });
});

describe("the wire form", () => {
  it("is read like our form", () => {
    const text = { type: "text", text: '{"temperature":"15C"}', id: 1 };
    const image = { type: "image_url", image_url: { url: dataUrl }, id: 1 };
    expect(shown({ message_content: [text, image], block_list: [image] })).toMatchObject({
      content: [
        { type: "text", text: text.text },
        { type: "image", source: png },
      ],
      display: [{ type: "image", image_url: { url: dataUrl } }],
    });
  });

  it("keeps a URL and reads any data URL", () => {
    const read = (url: string) => shown([{ type: "image", image_url: { url } }]).content[0];
    expect(read("https://example.com/a.png")).toEqual({
      type: "image",
      source: { url: "https://example.com/a.png" },
    });
    expect(read("data:image/svg+xml;charset=utf-8,%3Csvg%2F%3E")).toEqual({
      type: "image",
      source: { data: btoa("<svg/>"), mimeType: "image/svg+xml" },
    });
    expect(read("data:;base64,YQ==")).toMatchObject({ source: { mimeType: "text/plain" } });
    expect(shown([{ type: "file", url: "https://a.b/c", mime_type: "text/csv" }]).content).toEqual([
      { type: "file", source: { url: "https://a.b/c", mimeType: "text/csv" } },
    ]);
  });
});

it("respects toJSON at any place", () => {
  const at = new Date(0);
  const error = new RivuletError("no", "No.");
  const of = Object.assign(Object.create(null), { n: Object(1) });
  const text = JSON.stringify({ at, error, of, list: [{}] });
  expect(shown({ at, error, of, list: [{}] }).content).toEqual([{ type: "text", text }]);
});

describe("a value that is not JSON is rejected with a reason:", () => {
  const loop: { self?: object } = {};
  loop.self = loop;
  const deep = JSON.parse(`${"[".repeat(100_000)}${"]".repeat(100_000)}`);
  async function* chunks() {
    yield 1;
  }
  it.each<[string, unknown, RegExp]>([
    ["a loop", loop, /circular/i],
    ["a loop in content", { content: loop }, /circular/i],
    ["a loop in display", { content: "a", display: [loop] }, /circular/i],
    ["a BigInt", 1n, /BigInt/],
    ["a BigInt inside", { a: [1n] }, /BigInt/],
    ["a function", () => 1, /a function/],
    ["a symbol", Symbol("a"), /a symbol/],
    ["a Map", new Map([[1, 2]]), /a Map/],
    ["an Error", new Error("a"), /an? Error/],
    ["bytes", new Uint8Array(3), /block/],
    ["a Map inside", { rows: [{ byId: new Map() }] }, /a Map at rows\.0\.byId/],
    [
      "an Error inside",
      { cause: Object.assign(new TypeError("a"), { code: 1 }) },
      /a TypeError at/,
    ],
    ["bytes inside", [Buffer.from("a")], /block at 0/],
    ["a Set in display", { content: "a", display: [{ tags: new Set() }] }, /a Set at tags/],
    ["a generator", chunks(), /JSON/],
    ["too deep", deep, /stack/],
    [
      "a trap",
      {
        toJSON: () => {
          throw undefined;
        },
      },
      /undefined/,
    ],
  ])("%s", (_, returned, message) => {
    expect(readResult(returned)).toEqual({
      ok: false,
      message: expect.stringMatching(message),
    });
  });
});

describe("a too long text", () => {
  it("keeps its head and its tail, with a notice between", () => {
    const { content } = shown(`head${"-".repeat(100_000)}tail`);
    const read = textOf(content);
    expect(read.length).toBeLessThanOrEqual(80_000);
    expect(read).toMatch(/^head-+\n\n\[\d+ of 100008 characters left out\]\n\n-+tail$/);
    const left = Number(/\[(\d+)/.exec(read)?.[1]);
    expect(read.replaceAll(/[^-]/g, "").length + 8 + left).toBe(100_008);
  });

  it("is also cut in the display", () => {
    const { content, display } = shown({ content: "short", display: "x".repeat(200) }, 100);
    expect(content).toEqual([{ type: "text", text: "short" }]);
    expect(JSON.stringify(display)).toContain("of 200 characters left out");
  });

  it("is kept whole for a higher limit, but not for people", () => {
    const long = "x".repeat(100_000);
    const whole = shown({ content: long, display: long }, Number.POSITIVE_INFINITY);
    expect(whole.content).toEqual([{ type: "text", text: long }]);
    expect(JSON.stringify(whole.display)).toContain("of 100000 characters left out");
    expect(modelText("x".repeat(80_000))).toBe("x".repeat(80_000));
  });

  it("is never cut inside a character", () => {
    expect(modelText("😀".repeat(100), 101).isWellFormed()).toBe(true);
  });

  it("is cut over all blocks together, and images stay", () => {
    const text = fc
      .string({ minLength: 1, maxLength: 60 })
      .map((word) => ({ type: "text", text: word }));
    const image = fc.constant({ type: "image", source: png });
    fc.assert(
      fc.property(
        fc.array(fc.oneof(text, image), { minLength: 5 }),
        fc.integer({ min: 60, max: 200 }),
        (blocks, max) => {
          const { content } = shown(blocks, max);
          const images = (list: readonly { type: string }[]) =>
            list.filter(({ type }) => type === "image").length;
          expect(images(content)).toBe(images(blocks));
          expect(textOf(content).length).toBeLessThanOrEqual(max);
          const notices = textOf(content).split("characters left out").length - 1;
          const visible = blocks.filter((block) => "source" in block || block.text.trim() !== "");
          const length = visible.reduce((sum, b) => sum + ("text" in b ? b.text.length : 0), 0);
          expect(notices).toBe(length > max ? 1 : 0);
        },
      ),
    );
  });
});

it("textResult returns a text", () => {
  expect(textResult("no")).toEqual({ content: [{ type: "text", text: "no" }] });
});

it("toWireBlock shows an unknown block as text", () => {
  const use = { type: "tool_use", id: "call_1", name: "a", input: {} } as const;
  expect(toWireBlock(use)).toEqual({ type: "text", text: JSON.stringify(use) });
  expect(toWireBlock({ type: "hint", text: "a" })).toEqual({ type: "text", text: "a" });
});

describe("reasonOf", () => {
  const unreadable = {
    get message() {
      throw new Error("no");
    },
  };
  const revoked = Proxy.revocable({}, {});
  revoked.revoke();
  it.each<[string, unknown, string]>([
    ["an error", new Error("disk full"), "disk full"],
    ["an error without a message", new TypeError(""), "TypeError"],
    ["a string", "disk full", "disk full"],
    ["an empty string", "", " was thrown"],
    ["undefined", undefined, "undefined was thrown"],
    ["null", null, "null was thrown"],
    ["a number", 3, "3 was thrown"],
    ["a symbol", Symbol("a"), "Symbol(a) was thrown"],
    ["an object", { code: 3 }, '{"code":3}'],
    ["a frozen object", Object.freeze({ message: "cold" }), "cold"],
    ["an object that cannot be read", unreadable, "the thrown value cannot be read"],
    ["a revoked proxy", revoked.proxy, "the thrown value cannot be read"],
  ])("%s", (_, thrown, reason) => {
    expect(reasonOf(thrown)).toBe(reason);
  });
});

describe("ranMark and ranCall", () => {
  const sent: ToolUseBlock = { type: "tool_use", id: "c", name: "look", input: { a: 1 } };

  /** How the call of a marked result ran. */
  function read(ran: RanCall | undefined): RanCall | undefined {
    const block = {
      type: "tool_result",
      id: "c",
      name: "look",
      output: [],
      state: "success",
    } as const;
    const result: ToolResultBlock = { ...block, metadata: { ...ranMark(sent, ran) } };
    return ranCall(sent, result);
  }

  it("marks nothing for a call that ran as sent", () => {
    expect(ranMark(sent, sent)).toEqual({});
    expect(read(sent)).toBe(sent);
  });

  it("keeps how an edited call ran", () => {
    const edited = { name: "look", input: { a: 2 } };
    expect(read(edited)).toEqual(edited);
    expect(read({ ...sent, name: "see" })).toEqual({ name: "see", input: sent.input });
  });

  it("marks a result that did not come from the tool", () => {
    expect(read(undefined)).toBeUndefined();
  });
});
