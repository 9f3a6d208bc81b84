import { RivuletError } from "../../base/error.ts";
import * as is from "../../base/options.ts";
import {
  describe,
  type Field,
  type Fields,
  mismatch,
  ownerOf,
  passes,
  readArgument,
  readOptions,
} from "../../base/options.ts";
import { frozenCopy, isObject } from "../../base/plain.ts";
import type { Awaitable } from "../../base/time.ts";
import type { InputOf, OutputOf, StandardSchema, Tool } from "../../contract/index.ts";
import { type Execution, executionField } from "../base/execution.ts";
import type { ToolContext } from "./context.ts";
import { type JsonSchema, toJsonSchema } from "./schema.ts";

export type { Tool } from "../../contract/index.ts";

/** The input of a call as the model writes it: the input of the schema. */
export type ToolCallInput<S> = S extends StandardSchema
  ? InputOf<S>
  : Readonly<Record<string, unknown>>;

/** The input of `execute`: the output of the schema; without a schema, presets and extra input only. */
export type ToolInput<S> = S extends StandardSchema
  ? OutputOf<S>
  : Readonly<Record<string, unknown>>;

/** The options of `tool`. */
export interface ToolOptions<S extends StandardSchema | undefined = undefined> {
  /** Starts with a letter or `_`, then letters, digits, `_` and `-`; at most 64 characters. */
  readonly name: string;
  /** Tells the model what the tool does and when to use it. */
  readonly description: string;
  /** An object schema; absent: the tool takes no input. */
  readonly input?: S;
  /** Input fields that the model cannot see or set. */
  readonly preset?: Readonly<Record<string, unknown>>;
  /** Fields that are paths. Rules, approvals and `execute` get what the function returns; the call fails if it throws. */
  readonly paths?: Readonly<Record<string, (path: string, context: ToolContext) => string>>;
  /** Running the same call twice has the effect of running it once, so it may be retried, also after a crash. */
  readonly idempotent?: boolean;
  /** Runs alone, in its place among the calls of a reply. */
  readonly exclusive?: boolean;
  /** The model can cite the results. */
  readonly citable?: boolean;
  /** The tool changes nothing outside the conversation, so it may run in plan mode. */
  readonly readOnly?: boolean;
  readonly execution?: Execution;
  needsApproval?: boolean | ((input: ToolInput<S>, context: ToolContext) => Awaitable<boolean>);
  /** Absent: an external tool, whose results come from the caller. */
  execute?(input: ToolInput<S>, context: ToolContext): unknown;
}

/** The checked options of a tool. */
export interface ToolDefinition
  extends Required<
    Pick<
      ToolOptions,
      "name" | "preset" | "paths" | "idempotent" | "exclusive" | "citable" | "execution"
    >
  > {
  readonly tool: Tool;
  /** The JSON Schema of the input, without preset fields. */
  readonly inputSchema: JsonSchema;
  readonly input?: StandardSchema;
  readonly needsApproval: boolean | ((input: unknown, context: ToolContext) => Awaitable<boolean>);
  readonly execute?: (input: unknown, context: ToolContext) => unknown;
}

const toolFields: Fields<ToolOptions> = {
  name: is.anything,
  description: is.anything,
  input: is.anything,
  preset: is.data,
  paths: is.record,
  idempotent: is.flag,
  exclusive: is.flag,
  citable: is.flag,
  readOnly: is.flag,
  execution: executionField,
  needsApproval: {
    fits: (value) => is.flag.fits(value) || is.callback.fits(value),
    expected: "a boolean or a function",
  },
  execute: is.callback,
};
const definitions = new WeakMap<Tool, ToolDefinition>();

/** Creates a tool; throws `invalid_tool` or `invalid_settings` for options that cannot work. */
export function tool<S extends StandardSchema | undefined = undefined>(
  given: ToolOptions<S>,
): Tool<ToolCallInput<S>> {
  const owner = ownerOf("Tool", given);
  const options = readOptions<ToolOptions<S>>(owner, given, toolFields, `${owner}: `);
  const { name, description, input, preset = {}, paths = {} } = options;
  checkName(name);
  if (typeof description !== "string" || description.trim() === "") {
    throw invalidTool(name, "requires a description", "Say what it does and when to use it.");
  }
  const { idempotent = false, exclusive = false, citable = false, needsApproval = false } = options;
  const flags = { idempotent, exclusive, citable };
  const inputSchema =
    input === undefined ? noInput : withoutPreset(name, toJsonSchema(input), preset);
  for (const [field, normalize] of Object.entries(paths)) {
    if (is.callback.fits(normalize) && field in Object(inputSchema.properties)) continue;
    const hint = "Pass { field: (path) => normalized path } with fields of the input.";
    throw invalidTool(name, `has \`paths.${field}\`, which is not a function for a field`, hint);
  }
  const mark = options.readOnly && ({ readOnly: true } as const);
  const made: Tool<ToolCallInput<S>> = Object.freeze({ name, description, inputSchema, ...mark });
  const execute = options.execute?.bind(given);
  definitions.set(made, {
    tool: made,
    name,
    inputSchema,
    ...(input && { input }),
    preset: frozenCopy(preset),
    paths: Object.freeze({ ...paths }),
    ...flags,
    needsApproval: needsApproval as ToolDefinition["needsApproval"],
    execution: frozenCopy(options.execution ?? {}),
    ...(execute && { execute: execute as NonNullable<ToolDefinition["execute"]> }),
  });
  return made;
}

/** An error whose message the model reads unchanged, thrown by a tool. */
export class ToolFailure extends RivuletError {
  override readonly name = "ToolFailure";
}

/** Whether a thrown value is a `ToolFailure`; never throws, whatever the value does. */
export function isToolFailure(error: unknown): boolean {
  try {
    return error instanceof ToolFailure;
  } catch {
    return false;
  }
}

/**
 * Whether an event, a hook's call or the `call` of an approval calls this tool, by its name. Its input then has the type
 * of the tool; the model wrote it, and the schema checks it when the call runs.
 */
export function isCallOf<Call extends object, Input>(
  tool: Tool<Input>,
  call: Call,
): call is Extract<Call, { readonly input: unknown }> & { readonly input: Input } {
  const { name } = definitionOf(tool);
  const read = readArgument("call", call, is.required(is.record));
  // The first event of a call, its progress and its result have the name and no input.
  return passes(
    () => "name" in read && read.name === name && "input" in read && read.input !== undefined,
  );
}

/** The definition of a tool that `tool` has created. */
export function definitionOf(made: Tool): ToolDefinition {
  const definition = definitions.get(made);
  if (definition) return definition;
  const message = `${ownerOf("Tool", made)} was not created with tool().`;
  const hint = isAiTool(made) ? aiToolHint : "Pass the object that tool() returned, not a copy.";
  throw new RivuletError("invalid_tool", message, { hint });
}

/** The rule for an array of tools; the tools of the AI SDK are an object. */
export const toolsField: Field = {
  ...is.list,
  fits(value) {
    if (isObject(value) && Object.values(value).some(isAiTool)) {
      const message = mismatch("tools", "an array of tools", value);
      throw new RivuletError("invalid_settings", message, { hint: aiToolHint });
    }
    return is.list.fits(value);
  },
  example: "[search]",
};

const aiToolHint = "Convert tools of the AI SDK: `tools: fromAiTools({ weather })`.";

/** Whether a value looks like a tool of the AI SDK, which has no name of its own. */
function isAiTool(value: unknown): boolean {
  return passes(
    () =>
      isObject(value) &&
      value.name === undefined &&
      (value.inputSchema ?? value.parameters) != null,
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
    "Start with a letter or _, continue with letters, digits, _ and -, and use at most 64 characters.";
  throw invalidTool(name, "has an invalid name", hint);
}

/** The schema without preset fields; throws for a preset without a field, because it would have no effect. */
function withoutPreset(
  name: string,
  schema: JsonSchema,
  preset: Readonly<Record<string, unknown>>,
): JsonSchema {
  if (schema.type !== "object") {
    throw invalidTool(
      name,
      "has an input schema that is not of type object",
      "Wrap it in an object schema.",
    );
  }
  const hidden = Object.keys(preset);
  if (hidden.length === 0) return schema;
  const properties = { ...(schema.properties as JsonSchema | undefined) };
  const isOpen = Boolean(schema.additionalProperties) || schema.patternProperties !== undefined;
  for (const field of hidden) {
    if (!(field in properties) && !isOpen) {
      const hint = `Use any of ${Object.keys(properties).join(", ")}.`;
      throw invalidTool(name, `presets "${field}", which is not a field of its input`, hint);
    }
    delete properties[field];
  }
  const required = (schema.required as readonly string[] | undefined)?.filter(
    (field) => !hidden.includes(field),
  );
  return Object.freeze({ ...schema, properties, ...(required && { required }) });
}

function invalidTool(name: unknown, problem: string, hint: string): RivuletError {
  return new RivuletError("invalid_tool", `Tool ${describe(name)} ${problem}.`, { hint });
}
