import type { Awaitable, OutputOf, StandardSchema } from "../../protocol/agent.ts";
import { RivuletError } from "../../protocol/error.ts";
import { checkExecution } from "../check-execution.ts";
import { callback, checkFields, flag } from "../check-fields.ts";
import type { Execution } from "../execution.ts";
import { frozenCopy } from "../plain.ts";
import type { ToolContext } from "./context.ts";
import { type JsonSchema, toJsonSchema } from "./schema.ts";

/** Something a model can call; what is behind it stays closed. Made with `tool`. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  /** What the model may send, as JSON Schema. */
  readonly inputSchema: object;
}

/** What `execute` gets as input: what the schema yields; without a schema, presets and extra input alone. */
export type ToolInput<S> = S extends StandardSchema
  ? OutputOf<S>
  : Readonly<Record<string, unknown>>;

/** What a tool is made of. */
export interface ToolOptions<S extends StandardSchema | undefined = undefined> {
  /** A letter or `_`, then letters, digits, `_` and `-`; 64 characters at most. */
  readonly name: string;
  /** What it does and when to use it, for the model. */
  readonly description: string;
  /** An object schema; absent: the model sends nothing. */
  readonly input?: S;
  /** Fields that the model neither sees nor sets. */
  readonly preset?: Readonly<Record<string, unknown>>;
  /** To run it twice with the same call id is to run it once: it may be tried again, also after a crash. */
  readonly idempotent?: boolean;
  /** It runs alone in its place among the calls of a batch. */
  readonly exclusive?: boolean;
  /** The model may cite its results. */
  readonly citable?: boolean;
  readonly execution?: Execution;
  needsApproval?: boolean | ((input: ToolInput<S>, context: ToolContext) => Awaitable<boolean>);
  /** Absent: an external tool, whose result always comes from outside. */
  execute?(input: ToolInput<S>, context: ToolContext): unknown;
}

/** What is behind a tool. */
export interface ToolDefinition {
  readonly tool: Tool;
  readonly name: string;
  /** What the model may send: without the preset fields. */
  readonly inputSchema: JsonSchema;
  readonly input?: StandardSchema;
  readonly preset: Readonly<Record<string, unknown>>;
  readonly idempotent: boolean;
  readonly exclusive: boolean;
  readonly citable: boolean;
  readonly execution: Execution;
  readonly needsApproval: boolean | ((input: unknown, context: ToolContext) => Awaitable<boolean>);
  readonly execute?: (input: unknown, context: ToolContext) => unknown;
}

const flagFields = {
  idempotent: flag,
  exclusive: flag,
  citable: flag,
  needsApproval: {
    fits: (value: unknown) => flag.fits(value) || callback.fits(value),
    is: "true, false or a function",
  },
};
const definitions = new WeakMap<Tool, ToolDefinition>();

/** Makes a tool; settings that cannot work are errors here, not at the first call. */
export function tool<S extends StandardSchema | undefined = undefined>(
  options: ToolOptions<S>,
): Tool {
  const { name, description, input, preset = {} } = options;
  checkName(name);
  if (typeof description !== "string" || description.trim() === "") {
    throw invalidTool(name, "has no description", "Say what it does and when to use it.");
  }
  checkExecution(`Tool ${name}: execution`, options.execution);
  const { idempotent, exclusive, citable, needsApproval = false } = options;
  const flags = { idempotent, exclusive, citable, needsApproval };
  checkFields(`Tool ${name}`, flags, flagFields, `Tool ${name}: `);
  const inputSchema =
    input === undefined ? noInput : withoutPreset(name, toJsonSchema(input), preset);
  const made: Tool = Object.freeze({ name, description, inputSchema });
  const execute = options.execute?.bind(options);
  definitions.set(made, {
    tool: made,
    name,
    inputSchema,
    ...(input && { input }),
    preset: frozenCopy(preset),
    idempotent: idempotent ?? false,
    exclusive: exclusive ?? false,
    citable: citable ?? false,
    execution: frozenCopy(options.execution ?? {}),
    needsApproval: needsApproval as ToolDefinition["needsApproval"],
    ...(execute && { execute: execute as NonNullable<ToolDefinition["execute"]> }),
  });
  return made;
}

/** What is behind a tool that `tool` has made. */
export function definitionOf(made: Tool): ToolDefinition {
  const definition = definitions.get(made);
  if (definition) return definition;
  const name = (made as Partial<Tool> | null | undefined)?.name;
  throw invalidTool(
    name,
    "was not made with tool()",
    "Pass what tool() returned, not a copy of it.",
  );
}

const noInput: JsonSchema = Object.freeze({
  type: "object",
  properties: Object.freeze({}),
  additionalProperties: false,
});

function checkName(name: unknown): void {
  if (typeof name === "string" && /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/.test(name)) return;
  const hint =
    "Begin with a letter or _, go on with letters, digits, _ and -, at most 64 characters.";
  throw invalidTool(name, "has a name that models do not accept", hint);
}

/** The schema that the model sees. Presets that no field takes are an error, since they would be lost in silence. */
function withoutPreset(
  name: string,
  schema: JsonSchema,
  preset: Readonly<Record<string, unknown>>,
): JsonSchema {
  if (schema.type !== "object") {
    throw invalidTool(name, "has an input that is not an object", "Wrap it in an object schema.");
  }
  const hidden = Object.keys(preset);
  if (hidden.length === 0) return schema;
  const properties = { ...(schema.properties as JsonSchema | undefined) };
  for (const field of hidden) {
    if (!(field in properties) && !takesMore(schema)) {
      const hint = `The input's fields are: ${Object.keys(properties).join(", ")}.`;
      throw invalidTool(name, `presets "${field}", which its input does not have`, hint);
    }
    delete properties[field];
  }
  const required = (schema.required as readonly string[] | undefined)?.filter(
    (field) => !hidden.includes(field),
  );
  return Object.freeze({ ...schema, properties, ...(required && { required }) });
}

function takesMore(schema: JsonSchema): boolean {
  return Boolean(schema.additionalProperties) || schema.patternProperties !== undefined;
}

function invalidTool(name: unknown, problem: string, hint: string): RivuletError {
  return new RivuletError("invalid_tool", `Tool ${JSON.stringify(name)} ${problem}.`, { hint });
}
