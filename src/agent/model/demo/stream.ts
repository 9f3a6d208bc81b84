import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { Clock } from "../../../protocol/clock.ts";

/** Between two pieces: about as fast as a quick model speaks. */
const pauseMs = 15;

/** Plays the parts of a turn at a natural pace; an abort ends the stream at once with its reason. */
export function paced(
  parts: readonly LanguageModelV4StreamPart[],
  clock: Pick<Clock, "sleep">,
  signal: AbortSignal | undefined,
): ReadableStream<LanguageModelV4StreamPart> {
  const left = new AbortController();
  const stop = signal === undefined ? left.signal : AbortSignal.any([signal, left.signal]);
  let position = 0;
  return new ReadableStream<LanguageModelV4StreamPart>({
    async pull(controller) {
      const part = parts[position++];
      if (part === undefined) return controller.close();
      if ("delta" in part) await clock.sleep(pauseMs, stop);
      stop.throwIfAborted();
      controller.enqueue(part);
    },
    cancel: () => left.abort(),
  });
}

/** A text in the pieces in which it is streamed: so many words each. */
export function pieces(text: string, size: number): readonly string[] {
  const words = text.split(/(?<=\s)(?=\S)/);
  const count = text === "" ? 0 : Math.ceil(words.length / size);
  return Array.from({ length: count }, (_, index) =>
    words.slice(index * size, (index + 1) * size).join(""),
  );
}
