import { setTimeout as sleep } from "node:timers/promises";
import type { LanguageModelV4 } from "@ai-sdk/provider";
import { scriptedModel } from "../../../../src/testing.ts";

const [high = "", low = ""] = "👍".split("");

/** A text in pieces as a model sends them: some end in the middle of a character. */
export const pieces: readonly string[] = Array.from({ length: 100 }, (_, n) => {
  if (n % 4 === 0) return `${n} ${high}`;
  return n % 4 === 1 ? `${low}ü ` : "word ";
});

/** A model that says the text, with a pause before each piece. */
export function pacedModel(pauseMs: number): LanguageModelV4 {
  const model = scriptedModel(() => ({ text: pieces }));
  return {
    ...model,
    async doStream(options) {
      const { stream, ...rest } = await model.doStream(options);
      const pace = new TransformStream({
        async transform(part, controller) {
          await sleep(pauseMs);
          controller.enqueue(part);
        },
      });
      return { ...rest, stream: stream.pipeThrough(pace) };
    },
  };
}
