import { z } from "zod";
import type { Block } from "../contract/index.ts";
import { isId, isIndex, isJson, isTime, words } from "../protocol/index.ts";
import { define, optional, schemaOf } from "./convert.ts";

const id = schemaOf(isId);
const decision = z.enum(words.decision);

const mediaSource = z.union([
  z.looseObject({ data: z.string(), mimeType: z.string() }),
  z.looseObject({ url: z.string(), mimeType: optional(z.string()) }),
]);

const resultState = z.enum(["success", "error", "denied", "interrupted"]);

/** The schema of `Block`. */
export const messageBlock = define(
  "MessageBlock",
  "A piece of a message, in the model's view.",
  z.discriminatedUnion("type", [
    z.looseObject({
      type: z.literal("text"),
      text: z.string(),
      tags: optional(z.array(z.string())),
      signature: optional(z.string()),
    }),
    z.looseObject({
      type: z.literal("thinking"),
      text: z.string(),
      signature: optional(z.string()),
    }),
    z.looseObject({
      type: z.literal("hint"),
      text: z.string(),
      metadata: optional(z.looseObject({ taskId: optional(id) })),
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
      raw: optional(z.string()),
      providerCallId: optional(z.string()),
      signature: optional(z.string()),
    }),
    z.looseObject({
      type: z.literal("tool_result"),
      id,
      name: z.string(),
      // A getter with an explicit type, because the schema refers to itself.
      get output(): z.ZodType<Block[]> {
        return z.array(messageBlock);
      },
      state: resultState,
      metadata: optional(schemaOf(isJson)),
    }),
    z.looseObject({
      type: z.literal("suspension"),
      callId: id,
      kind: z.enum(["approval", "external", "question", "stop"]),
      approvalId: id,
      reason: optional(z.string()),
      expiresAt: optional(schemaOf(isTime)),
      input: z.unknown().exactOptional(),
      edited: optional(z.looseObject({ name: z.string(), input: z.unknown() })),
      responseSchema: optional(schemaOf(isJson)),
      resume: z.unknown().exactOptional(),
    }),
    z.looseObject({
      type: z.literal("answer"),
      approvalId: id,
      callId: id,
      decision,
      input: z.unknown().exactOptional(),
      get output(): z.ZodExactOptional<z.ZodType<Block[]>> {
        return optional(z.array(messageBlock));
      },
      state: optional(resultState),
      reason: optional(z.string()),
      by: optional(z.string()),
      always: optional(z.boolean()),
    }),
    z.looseObject({
      type: z.literal("compaction"),
      summary: z.string(),
      keepFrom: schemaOf(isIndex),
      pruned: optional(z.record(z.string(), z.string())),
      tokens: optional(z.looseObject({ before: z.number(), after: z.number() })),
      limit: optional(z.number()),
    }),
  ]),
);

/** How deep an answer may nest: far from the end of the stack. */
const deepestAnswer = 100;

/** The schema of `Answer`. */
export const answer = define(
  "Answer",
  `The answer to an approval: the body of POST /v1/tasks/{id}/approvals/{approval_id}, at most ${deepestAnswer} levels deep.`,
  z.looseObject({
    type: z.literal("answer"),
    approvalId: id,
    taskId: id,
    rootTaskId: id,
    decision,
    input: z.unknown().exactOptional(),
    output: optional(z.array(messageBlock)),
    state: optional(resultState),
    reason: optional(z.string()),
    always: optional(z.boolean()),
  }),
);

/** The schema of an untrusted answer, with a limit on nesting. */
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
