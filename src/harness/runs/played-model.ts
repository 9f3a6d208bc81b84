import type { LanguageModelV4, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { RivuletError } from "../../base/error.ts";
import type { Message } from "../../contract/index.ts";
import { type RecordedTask, unsupported } from "./recording.ts";

/** A model that gives one recorded reply, or ends as the recorded task did. */
export function playedModel(
  reply: Message | undefined,
  { messages, status, error }: RecordedTask,
  cancel: () => Promise<void>,
): LanguageModelV4 {
  const name = String(reply?.metadata?.model ?? "recorded/recorded");
  const isPartial = status === "cancelled" && reply?.id === messages.findLast(isReply)?.id;
  const hasCalls = reply?.content.some(({ type }) => type === "tool_use") ?? false;
  const parts = reply ? partsOf(reply) : [];
  const isCut = reply === undefined || (isPartial && !hasCalls);
  return {
    specificationVersion: "v4",
    provider: name.split("/", 1).join(),
    modelId: name.slice(name.indexOf("/") + 1),
    supportedUrls: { "*/*": [/.*/] },
    doGenerate: () => Promise.reject(new Error("Recorded models only stream.")),
    async doStream() {
      if (reply === undefined && status === "failed")
        throw new RivuletError(error?.code ?? "provider_error", error?.message ?? "");
      const hasFinished = (reply?.usage?.total_tokens ?? 0) > 0;
      const sent = isCut && !hasFinished ? parts.slice(0, -1) : [...parts];
      const stream = new ReadableStream<LanguageModelV4StreamPart>({
        async pull(controller) {
          const part = sent.shift();
          if (part) return controller.enqueue(part);
          if (!isCut) return controller.close();
          await new Promise(setImmediate); // the last part is read first
          void cancel();
          await new Promise(() => {}); // the reader cancels the stream
        },
      });
      return { stream };
    },
  };
}

function isReply({ role }: Message): boolean {
  return role === "assistant";
}

function partsOf({ content, usage, metadata }: Message): LanguageModelV4StreamPart[] {
  const parts = content.flatMap((block, index): LanguageModelV4StreamPart[] => {
    const id = String(index);
    switch (block.type) {
      case "text":
        return [
          { type: "text-start", id },
          { type: "text-delta", id, delta: block.text },
          { type: "text-end", id },
        ];
      case "thinking":
        return [
          { type: "reasoning-start", id },
          { type: "reasoning-delta", id, delta: block.text },
          { type: "reasoning-end", id },
        ];
      case "tool_use": {
        const { name: toolName, raw, input, providerCallId } = block;
        const toolCallId = providerCallId ?? block.id;
        return [
          { type: "tool-call", toolCallId, toolName, input: raw ?? JSON.stringify(input ?? {}) },
        ];
      }
      case "image":
      case "audio":
      case "video":
      case "file": {
        const { source } = block;
        const mediaType = source.mimeType ?? "application/octet-stream";
        if ("data" in source)
          return [{ type: "file", mediaType, data: { type: "data", data: source.data } }];
        return [{ type: "file", mediaType, data: { type: "url", url: new URL(source.url) } }];
      }
      default:
        return [];
    }
  });
  const { input_tokens: total = 0, output_tokens: output = 0 } = usage ?? {};
  const { cached_input_tokens: cached = 0, reasoning_tokens: reasoning = 0 } = usage ?? {};
  const unified =
    (metadata?.finish as "length" | undefined) ??
    (content.some(({ type }) => type === "tool_use") ? "tool-calls" : "stop");
  const finish: LanguageModelV4StreamPart = {
    type: "finish",
    finishReason: { unified, raw: unified },
    usage: {
      inputTokens: { total, noCache: total - cached, cacheRead: cached, cacheWrite: 0 },
      outputTokens: { total: output, text: output - reasoning, reasoning },
    },
  };
  return [...parts, finish];
}

/** A model for work besides the run, which a replay has no replies for; tells that it was asked. */
export function offlineModel(onAsked: (error: RivuletError) => void): LanguageModelV4 {
  const reject = () => {
    const error = unsupported("its session is compacted now, which no recording has");
    onAsked(error);
    return Promise.reject(error);
  };
  return {
    specificationVersion: "v4",
    ...{ provider: "recorded", modelId: "none", supportedUrls: {} },
    ...{ doGenerate: reject, doStream: reject },
  };
}
