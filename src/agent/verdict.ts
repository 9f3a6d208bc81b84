import type { Message } from "../protocol/message.ts";
import { isBlocks, isMessage, isResultState } from "./check-message.ts";
import type { ActingVerdict, ModelCall, ReasoningVerdict, ToolResult } from "./hook.ts";
import { isRecord } from "./plain.ts";

// What hooks return is read here, at each point that takes something: one of the forms that its type has, or an error
// that says what came instead. Undefined and null never get here: they leave things as they are.

/** What a hook makes of a model call. The messages that it was given are known to be good. */
export function readModelCall(returned: unknown, given: ModelCall): ModelCall {
  const isKnown = (message: unknown, index: number) => message === given.messages[index];
  if (isModelCall(returned, isKnown)) return returned;
  throw unfit(returned, "a model call with messages, system, tools and options");
}

/** Whether something is a model call; messages that are known are not looked at. */
export function isModelCall(
  value: unknown,
  isKnown: (message: unknown, index: number) => boolean = () => false,
): value is ModelCall {
  return (
    isRecord(value) &&
    Array.isArray(value.messages) &&
    value.messages.every((one, index) => isKnown(one, index) || isMessage(one)) &&
    typeof value.system === "string" &&
    Array.isArray(value.tools) &&
    value.tools.every((tool) => isRecord(tool) && typeof tool.name === "string") &&
    isRecord(value.options)
  );
}

/** What a hook makes of a model's reply. */
export function readReasoningVerdict(
  returned: unknown,
): NonNullable<ReasoningVerdict> | { readonly stop: boolean } {
  if (isStop(returned)) return returned;
  if (isRecord(returned) && "gotoReasoning" in returned) {
    const { gotoReasoning: messages } = returned;
    if (Array.isArray(messages) && messages.every(isMessage)) return { gotoReasoning: messages };
  } else if (isReply(returned)) return returned;
  throw unfit(returned, "a message, { stop: true } or { gotoReasoning: messages }");
}

/** What a hook makes of a reply that it can only edit. */
export function readReply(returned: unknown): Message {
  if (isReply(returned)) return returned;
  throw unfit(returned, "a message");
}

/** What a hook makes of a call. */
export function readActingVerdict(returned: unknown): NonNullable<ActingVerdict> {
  if (isRecord(returned)) {
    const { result, name } = returned;
    if (typeof result === "string" || isBlocks(result)) return { result };
    const isCall = !("result" in returned) && typeof name === "string" && name !== "";
    if (isCall) return returned as unknown as NonNullable<ActingVerdict>;
  }
  throw unfit(returned, "a call with a name, or { result: text or blocks }");
}

/** What a hook makes of a call's result. */
export function readResultVerdict(returned: unknown): ToolResult | { readonly stop: boolean } {
  if (isStop(returned)) return returned;
  if (isRecord(returned) && isResultState(returned.state) && isBlocks(returned.output)) {
    return returned as unknown as ToolResult;
  }
  throw unfit(returned, "a result with state and output, or { stop: true }");
}

/** Only true stops; false is a way to say that it goes on. */
function isStop(returned: unknown): returned is { readonly stop: boolean } {
  return isRecord(returned) && typeof returned.stop === "boolean";
}

/** A call's id tells its result from others, so no two calls of a reply may share one. */
function isReply(returned: unknown): returned is Message {
  if (!isRecord(returned) || !isBlocks(returned.content)) return false;
  const ids = returned.content.flatMap((block) => (block.type === "tool_use" ? [block.id] : []));
  return new Set(ids).size === ids.length;
}

function unfit(returned: unknown, wanted: string): Error {
  return new Error(`it returned ${inShort(returned)}, which is not ${wanted}.`);
}

function inShort(value: unknown): string {
  try {
    const json = JSON.stringify(value) ?? String(value);
    return json.length > 80 ? `${json.slice(0, 80)}…` : json;
  } catch {
    return `a ${typeof value}`;
  }
}
