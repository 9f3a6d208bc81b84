import { tool as aiTool } from "ai";
import { type } from "arktype";
import * as v from "valibot";
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { ReActAgent } from "../react-agent.ts";
import type { ToolContext } from "./context.ts";
import { jsonSchema } from "./schema.ts";
import { definitionOf, isCallOf, type Tool, tool } from "./tool.ts";
import { Toolkit } from "./toolkit.ts";

const weather = tool({
  name: "get_weather",
  description: "The weather in a city.",
  input: z.object({ city: z.string(), days: z.number().default(1) }),
  execute: ({ city }) => city,
});

describe("a tool", () => {
  it("has only its name, description and schema", () => {
    expect(Object.keys(weather)).toEqual(["name", "description", "inputSchema"]);
    expect(weather.inputSchema).toMatchObject({
      type: "object",
      properties: { city: { type: "string" }, days: { type: "number", default: 1 } },
      required: ["city"],
    });
  });

  it("is deeply frozen", () => {
    expect(Object.isFrozen(weather)).toBe(true);
    expect(() => Object.assign(weather.inputSchema, { extra: 1 })).toThrow(TypeError);
    const { properties } = weather.inputSchema as { properties: object };
    expect(() => Object.assign(properties, { extra: 1 })).toThrow(TypeError);
  });

  it("has defaults", () => {
    expect(definitionOf(weather)).toMatchObject({
      tool: weather,
      preset: {},
      idempotent: false,
      exclusive: false,
      citable: false,
      execution: {},
      needsApproval: false,
    });
  });

  it("without a schema takes no input from the model", () => {
    const now = tool({ name: "now", description: "The time.", execute: () => 1 });
    expect(now.inputSchema).toEqual({
      type: "object",
      properties: {},
      additionalProperties: false,
    });
  });

  it("without execute is external", () => {
    const { execute } = definitionOf(tool({ name: "ask", description: "Asks." }));
    expect(execute).toBeUndefined();
  });

  it("calls execute as a method of its options", () => {
    class Counter {
      readonly name = "counter";
      readonly description = "Counts.";
      readonly #start = 7;
      execute() {
        return this.#start;
      }
    }
    expect(definitionOf(tool(new Counter())).execute?.({}, {} as ToolContext)).toBe(7);
  });

  it("hides its presets from the model", () => {
    const input = z.object({ city: z.string(), key: z.string(), unit: z.string().optional() });
    const made = tool({ name: "a", description: "A.", input, preset: { key: "k", unit: "C" } });
    expect(made.inputSchema).toMatchObject({
      properties: { city: { type: "string" } },
      required: ["city"],
    });
    expect(JSON.stringify(made.inputSchema)).not.toMatch(/key|unit/);
  });

  it("accepts presets for an open schema", () => {
    const input = z.looseObject({ city: z.string() });
    expect(() => tool({ name: "a", description: "A.", input, preset: { key: 1 } })).not.toThrow();
  });
});

describe("tool() rejects", () => {
  const input = z.object({ city: z.string() });
  const refused: readonly [what: string, make: () => Tool, code: string, message: RegExp][] = [
    ["no name", () => tool({ name: "", description: "A." }), "invalid_tool", /name/],
    ["a space", () => tool({ name: "a b", description: "A." }), "invalid_tool", /name/],
    ["a digit first", () => tool({ name: "1a", description: "A." }), "invalid_tool", /name/],
    [
      "65 characters",
      () => tool({ name: "a".repeat(65), description: "A." }),
      "invalid_tool",
      /name/,
    ],
    ["a line end", () => tool({ name: "a\n", description: "A." }), "invalid_tool", /name/],
    ["no description", () => tool({ name: "a", description: " " }), "invalid_tool", /description/],
    [
      "an input that is a string",
      () => tool({ name: "a", description: "A.", input: z.string() }),
      "invalid_tool",
      /not of type object/,
    ],
    [
      "an input that is a choice",
      () => tool({ name: "a", description: "A.", input: z.union([input, input]) }),
      "invalid_tool",
      /not of type object/,
    ],
    [
      "a preset without a field",
      () => tool({ name: "a", description: "A.", input, preset: { town: "x" } }),
      "invalid_tool",
      /presets "town"/,
    ],
    [
      "a date",
      () => tool({ name: "a", description: "A.", input: z.object({ day: z.date() }) }),
      "schema_not_convertible",
      /zod/,
    ],
    [
      "a valibot schema on its own",
      () => tool({ name: "a", description: "A.", input: v.object({ city: v.string() }) }),
      "schema_not_convertible",
      /valibot/,
    ],
    [
      "inputSchema instead of input",
      () => tool({ name: "a", description: "A.", ...{ inputSchema: input } }),
      "invalid_settings",
      /no option `inputSchema`/,
    ],
    [
      "parameters instead of input",
      () => tool({ name: "a", description: "A.", ...{ parameters: input } }),
      "invalid_settings",
      /no option `parameters`/,
    ],
  ];
  it.each(refused)("%s", (_, make, code, message) => {
    expect(make).toThrow(
      expect.objectContaining({
        code,
        message: expect.stringMatching(message),
        hint: expect.stringMatching(/\w/),
      }),
    );
  });

  it("a copy of a tool", () => {
    for (const fake of [{ ...weather }, undefined, null, "get_weather"]) {
      expect(() => definitionOf(fake as Tool)).toThrow(
        expect.objectContaining({ code: "invalid_tool" }),
      );
    }
  });

  it("a tool of the AI SDK, and names the function that converts it", () => {
    const foreign = aiTool({ description: "W.", inputSchema: z.object({ city: z.string() }) });
    const hint = expect.stringContaining("fromAiTools({ weather })");
    for (const tools of [[foreign], { weather: foreign }] as unknown as readonly Tool[][]) {
      expect(() => new Toolkit({ tools })).toThrow(expect.objectContaining({ hint }));
      const hook = { name: "h", tools };
      const model = "openai:gpt-5-mini";
      for (const options of [{ tools }, { hooks: [hook] }])
        expect(() => new ReActAgent({ name: "a", model, ...options })).toThrow(
          expect.objectContaining({ hint }),
        );
    }
  });

  it("but accepts the longest name", () => {
    expect(tool({ name: "a".repeat(64), description: "A." }).name).toHaveLength(64);
  });
});

describe("isCallOf", () => {
  it("accepts calls with the name of the tool, and neither their results nor other calls", () => {
    expect(isCallOf(weather, { id: "1", name: "get_weather", input: { city: "Rome" } })).toBe(true);
    expect(isCallOf(weather, { id: "1", name: "get_news", input: { city: "Rome" } })).toBe(false);
    expect(isCallOf(weather, { type: "tool_call", last: false, name: "get_weather" })).toBe(false);
    expect(isCallOf(weather, { type: "tool_result", last: true, name: "get_weather" })).toBe(false);
    expect(isCallOf(weather, { type: "reasoning", text: "" })).toBe(false);
  });
});

describe("types", () => {
  it("execute and needsApproval get the output of the schema", () => {
    tool({
      name: "a",
      description: "A.",
      input: z.object({ text: z.string().transform((text) => text.length) }),
      needsApproval: (input) => {
        expectTypeOf(input).toEqualTypeOf<{ text: number }>();
        return true;
      },
      execute: (input, context) => {
        expectTypeOf(input).toEqualTypeOf<{ text: number }>();
        expectTypeOf(context).toEqualTypeOf<ToolContext>();
      },
    });
    tool({
      name: "a",
      description: "A.",
      input: type({ city: "string", "days?": "number" }),
      execute: (input) => expectTypeOf(input).toEqualTypeOf<{ city: string; days?: number }>(),
    });
    tool({
      name: "a",
      description: "A.",
      input: jsonSchema<{ city: string }>({ type: "object" }),
      execute: (input) => expectTypeOf(input).toEqualTypeOf<{ city: string }>(),
    });
    tool({
      name: "a",
      description: "A.",
      execute: (input) => expectTypeOf(input).toEqualTypeOf<Readonly<Record<string, unknown>>>(),
    });
  });

  it("tools of different inputs fit in one array", () => {
    const other = tool({ name: "b", description: "B.", input: type({ n: "number" }) });
    expectTypeOf([weather, other]).toExtend<Tool[]>();
    expectTypeOf(weather).toEqualTypeOf<Tool<{ city: string; days?: number | undefined }>>();
    expectTypeOf(tool({ name: "c", description: "C." })).toExtend<Tool>();
  });
});
