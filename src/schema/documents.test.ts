import { readFileSync } from "node:fs";
import { Validator } from "@cfworker/json-schema";
import { describe, expect, it } from "vitest";
import { examples } from "../../test/support/examples.ts";
import { controlFrames, taskEventTypes } from "../protocol/grammar/index.ts";
import { asyncApi, documents } from "./async-api.ts";
import { taskStreamSchema } from "./json-schema.ts";

const frameTypes = [...taskEventTypes, ...Object.keys(controlFrames)];

function committed(name: string): string {
  return readFileSync(new URL(`../../docs/protocol/${name}`, import.meta.url), "utf8");
}

/** Every reference in a document that leads nowhere. */
function broken(document: unknown): readonly string[] {
  const lost: string[] = [];
  JSON.stringify(document, (key, value: unknown) => {
    if (key === "$ref" && resolve(document, String(value)) === undefined) lost.push(String(value));
    return value;
  });
  return lost;
}

function resolve(document: unknown, reference: string): unknown {
  const [start, ...keys] = reference.split("/");
  if (start !== "#") return undefined;
  return keys.reduce(
    (value, key) => (value as Record<string, unknown> | undefined)?.[key],
    document,
  );
}

describe("docs/protocol", () => {
  it.each(Object.entries(documents))("has %s as the schemas say it", (name, text) => {
    expect(committed(name), "stale: run npm run generate:schema").toBe(text);
    expect(text.endsWith("}\n")).toBe(true);
  });

  it("has a page that names every type of frame", () => {
    const page = committed("README.md");
    expect(frameTypes.filter((type) => !page.includes(`| \`${type}\` |`))).toEqual([]);
  });
});

describe("the JSON Schema", () => {
  it("has a definition for every type of frame, for items and for blocks", () => {
    expect(Object.keys(taskStreamSchema.$defs)).toEqual(
      expect.arrayContaining([...frameTypes, "Item", "Block", "Annotation", "Task", "Source"]),
    );
  });

  it("refers only to itself", () => {
    expect(broken(taskStreamSchema)).toEqual([]);
    expect(broken({ $ref: "#/$defs/Nowhere" })).toHaveLength(1);
  });

  it("documents the unit of a text index and that an image delta replaces", () => {
    expect(taskStreamSchema.$defs.TextIndex?.description).toContain("UTF-16");
    expect(taskStreamSchema.$defs["task.image.delta"]?.description).toContain("REPLACES");
  });
});

describe("the AsyncAPI document", () => {
  const { channels, operations, components } = asyncApi;

  it("describes one channel and its send operation", () => {
    expect(asyncApi.asyncapi).toBe("3.0.0");
    expect(asyncApi.info).toMatchObject({
      title: expect.any(String) as string,
      version: expect.any(String) as string,
    });
    expect(Object.values(channels).map(({ address }) => address)).toEqual([
      "/v1/tasks/{id}/events",
    ]);
    expect(channels.taskEvents?.parameters).toHaveProperty("id");
    for (const operation of Object.values(operations)) {
      expect(operation.action).toBe("send");
      expect(resolve(asyncApi, (operation.channel as { $ref: string }).$ref)).toBeDefined();
    }
  });

  it("has every type of frame as a message, with a summary and a payload", () => {
    expect(Object.keys(channels.taskEvents?.messages as object)).toEqual(frameTypes);
    expect(Object.keys(components.messages)).toEqual(frameTypes);
    for (const [type, message] of Object.entries(components.messages)) {
      expect(message.name).toBe(type);
      expect(message.summary, type).toBeTruthy();
      expect(resolve(asyncApi, (message.payload as { $ref: string }).$ref), type).toMatchObject({
        properties: { type: { const: type } },
      });
    }
  });

  it("resolves its references and has legal names", () => {
    expect(broken(asyncApi)).toEqual([]);
    expect(JSON.stringify(asyncApi)).not.toContain("$defs");
    const names = Object.values(components).flatMap((part) => Object.keys(part));
    expect(names.filter((name) => !/^[\w.-]+$/.test(name))).toEqual([]);
  });

  it("accepts the examples with its own copy of the schemas", () => {
    for (const example of examples) {
      const validator = new Validator({
        $ref: `#/components/schemas/${example.type}`,
        components: structuredClone(components),
      });
      expect(validator.validate(example).valid, example.type).toBe(true);
      expect(validator.validate({ ...example, type: 7 }).valid).toBe(false);
    }
  });
});
