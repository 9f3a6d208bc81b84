import type { StandardIssue, StandardResult, StandardSchema } from "../protocol/agent.ts";
import { RivuletError } from "../protocol/error.ts";
import type { Message } from "../protocol/message.ts";
import { textOf } from "../protocol/message.ts";
import { supportsResponseFormat } from "./model/response-format.ts";
import { strictSchema } from "./model/strict-schema.ts";
import { isSpoken } from "./next.ts";
import { ranCall } from "./ran-call.ts";
import type { TaskRun } from "./task-run.ts";
import { readArguments, type SentArguments } from "./tool/arguments.ts";
import { jsonOf, reasonOf } from "./tool/result.ts";
import { type JsonSchema, jsonSchema } from "./tool/schema.ts";
import { type Tool, tool } from "./tool/tool.ts";
import { isCancel, patienceOf, untilCancelled } from "./until-cancelled.ts";
import { wrappedSchema } from "./wrapped-schema.ts";

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
  const made = tool({
    name: structuredName(task),
    description:
      "Hands in the final answer, in the form that the caller asked for. Call it once you have everything.",
    input: handedIn(task, () => {}),
    execute: () => "The answer was accepted.",
  });
  tools.set(task, made);
  return made;
}

/**
 * What the tool takes, and the answer that it comes to. A schema that fails is no fault of the model's: the answer is
 * accepted then, and whoever looks at it later is told.
 */
function handedIn(task: TaskRun, onFailure: (error: unknown) => void): StandardSchema {
  const schema = task.record.outputSchema as JsonSchema;
  // Tools take objects: any other answer is their one field.
  const isWrapped = schema.type !== "object";
  const document = isWrapped ? wrappedSchema(schema) : schema;
  const convert = () => document;
  const standard = {
    version: 1 as const,
    vendor: "rivulet",
    jsonSchema: { input: convert, output: convert },
    async validate(sent: unknown): Promise<StandardResult<unknown>> {
      const { response } = sent as { response?: unknown };
      if (isWrapped && response === undefined)
        return { issues: [{ message: "It is missing.", path: ["response"] }] };
      try {
        const result = await validated(task, isWrapped ? response : sent);
        if (result.issues === undefined || !isWrapped) return result;
        const issues = result.issues.map((issue) => ({
          ...issue,
          path: ["response", ...(issue.path ?? [])],
        }));
        return { issues };
      } catch (error) {
        onFailure(error);
        return { value: sent };
      }
    },
  };
  return { "~standard": standard };
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
    const result = await validated(task, parsed.value);
    return result.issues
      ? { type: "wrong", problem: problemOf(result.issues) }
      : found(reply, result.value);
  }
  const name = structuredName(task);
  if (!reply.content.some(({ type }) => type === "tool_use")) {
    if (textOf(reply.content).trim() === "") return { type: "none" };
    return { type: "wrong", problem: `Call the tool ${name} with your answer.` };
  }
  const sent = acceptedCall(reply, mine, name);
  if (sent === undefined) return { type: "none" };
  let failure: unknown;
  const input = handedIn(task, (error) => {
    failure = error;
  });
  const read = await untilCancelled(patienceOf(task), () =>
    readArguments({ name, input, preset: {} }, sent),
  );
  if (failure !== undefined) throw failure;
  return read.ok ? found(reply, read.input) : { type: "wrong", problem: read.message };
}

/** The last call of a reply to the tool of this name, as it was run, if it was accepted. */
function acceptedCall(
  reply: Message,
  messages: readonly Message[],
  name: string,
): SentArguments | undefined {
  const results = messages.flatMap(({ content }) =>
    content.filter((block) => block.type === "tool_result"),
  );
  const calls = reply.content.flatMap((block) => {
    if (block.type !== "tool_use") return [];
    const result = results.find(({ id }) => id === block.id);
    const ran = result ? ranCall(block, result) : block;
    return [{ call: block, ran, isAccepted: result?.state === "success" && ran?.name === name }];
  });
  const last = calls.findLast(({ call, ran }) => call.name === name || ran?.name === name);
  return last?.isAccepted ? last.ran : undefined;
}

/** Whether a message wants another reply than the one before it. The results of that one's calls belong to it. */
function asksForMore({ content, metadata }: Message): boolean {
  if (metadata?.goto === true) return true;
  return content.some((block) => isSpoken(block) && block.type !== "tool_result");
}

function found(message: Message, value: unknown): StructuredState {
  refuseUnlessJson(value);
  return { type: "found", value, message };
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
async function validated(task: TaskRun, answer: unknown): Promise<StandardResult<unknown>> {
  const { caller, record, controller } = task;
  try {
    const schema: StandardSchema = caller.output ?? jsonSchema(record.outputSchema as JsonSchema);
    return await untilCancelled(patienceOf(task), () => schema["~standard"].validate(answer));
  } catch (error) {
    if (isCancel(controller.signal, error)) throw error;
    throw new RivuletError(
      "output_schema_failed",
      `The output schema cannot say whether an answer fits: ${reasonOf(error)}.`,
      { cause: error, hint: "A schema tells what is wrong as issues, and throws nothing." },
    );
  }
}

function problemOf(issues: readonly StandardIssue[]): string {
  const problems = issues.map(({ path = [], message: text }) => {
    const keys = path.map((part) => String(typeof part === "object" ? part.key : part));
    return `${keys.join(".") || "the answer"}: ${text}`;
  });
  return `Your answer does not fit: ${problems.join("; ")}`;
}

function parse(text: string): { value: unknown } | { problem: string } {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return { problem: "Your answer is not JSON. Reply with the JSON document alone." };
  }
}
