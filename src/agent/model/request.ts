import type {
  LanguageModelV2Prompt,
  LanguageModelV3Prompt,
  LanguageModelV3ToolResultOutput,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4ToolResultPart,
} from "@ai-sdk/provider";
import { invalid } from "../../base/options.ts";
import { isObject } from "../../base/plain.ts";
import { RecentMap } from "../../base/recent-map.ts";
import type {
  Block,
  CompactionBlock,
  MediaBlock,
  Message,
  TextBlock,
  ThinkingBlock,
  ToolResultBlock,
  ToolUseBlock,
} from "../../contract/index.ts";
import { agentSays, placeholders, userSays } from "../base/prompts.ts";
import { maxArgumentBytes } from "../tool/arguments.ts";
import { type LanguageModel, supportsResponseFormat } from "./resolve.ts";
import type { TurnRequest } from "./turn.ts";

type Version = LanguageModel["specificationVersion"];
type Prompt = LanguageModelV2Prompt | LanguageModelV3Prompt | LanguageModelV4Prompt;

// The versions differ only in media, so the types of v4 serve for all of them.
type PromptMessage = LanguageModelV4Message;
type AssistantPart = Extract<PromptMessage, { role: "assistant" }>["content"][number];
type UserPart = Extract<PromptMessage, { role: "user" }>["content"][number];
type AnyUserPart = Extract<Prompt[number], { role: "user" }>["content"][number];
type Output = LanguageModelV4ToolResultPart["output"];
type OutputPart =
  | Extract<Output, { type: "content" }>["value"][number]
  | Extract<LanguageModelV3ToolResultOutput, { type: "content" }>["value"][number]
  | { readonly type: "media"; readonly data: string; readonly mediaType: string };

/** A request as call options of the AI SDK; tools of the provider join those of the agent. */
export function callOptions(model: LanguageModel, request: TurnRequest): Record<string, unknown> {
  const { messages, name, systemPrompt, tools, responseSchema } = request;
  const { tools: _, toolChoice = "auto", ...options } = request.options;
  const own = tools.map(({ name, description, inputSchema }) => ({
    type: "function",
    name,
    description,
    inputSchema,
  }));
  const offered = [...own, ...providerTools(request.options)];
  return {
    ...options,
    prompt: toPrompt(messages, systemPrompt, model.specificationVersion, name, request.offset),
    // Providers reject a tool choice without tools.
    ...(offered.length > 0 && {
      tools: offered,
      toolChoice: typeof toolChoice === "string" ? { type: toolChoice } : toolChoice,
    }),
    ...(responseSchema &&
      supportsResponseFormat(model, { tools: tools.length > 0 }) && {
        responseFormat: { type: "json", ...responseSchema },
      }),
  };
}

/** The tools among call options: those that the provider runs, such as a web search. */
export function providerTools({
  tools = [],
}: Readonly<Record<string, unknown>>): readonly unknown[] {
  const isNamed = (tool: unknown) =>
    isObject(tool) && typeof tool.type === "string" && typeof tool.name === "string";
  if (Array.isArray(tools) && tools.every(isNamed)) return tools;
  throw invalid(
    "`modelOptions.tools` must be an array of provider tools, each with a `type` and a `name`.",
    'Pass `modelOptions: { tools: [{ type: "provider", id: "openai.web_search", name: "web_search", args: {} }] }`. Pass your own tools as `tools` of the agent.',
  );
}

/** Whether call options forbid all tools. */
export function forbidsTools({ toolChoice }: Readonly<Record<string, unknown>>): boolean {
  return toolChoice === "none" || (isObject(toolChoice) && toolChoice.type === "none");
}

/** The parts of a prompt for one message, without the results of its calls. */
interface View {
  readonly isOther: boolean;
  readonly system: string;
  readonly assistant: PromptMessage | undefined;
  readonly calls: readonly ToolUseBlock[];
  readonly user: PromptMessage | undefined;
}
/** The prompt for the beginning of a transcript. */
interface Assembly {
  readonly name: string | undefined;
  /** Transcripts grow in place; the prompt has the first `length` messages. */
  transcript: readonly Message[];
  length: number;
  readonly systems: string[];
  readonly prompt: PromptMessage[];
}

const shortTranscript = 8;
const longArgumentsShown = 1_000;

// Messages are immutable and a transcript only grows, so each request continues the prompt of the previous one, and a
// late turn costs no more than an early one.
const newCache = () => ({
  views: new RecentMap<Message, View>(),
  assemblies: new RecentMap<Message, Assembly>(), // by the first message of the transcript
});

const caches = { v2: newCache(), v3: newCache(), v4: newCache() };

/** The prompt for the messages of a session from index `offset` on: one result after each call, no control blocks. */
export function toPrompt(
  messages: readonly Message[],
  system: string,
  version: Version,
  name?: string,
  offset = 0,
): Prompt {
  const { assemblies } = caches[version];
  // A short transcript is read faster than remembered.
  const first = messages.length > shortTranscript ? messages[0] : undefined;
  const known = first && assemblies.get(first);
  const continued =
    known && known.name === name && isContinued(known, messages) ? known : undefined;
  const compaction = lastCompaction(messages, continued?.length ?? 0);
  const assembly = compaction
    ? compactedAssembly(name, messages, compaction, offset)
    : (continued ?? newAssembly(name, messages));
  const read = first ? viewOf : createView;
  const complete = extend(assembly, messages, version, read, compaction?.pruned);
  // A prompt with a pending result cannot be continued.
  if (first && complete) assemblies.set(first, assembly);
  else if (first) assemblies.delete(first);
  // In one message at the head, because several providers reject system messages between turns.
  const { systems, prompt } = assembly;
  const instructions = system === "" ? systems : [system, ...systems];
  if (instructions.length === 0) return prompt.slice();
  const head: PromptMessage[] = [{ role: "system", content: instructions.join("\n\n") }];
  return head.concat(prompt); // a spread after other entries would iterate
}

/** Adds the messages that an assembly lacks; returns false if the result of a call is pending. */
function extend(
  assembly: Assembly,
  messages: readonly Message[],
  version: Version,
  read: typeof createView,
  pruned: CompactionBlock["pruned"],
): boolean {
  const { systems, prompt, name } = assembly;
  let complete = true;
  for (let index = assembly.length; index < messages.length; index++) {
    const view = read(messages[index] as Message, version, name);
    if (view.system !== "") systems.push(view.system);
    if (view.assistant !== undefined) prompt.push(view.assistant);
    if (view.calls.length > 0) {
      const results = resultsOf(view.calls, messages, index, version, pruned);
      complete &&= results.complete;
      prompt.push(results.message);
    }
    if (view.user !== undefined) prompt.push(view.user);
  }
  assembly.transcript = messages;
  assembly.length = messages.length;
  return complete;
}

function newAssembly(name: Assembly["name"], transcript: readonly Message[], length = 0) {
  return { name, transcript, length, systems: [], prompt: [] } as Assembly;
}

/** The prompt after a compaction: its summary, and what it keeps. */
function compactedAssembly(
  name: Assembly["name"],
  transcript: readonly Message[],
  { keepFrom, summary: text }: CompactionBlock,
  offset: number,
): Assembly {
  const assembly = newAssembly(name, transcript, Math.max(0, keepFrom - offset));
  if (text !== "") assembly.prompt.push({ role: "user", content: [{ type: "text", text }] });
  return assembly;
}

/** Whether messages begin with those of an assembly; the same transcript can only have grown. */
function isContinued({ transcript, length }: Assembly, messages: readonly Message[]): boolean {
  if (transcript === messages) return true;
  let at = Math.min(length, messages.length);
  while (at > 0 && transcript[at - 1] === messages[at - 1]) at -= 1;
  return at === 0 && length <= messages.length;
}

function lastCompaction(messages: readonly Message[], from: number): CompactionBlock | undefined {
  for (let index = messages.length - 1; index >= from; index--) {
    for (const block of (messages[index] as Message).content) {
      if (block.type === "compaction") return block;
    }
  }
  return undefined;
}

function viewOf(message: Message, version: Version, name: string | undefined): View {
  const { views } = caches[version];
  const cached = views.get(message);
  if (cached?.isOther === isOfOther(message, name)) return cached;
  const view = createView(message, version, name);
  // The results of calls have no view of their own; half of a long transcript needs no entry.
  if (view.system !== "" || view.assistant || view.user) views.set(message, view);
  return view;
}

function createView(message: Message, version: Version, name: string | undefined): View {
  const isOther = isOfOther(message, name);
  const parts: ViewParts = { system: [], assistant: [], calls: [], user: [] };
  const role = isOther ? "user" : message.role;
  for (const block of message.content) addBlock(parts, block, role, version);
  const { system, assistant, calls, user } = parts;
  // Providers reject thinking that nothing follows.
  const end = assistant.findLastIndex(({ type }) => type !== "reasoning") + 1;
  const content = assistant.slice(0, end);
  const introduction = introductionOf(message, isOther);
  if (introduction !== undefined && user.length > 0)
    user.unshift({ type: "text", text: introduction });
  return {
    isOther,
    system: system.join("\n\n"),
    assistant: content.length > 0 ? { role: "assistant", content } : undefined,
    calls,
    user: user.length > 0 ? { role: "user", content: user } : undefined,
  };
}

interface ViewParts {
  readonly system: string[];
  readonly assistant: AssistantPart[];
  readonly calls: ToolUseBlock[];
  readonly user: UserPart[];
}

function addBlock(parts: ViewParts, block: Block, role: Message["role"], version: Version): void {
  switch (block.type) {
    case "text":
      if (block.text.trim() === "") return; // several providers reject it
      if (role === "assistant")
        parts.assistant.push({ type: "text", text: block.text, ...providerOptions(block) });
      else if (role !== "tool") addText(parts, block.text, role);
      return;
    case "hint":
      addText(parts, block.text, role);
      return;
    case "thinking":
      if (role === "assistant" && (block.text !== "" || block.signature !== undefined))
        parts.assistant.push({ type: "reasoning", text: block.text, ...providerOptions(block) });
      return;
    case "image":
    case "audio":
    case "video":
    case "file": {
      const part = filePart(block, version) as UserPart;
      if (role === "assistant") parts.assistant.push(part);
      else if (role === "user") parts.user.push(part);
      return;
    }
    case "tool_use":
      if (role === "assistant") addCall(parts, block); // the calls of another agent are its own
      return;
  }
}

function addText({ system, user }: ViewParts, text: string, role: Message["role"]): void {
  if (role === "system") system.push(text);
  else user.push({ type: "text", text });
}

function addCall({ calls, assistant }: ViewParts, call: ToolUseBlock): void {
  calls.push(call);
  assistant.push({
    type: "tool-call",
    toolCallId: call.providerCallId ?? call.id,
    toolName: call.name,
    input: isObject(call.input) ? shortened(call.input) : {}, // providers accept only objects
    ...providerOptions(call),
  });
}

/** Names the speaker of a message whose role alone does not. */
function introductionOf({ role, name = "" }: Message, isOther: boolean): string | undefined {
  if (isOther) return agentSays(name);
  return role === "user" && name.trim() !== "" ? userSays(name) : undefined;
}

/** Whether a message has the words of another agent. */
function isOfOther({ role, name: speaker = "" }: Message, name: string | undefined): boolean {
  return role === "assistant" && name !== undefined && speaker !== "" && speaker !== name;
}

/** The results of a message's calls, which may be anywhere after it in the transcript. */
function resultsOf(
  calls: readonly ToolUseBlock[],
  messages: readonly Message[],
  index: number,
  version: Version,
  pruned: CompactionBlock["pruned"] = {},
): { message: PromptMessage; complete: boolean } {
  const missing = new Set(calls.map((call) => call.id));
  const outputs = new Map<string, Output>();
  for (let at = index + 1; missing.size > 0 && at < messages.length; at++) {
    for (const block of (messages[at] as Message).content) {
      if (block.type === "tool_result" && missing.delete(block.id)) {
        outputs.set(block.id, outputOf(block, version, pruned));
      }
    }
  }
  const message: PromptMessage = {
    role: "tool",
    content: calls.map((call) => ({
      type: "tool-result",
      toolCallId: call.providerCallId ?? call.id,
      toolName: call.name,
      output: outputs.get(call.id) ?? { type: "error-text", value: placeholders.pendingResult },
    })),
  };
  return { message, complete: missing.size === 0 };
}

function outputOf(
  { id, output, state }: ToolResultBlock,
  version: Version,
  pruned: NonNullable<CompactionBlock["pruned"]>,
): Output {
  if (Object.hasOwn(pruned, id))
    return { type: state === "success" ? "text" : "error-text", value: String(pruned[id]) };
  const lines: string[] = [];
  let media = false;
  for (const block of output) {
    if (block.type === "text" || block.type === "hint") lines.push(block.text);
    else if ("source" in block) media = true;
  }
  const text = lines.join("\n");
  if (state !== "success") return { type: "error-text", value: text || placeholders[state] };
  if (!media) return { type: "text", value: text };
  const value = output.flatMap((block) => {
    if (block.type === "text" || block.type === "hint") return { type: "text", text: block.text };
    return "source" in block ? outputPart(block, version) : [];
  });
  return { type: "content", value } as Output;
}

/** The provider metadata of a block (thinking signatures, item ids), which its signature holds as JSON. */
function providerOptions({
  signature,
}: TextBlock | ThinkingBlock | ToolUseBlock): Pick<AssistantPart, "providerOptions"> | undefined {
  if (signature === undefined) return undefined;
  try {
    const metadata: unknown = JSON.parse(signature);
    if (isObject(metadata)) return { providerOptions: metadata as never };
  } catch {
    // The transcript has another origin; the block is still usable without metadata.
  }
  return undefined;
}

/** Shortens arguments that were too long to run, because they would be in every later prompt. */
function shortened(input: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const text = JSON.stringify(input);
  if (Buffer.byteLength(text) <= maxArgumentBytes) return input;
  const beginning = text.slice(0, longArgumentsShown).toWellFormed();
  return { notice: placeholders.longArguments(text.length, beginning) };
}

type Place = { readonly data: string } | { readonly url: URL };

/** A file as a part of a message, or text if its URL is invalid. */
function filePart(block: MediaBlock, version: Version): AnyUserPart {
  const { place, mediaType } = placeOf(block);
  if (place === undefined) return textInstead(block);
  if (version === "v4") return fileOf(place, mediaType);
  return { type: "file", mediaType, data: "url" in place ? place.url : place.data };
}

/** A file as a part of a tool's output, or text if its URL is invalid or the version cannot send it. */
function outputPart(block: MediaBlock, version: Version): OutputPart {
  const { place, mediaType } = placeOf(block);
  if (place === undefined) return textInstead(block);
  if (version === "v4") return fileOf(place, mediaType);
  if (version === "v3") {
    const image = block.type === "image";
    return "url" in place
      ? { type: image ? "image-url" : "file-url", url: place.url.href }
      : { type: image ? "image-data" : "file-data", data: place.data, mediaType };
  }
  return "url" in place ? textInstead(block) : { type: "media", data: place.data, mediaType };
}

function placeOf(block: MediaBlock): { place: Place | undefined; mediaType: string } {
  const { source } = block;
  // Providers accept "image/*" for an image of unknown type.
  const mediaType =
    source.mimeType ?? (block.type === "file" ? "application/octet-stream" : `${block.type}/*`);
  if ("data" in source) return { place: { data: source.data }, mediaType };
  const inline = /^data:([^;,]*);base64,(.*)$/s.exec(source.url);
  if (inline !== null) {
    return { place: { data: inline[2] as string }, mediaType: inline[1] || mediaType };
  }
  const url = URL.parse(source.url);
  return { place: url === null ? undefined : { url }, mediaType };
}

function fileOf(place: Place, mediaType: string) {
  const data =
    "url" in place ? ({ type: "url", ...place } as const) : ({ type: "data", ...place } as const);
  return { type: "file", mediaType, data } as const;
}

function textInstead({ type, source }: MediaBlock) {
  const address = "url" in source ? source.url : source.mimeType;
  return { type: "text", text: placeholders.media(type, address) } as const;
}
