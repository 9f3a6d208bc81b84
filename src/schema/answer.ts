import { z } from "zod";
import type { Block } from "../protocol/message.ts";
import { define } from "./definitions.ts";
import { count, id, jsonObject, time } from "./scalar.ts";
import { decision } from "./task.ts";

const mediaSource = z.union([
  z.looseObject({ data: z.string(), mimeType: z.string() }),
  z.looseObject({ url: z.string(), mimeType: z.string().exactOptional() }),
]);

const resultState = z.enum(["success", "error", "denied", "interrupted"]);

/** Twin of `Block`: a piece of a message, in the model's view. */
export const messageBlock = define(
  "MessageBlock",
  "A piece of a message, in the model's view.",
  z.discriminatedUnion("type", [
    z.looseObject({
      type: z.literal("text"),
      text: z.string(),
      tags: z.array(z.string()).exactOptional(),
      signature: z.string().exactOptional(),
    }),
    z.looseObject({
      type: z.literal("thinking"),
      text: z.string(),
      signature: z.string().exactOptional(),
    }),
    z.looseObject({
      type: z.literal("hint"),
      text: z.string(),
      metadata: z.looseObject({ taskId: id.exactOptional() }).exactOptional(),
    }),
    z.looseObject({
      type: z.enum(["image", "audio", "video", "file"]),
      source: mediaSource,
    }),
    z.looseObject({
      type: z.literal("tool_use"),
      id,
      name: z.string(),
      input: z.unknown(),
      raw: z.string().exactOptional(),
      providerCallId: z.string().exactOptional(),
      signature: z.string().exactOptional(),
    }),
    z.looseObject({
      type: z.literal("tool_result"),
      id,
      name: z.string(),
      // A getter, because the schema refers to itself; for the same reason its type has to be told.
      get output(): z.ZodType<Block[]> {
        return z.array(messageBlock);
      },
      state: resultState,
      metadata: jsonObject.exactOptional(),
    }),
    z.looseObject({
      type: z.literal("suspension"),
      callId: id,
      kind: z.enum(["approval", "external", "question", "stop"]),
      approvalId: id,
      reason: z.string().exactOptional(),
      expiresAt: time.exactOptional(),
      input: z.unknown().exactOptional(),
      edited: z.looseObject({ name: z.string(), input: z.unknown() }).exactOptional(),
    }),
    z.looseObject({
      type: z.literal("answer"),
      approvalId: id,
      callId: id,
      decision,
      input: z.unknown().exactOptional(),
      get output(): z.ZodExactOptional<z.ZodType<Block[]>> {
        return z.array(messageBlock).exactOptional();
      },
      state: resultState.exactOptional(),
      reason: z.string().exactOptional(),
      by: z.string().exactOptional(),
      always: z.boolean().exactOptional(),
    }),
    z.looseObject({
      type: z.literal("compaction"),
      summary: z.string(),
      keepFrom: count,
    }),
  ]),
);

/** How deep the JSON of an answer may be nested: far beyond any use, far from the end of the stack. */
const deepestAnswer = 100;

/** Twin of `Answer`. */
export const answer = define(
  "Answer",
  `What somebody said to an approval: the body of POST /v1/tasks/{id}/approvals/{approval_id}, at most ${deepestAnswer} levels deep.`,
  z.looseObject({
    type: z.literal("answer"),
    approvalId: id,
    taskId: id,
    rootTaskId: id,
    decision,
    input: z.unknown().exactOptional(),
    output: z.array(messageBlock).exactOptional(),
    state: resultState.exactOptional(),
    reason: z.string().exactOptional(),
    always: z.boolean().exactOptional(),
  }),
);

/** `answer` for bodies from outside: blocks within blocks are followed only so far. */
export const boundedAnswer = z
  .unknown()
  .refine((value) => isShallow(value, deepestAnswer), {
    error: `nested deeper than ${deepestAnswer} levels`,
    abort: true,
  })
  .pipe(answer);

function isShallow(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((inner) => isShallow(inner, levels - 1));
}
