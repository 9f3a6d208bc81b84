import { jsonOf, jsonSchema, type ToolContext, ToolFailure, tool } from "../agent/index.ts";
import { RivuletError } from "../base/error.ts";
import { anything, readArgument, readOptions, recordOf, required } from "../base/options.ts";
import { isObject } from "../base/plain.ts";
import type { Awaitable } from "../base/time.ts";
import { type Block, type StandardSchema, type Tool, textOf } from "../contract/index.ts";
import { toModelMessages } from "./messages.ts";
import { readOutput } from "./parts.ts";

/** A tool made with `tool()` or `dynamicTool()` of the AI SDK. */
export interface AiTool {
  readonly inputSchema: unknown;
}
/** The options of `fromAiTools`. */
export interface AiToolOptions {
  /** The `context` of each tool, by name. */
  readonly toolsContext?: Readonly<Record<string, unknown>>;
}

/** The fields of a tool that we use; the run-time checks make up for the missing types. */
interface Definition {
  readonly type?: unknown;
  readonly id?: unknown;
  readonly description?: string | ((options: { readonly context: unknown }) => string);
  readonly title?: string;
  readonly inputSchema: unknown;
  readonly needsApproval?: boolean | ((input: unknown, options: object) => Awaitable<boolean>);
  readonly execute?: (input: unknown, options: object) => unknown;
  readonly toModelOutput?: (options: object) => unknown;
}

/** Converts tools of the AI SDK, by name, to tools of an agent. */
export function fromAiTools(
  tools: Readonly<Record<string, AiTool>>,
  options: AiToolOptions = {},
): readonly Tool[] {
  readArgument("tools", tools, required(recordOf(anything), "{ weather }"));
  const read = readOptions("fromAiTools()", options, { toolsContext: recordOf(anything) });
  const { toolsContext = {} } = read;
  return Object.entries(tools).map(([name, value]) => {
    if (!isObject(value) || (value as Partial<AiTool>).inputSchema === undefined) {
      throw invalid(
        `The tool ${name} has no \`inputSchema\``,
        "Pass `tool({ inputSchema, … })` of `ai` 5 or newer.",
      );
    }
    return convert(name, value as unknown as Definition, toolsContext[name]);
  });
}

function convert(name: string, definition: Definition, context: unknown): Tool {
  const { type, id, description, title, needsApproval = false } = definition;
  if (type === "provider") {
    const entry = JSON.stringify({ type, id, name, args: {} });
    const hint = `Pass it as a model option: \`modelOptions: { tools: [${entry}] }\`.`;
    throw invalid(`The tool ${name} is a tool of its provider (${id})`, hint);
  }
  const optionsOf = (call: ToolContext) => ({
    toolCallId: call.callId,
    abortSignal: call.signal,
    context,
    get messages() {
      return toModelMessages(call.messages);
    },
  });
  const text = typeof description === "function" ? description({ context }) : description;
  return tool({
    name,
    description: text || title || name,
    input: inputOf(name, definition.inputSchema),
    needsApproval:
      typeof needsApproval === "function"
        ? async (input: unknown, call: ToolContext) => await needsApproval(input, optionsOf(call))
        : needsApproval,
    ...(definition.execute && {
      execute: async (input: unknown, call: ToolContext) => {
        const returned = await definition.execute?.(input, optionsOf(call));
        const output = isAsyncIterable(returned) ? await lastOf(returned, call) : returned;
        const display = blocksFor(output);
        if (!definition.toModelOutput) return { content: display };
        const options = { toolCallId: call.callId, input, output };
        return { content: modelBlocks(name, await definition.toModelOutput(options)), display };
      },
    }),
  });
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

/** The last value; each is emitted as it comes, without the beginning that it has in common with the one before. */
async function lastOf(values: AsyncIterable<unknown>, { emit }: ToolContext): Promise<unknown> {
  let last: unknown;
  let emitted = "";
  for await (const value of values) {
    const text = textOf(blocksFor(value));
    if (text.startsWith(emitted)) emit(text.slice(emitted.length));
    else emit(`\n${text}`);
    emitted = text;
    last = value;
  }
  return last;
}

function blocksFor(output: unknown): readonly Block[] {
  if (output === undefined) return [];
  return [{ type: "text", text: typeof output === "string" ? output : jsonOf(output) }];
}

function modelBlocks(name: string, output: unknown): readonly Block[] {
  const read = readOutput(output, `toModelOutput of ${name}`);
  if (read.state === "success") return read.output;
  throw new ToolFailure("tool_failed", textOf(read.output) || "The tool gave no reason.");
}

/** The schema of a tool: any Standard Schema, or the AI SDK's own form, which may be wrapped in a function. */
function inputOf(name: string, schema: unknown): StandardSchema {
  if (typeof schema === "function" && !("~standard" in schema)) return inputOf(name, schema());
  if (!isObject(schema) || !("jsonSchema" in schema)) return schema as StandardSchema;
  const { jsonSchema: document, validate } = schema;
  if (!isObject(document) || typeof document.then === "function") {
    const hint = "Pass `jsonSchema(await load())`, so that the schema is there.";
    throw invalid(`The tool ${name} has a schema that is loaded later`, hint);
  }
  const { "~standard": standard } = jsonSchema<unknown>(document);
  if (typeof validate !== "function") return { "~standard": standard };
  return {
    "~standard": {
      ...standard,
      async validate(value: unknown) {
        const result = await validate(value);
        if (result.success) return { value: result.value };
        return { issues: [{ message: result.error.message }] };
      },
    },
  };
}

function invalid(problem: string, hint: string): RivuletError {
  return new RivuletError("invalid_tool", `${problem}.`, { hint });
}
