import { z } from "zod";

// The shapes that clients of Open Responses rely on, written from its OpenAPI document: every required field with its
// type. `looseObject`, because a server may add fields.

const id = z.string().min(1);
const index = z.int().min(0);
const status = z.enum(["in_progress", "completed", "incomplete", "failed"]);
const summaryText = z.looseObject({ type: z.literal("summary_text"), text: z.string() });
const annotation = z.looseObject({
  type: z.enum(["file_citation", "url_citation", "container_file_citation", "file_path"]),
});
const outputText = z.looseObject({
  type: z.literal("output_text"),
  text: z.string(),
  annotations: z.array(annotation),
  logprobs: z.array(z.unknown()),
});

const item = z.discriminatedUnion("type", [
  z.looseObject({
    type: z.literal("message"),
    ...{ id, status, role: z.literal("assistant"), content: z.array(outputText) },
  }),
  z.looseObject({ type: z.literal("reasoning"), id, summary: z.array(summaryText) }),
  z.looseObject({
    type: z.literal("function_call"),
    ...{ id, call_id: id, name: id, arguments: z.string(), status },
  }),
  z.looseObject({
    type: z.literal("mcp_call"),
    ...{ id, name: id, server_label: id, arguments: z.string() },
    ...{ output: z.string().nullable(), error: z.unknown() },
  }),
  z.looseObject({
    type: z.literal("mcp_approval_request"),
    ...{ id, name: id, server_label: id, arguments: z.string() },
  }),
]);

const usage = z.looseObject({
  ...{ input_tokens: index, output_tokens: index, total_tokens: index },
  input_tokens_details: z.looseObject({ cached_tokens: index }),
  output_tokens_details: z.looseObject({ reasoning_tokens: index }),
});
const functionTool = z.looseObject({
  ...{ type: z.literal("function"), name: id, description: z.string().nullable() },
  ...{ parameters: z.record(z.string(), z.unknown()).nullable(), strict: z.boolean().nullable() },
});

/** A response, with all fields that the document requires. */
export const responseResource = z.looseObject({
  ...{ id, object: z.literal("response"), created_at: z.int(), completed_at: z.int().nullable() },
  status: z.enum(["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]),
  incomplete_details: z.looseObject({ reason: z.string() }).nullable(),
  ...{ model: id, previous_response_id: z.string().nullable() },
  instructions: z.string().nullable(),
  output: z.array(item),
  error: z.looseObject({ code: z.string(), message: z.string() }).nullable(),
  ...{ tools: z.array(functionTool), tool_choice: z.enum(["auto", "none", "required"]) },
  ...{ truncation: z.enum(["auto", "disabled"]), parallel_tool_calls: z.boolean() },
  text: z.looseObject({ format: z.looseObject({ type: z.string() }) }),
  ...{ top_p: z.number(), presence_penalty: z.number(), frequency_penalty: z.number() },
  ...{ top_logprobs: z.int(), temperature: z.number(), reasoning: z.unknown().nullable() },
  ...{ user: z.string().nullable(), usage: usage.nullable() },
  ...{ max_output_tokens: z.int().nullable(), max_tool_calls: z.int().nullable() },
  ...{ store: z.boolean(), background: z.boolean(), service_tier: z.string() },
  metadata: z.record(z.string(), z.string()),
  ...{ safety_identifier: z.string().nullable(), prompt_cache_key: z.string().nullable() },
});

const at = { item_id: id, output_index: index };
const onText = { ...at, content_index: index };
const onSummary = { ...at, summary_index: index };
const lifecycle = { response: responseResource };
const fields: Readonly<Record<string, z.ZodRawShape>> = {
  "response.created": lifecycle,
  "response.in_progress": lifecycle,
  "response.completed": lifecycle,
  "response.incomplete": lifecycle,
  "response.failed": lifecycle,
  "response.output_item.added": { output_index: index, item },
  "response.output_item.done": { output_index: index, item },
  "response.content_part.added": { ...onText, part: outputText },
  "response.content_part.done": { ...onText, part: outputText },
  "response.output_text.delta": { ...onText, delta: z.string(), logprobs: z.array(z.unknown()) },
  "response.output_text.done": { ...onText, text: z.string(), logprobs: z.array(z.unknown()) },
  "response.output_text.annotation.added": { ...onText, annotation_index: index, annotation },
  "response.reasoning_summary_part.added": { ...onSummary, part: summaryText },
  "response.reasoning_summary_part.done": { ...onSummary, part: summaryText },
  "response.reasoning_summary_text.delta": { ...onSummary, delta: z.string() },
  "response.reasoning_summary_text.done": { ...onSummary, text: z.string() },
  "response.function_call_arguments.delta": { ...at, delta: z.string() },
  "response.function_call_arguments.done": { ...at, name: id, arguments: z.string() },
  "response.mcp_call_arguments.delta": { ...at, delta: z.string() },
  "response.mcp_call_arguments.done": { ...at, arguments: z.string() },
  "response.mcp_call.in_progress": at,
  "response.mcp_call.completed": at,
  "response.mcp_call.failed": at,
};
const schemas = new Map(
  Object.entries(fields).map(([type, shape]) => [
    type,
    z.looseObject({ type: z.literal(type), sequence_number: index, ...shape }),
  ]),
);

/** Why an event of a stream is not one that clients know; undefined if it is. */
export function eventProblem(event: { readonly type: string }): string | undefined {
  const schema = schemas.get(event.type);
  if (schema === undefined) return `unknown type ${event.type}`;
  const { error } = schema.safeParse(event);
  return error && `${event.type}: ${z.prettifyError(error)}`;
}
