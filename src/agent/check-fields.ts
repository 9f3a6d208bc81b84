import { RivuletError } from "../protocol/error.ts";
import { nearest } from "./nearest.ts";
import { isRecord } from "./plain.ts";

/** What a field of some settings has to be, if it is there at all. */
export interface Field {
  readonly fits: (value: unknown) => boolean;
  /** In words, after "It is". */
  readonly is: string;
}

/** Every field of some settings: one that is not here is a mistake. */
export type Fields<Settings> = { readonly [Name in keyof Required<Settings>]: Field };

/** Looked at elsewhere, or by nobody. */
export const anything: Field = { fits: () => true, is: "anything" };
/** Text. */
export const text: Field = { fits: (value) => typeof value === "string", is: "a text" };
/** Yes or no. */
export const flag: Field = { fits: (value) => typeof value === "boolean", is: "true or false" };
/** A list of whatever. */
export const list: Field = { fits: Array.isArray, is: "a list" };
/** An object with fields of its own. */
export const record: Field = { fits: isRecord, is: "an object" };
/** A function. */
export const callback: Field = { fits: (value) => typeof value === "function", is: "a function" };
/** How often. */
export const count: Field = number(
  "a whole number, at least 1",
  (value) => Number.isInteger(value) && value >= 1,
);

/** A finite number that fits. */
export function number(is: string, fits: (value: number) => boolean = () => true): Field {
  return { fits: (value) => Number.isFinite(value) && fits(value as number), is };
}

/** Settings that say what nobody reads, or what cannot work, would switch something off in silence: they are refused. */
export function checkFields(
  what: string,
  settings: unknown,
  fields: Readonly<Record<string, Field>>,
  path = `${what}.`,
): void {
  if (!isRecord(settings)) throw invalid(`${what} is made of ${shown(settings)}.`, hintOf(fields));
  for (const [name, value] of Object.entries(settings)) {
    if (!Object.hasOwn(fields, name)) throw unknownField(what, name, Object.keys(fields));
    const field = fields[name] as Field;
    if (value === undefined || field.fits(value)) continue;
    throw invalid(`${path}${name} is ${shown(value)}.`, `It is ${field.is}.`);
  }
}

/** A name that nobody knows, and the one that was meant. */
export function unknownField(what: string, name: string, known: readonly string[]): RivuletError {
  const near = nearest(name, known);
  const hint =
    near.length > 0 ? `Did you mean ${near.join(" or ")}?` : `There are: ${known.join(", ")}.`;
  return invalid(`${what} has no ${JSON.stringify(name)}.`, hint);
}

/** Settings that cannot work. */
export function invalid(message: string, hint: string): RivuletError<"invalid_settings"> {
  return new RivuletError("invalid_settings", message, { hint });
}

function hintOf(fields: Readonly<Record<string, Field>>): string {
  return `It is an object with any of: ${Object.keys(fields).join(", ")}.`;
}

function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, 100));
  if (typeof value === "function") return "a function";
  if (Array.isArray(value)) return "a list";
  return isRecord(value) ? "an object" : String(value);
}
