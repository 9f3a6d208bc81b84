import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { ScriptedModel } from "../../../src/testing.ts";

/** The model, and how many parts of its streams somebody has asked for so far. */
export function countedModel(model: ScriptedModel) {
  const count = { given: 0 };
  const doStream: ScriptedModel["doStream"] = async (options) => {
    const { stream, ...rest } = await model.doStream(options);
    const reader = stream.getReader();
    const counted = new ReadableStream<LanguageModelV4StreamPart>(
      {
        async pull(controller) {
          const { done, value } = await reader.read();
          if (done) return controller.close();
          count.given += 1;
          controller.enqueue(value);
        },
        cancel: (reason) => reader.cancel(reason),
      },
      { highWaterMark: 0 }, // nothing is asked for ahead
    );
    return { ...rest, stream: counted };
  };
  return { model: { ...model, doStream }, count };
}
