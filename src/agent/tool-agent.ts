import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
} from "@ai-sdk/provider";
import { createIds } from "../base/id.ts";
import { readOptions } from "../base/options.ts";
import type { Agent, Store, Tool } from "../contract/index.ts";
import { agentFields, settingsBehind } from "./loop/settings.ts";
import { ReActAgent } from "./react-agent.ts";
import type { Permissions } from "./tool/permission.ts";
import { definitionOf } from "./tool/tool.ts";

const tools = new WeakMap<object, Tool>();
const ids = createIds();

/**
 * A tool as an agent that needs no model: each task makes one call, whose input is the JSON of its message. The tool gets
 * approvals, progress, children and a log like any other, and protocols that serve agents serve it.
 */
export function toolAgent(
  tool: Tool,
  options: { readonly store?: Store | string; readonly permissions?: Permissions } = {},
): ReActAgent {
  const { name } = definitionOf(tool);
  const { store, permissions } = agentFields;
  const read = readOptions("toolAgent()", options, { store, permissions });
  const model = callingModel(name);
  tools.set(model, tool);
  const { description } = tool;
  return new ReActAgent({ ...read, name, description, model, tools: [tool] });
}

/** The tool of an agent that `toolAgent` has created; undefined for other agents. */
export function toolBehind(agent: Agent): Tool | undefined {
  const [model] = settingsBehind(agent)?.models ?? [];
  return typeof model === "object" ? tools.get(model) : undefined;
}

type Content = LanguageModelV4GenerateResult["content"][number];

const counts = { total: 0, noCache: undefined, cacheRead: undefined, cacheWrite: undefined };
const usage = {
  inputTokens: counts,
  outputTokens: { total: 0, text: undefined, reasoning: undefined },
} as const;

/** A model that calls a tool with the message of the user, and repeats the text of its result. */
function callingModel(toolName: string): LanguageModelV4 {
  const finish = (content: Content) => {
    const unified = content.type === "tool-call" ? "tool-calls" : "stop";
    return { finishReason: { unified, raw: undefined }, usage } as const;
  };
  return {
    specificationVersion: "v4",
    provider: "rivulet",
    modelId: "tool",
    supportedUrls: {},
    async doGenerate({ prompt }) {
      const content = nextOf(toolName, prompt);
      return { content: [content], ...finish(content), warnings: [] };
    },
    async doStream({ prompt }) {
      const content = nextOf(toolName, prompt);
      const stream = new ReadableStream<LanguageModelV4StreamPart>({
        start(controller) {
          controller.enqueue({ type: "stream-start", warnings: [] });
          if (content.type === "text") {
            controller.enqueue({ type: "text-start", id: "0" });
            controller.enqueue({ type: "text-delta", id: "0", delta: content.text });
            controller.enqueue({ type: "text-end", id: "0" });
          } else if (content.type === "tool-call") controller.enqueue(content);
          controller.enqueue({ type: "finish", ...finish(content) });
          controller.close();
        },
      });
      return { stream };
    },
  };
}

function nextOf(toolName: string, prompt: LanguageModelV4CallOptions["prompt"]): Content {
  const last = prompt.at(-1);
  if (last?.role === "tool") {
    const [result] = last.content;
    const text = result?.type === "tool-result" ? textOf(result.output) : "";
    return { type: "text", text: text || "The result has no text." }; // an empty reply is asked for again
  }
  const parts = last?.role === "user" ? last.content : [];
  const input = parts.map((part) => (part.type === "text" ? part.text : "")).join("");
  return { type: "tool-call", toolCallId: ids.next("call"), toolName, input: input || "{}" };
}

function textOf(output: { readonly type: string; readonly value?: unknown }): string {
  const { type, value } = output;
  if (typeof value === "string") return value;
  if (type !== "content" || !Array.isArray(value)) return JSON.stringify(value ?? "");
  return value.map((part: { readonly text?: string }) => part.text ?? "").join("");
}
