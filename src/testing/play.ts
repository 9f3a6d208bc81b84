import type {
  LanguageModelV4GenerateResult,
  LanguageModelV4Reasoning,
  LanguageModelV4StreamPart,
  LanguageModelV4Text,
} from "@ai-sdk/provider";
import type { Clock } from "../base/clock.ts";
import type { DeltaStep, Play } from "./script.ts";

/** Plays the steps as a stream: one chunk per pull, without extra promises. */
export function streamPlay(
  { steps, finish }: Play,
  clock: Pick<Clock, "sleep">,
  signal: AbortSignal | undefined,
): ReadableStream<LanguageModelV4StreamPart> {
  let position = 0;
  let run: DeltaStep | undefined;
  let cursor = 0;
  let onAbort: (() => void) | undefined;
  let pause: AbortController | undefined;

  function release(): void {
    if (onAbort !== undefined) signal?.removeEventListener("abort", onAbort);
    pause?.abort();
  }

  function advance(
    controller: ReadableStreamDefaultController<LanguageModelV4StreamPart>,
  ): undefined | Promise<undefined> {
    for (;;) {
      const step = steps[position++];
      if (step === undefined) {
        controller.enqueue({ type: "finish", ...finish });
        release();
        controller.close();
        return;
      }
      switch (step.type) {
        case "chunk":
          controller.enqueue(step.chunk);
          return;
        case "deltas":
          if (step.deltas.length === 0) continue;
          run = step;
          cursor = 1;
          controller.enqueue({ type: step.of, id: step.id, delta: step.deltas[0] as string });
          return;
        case "delay":
          pause = new AbortController();
          return clock.sleep(step.ms, pause.signal).then(() => advance(controller));
        case "hang":
          return new Promise(() => {}); // only an abort or a cancel ends the stream
        case "error":
          release();
          controller.error(step.error);
          return;
      }
    }
  }

  return new ReadableStream<LanguageModelV4StreamPart>({
    start(controller) {
      controller.enqueue({ type: "stream-start", warnings: [] });
      onAbort = () => {
        controller.error(signal?.reason);
        release();
      };
      signal?.addEventListener("abort", onAbort, { once: true });
    },
    pull(controller) {
      if (run !== undefined && cursor < run.deltas.length) {
        const delta = run.deltas[cursor++] as string;
        controller.enqueue({ type: run.of, id: run.id, delta });
        return;
      }
      return advance(controller);
    },
    cancel: release,
  });
}

/** Plays the steps to the end and collects the content of the stream. */
export async function generatePlay(
  { steps, finish }: Play,
  clock: Pick<Clock, "sleep">,
  signal: AbortSignal | undefined,
): Promise<LanguageModelV4GenerateResult> {
  const content: LanguageModelV4GenerateResult["content"] = [];
  const open = new Map<string, LanguageModelV4Text | LanguageModelV4Reasoning>();
  const append = (type: "text" | "reasoning", id: string, text: string) => {
    const block = open.get(`${type} ${id}`) ?? { type, text: "" };
    if (!open.has(`${type} ${id}`)) {
      open.set(`${type} ${id}`, block);
      content.push(block);
    }
    block.text += text;
  };

  for (const step of steps) {
    if (step.type === "error") throw step.error;
    else if (step.type === "delay") await clock.sleep(step.ms, signal);
    else if (step.type === "hang") await untilAborted(signal);
    else if (step.type === "deltas") {
      if (step.of !== "tool-input-delta") {
        append(step.of === "text-delta" ? "text" : "reasoning", step.id, step.deltas.join(""));
      }
    } else {
      const { chunk } = step;
      switch (chunk.type) {
        case "text-start":
          append("text", chunk.id, "");
          break;
        case "text-delta":
          append("text", chunk.id, chunk.delta);
          break;
        case "reasoning-start":
          append("reasoning", chunk.id, "");
          break;
        case "reasoning-delta":
          append("reasoning", chunk.id, chunk.delta);
          break;
        case "tool-call":
        case "tool-result":
        case "tool-approval-request":
        case "file":
        case "reasoning-file":
        case "source":
        case "custom":
          content.push(chunk);
          break;
        case "error":
          throw chunk.error;
      }
    }
  }
  return { content, ...finish, warnings: [] };
}

/** Rejects with the signal's reason when it aborts, unless `release` aborts first; never resolves. */
export function untilAborted(
  signal: AbortSignal | null | undefined,
  release?: AbortSignal,
): Promise<never> {
  return new Promise((_, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    signal?.addEventListener("abort", () => reject(signal.reason), {
      once: true,
      ...(release && { signal: release }),
    });
  });
}
