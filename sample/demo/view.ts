import type {
  LanguageModelV4CallOptions,
  LanguageModelV4Prompt,
  LanguageModelV4ToolResultOutput,
} from "@ai-sdk/provider";
import { smallTalkReply } from "./fallback.ts";
import { type CitableText, citableTexts } from "./passages.ts";

/** A tool call of the conversation with its result. */
export interface MadeCall {
  readonly name: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly output: string;
  readonly isError: boolean;
}

/** A tool that the request offers. */
export interface OfferedTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: object;
}

/** The part of a request that the demo model uses; it keeps nothing between requests. */
export interface View {
  readonly system: string;
  readonly question: string;
  /** The question before this one, without small talk; "" if this is the first. */
  readonly earlier: string;
  readonly calls: readonly MadeCall[];
  /** User messages since the question, such as reports of background tasks. */
  readonly notices: readonly string[];
  /** Those of them that a person has written. */
  readonly steering: readonly string[];
  readonly citable: ReadonlyMap<number, CitableText>;
  readonly tools: readonly OfferedTool[];
}

/** One turn of the demo model: its text and its calls. */
export interface Move {
  readonly thinking?: string;
  readonly text?: string;
  readonly calls?: readonly { readonly name: string; readonly input: object }[];
}

/** Reads a request. */
export function viewOf({ prompt, tools = [], toolChoice }: LanguageModelV4CallOptions): View {
  const questionIndex = lastQuestion(prompt);
  const since = prompt.slice(questionIndex + 1);
  const outputs = new Map<string, Pick<MadeCall, "output" | "isError">>();
  const calls: { id: string; name: string; input: unknown }[] = [];
  for (const message of since) {
    if (message.role !== "assistant" && message.role !== "tool") continue;
    for (const part of message.content) {
      if (part.type === "tool-call") {
        calls.push({ id: part.toolCallId, name: part.toolName, input: part.input });
      } else if (part.type === "tool-result") outputs.set(part.toolCallId, readOutput(part.output));
    }
  }
  const texts = prompt.map(textOf);
  const notices = since.filter(({ role }) => role === "user").map(textOf);
  return {
    system: texts.filter((_, index) => prompt[index]?.role === "system").join("\n\n"),
    question: texts[questionIndex] ?? "",
    earlier: earlierQuestion(prompt, texts, questionIndex),
    calls: calls.map(({ id, name, input }) => ({
      name,
      input: typeof input === "object" && input !== null ? { ...input } : {},
      ...(outputs.get(id) ?? { output: "", isError: true }),
    })),
    notices,
    steering: notices.filter((text) => !taskNotice.test(text) && !harnessPrompt.test(text)),
    citable: new Map(texts.flatMap(citableTexts).map((text) => [text.id, text])),
    tools: (toolChoice?.type === "none" ? [] : tools)
      .filter((tool) => tool.type === "function")
      .map(({ name, description = "", inputSchema }) => ({ name, description, inputSchema })),
  };
}

/** Returns the calls of one tool. */
export function callsOf(view: View, name: string): readonly MadeCall[] {
  return view.calls.filter((call) => call.name === name);
}

/** Returns whether the request offers all of these tools. */
export function offers(view: View, ...names: readonly string[]): boolean {
  return names.every((name) => view.tools.some((tool) => tool.name === name));
}

/** Finds the directory that the question or the system prompt names, written as in `library/`. */
export function directoryOf(view: View): { readonly path?: string } {
  const named = /\b(?:in|under|from|of) `([\w.-]+(?:\/[\w.-]+)*)\/`/;
  const path = (named.exec(view.question) ?? named.exec(view.system))?.[1];
  return path === undefined ? {} : { path };
}

/** What the harness says about the tasks of a session. */
const taskNotice =
  /^(?:No task of this session is|Tasks of this session that are|A background task has ended)\b/;

/** The texts of the harness for a model that does not continue as expected. */
const harnessPrompt =
  /^(?:You have failed to generate|Your last reply had no visible|Reason again)\b/;

/** A user message about tasks is a notice; so is one right after tool results, unless the calls were interrupted. */
function lastQuestion(prompt: LanguageModelV4Prompt): number {
  return prompt.findLastIndex((message, index) => {
    if (message.role !== "user" || taskNotice.test(textOf(message))) return false;
    const before = prompt.slice(0, index).findLast(({ role }) => role !== "user");
    return before?.role !== "tool" || /^Interrupted/m.test(textOf(before));
  });
}

function earlierQuestion(
  prompt: LanguageModelV4Prompt,
  texts: readonly string[],
  before: number,
): string {
  const index = lastQuestion(prompt.slice(0, Math.max(0, before)));
  const text = texts[index] ?? "";
  return smallTalkReply(text) === undefined ? text : earlierQuestion(prompt, texts, index);
}

function textOf(message: LanguageModelV4Prompt[number]): string {
  if (message.role === "system") return message.content;
  const texts: string[] = [];
  for (const part of message.content) {
    if (part.type === "text") texts.push(part.text);
    else if (part.type === "tool-result") texts.push(readOutput(part.output).output);
  }
  return texts.join("\n");
}

function readOutput(output: LanguageModelV4ToolResultOutput): Pick<MadeCall, "output" | "isError"> {
  switch (output.type) {
    case "text":
    case "error-text":
      return { output: output.value, isError: output.type === "error-text" };
    case "content": {
      const texts = output.value.flatMap((part) => (part.type === "text" ? [part.text] : []));
      return { output: texts.join("\n"), isError: false };
    }
    case "execution-denied":
      return { output: output.reason ?? "The call was denied.", isError: true };
    default:
      return { output: JSON.stringify(output.value), isError: output.type === "error-json" };
  }
}
