import { z } from "zod";

/** What the generated documents say of a schema besides its shape. */
interface Definition {
  readonly id?: string;
  readonly description?: string;
  readonly not?: { readonly enum: readonly string[] };
}

/** Names and sentences for the generated documents; our own registry, so that nobody else's ids can clash. */
export const definitions = z.registry<Definition>();

/** Gives a schema its name and its sentence in the generated documents. */
export function define<Schema extends z.ZodType>(
  id: string,
  description: string,
  schema: Schema,
): Schema {
  definitions.add(schema, { id, description });
  return schema;
}
