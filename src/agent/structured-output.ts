import type { StandardSchema } from "../protocol/agent.ts";
import { RivuletError } from "../protocol/error.ts";
import type { Message } from "../protocol/message.ts";
import { textOf } from "../protocol/message.ts";
import { supportsResponseFormat } from "./model/response-format.ts";
import { strictSchema } from "./model/strict-schema.ts";
import { isSpoken } from "./next.ts";
import type { TaskRun } from "./task-run.ts";
import { jsonOf, reasonOf } from "./tool/result.ts";
import { type JsonSchema, jsonSchema } from "./tool/schema.ts";
import { type Tool, tool } from "./tool/tool.ts";
import { patienceOf, untilCancelled } from "./until-cancelled.ts";

/** How often a model may get its structured answer wrong. */
const maxTries = 3;
const tools = new WeakMap<TaskRun, Tool>();

/** How this task's answer is to be structured, if it is: by the model itself, or through a tool. */
function structuredWay(task: TaskRun): "native" | "tool" | undefined {
  if (task.record.outputSchema === undefined) return undefined;
  return nativeSchema(task) ? "native" : "tool";
}

/** The schema that the model itself is to keep to, if there is one and it can. */
export function nativeSchema({ record, settings, messages }: TaskRun): JsonSchema | undefined {
  if (record.outputSchema === undefined) return undefined;
  const tools = settings.toolkit.active(messages, settings.name).length > 0;
  if (!supportsResponseFormat(settings.models, { tools })) return undefined;
  return strictSchema(record.outputSchema as JsonSchema);
}

/** The name of the tool that takes the answer of a model which cannot keep to a schema by itself; no other has it. */
function structuredName({ settings }: TaskRun): string {
  const name = "generate_response";
  const isTaken = (one: string) => settings.toolkit.find(one) !== undefined;
  if (!isTaken(name)) return name;
  for (let count = 2; ; count++) if (!isTaken(`${name}_${count}`)) return `${name}_${count}`;
}

/** The tool through which the model hands in its answer. */
export function structuredTool(task: TaskRun): Tool | undefined {
  if (structuredWay(task) !== "tool") return undefined;
  const known = tools.get(task);
  if (known) return known;
  const schema = task.record.outputSchema as JsonSchema;
  const made = tool({
    name: structuredName(task),
    description:
      "Hands in the final answer, in the form that the caller asked for. Call it once you have everything.",
    input: jsonSchema(isObjectSchema(schema) ? schema : wrapped(schema)),
    async execute(input) {
      const sent = input as { response?: unknown };
      const answer = await validated(task, isObjectSchema(schema) ? sent : sent.response);
      if (answer.type === "wrong") throw new Error(answer.problem);
      return "The answer was accepted.";
    },
  });
  tools.set(task, made);
  return made;
}

/** What a transcript says about the structured answer. */
export type StructuredState =
  | { readonly type: "found"; readonly value: unknown; readonly message: Message }
  | { readonly type: "wrong"; readonly problem: string }
  | { readonly type: "none" };

/** Finds and validates the answer that the last reply of this task gave. */
export async function structuredState(task: TaskRun): Promise<StructuredState> {
  const way = structuredWay(task);
  if (way === undefined) return { type: "none" };
  const mine = task.messages.filter((message) => message.metadata?.taskId === task.ref.taskId);
  const reply = mine.findLast((message) => message.role === "assistant");
  if (reply === undefined) return { type: "none" };
  if (task.messages.slice(task.messages.indexOf(reply) + 1).some(asksForMore))
    return { type: "none" };
  if (way === "native") {
    if (reply.content.some((block) => block.type === "tool_use")) return { type: "none" };
    const parsed = parse(textOf(reply.content));
    if ("problem" in parsed) return { type: "wrong", problem: parsed.problem };
    return found(reply, await validated(task, parsed.value));
  }
  const name = structuredName(task);
  const call = reply.content.findLast((block) => block.type === "tool_use" && block.name === name);
  if (call?.type !== "tool_use") {
    const talked =
      textOf(reply.content).trim() !== "" && !reply.content.some((b) => b.type === "tool_use");
    return talked
      ? { type: "wrong", problem: `Call the tool ${name} with your answer.` }
      : { type: "none" };
  }
  const result = mine
    .flatMap((message) => message.content)
    .find((block) => block.type === "tool_result" && block.id === call.id);
  if (result?.type !== "tool_result" || result.state !== "success") return { type: "none" };
  const schema = task.record.outputSchema as JsonSchema;
  const sent = call.input as { response?: unknown };
  return found(reply, await validated(task, isObjectSchema(schema) ? sent : sent.response));
}

/** Whether a message wants another reply than the one before it. The results of that one's calls belong to it. */
function asksForMore({ content, metadata }: Message): boolean {
  if (metadata?.goto === true) return true;
  return content.some((block) => isSpoken(block) && block.type !== "tool_result");
}

function found(message: Message, answer: Awaited<ReturnType<typeof validated>>): StructuredState {
  if (answer.type === "wrong") return answer;
  refuseUnlessJson(answer.value);
  return { type: "found", value: answer.value, message };
}

/** The answer is stored and sent, so what the caller's schema makes of it has to be JSON. No other try would help. */
function refuseUnlessJson(value: unknown): void {
  try {
    jsonOf(value);
  } catch (error) {
    throw new RivuletError(
      "structured_output_not_json",
      `The output schema makes something of the answer that is not JSON: ${reasonOf(error)}.`,
      { cause: error, hint: "Let the schema give plain values, and convert them after the call." },
    );
  }
}

/** How many tries this task has used; an error once there are none left. */
export function refuseTooManyTries(task: TaskRun): void {
  if (task.record.outputSchema === undefined) return;
  const mine = task.messages.filter((message) => message.metadata?.taskId === task.ref.taskId);
  const name = structuredName(task);
  const wrong = mine.filter(
    (message) =>
      message.metadata?.structuredRetry === true ||
      message.content.some(
        (block) => block.type === "tool_result" && block.name === name && block.state === "error",
      ),
  );
  if (wrong.length < maxTries) return;
  throw new RivuletError(
    "structured_output_invalid",
    `The model did not give an answer that fits the schema in ${maxTries} tries.`,
    { hint: "Make the schema simpler, describe its fields, or use a stronger model." },
  );
}

/** What the caller's schema says of an answer; in another process than the caller's, its JSON Schema has to do. */
async function validated(
  task: TaskRun,
  answer: unknown,
): Promise<{ type: "right"; value: unknown } | { type: "wrong"; problem: string }> {
  const schema: StandardSchema =
    task.caller.output ?? jsonSchema(task.record.outputSchema as JsonSchema);
  const result = await untilCancelled(patienceOf(task), () => schema["~standard"].validate(answer));
  if (result.issues === undefined) return { type: "right", value: result.value };
  const problems = result.issues.map(({ path = [], message: text }) => {
    const keys = path.map((part) => String(typeof part === "object" ? part.key : part));
    return `${keys.join(".") || "the answer"}: ${text}`;
  });
  return { type: "wrong", problem: `Your answer does not fit: ${problems.join("; ")}` };
}

function parse(text: string): { value: unknown } | { problem: string } {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return { problem: "Your answer is not JSON. Reply with the JSON document alone." };
  }
}

function isObjectSchema(schema: JsonSchema): boolean {
  return schema.type === "object";
}

/** Tools take objects: any other answer is their one field. */
function wrapped(schema: JsonSchema): JsonSchema {
  return { type: "object", properties: { response: schema }, required: ["response"] };
}
