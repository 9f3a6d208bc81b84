import type { Expected, Vector } from "../../conformance/vectors.js";
import type * as protocol from "../../src/protocol.ts";

/** The functions of `rivulet/protocol` that answer a vector. */
export type Protocol = Pick<
  typeof protocol,
  "SseDecoder" | "TaskTree" | "checkStream" | "materialize"
>;

/** Folds and checks one vector, as JSON would carry the result. */
export function answer(rivulet: Protocol, vector: Omit<Vector, "expect">): Expected {
  const { legacy, filtered, partial, seed } = { ...none, ...vector.options };
  const frames = (vector.frames ?? decode(rivulet, vector.chunks ?? [])) as protocol.StreamFrame[];
  const { tree } = new rivulet.TaskTree({ legacy, filtered }).apply(frames);
  const document =
    tree.rootId === undefined ? null : rivulet.materialize(tree, undefined, { seed });
  const problems = rivulet.checkStream(frames, { legacy, filtered, partial });
  const result = { tree, document, problems: problems.map(({ index, rule }) => ({ index, rule })) };
  return JSON.parse(JSON.stringify(result)) as Expected;
}

const none = { legacy: false, filtered: false, partial: false, seed: false };

function decode({ SseDecoder }: Protocol, chunks: readonly string[]) {
  const decoder = new SseDecoder();
  const messages = chunks.flatMap((chunk) => decoder.push(Buffer.from(chunk, "base64")));
  return messages.flatMap(({ frame }) => frame ?? []);
}
