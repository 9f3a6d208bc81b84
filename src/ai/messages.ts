import { createIds } from "../base/id.ts";
import { listOf, readArgument, record, required } from "../base/options.ts";
import { isObject } from "../base/plain.ts";
import {
  type Block,
  isMessage,
  type Message,
  type ToolResultBlock,
  type ToolUseBlock,
} from "../contract/index.ts";
import {
  type AiContent,
  type AiFile,
  type AiJson,
  type AiOptions,
  type AiOutput,
  contentOf,
  fileOf,
  optionsOf,
  outputOf,
  readContent,
  readOutput,
  signatureOf,
  unsupported,
} from "./parts.ts";

const messagesField = required(listOf({ fits: isMessage, expected: "a message" }));

/** A message of the AI SDK, a `ModelMessage` or a `UIMessage`; `fromAiMessages` checks the rest. */
export type AiMessage =
  | { readonly role: string; readonly content: unknown }
  | { readonly role: string; readonly id?: string; readonly parts: readonly unknown[] };

/** A `ModelMessage` of the AI SDK. */
export type AiModelMessage =
  | { role: "system"; content: string }
  | { role: "user"; content: AiContent[] }
  | { role: "assistant"; content: AiAssistantPart[] }
  | { role: "tool"; content: AiToolResultPart[] };
/** A part of what a model wrote. */
export type AiAssistantPart =
  | { type: "text" | "reasoning"; text: string; providerOptions?: AiOptions }
  | AiFile
  | (AiCall & { type: "tool-call"; input: unknown; providerOptions?: AiOptions });
/** The result of a call. */
export type AiToolResultPart = AiCall & { type: "tool-result"; output: AiOutput };
interface AiCall {
  toolCallId: string;
  toolName: string;
}

/** A `UIMessage` of the AI SDK. */
export interface AiUiMessage {
  id: string;
  role: "system" | "user" | "assistant";
  parts: AiUiPart[];
}
/** A part of a `UIMessage`. */
export type AiUiPart =
  | { type: "step-start" }
  | { type: "text" | "reasoning"; text: string; state?: "done"; providerMetadata?: AiOptions }
  | { type: "file"; mediaType: string; url: string }
  | ({ type: `tool-${string}`; toolCallId: string; callProviderMetadata?: AiOptions } & AiUiState);
/** How a call of a `UIMessage` ended. */
export type AiUiState =
  | { state: "input-available"; input: unknown }
  | { state: "output-available"; input: unknown; output: unknown }
  | { state: "output-error"; input: unknown; errorText: string }
  | {
      state: "output-denied";
      input: unknown;
      approval: { id: string; approved: false; reason?: string };
    };

const ids = createIds();

/** Converts `ModelMessage[]` or `UIMessage[]` of the AI SDK to messages that `call` takes as history. */
export function fromAiMessages(messages: readonly AiMessage[]): Message[] {
  readArgument("messages", messages, required(listOf(record)));
  return messages.flatMap((message, index) => {
    const place = `messages[${index}]`;
    if (!isObject(message)) throw unsupported(place, message);
    return "parts" in message ? fromUi(message, place) : fromModel(message, place);
  });
}

type Fields = Readonly<Record<string, unknown>>;

function messageOf(role: Message["role"], content: readonly Block[], id?: unknown): Message {
  return { id: typeof id === "string" && id !== "" ? id : ids.next("msg"), role, content };
}

function fromModel({ role, content }: Fields, place: string): Message[] {
  if (role !== "system" && role !== "user" && role !== "assistant" && role !== "tool") {
    throw unsupported(`${place}.role`, role);
  }
  if (typeof content === "string") return [messageOf(role, [{ type: "text", text: content }])];
  if (!Array.isArray(content)) throw unsupported(`${place}.content`, content);
  const blocks: Block[] = [];
  const results: Block[] = [];
  for (const [at, part] of content.entries()) {
    const here = `${place}.content[${at}]`;
    if (!isObject(part)) throw unsupported(here, part);
    const { type, providerOptions } = part;
    if (type === "tool-result") results.push(resultBlock(part, readOutput(part.output, here)));
    else if (type === "tool-call") blocks.push(callBlock(part, part.toolName, providerOptions));
    else blocks.push(...textBlock(part, providerOptions, here));
  }
  // A provider's own tool has its result in the message of its call.
  const messages = blocks.length > 0 || results.length === 0 ? [messageOf(role, blocks)] : [];
  return results.length > 0 ? [...messages, messageOf("tool", results)] : messages;
}

/** Parts of the AI SDK's own bookkeeping, which no model reads. */
const ignored =
  /^(tool-approval-re\w+|custom|reasoning-file|source-url|source-document|step-start|data-.*)$/;

function textBlock(part: Fields, options: unknown, place: string): readonly Block[] {
  const { type, text } = part;
  if (ignored.test(String(type))) return [];
  const signature = signatureOf(options);
  if (type === "reasoning") return [{ type: "thinking", text: String(text), ...signature }];
  return type === "text"
    ? [{ type, text: String(text), ...signature }]
    : [readContent(part, place)];
}

function callBlock({ toolCallId, input }: Fields, name: unknown, options: unknown): ToolUseBlock {
  const id = String(toolCallId);
  return { type: "tool_use", id, name: String(name), input: input ?? {}, ...signatureOf(options) };
}

function resultBlock(
  { toolCallId, toolName }: Fields,
  result: Pick<ToolResultBlock, "output" | "state">,
): ToolResultBlock {
  return { type: "tool_result", id: String(toolCallId), name: String(toolName), ...result };
}

function fromUi({ role, id, parts }: Fields, place: string): Message[] {
  if (role !== "system" && role !== "user" && role !== "assistant") {
    throw unsupported(`${place}.role`, role);
  }
  if (!Array.isArray(parts)) throw unsupported(`${place}.parts`, parts);
  const messages: Message[] = [];
  let blocks: Block[] = [];
  let results: ToolResultBlock[] = [];
  const endStep = () => {
    const own = messages.length === 0 ? id : undefined;
    if (blocks.length > 0) messages.push(messageOf(role, blocks, own));
    if (results.length > 0) messages.push(messageOf("tool", results));
    [blocks, results] = [[], []];
  };
  for (const [at, part] of parts.entries()) {
    const here = `${place}.parts[${at}]`;
    if (!isObject(part)) throw unsupported(here, part);
    const type = String(part.type);
    if (type === "step-start") endStep();
    else if (type === "steering-message") {
      endStep();
      messages.push(...fromUi({ ...part, role: "user" }, here));
    } else if (type === "dynamic-tool" || /^tool-/.test(type)) {
      const toolName = type === "dynamic-tool" ? part.toolName : type.slice("tool-".length);
      blocks.push(callBlock(part, toolName, part.callProviderMetadata));
      const result = uiResult(part, here);
      if (result) results.push(resultBlock({ ...part, toolName }, result));
    } else blocks.push(...textBlock(part, part.providerMetadata, here));
  }
  endStep();
  return messages;
}

function uiResult(part: Fields, place: string) {
  const { state, output, errorText, approval } = part;
  if (state === "output-error") {
    return readOutput({ type: "error-text", value: errorText ?? "" }, place);
  }
  if (state === "output-denied") {
    const { reason } = isObject(approval) ? approval : {};
    return readOutput({ type: "execution-denied", reason }, place);
  }
  if (state !== "output-available") return undefined;
  if (isObject(output) && output.type === "content" && Array.isArray(output.value)) {
    return readOutput(output, place);
  }
  return typeof output === "string"
    ? readOutput({ type: "text", value: output }, place)
    : readOutput({ type: "json", value: output ?? null }, place);
}

/** Converts messages to `ModelMessage[]` of the AI SDK; names, tags and control blocks are left out. */
export function toModelMessages(messages: readonly Message[]): AiModelMessage[] {
  readArgument("messages", messages, messagesField);
  return messages.flatMap(({ role, content }): AiModelMessage[] => {
    const results = content.flatMap((block) => (block.type === "tool_result" ? [block] : []));
    const toolParts = results.map((block) => ({
      ...callOf(block),
      type: "tool-result" as const,
      output: outputOf(block.output, block.state),
    }));
    const tool: AiModelMessage[] = results.length > 0 ? [{ role: "tool", content: toolParts }] : [];
    if (role === "system") {
      const texts = content.flatMap((block) => ("text" in block ? [block.text] : []));
      return [{ role, content: texts.join("\n\n") }];
    }
    if (role === "assistant") {
      const parts = content.flatMap(assistantPart);
      return parts.length > 0 ? [{ role, content: parts }, ...tool] : tool;
    }
    const parts = content.flatMap(contentOf);
    return parts.length > 0 ? [...tool, { role: "user", content: parts }] : tool;
  });
}

function callOf({ id, name }: { readonly id: string; readonly name: string }): AiCall {
  return { toolCallId: id, toolName: name };
}

function assistantPart(block: Block): AiAssistantPart[] {
  if ("source" in block) return [fileOf(block)];
  if (block.type !== "text" && block.type !== "thinking" && block.type !== "tool_use") return [];
  const providerOptions = optionsOf(block);
  const options = providerOptions && { providerOptions };
  if (block.type === "tool_use") {
    return [{ type: "tool-call", ...callOf(block), input: block.input ?? {}, ...options }];
  }
  return [{ type: block.type === "text" ? "text" : "reasoning", text: block.text, ...options }];
}

/** Converts messages to `UIMessage[]` of the AI SDK: all that an agent does between two requests is one message. */
export function toUiMessages(messages: readonly Message[]): AiUiMessage[] {
  readArgument("messages", messages, messagesField);
  const results = new Map<string, ToolResultBlock>();
  for (const { content } of messages) {
    for (const block of content) if (block.type === "tool_result") results.set(block.id, block);
  }
  const converted: AiUiMessage[] = [];
  for (const { id, role, content } of messages) {
    const parts = content.flatMap((block) => uiPart(block, results));
    if (parts.length === 0 || role === "tool") continue;
    const last = converted.at(-1);
    if (role !== "assistant") converted.push({ id, role, parts });
    else if (last?.role === "assistant") last.parts.push({ type: "step-start" }, ...parts);
    else converted.push({ id, role, parts: [{ type: "step-start" }, ...parts] });
  }
  return converted;
}

function uiPart(block: Block, results: ReadonlyMap<string, ToolResultBlock>): AiUiPart[] {
  if ("source" in block) {
    const file = fileOf(block);
    if (file.type === "text") return [{ ...file, state: "done" }];
    const { mediaType, data } = file;
    const url = data.type === "url" ? data.url.href : `data:${mediaType};base64,${data.data}`;
    return [{ type: "file", mediaType, url }];
  }
  if (block.type !== "text" && block.type !== "thinking" && block.type !== "tool_use") return [];
  const metadata = optionsOf(block);
  if (block.type !== "tool_use") {
    const type = block.type === "text" ? "text" : "reasoning";
    const providerMetadata = metadata && { providerMetadata: metadata };
    return [{ type, text: block.text, state: "done", ...providerMetadata }];
  }
  const { id: toolCallId, name, input = {} } = block;
  const callProviderMetadata = metadata && { callProviderMetadata: metadata };
  const state = uiState(input, toolCallId, results.get(toolCallId));
  return [{ type: `tool-${name}`, toolCallId, ...callProviderMetadata, ...state }];
}

function uiState(input: unknown, id: string, result: ToolResultBlock | undefined): AiUiState {
  if (result === undefined) return { state: "input-available", input };
  const output = outputOf(result.output, result.state);
  switch (output.type) {
    case "execution-denied": {
      const { reason } = output;
      const approval = { id, approved: false as const, ...(reason !== undefined && { reason }) };
      return { state: "output-denied", input, approval };
    }
    case "error-text":
      return { state: "output-error", input, errorText: output.value };
    case "content":
      return { state: "output-available", input, output: output as unknown as AiJson };
    default:
      return { state: "output-available", input, output: output.value };
  }
}
