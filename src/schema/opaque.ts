import { z } from "zod";
import { define, definitions } from "./definitions.ts";

/** A value whose `type` this version does not know: kept as it came. */
export function opaque(
  name: string,
  description: string,
  knownTypes: readonly string[],
  fields: z.core.$ZodLooseShape,
): z.ZodType<never> {
  const type = z
    .string()
    .min(1)
    .refine((value) => !knownTypes.includes(value), {
      error: "a known type needs that type's fields",
      abort: true, // else a union takes a text without its text for an unknown block with a flaw
    });
  definitions.add(type, { not: { enum: knownTypes } });
  const schema: z.ZodType = define(name, description, z.looseObject({ type, ...fields }));
  return schema as z.ZodType<never>; // the unions in TypeScript name only what is known
}
