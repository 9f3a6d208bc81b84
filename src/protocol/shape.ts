import { isObject } from "../base/plain.ts";
import type { words } from "./grammar/index.ts";

/** How strictly a value is read. */
export interface ReadMode {
  /** The first form of the protocol: blocks may have numbers as ids. */
  readonly legacy?: boolean;
  /** The lists of words, to accept only those of this version. */
  readonly words?: Readonly<Record<string, readonly string[]>>;
}
/** Whether a value is a scalar of one kind. */
export type Scalar<T = unknown> = (value: unknown, mode: ReadMode) => value is T;
/**
 * The form of a value: a scalar, a constant (`"=text"`, `"=file|audio"`), a word of a list (`"~mode"`) or the only
 * word so far (`"~assistant"`), a list (`[shape]`), an object with these fields, or one of several objects that differ
 * in their `type`.
 */
export type Shape = Scalar | `=${string}` | `~${string}` | readonly [Shape] | Variants | Fields;
/** The fields of an object; fields without a name here are legal and kept. */
export interface Fields {
  readonly [name: string]: Shape | Optional;
}
/** A field that may be absent, or null, which means the same; `preset` is its value then. */
export class Optional<S extends Shape = Shape, Preset = unknown> {
  readonly shape: S;
  readonly preset: Preset;
  constructor(shape: S, preset: Preset) {
    this.shape = shape;
    this.preset = preset;
  }
}
/** Makes a field optional. */
export function optional<const S extends Shape>(shape: S): Optional<S, undefined>;
export function optional<const S extends Shape, Preset>(
  shape: S,
  preset: Preset,
): Optional<S, Preset>;
export function optional(shape: Shape, preset?: unknown): Optional {
  return new Optional(shape, preset);
}
/** The same fields, some of them optional. */
export function partial<const F extends Fields, Name extends keyof F>(fields: F, ...names: Name[]) {
  const changed = Object.fromEntries(names.map((name) => [name, optional(fields[name] as Shape)]));
  return { ...fields, ...changed } as {
    readonly [Key in keyof F]: Key extends Name
      ? Optional<Extract<F[Key], Shape>, undefined>
      : F[Key];
  };
}
/** The shape of a field, and whether it must be present. */
export function fieldOf(field: Shape | Optional): {
  readonly shape: Shape;
  readonly isRequired: boolean;
} {
  return field instanceof Optional
    ? { shape: field.shape, isRequired: false }
    : { shape: field, isRequired: true };
}
/**
 * Objects that differ in their `type`. `opaque` has the fields that an object of an unknown type must have; without it,
 * a reader accepts unknown types as they are. `refused` has the types that are known and stand elsewhere.
 */
export class Variants<Known extends readonly Fields[] = readonly Fields[]> {
  readonly known: Known;
  readonly opaque: Fields | undefined;
  readonly #byType = new Map<unknown, Fields>();
  readonly #other: Fields;
  constructor(known: Known, opaque?: Fields, refused: readonly string[] = []) {
    this.known = known;
    this.opaque = opaque;
    for (const fields of known) for (const type of typesOf(fields)) this.#byType.set(type, fields);
    const [first] = this.types;
    this.#other = opaque ?? { type: `~${first}` };
    for (const type of refused) this.#byType.set(type, { type: `=${first}` });
  }
  /** The types that are known, the refused ones included. */
  get types(): readonly string[] {
    return [...this.#byType.keys()] as string[];
  }
  /** The fields of an object of a type. */
  fieldsOf(type: unknown): Fields {
    return this.#byType.get(kindOf(type)) ?? this.#other;
  }
}

type Words = typeof words;
type Alternative<S> = S extends `${infer First}|${infer Rest}` ? First | Alternative<Rest> : S;
/** The fields that may be absent. A field with a preset is not one of them: who reads the value finds it there. */
type OptionalKeys<F> = {
  [Key in keyof F]: F[Key] extends Optional<Shape, undefined> ? Key : never;
}[keyof F];
type ShapeIn<Field> = Field extends Optional<infer S, unknown> ? S : Field;
/** The TypeScript type of the values that have a shape. */
export type TypeOf<S> =
  S extends Scalar<infer T>
    ? T
    : S extends `=${infer Constants}`
      ? Alternative<Constants>
      : S extends `~${infer Name}`
        ? Name extends keyof Words
          ? Words[Name][number]
          : Name
        : S extends readonly [infer Entry]
          ? readonly TypeOf<Entry>[]
          : S extends Variants<infer Known>
            ? TypeOf<Known[number]>
            : {
                // Mapped without renaming, so that the comments of the grammar are those of the types.
                readonly [Key in keyof Pick<S, Exclude<keyof S, OptionalKeys<S>>>]: TypeOf<
                  ShapeIn<S[Key]>
                >;
              } & {
                readonly [Key in keyof Pick<S, OptionalKeys<S>>]?: TypeOf<ShapeIn<S[Key]>>;
              };

/** Whether a value can name something in a tree: `__proto__` cannot, because ids become keys. */
export function isId(value: unknown): value is string {
  return isName(value) && value.length <= 128 && value !== "__proto__";
}
/** Whether a value can be the id of a block; it is a number in the first form of the protocol. */
export function isBlockId(value: unknown, { legacy }: ReadMode): value is string {
  return isId(value) || (legacy === true && isNumber(value));
}
/** Whether a value is a string. */
export function isText(value: unknown): value is string {
  return typeof value === "string";
}
/** Whether a value is a string that is not empty. */
export function isName(value: unknown): value is string {
  return isText(value) && value !== "";
}
/** Whether a value is a number. */
export function isNumber(value: unknown): value is number {
  return Number.isFinite(value);
}
/** Whether a value is a whole number from 0: a position or an amount. */
export function isIndex(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
/** Whether a value can be a time: milliseconds since 1970. */
export const isTime: Scalar<number> = (value) => isIndex(value);
/** Whether a value can be an offset in a text, in UTF-16 code units. */
export const isOffset: Scalar<number> = (value) => isIndex(value);
/** Whether a value is a whole number from 1. */
export const isLevel: Scalar<number> = (value): value is number => isIndex(value) && value > 0;
/** Whether a value can be a position or, -1, the one before the first. */
export function isCursor(value: unknown): value is number {
  return isIndex(value) || value === -1;
}
/** Whether a value is true or false. */
export const isFlag: Scalar<boolean> = (value) => typeof value === "boolean";
/** Whether a value is true. */
export const isTrue: Scalar<true> = (value) => value === true;
/** Whether a value is a JSON object; it may nest one level more, because `state` holds the values of `task.custom`. */
export function isJson(value: unknown): value is Readonly<Record<string, unknown>> {
  return isObject(value) && nests(value, maxNesting + 1);
}
/** Whether a value nests no deeper than a number of levels. */
export function nests(value: unknown, levels = maxNesting): boolean {
  if (typeof value !== "object" || value === null) return true;
  if (levels === 0) return false;
  if (Array.isArray(value)) return value.every((entry) => nests(entry, levels - 1));
  for (const key in value) {
    const inner = (value as Record<string, unknown>)[key];
    if (typeof inner === "object" && !nests(inner, levels - 1)) return false;
  }
  return true;
}
/** How deep a value may nest that the grammar does not describe: far from the end of any stack. */
const maxNesting = 200;
/** Whether a value is anything. */
export const isAny: Scalar = (value): value is unknown => nests(value);

/** Whether a shape is a list. */
export function isList(shape: Shape): shape is readonly [Shape] {
  return Array.isArray(shape);
}

/** The type of a block; the first form of the protocol had two for images. */
export function kindOf<T>(type: T): T | "image" {
  return type === "image_url" ? "image" : type;
}

/** Returns the value, without nulls that are absent fields, or undefined if it does not have the shape. */
export type Read = (value: unknown, mode: ReadMode) => unknown;

const reads = new Map<Shape, Read>();

/** The function that reads values of a shape; the same one for the same shape. */
export function readerOf(shape: Shape): Read {
  const read = reads.get(shape) ?? compile(shape);
  reads.set(shape, read);
  return read;
}

function compile(shape: Shape): Read {
  if (shape instanceof Variants) {
    return (value, mode) =>
      isObject(value) ? readerOf(shape.fieldsOf(value.type))(value, mode) : undefined;
  }
  if (isList(shape)) return readList(readerOf(shape[0]));
  if (typeof shape === "object") return readFields(shape);
  const test = typeof shape === "string" ? wordOf(shape) : shape;
  return (value, mode) => (test(value, mode) ? value : undefined);
}

/** The scalar for a constant or a word. */
function wordOf(shape: string): Scalar<string> {
  const name = shape.slice(1);
  const constants = name.split("|");
  return (value, { words }): value is string =>
    shape[0] === "="
      ? constants.includes(kindOf(value) as string)
      : isText(value) && (words === undefined || (words[name] ?? constants).includes(value));
}

function readList(read: Read): Read {
  return (value, mode) => {
    if (!Array.isArray(value)) return undefined;
    let result: readonly unknown[] = value;
    for (let at = 0; at < value.length; at++) {
      const entry = read(value[at], mode);
      if (entry === undefined) return undefined;
      if (entry !== value[at]) result = result.with(at, entry);
    }
    return result;
  };
}

/** How many names are remembered in order. */
const maxOrder = 24;

interface Field {
  readonly read: Read;
  readonly isRequired: boolean;
}

function readFields(fields: Fields): Read {
  const byName = new Map<string, Field>();
  let required = 0;
  for (const [name, field] of Object.entries(fields)) {
    const { shape, isRequired } = fieldOf(field);
    if (isRequired) required++;
    byName.set(name, { read: readerOf(shape), isRequired });
  }
  // Objects of one shape mostly have their fields in one order, and comparing a name is faster than looking it up.
  const lastNames: string[] = [];
  const lastFields: (Field | undefined)[] = [];
  return (value, mode) => {
    if (!isObject(value)) return undefined;
    let result = value;
    let present = 0;
    let at = 0;
    for (const name in value) {
      let field = lastFields[at];
      if (lastNames[at] !== name) {
        field = byName.get(name);
        if (at < maxOrder) {
          lastNames[at] = name;
          lastFields[at] = field;
        }
      }
      at++;
      const sent = value[name];
      if (field === undefined) {
        if (typeof sent !== "object" || nests(sent)) continue;
        return undefined;
      }
      if (field.isRequired) present++;
      else if (sent === undefined) continue;
      const isAbsent = sent === null && !field.isRequired;
      const inner = isAbsent ? null : field.read(sent, mode);
      if (inner === undefined) return undefined;
      if (inner === sent && !isAbsent) continue;
      if (result === value) result = { ...value };
      if (isAbsent) delete result[name];
      else result[name] = inner;
    }
    return present === required ? result : undefined;
  };
}

/** The types of the objects that have these fields. */
function typesOf({ type }: Fields): readonly string[] {
  return (type as string).slice(1).split("|");
}
