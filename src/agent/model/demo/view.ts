import type { LanguageModelV4CallOptions, LanguageModelV4Prompt } from "@ai-sdk/provider";
import { isRecord } from "../../plain.ts";
import { type CitableText, citableTexts } from "./passages.ts";

/** A call that was made, and what came of it. */
export interface MadeCall {
  readonly name: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly output: string;
  readonly isError: boolean;
}

/** A tool on offer. */
export interface OfferedTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: object;
}

/** All that the demo model knows when it is asked: nothing is kept from one request to the next. */
export interface View {
  readonly system: string;
  /** What the user, or the parent, has asked last. */
  readonly question: string;
  /** The calls made since then, in order. */
  readonly calls: readonly MadeCall[];
  /** What was put before the model since then: finished background work, for one. */
  readonly told: readonly string[];
  /** Everything in the conversation that has a number. */
  readonly citable: ReadonlyMap<number, CitableText>;
  readonly tools: readonly OfferedTool[];
}

/** What the demo model does in answer to one request. */
export interface Move {
  readonly thinking?: string;
  readonly text?: string;
  readonly calls?: readonly { readonly name: string; readonly input: object }[];
}

/** Reads a request. */
export function viewOf({ prompt, tools, toolChoice }: LanguageModelV4CallOptions): View {
  const asked = lastQuestion(prompt);
  const since = prompt.slice(asked + 1);
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
  return {
    system: texts.filter((_, index) => prompt[index]?.role === "system").join("\n\n"),
    question: texts[asked] ?? "",
    calls: calls.map(({ id, name, input }) => ({
      name,
      input: isRecord(input) ? input : {},
      ...(outputs.get(id) ?? { output: "", isError: true }),
    })),
    told: since.filter(({ role }) => role === "user").map(textOf),
    citable: new Map(texts.flatMap(citableTexts).map((one) => [one.id, one])),
    tools:
      toolChoice?.type === "none"
        ? []
        : (tools ?? []).flatMap((tool) =>
            tool.type === "function"
              ? [
                  {
                    name: tool.name,
                    description: tool.description ?? "",
                    inputSchema: tool.inputSchema,
                  },
                ]
              : [],
          ),
  };
}

/** The calls of one tool. */
export function callsOf(view: View, name: string): readonly MadeCall[] {
  return view.calls.filter((call) => call.name === name);
}

/** Whether all of these tools are on offer. */
export function offers(view: View, ...names: readonly string[]): boolean {
  return names.every((name) => view.tools.some((tool) => tool.name === name));
}

/**
 * Where the last question stands. What a user says while calls are under way is no question but something put before
 * the model; after calls that were interrupted it is one.
 */
function lastQuestion(prompt: LanguageModelV4Prompt): number {
  return prompt.findLastIndex((message, index) => {
    if (message.role !== "user") return false;
    const before = prompt.slice(0, index).findLast(({ role }) => role !== "user");
    return before?.role !== "tool" || /^Interrupted/m.test(textOf(before));
  });
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

type Output = Extract<
  Extract<LanguageModelV4Prompt[number], { role: "tool" }>["content"][number],
  { type: "tool-result" }
>["output"];

function readOutput(output: Output): Pick<MadeCall, "output" | "isError"> {
  switch (output.type) {
    case "text":
      return { output: output.value, isError: false };
    case "error-text":
      return { output: output.value, isError: true };
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
