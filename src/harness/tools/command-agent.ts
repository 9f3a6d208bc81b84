import type { LanguageModelV4, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { jsonSchema, ReActAgent, type ToolContext, tool } from "../../agent/index.ts";
import type { Agent } from "../../contract/index.ts";
import { memoryStore } from "../../store/index.ts";

const maxReply = 4_000;

/**
 * Creates an agent that runs one command: its tool call streams the output, and its reply is the end of the report. It is
 * not continued after a crash, because its own log is in memory. It has none of its parent's rules: they have decided on
 * the call that started it.
 */
export function commandAgent(run: (context: ToolContext) => Promise<string>): Agent {
  let report: { readonly text: string } | { readonly error: unknown } | undefined;
  const command = tool({
    name: "execute",
    description: "Runs the command.",
    input: jsonSchema<{ command: string }>({
      type: "object",
      properties: { command: { type: "string" } },
    }),
    execution: { timeoutMs: null, maxAttempts: 1 },
    async execute(_, context) {
      try {
        const text = await run(context);
        report = { text };
        return text;
      } catch (error) {
        report = { error };
        throw error;
      }
    },
  });
  const model = commandModel(() => {
    if (report && "error" in report) throw report.error;
    return report?.text;
  });
  const agent = new ReActAgent({
    name: "execute",
    model,
    tools: [command],
    store: memoryStore(),
    modelExecution: { maxAttempts: 1 },
  });
  // A plain object, so that it runs on its own store.
  return {
    name: agent.name,
    run: (input, options) => agent.run(input, options),
    stream: (input, options) => agent.stream(input, options),
    call: (input, options) => agent.call(input, options),
    approvals: async () => [],
  };
}

/** A model that calls the tool with the user's text, and then repeats the end of the report. */
function commandModel(report: () => string | undefined): LanguageModelV4 {
  const usage = {
    inputTokens: { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 0, text: 0, reasoning: 0 },
  };
  return {
    specificationVersion: "v4",
    provider: "rivulet",
    modelId: "command",
    supportedUrls: {},
    async doGenerate() {
      throw new Error("The command model only streams.");
    },
    async doStream({ prompt }) {
      const text = report();
      const [first] = prompt.flatMap((message) =>
        message.role === "user"
          ? message.content.flatMap((part) => (part.type === "text" ? [part.text] : []))
          : [],
      );
      const parts: readonly LanguageModelV4StreamPart[] =
        text === undefined
          ? [
              {
                type: "tool-call",
                toolCallId: "command",
                toolName: "execute",
                input: JSON.stringify({ command: first ?? "" }),
              },
            ]
          : [
              { type: "text-start", id: "0" },
              { type: "text-delta", id: "0", delta: endOf(text) },
              { type: "text-end", id: "0" },
            ];
      const unified = text === undefined ? ("tool-calls" as const) : ("stop" as const);
      const end = { type: "finish", finishReason: { unified, raw: unified }, usage } as const;
      const stream = new ReadableStream<LanguageModelV4StreamPart>({
        start(controller) {
          controller.enqueue({ type: "stream-start", warnings: [] });
          for (const part of [...parts, end]) controller.enqueue(part);
          controller.close();
        },
      });
      return { stream };
    },
  };
}

/** Keeps the header of a report and its last lines: the parent can read the rest. */
function endOf(report: string): string {
  if (report.length <= maxReply) return report;
  const header = report.slice(0, report.indexOf("\n\n") + 2).slice(0, maxReply);
  return `${header}(the end of the output)\n${report.slice(-maxReply).toWellFormed()}`;
}
