import { z } from "zod";
import {
  type Fields,
  isList,
  Optional,
  type Shape,
  shape as scalar,
  type TypeOf,
  Variants,
  words,
} from "../protocol/index.ts";
import { definitions } from "./definitions.ts";

/** The title and description of a schema in the generated documents. */
interface Definition {
  readonly id?: string;
  readonly description?: string;
  readonly not?: { readonly enum: readonly string[] };
}

/** Names and sentences for the generated documents; a registry of our own, so that ids of others cannot clash. */
export const registry = z.registry<Definition>();

/** Gives a schema its name and its sentence in the generated documents. */
export function define<Schema extends z.ZodType>(
  id: string,
  description: string,
  schema: Schema,
): Schema {
  registry.add(schema, { ...registry.get(schema), id, description });
  return schema;
}

/** An optional field; null is read as absent. */
export function optional<Schema extends z.ZodType>(schema: Schema): z.ZodExactOptional<Schema> {
  const nullable = schema.nullable().transform((value) => value ?? undefined);
  return nullable.optional() as unknown as z.ZodExactOptional<Schema>;
}

const schemas = new Map<Shape, z.ZodType>();

/** The zod schema of a shape of the grammar; the same one for the same shape. */
export function schemaOf<const S extends Shape>(shape: S): z.ZodType<TypeOf<S>> {
  return memoize(shape, () => convert(shape)) as z.ZodType<TypeOf<S>>;
}

function memoize(shape: Shape, make: () => z.ZodType): z.ZodType {
  let schema = schemas.get(shape);
  if (schema === undefined) {
    schema = make();
    const definition = definitions.find(([defined]) => defined === shape);
    if (definition !== undefined) define(definition[1], definition[2], schema);
    schemas.set(shape, schema);
  }
  return schema;
}

const scalars = new Map<Shape, () => z.ZodType>([
  [
    scalar.isId,
    () =>
      without(
        z.string().min(1).max(128),
        ["__proto__"],
        "an id becomes a key, and this key is taken",
      ),
  ],
  [scalar.isBlockId, () => schemaOf(scalar.isId)],
  [scalar.isText, () => z.string()],
  [scalar.isName, () => z.string().min(1)],
  [scalar.isIndex, () => z.int().min(0)],
  [scalar.isTime, () => z.int().min(0)],
  [scalar.isOffset, () => z.int().min(0)],
  [scalar.isLevel, () => z.int().min(1)],
  [scalar.isCursor, () => z.int().min(-1)],
  [scalar.isNumber, () => z.number()],
  [scalar.isFlag, () => z.boolean()],
  [scalar.isTrue, () => z.literal(true)],
  [scalar.isJson, () => z.record(z.string(), z.unknown())],
]);

function convert(shape: Shape): z.ZodType {
  if (isList(shape)) return z.array(schemaOf(shape[0]));
  if (shape instanceof Variants) return convertVariants(shape);
  if (typeof shape === "function") return scalars.get(shape)?.() ?? z.unknown();
  if (typeof shape === "object") return z.looseObject(propertiesOf(shape));
  const name = shape.slice(1);
  return oneOf(shape.startsWith("=") ? name.split("|") : (lists[name] ?? [name]));
}

const lists: Readonly<Record<string, readonly string[]>> = words;

function oneOf(list: readonly string[]): z.ZodType {
  return list.length === 1 ? z.literal(list[0]) : z.enum(list);
}

function propertiesOf(fields: Fields): Record<string, z.ZodType> {
  const entries = Object.entries(fields).map(([name, field]) => [name, property(field)]);
  return Object.fromEntries(entries);
}

function property(field: Shape | Optional): z.ZodType {
  if (!(field instanceof Optional)) return schemaOf(field);
  const schema: z.ZodType = schemaOf(field.shape);
  const { preset } = field;
  if (preset === undefined) return optional(schema);
  return schema
    .nullable()
    .default(preset)
    .transform((value) => value ?? preset);
}

function convertVariants({ known, opaque, types }: Variants): z.ZodType {
  const [first, ...rest] = known.map(schemaOf) as unknown as [z.ZodObject, ...z.ZodObject[]];
  const union = rest.length === 0 ? first : z.discriminatedUnion("type", [first, ...rest]);
  if (opaque === undefined) return union;
  const other = memoize(opaque, () => {
    const type = without(schemaOf(scalar.isName), types, "a known type needs that type's fields");
    return z.looseObject({ ...propertiesOf(opaque), type });
  });
  return z.union([union, other]);
}

/** A string that is none of some words, in zod and in JSON Schema. */
function without(text: z.ZodType, words: readonly string[], error: string): z.ZodType {
  // Without `abort` a union takes a text block without its text for an unknown block with a flaw.
  const schema = text.refine((value) => !words.includes(value as string), { error, abort: true });
  return schema.register(registry, { not: { enum: words } });
}
