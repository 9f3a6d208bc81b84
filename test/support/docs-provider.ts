// Replaces the provider packages in programs of the documentation: `node --import test/support/docs-provider.ts`.
import "../../examples/from-source.ts";
import { registerHooks } from "node:module";
import { type ScriptedRequest, scriptedModel } from "../../src/testing.ts";

registerHooks({
  resolve: (specifier, context, next) =>
    next(/^@ai-sdk\/(openai|anthropic)$/.test(specifier) ? import.meta.url : specifier, context),
});

type Schema = Readonly<Record<string, unknown>>;

/** A value that fits a simple JSON Schema. */
function valueFor(schema: object): unknown {
  const { type, properties = {}, enum: values, minimum } = schema as Schema;
  if (Array.isArray(values)) return values[0];
  if (type === "object") {
    const fields = Object.entries(properties as Record<string, object>);
    return Object.fromEntries(fields.map(([name, schema]) => [name, valueFor(schema)]));
  }
  if (type === "array") return [];
  if (type === "number" || type === "integer") return minimum ?? 1;
  return type === "boolean" ? true : "text";
}

/** Answers with text, or with what the request demands. */
function answer({ tools = [], toolChoice, responseFormat }: ScriptedRequest) {
  if (responseFormat?.type === "json") return JSON.stringify(valueFor(responseFormat.schema ?? {}));
  const isForced = toolChoice?.type === "required" || toolChoice?.type === "tool";
  const wanted = toolChoice?.type === "tool" ? toolChoice.toolName : tools[0]?.name;
  const forced = isForced ? tools.find(({ name }) => name === wanted) : undefined;
  if (forced?.type !== "function") return "Hello.";
  return { call: forced.name, input: valueFor(forced.inputSchema) };
}

const createModel = (modelId: string) =>
  Object.assign(scriptedModel(answer, { modelId }), { supportsStructuredOutputs: true });

/** The exports of the packages that the documentation uses. */
export const openai = createModel;
export const anthropic = createModel;
export const createOpenAI = () => createModel;
