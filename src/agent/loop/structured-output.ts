import { RivuletError, reasonOf } from "../../base/error.ts";
import { isCancel, patienceOf, untilCancelled } from "../../base/time.ts";
import {
  type Message,
  type StandardIssue,
  type StandardResult,
  type StandardSchema,
  textOf,
} from "../../contract/index.ts";
import { answerTexts } from "../base/prompts.ts";
import { supportsResponseFormat } from "../model/resolve.ts";
import { describeIssue, readArguments, type SentArguments } from "../tool/arguments.ts";
import { jsonOf, ranCall } from "../tool/result.ts";
import { type JsonSchema, jsonSchema, standardSchema } from "../tool/schema.ts";
import { type Tool, tool } from "../tool/tool.ts";
import { isSpoken } from "./next.ts";
import { strictSchema, wrappedSchema } from "./output-schema.ts";
import type { AgentSettings } from "./settings.ts";
import type { TaskControl, TaskRun, TaskScope, TaskState, TaskWords } from "./task-run.ts";
import { messagesOf } from "./transcript.ts";

const maxTries = 3;

/** A task as far as its transcript tells its answer. */
export interface AnsweringTask extends TaskWords {
  readonly settings: AgentSettings;
  readonly state: Pick<TaskState, "record">;
  readonly control: Pick<TaskControl, "controller" | "cancelledAt">;
  readonly scope: Pick<TaskScope, "caller">;
}

/** The schema for the response format of the model, if the model and the schema support it. */
export function nativeSchema(task: AnsweringTask): JsonSchema | undefined {
  const { settings } = task;
  const { record } = task.state;
  if (record.outputSchema === undefined) return undefined;
  const tools = settings.toolkit.active(task.transcript.messages, settings.name).length > 0;
  if (!supportsResponseFormat(settings.models, { tools })) return undefined;
  return strictSchema(record.outputSchema as JsonSchema);
}

function structuredName({ settings }: AnsweringTask): string {
  let name = "generate_response";
  for (let n = 2; settings.toolkit.find(name) !== undefined; n++) name = `generate_response_${n}`;
  return name;
}

/** The tool with which a model without response format submits its answer. */
export function structuredTool(task: TaskRun): Tool | undefined {
  if (task.state.record.outputSchema === undefined || nativeSchema(task)) return undefined;
  task.scope.structuredTool ??= tool({
    name: structuredName(task),
    description: answerTexts.description,
    input: answerSchema(task, () => {}),
    readOnly: true,
    execute: () => answerTexts.accepted,
  });
  return task.scope.structuredTool;
}

/** The input schema of the answer tool; an error of the caller's schema accepts the answer and goes to `onFailure`. */
function answerSchema(task: AnsweringTask, onFailure: (error: unknown) => void): StandardSchema {
  const schema = task.state.record.outputSchema as JsonSchema;
  // Tools take objects, so any other answer becomes their only field.
  const isWrapped = schema.type !== "object";
  return standardSchema(isWrapped ? wrappedSchema(schema) : schema, async (sent) => {
    const { response } = sent as { response?: unknown };
    if (isWrapped && response === undefined)
      return { issues: [{ message: answerTexts.missing, path: ["response"] }] };
    try {
      const result = await validate(task, isWrapped ? response : sent);
      if (result.issues === undefined || !isWrapped) return result;
      const inResponse = (path: StandardIssue["path"] = []) => ["response", ...path];
      return { issues: result.issues.map((it) => ({ ...it, path: inResponse(it.path) })) };
    } catch (error) {
      onFailure(error);
      return { value: sent };
    }
  });
}

/** The structured answer of a transcript. */
export type StructuredState =
  | { readonly type: "found"; readonly value: unknown; readonly message: Message }
  | { readonly type: "wrong"; readonly problem: string }
  | { readonly type: "none" };

/** Finds and validates the answer in the last reply of a task. */
export async function structuredState(task: AnsweringTask): Promise<StructuredState> {
  if (task.state.record.outputSchema === undefined) return { type: "none" };
  const mine = messagesOf(task);
  const reply = mine.findLast((message) => message.role === "assistant");
  if (reply === undefined) return { type: "none" };
  if (task.transcript.messages.slice(task.transcript.messages.indexOf(reply) + 1).some(asksForMore))
    return { type: "none" };
  if (nativeSchema(task)) {
    if (reply.content.some((block) => block.type === "tool_use")) return { type: "none" };
    let answer: unknown;
    try {
      answer = JSON.parse(textOf(reply.content));
    } catch {
      return { type: "wrong", problem: answerTexts.notJson };
    }
    const result = await validate(task, answer);
    return result.issues
      ? { type: "wrong", problem: answerTexts.mismatch(result.issues.map(describeIssue)) }
      : found(reply, result.value);
  }
  const name = structuredName(task);
  if (!reply.content.some(({ type }) => type === "tool_use")) {
    if (textOf(reply.content).trim() === "") return { type: "none" };
    return { type: "wrong", problem: answerTexts.callTool(name) };
  }
  const sent = acceptedCall(reply, mine, name);
  if (sent === undefined) return { type: "none" };
  let failure: unknown;
  const input = answerSchema(task, (error) => {
    failure = error;
  });
  const read = await untilCancelled(patienceOf(task), () =>
    readArguments({ name, input, preset: {}, paths: {} }, sent),
  );
  if (failure !== undefined) throw failure;
  return read.ok ? found(reply, read.input) : { type: "wrong", problem: read.message };
}

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

/** Whether a message requires another reply; results of calls do not. */
function asksForMore({ content, metadata }: Message): boolean {
  if (metadata?.goto === true) return true;
  return content.some((block) => isSpoken(block) && block.type !== "tool_result");
}

/** Throws if the caller's schema converts the answer to a value that cannot be stored. */
function found(message: Message, value: unknown): StructuredState {
  try {
    jsonOf(value);
    return { type: "found", value, message };
  } catch (error) {
    throw new RivuletError(
      "structured_output_not_json",
      `The output schema converts the answer to a value that is not JSON: ${reasonOf(error)}.`,
      {
        cause: error,
        hint: "Remove transforms from the schema, and convert the values after the call.",
      },
    );
  }
}

/** Throws when the model has given too many invalid answers. */
export function refuseTooManyTries(task: TaskRun): void {
  if (task.state.record.outputSchema === undefined) return;
  const mine = messagesOf(task);
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
    `The model gave ${maxTries} answers that do not match the schema.`,
    { hint: "Simplify the schema, describe its fields, or use a stronger model." },
  );
}

/** Validates an answer with the caller's schema, or in another process with its JSON Schema. */
async function validate(task: AnsweringTask, answer: unknown): Promise<StandardResult<unknown>> {
  const { outputSchema } = task.state.record;
  try {
    const schema: StandardSchema =
      task.scope.caller.output ?? jsonSchema(outputSchema as JsonSchema);
    return await untilCancelled(patienceOf(task), () => schema["~standard"].validate(answer));
  } catch (error) {
    if (isCancel(task.control.controller.signal, error)) throw error;
    throw new RivuletError(
      "output_schema_failed",
      `The output schema threw while validating an answer: ${reasonOf(error)}.`,
      { cause: error, hint: "Report problems as issues instead of throwing." },
    );
  }
}
