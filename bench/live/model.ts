import type { LanguageModelV4, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { monotonicMs, ride } from "./wheel.ts";

/** How a model of the bench answers. */
export type LiveModelOptions =
  /** With tokens of the wheel. */
  | { readonly kind: "text"; readonly tokens?: number }
  /** With a call of each tool, and with three words after their results. */
  | { readonly kind: "lead"; readonly tools: readonly string[] }
  /** With a call of the tool `step` after each half second. */
  | { readonly kind: "steps" };

type Controller = ReadableStreamDefaultController<LanguageModelV4StreamPart>;

/** The time between two steps of a run. */
const stepMs = 500;

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};
let calls = 0;

function finish(controller: Controller, unified: "stop" | "tool-calls"): void {
  controller.enqueue({ type: "finish", finishReason: { unified, raw: unified }, usage });
  controller.close();
}

function say(controller: Controller, words: readonly string[]): void {
  controller.enqueue({ type: "text-start", id: "t" });
  for (const delta of words) controller.enqueue({ type: "text-delta", id: "t", delta });
  controller.enqueue({ type: "text-end", id: "t" });
  finish(controller, "stop");
}

function call(controller: Controller, toolName: string, input: string): void {
  const id = `call_${++calls}`;
  controller.enqueue({ type: "tool-input-start", id, toolName });
  controller.enqueue({ type: "tool-input-delta", id, delta: input });
  controller.enqueue({ type: "tool-input-end", id });
  controller.enqueue({ type: "tool-call", toolCallId: id, toolName, input });
}

/** A model of the AI SDK whose answer follows from the prompt alone. */
export function liveModel(options: LiveModelOptions): LanguageModelV4 {
  function begin(controller: Controller, results: number): void {
    controller.enqueue({ type: "stream-start", warnings: [] });
    if (options.kind === "text") {
      controller.enqueue({ type: "text-start", id: "t" });
      const push = (delta: string) => controller.enqueue({ type: "text-delta", id: "t", delta });
      const end = () => {
        controller.enqueue({ type: "text-end", id: "t" });
        finish(controller, "stop");
      };
      ride({ push, end }, options.tokens);
    } else if (options.kind === "lead") {
      if (results > 0) {
        say(controller, ["all ", "is ", "done"]);
        return;
      }
      for (const name of options.tools) call(controller, name, '{"prompt":"go"}');
      finish(controller, "tool-calls");
    } else {
      // The first call waits for a random part of the time, so that the runs are spread.
      const waitMs = results === 0 ? Math.random() * stepMs : stepMs;
      setTimeout(() => {
        call(controller, "step", JSON.stringify({ at: monotonicMs() }));
        finish(controller, "tool-calls");
      }, waitMs);
    }
  }
  return {
    specificationVersion: "v4",
    provider: "bench",
    modelId: options.kind,
    supportedUrls: {},
    doGenerate: () => Promise.reject(new Error("The bench streams.")),
    doStream: async ({ prompt }) => {
      const results = prompt.filter(({ role }) => role === "tool").length;
      return { stream: new ReadableStream({ start: (controller) => begin(controller, results) }) };
    },
  };
}
