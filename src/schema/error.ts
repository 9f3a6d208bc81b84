import { z } from "zod";
import { define } from "./definitions.ts";
import { id } from "./scalar.ts";

const place = z.looseObject({
  taskId: id.exactOptional(),
  path: z.string().exactOptional(),
});

/** Twin of `ErrorShape`. */
export const errorShape = define(
  "Error",
  "What went wrong: a code to branch on, a sentence to read, whether trying again may help.",
  z.looseObject({
    code: z.string().min(1),
    message: z.string(),
    retryable: z.boolean(),
    where: place.exactOptional(),
    hint: z.string().exactOptional(),
  }),
);
