import { expect, it } from "vitest";
import { toJsonSchema } from "../agent/tool/schema.ts";
import { blocksOf, inputOf, progressOf, readTools, safeText } from "./untrusted.ts";

const server = { name: "wiki", command: "wiki" };
const anything = { type: "object" } as const;

it("bounds the media, blocks, errors and labels of a result", () => {
  const image = { type: "image", mimeType: "image/png", data: "A".repeat(9_000_000) } as const;
  const blocks = blocksOf(server, {
    content: [image, image, image, { type: "text", text: "end" }],
  });
  expect(blocks.map(({ type }) => type)).toEqual(["image", "image", "text", "text"]);
  expect(blocks[2]).toEqual({ type: "text", text: "[image: too large]" });
  const text = { type: "text", text: "x" } as const;
  expect(blocksOf(server, { content: Array.from({ length: 5_000 }, () => text) })).toHaveLength(
    1_000,
  );
  const error = { content: [{ type: "text" as const, text: "x".repeat(100_000) }], isError: true };
  expect(() => blocksOf(server, error)).toThrow(/^x{1999}…$/);
  const link = { type: "resource_link", uri: "u".repeat(9_000), name: "n\n".repeat(900) } as const;
  const [labelled] = blocksOf(server, { content: [link] });
  expect(JSON.stringify(labelled).length).toBeLessThan(2_600);
  expect(progressOf({ progress: 1, message: "m".repeat(9_000) }).message).toHaveLength(500);
});

it("gives each tool of a server a valid name of its own", () => {
  const listed = ["a.b", "a/b", "a b", "1", "x".repeat(100), "x".repeat(100)];
  const tools = readTools(
    server,
    "wiki_",
    listed.map((name) => ({ name, inputSchema: anything })),
    () => {},
  );
  const names = tools.map(({ name }) => name);
  expect(new Set(names).size).toBe(listed.length);
  for (const name of names) expect(name).toMatch(/^[A-Za-z_][A-Za-z0-9_-]{0,63}$/);
});

it("shows the whole schema and checks only what takes linear time", async () => {
  const document = {
    ...anything,
    $schema: "http://json-schema.org/draft-07/schema#",
    required: ["a"],
    properties: {
      a: { type: "string", pattern: "^(a+)+$", enum: ["x", "y"] },
      b: { type: "array", uniqueItems: true, items: { type: ["number", "null"] } },
      c: { anyOf: [{ $ref: "#" }], type: "int32" },
      d: { not: {}, required: 7, enum: {} },
    },
    additionalProperties: false,
  };
  const schema = inputOf(document);
  expect(toJsonSchema(schema)).toEqual(document);
  const issues = async (value: unknown) => {
    const result = await schema["~standard"].validate(value);
    return result.issues?.map(({ path }) => path?.join("."));
  };
  expect(await issues({ a: "x", b: [1, 1, null], c: 1, d: 2, e: 3 })).toBeUndefined();
  expect(await issues({})).toEqual([""]);
  expect(await issues({ a: "z", b: ["s"] })).toEqual(["a", "b.0"]);
});

it("survives a schema that is nested deeply", async () => {
  let document: Record<string, unknown> = anything;
  for (let depth = 0; depth < 3_000; depth++)
    document = { ...anything, properties: { a: document } };
  const schema = inputOf(document);
  expect(await schema["~standard"].validate({ a: { a: {} } })).toEqual({ value: { a: { a: {} } } });
});

it("hides the secrets of a server in any spelling", () => {
  const url = "https://user:pa%20ss-word@wiki.example/v1/k3y-of-ann/mcp?token=t0ken+value";
  const headers = { authorization: "Bearer abc-def-ghi" };
  const text = `${url} {"authorization":"Bearer abc-def-ghi"} abc-def-ghi t0ken value /k3y-of-ann`;
  const safe = safeText({ name: "wiki", url, headers }, text);
  for (const secret of ["pa%20ss", "abc-def", "t0ken", "k3y-of"])
    expect(safe).not.toContain(secret);
  expect(safeText(server, new Error("a\nb"))).toBe("a b");
  const refused = {
    content: [{ type: "text" as const, text: "abc-def-ghi\nis wrong" }],
    isError: true,
  };
  expect(() => blocksOf({ name: "wiki", url, headers }, refused)).toThrow("[hidden]\nis wrong");
});
