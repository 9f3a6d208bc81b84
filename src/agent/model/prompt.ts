import type {
  LanguageModelV2Prompt,
  LanguageModelV3Prompt,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4ToolResultPart,
} from "@ai-sdk/provider";
import type {
  CompactionBlock,
  Message,
  ToolResultBlock,
  ToolUseBlock,
} from "../../protocol/message.ts";
import { maxBytes } from "../tool/arguments.ts";
import type { Version } from "./media.ts";
import { filePart, outputPart } from "./media.ts";
import type { Signed } from "./turn.ts";

/** A prompt of the AI SDK, in the shape that a model of one version takes. */
export type Prompt = LanguageModelV2Prompt | LanguageModelV3Prompt | LanguageModelV4Prompt;

// The versions differ only in how they hold media, which `media.ts` keeps to itself; one name for the rest is enough.
type PromptMessage = LanguageModelV4Message;
type AssistantPart = Extract<PromptMessage, { role: "assistant" }>["content"][number];
type UserPart = Extract<PromptMessage, { role: "user" }>["content"][number];
type Output = LanguageModelV4ToolResultPart["output"];

/** What the model sees of one message, apart from the results of its calls. */
interface View {
  readonly system: string;
  readonly assistant: PromptMessage | undefined;
  readonly calls: readonly ToolUseBlock[];
  readonly user: PromptMessage | undefined;
}
/** A transcript's view as far as it has been put together. */
interface Assembly {
  readonly messages: Message[];
  readonly systems: string[];
  readonly prompt: PromptMessage[];
}

/** How much is shown of arguments that were too long. */
const shownOfTooLong = 1_000;
/** Said of a call that has no result: a provider accepts no call without one. */
const noResultYet = "There is no result yet.";
/** Said of a call that came to nothing and left no words. */
const withoutWords = {
  error: "The call failed.",
  denied: "The call was denied.",
  interrupted: "The call was interrupted.",
};

// Messages are immutable, so the view of one is computed once. And a transcript only grows, so the next request goes on
// where the last one stood: a turn late in a long conversation costs no more than an early one.
const caches: Readonly<Record<Version, Cache>> = { v2: newCache(), v3: newCache(), v4: newCache() };
interface Cache {
  readonly views: WeakMap<Message, View>;
  /** By the first message of the transcript. */
  readonly assemblies: WeakMap<Message, Assembly>;
}

/**
 * What the model sees of a transcript. Control blocks are left out, the last compaction stands for all before the place
 * it names, hints are said by the user, and each call is followed by exactly one result, in the order of the calls,
 * wherever in the transcript it stands. A result without its call is not shown.
 */
export function toPrompt(messages: readonly Message[], system: string, version: Version): Prompt {
  const cache = caches[version];
  const [first] = messages;
  let assembly = first && cache.assemblies.get(first);
  if (assembly === undefined || !isPrefix(assembly.messages, messages)) assembly = newAssembly();
  const compaction = lastCompaction(messages, assembly.messages.length);
  if (compaction !== undefined) {
    assembly = newAssembly(messages.slice(0, compaction.keepFrom));
    assembly.prompt.push(userText(compaction.summary));
  }

  const { systems, prompt } = assembly;
  let complete = true;
  for (let index = assembly.messages.length; index < messages.length; index++) {
    const message = messages[index] as Message;
    const view = viewOf(message, version);
    if (view.system !== "") systems.push(view.system);
    if (view.assistant !== undefined) prompt.push(view.assistant);
    if (view.calls.length > 0) {
      const results = resultsOf(view.calls, messages, index, version);
      complete &&= results.complete;
      prompt.push(results.message);
    }
    if (view.user !== undefined) prompt.push(view.user);
    assembly.messages.push(message);
  }
  if (first !== undefined) {
    // With a result still to come, what was put together is not what the next request needs.
    if (complete) cache.assemblies.set(first, assembly);
    else cache.assemblies.delete(first);
  }
  // At the head and as one: several providers refuse instructions between the turns.
  const instructions = system === "" ? systems : [system, ...systems];
  if (instructions.length === 0) return prompt.slice();
  return [{ role: "system", content: instructions.join("\n\n") }, ...prompt];
}

function newCache(): Cache {
  return { views: new WeakMap(), assemblies: new WeakMap() };
}

function newAssembly(messages: Message[] = []): Assembly {
  return { messages, systems: [], prompt: [] };
}

function isPrefix(prefix: readonly Message[], messages: readonly Message[]): boolean {
  return (
    prefix.length <= messages.length &&
    prefix.every((message, index) => message === messages[index])
  );
}

function lastCompaction(messages: readonly Message[], from: number): CompactionBlock | undefined {
  for (let index = messages.length - 1; index >= from; index--) {
    for (const block of (messages[index] as Message).content) {
      if (block.type === "compaction") return block;
    }
  }
  return undefined;
}

function viewOf(message: Message, version: Version): View {
  const { views } = caches[version];
  const known = views.get(message);
  if (known !== undefined) return known;
  const system: string[] = [];
  const assistant: AssistantPart[] = [];
  const calls: ToolUseBlock[] = [];
  const user: UserPart[] = [];

  for (const block of message.content) {
    switch (block.type) {
      case "text":
        if (block.text.trim() === "") break; // refused by several providers
        if (message.role === "system") system.push(block.text);
        else if (message.role === "user") user.push({ type: "text", text: block.text });
        else if (message.role === "assistant") {
          assistant.push({ type: "text", text: block.text, ...providerOptions(block) });
        }
        break;
      case "hint":
        if (message.role === "system") system.push(block.text);
        else user.push({ type: "text", text: block.text });
        break;
      case "thinking":
        if (message.role === "assistant" && (block.text !== "" || block.signature !== undefined)) {
          assistant.push({ type: "reasoning", text: block.text, ...providerOptions(block) });
        }
        break;
      case "image":
      case "audio":
      case "video":
      case "file": {
        const part = filePart(block, version) as UserPart;
        if (message.role === "assistant") assistant.push(part);
        else if (message.role === "user") user.push(part);
        break;
      }
      case "tool_use":
        if (message.role !== "assistant") break;
        calls.push(block);
        assistant.push({
          type: "tool-call",
          toolCallId: block.providerCallId ?? block.id,
          toolName: block.name,
          input: isPlainObject(block.input) ? shortened(block.input) : {}, // providers take nothing else
          ...providerOptions(block),
        });
        break;
    }
  }
  // Thinking belongs to what follows it: providers refuse it alone, signed or not.
  const said = assistant.slice(0, assistant.findLastIndex(({ type }) => type !== "reasoning") + 1);
  const view: View = {
    system: system.join("\n\n"),
    assistant: said.length > 0 ? { role: "assistant", content: said } : undefined,
    calls,
    user: user.length > 0 ? { role: "user", content: user } : undefined,
  };
  views.set(message, view);
  return view;
}

/** The results of a message's calls, which stand somewhere after it in the transcript, in whatever order they came. */
function resultsOf(
  calls: readonly ToolUseBlock[],
  messages: readonly Message[],
  index: number,
  version: Version,
): { message: PromptMessage; complete: boolean } {
  const missing = new Set(calls.map((call) => call.id));
  const outputs = new Map<string, Output>();
  for (let at = index + 1; missing.size > 0 && at < messages.length; at++) {
    for (const block of (messages[at] as Message).content) {
      if (block.type === "tool_result" && missing.delete(block.id)) {
        outputs.set(block.id, outputOf(block, version));
      }
    }
  }
  const message: PromptMessage = {
    role: "tool",
    content: calls.map((call) => ({
      type: "tool-result",
      toolCallId: call.providerCallId ?? call.id,
      toolName: call.name,
      output: outputs.get(call.id) ?? { type: "error-text", value: noResultYet },
    })),
  };
  return { message, complete: missing.size === 0 };
}

function outputOf({ output, state }: ToolResultBlock, version: Version): Output {
  const lines: string[] = [];
  let media = false;
  for (const block of output) {
    if (block.type === "text" || block.type === "hint") lines.push(block.text);
    else if ("source" in block) media = true;
  }
  const text = lines.join("\n");
  if (state !== "success") return { type: "error-text", value: text || withoutWords[state] };
  if (!media) return { type: "text", value: text };
  const value = output.flatMap((block) => {
    if (block.type === "text" || block.type === "hint") return { type: "text", text: block.text };
    return "source" in block ? outputPart(block, version) : [];
  });
  return { type: "content", value } as Output;
}

/** What the provider gave with a block goes back to it in its own words. */
function providerOptions(block: object): Pick<AssistantPart, "providerOptions"> | undefined {
  const { signature } = block as Signed;
  if (signature === undefined) return undefined;
  try {
    const metadata: unknown = JSON.parse(signature);
    if (isPlainObject(metadata)) return { providerOptions: metadata as never };
  } catch {
    // Not ours: a transcript from elsewhere. The text is still worth showing.
  }
  return undefined;
}

function userText(text: string): PromptMessage {
  return { role: "user", content: [{ type: "text", text }] };
}

/** Arguments that were too long to run are not sent back in full: they would be in every prompt from here on. */
function shortened(input: Record<string, unknown>): Record<string, unknown> {
  const text = JSON.stringify(input);
  if (Buffer.byteLength(text) <= maxBytes) return input;
  const size = text.length.toLocaleString("en");
  const begin = text.slice(0, shownOfTooLong).toWellFormed();
  return { notice: `[These arguments had ${size} characters. They began with: ${begin}]` };
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
