import type { LanguageModelV4CallOptions, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { StreamPart } from "../../src/agent/model/collect.ts";
import type { TurnDependencies } from "../../src/agent/model/model.ts";
import type { LanguageModel } from "../../src/agent/model/resolve.ts";
import type { TurnRequest, TurnSink } from "../../src/agent/model/turn.ts";
import { createIds } from "../../src/base/id.ts";
import { ManualClock } from "../../src/testing/clock.ts";

/** Parts to stream. An `Error` breaks the stream, "hang" ends all output even on an abort, a function is called. */
export type FakeReply = readonly (StreamPart | Error | "hang" | (() => unknown))[];

/** A model that answers each request with the next reply; an error rejects the request. */
export function fakeModel(
  version: LanguageModel["specificationVersion"],
  replies: readonly (FakeReply | Error)[],
): LanguageModel & { readonly requests: LanguageModelV4CallOptions[]; cancelled: number } {
  const requests: LanguageModelV4CallOptions[] = [];
  const model = {
    specificationVersion: version,
    provider: "fake.chat",
    modelId: "m",
    supportedUrls: {},
    requests,
    cancelled: 0,
    async doGenerate() {
      throw new Error("not used");
    },
    async doStream(options: LanguageModelV4CallOptions) {
      requests.push(options);
      const reply = replies[requests.length - 1];
      if (reply === undefined) throw new Error("no reply left");
      if (reply instanceof Error) throw reply;
      let index = 0;
      const stream = new ReadableStream<StreamPart>({
        async pull(controller) {
          let next = reply[index++];
          while (typeof next === "function") {
            await next();
            next = reply[index++];
          }
          if (next === undefined) controller.close();
          else if (next === "hang") await new Promise(() => {});
          else if (next instanceof Error) controller.error(next);
          else controller.enqueue(next);
        },
        cancel() {
          model.cancelled += 1;
        },
      });
      return { stream };
    },
  };
  return model as unknown as ReturnType<typeof fakeModel>;
}

/** A sink that records its calls, one line each. */
export function recordingSink(): TurnSink & { readonly lines: string[] } {
  const lines: string[] = [];
  let opened = 0;
  return {
    lines,
    open(part) {
      opened += 1;
      lines.push(`open ${opened} ${part.kind}${part.kind === "call" ? ` ${part.name}` : ""}`);
      return opened;
    },
    delta: (part, text) => lines.push(`delta ${part} ${text}`),
    close: (part) => lines.push(`close ${part}`),
    block: (block) => lines.push(`block ${block.type}`),
    source: (source) => lines.push(`source ${source.id}`),
    discard: (reason) => lines.push(`discard ${reason}`),
  };
}

/** An empty request. */
export function emptyRequest(fields: Partial<TurnRequest> = {}): TurnRequest {
  return {
    messages: [],
    systemPrompt: "",
    tools: [],
    options: {},
    signal: new AbortController().signal,
    ...fields,
  };
}

/** A fixed clock and id source, and retries without delay. */
export function stillDependencies(
  execution: TurnDependencies["execution"] = {},
): TurnDependencies & { readonly clock: ManualClock } {
  const clock = new ManualClock(1_000);
  return {
    ids: createIds({ clock, random: (bytes) => bytes.fill(0) }),
    clock,
    execution: { initialBackoffMs: 0, ...execution },
    random: () => 0.5,
  };
}

/** The end of a V4 stream. */
export const finishV4: Extract<LanguageModelV4StreamPart, { type: "finish" }> = {
  type: "finish",
  finishReason: { unified: "stop", raw: "stop" },
  usage: {
    inputTokens: { total: 10, noCache: 6, cacheRead: 4, cacheWrite: 0 },
    outputTokens: { total: 7, text: 5, reasoning: 2 },
  },
};
