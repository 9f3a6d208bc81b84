import { RivuletError } from "./error.ts";
import { isObject } from "./plain.ts";

/** The rule for one option or argument. Undefined passes unless the rule is required. */
export interface Field {
  /** Follows "must be". */
  readonly expected: string;
  readonly fits: (value: unknown) => boolean;
  /** A valid value as code, for the hint. */
  readonly example?: string;
  readonly isRequired?: true;
  /** Accepts other values as they are. */
  readonly also?: (value: unknown) => boolean;
  /** The rules for the options inside this one. */
  readonly fields?: Shape;
  /** The rule for every entry of an array or a record. */
  readonly entry?: Field;
  /** The rule as JSON Schema, without `fields`, `entry` and what is required. */
  readonly schema?: Readonly<Record<string, unknown>>;
}
/** Rules by name. */
export type Shape = Readonly<Record<string, Field>>;
/** The rules for all options of an object; any other option is an error. */
export type Fields<Settings> = { readonly [Name in keyof Required<Settings>]: Field };

/** Any value: checked elsewhere, or not at all. */
export const anything: Field = { fits: () => true, expected: "a value" };
/** A string. */
export const text: Field = {
  fits: (value) => typeof value === "string",
  expected: "a string",
  schema: { type: "string" },
};
/** A string with at least one character. */
export const name: Field = {
  fits: (value) => typeof value === "string" && value !== "",
  expected: "a non-empty string",
  schema: { type: "string", minLength: 1 },
};
/** A boolean. */
export const flag: Field = {
  fits: (value) => typeof value === "boolean",
  expected: "a boolean",
  schema: { type: "boolean" },
};
/** A function. */
export const callback: Field = {
  fits: (value) => typeof value === "function",
  expected: "a function",
};
/** An object that is not an array. */
export const record: Field = {
  fits: isObject,
  expected: "an object",
  schema: { type: "object" },
};
/** An object of plain data, of bounded depth and thus without cycles. */
export const data: Field = {
  fits: (value) => isObject(value) && nestsAtMost(value, 100),
  expected: "an object of plain data, nested at most 100 levels deep",
  schema: { type: "object" },
};
function nestsAtMost(value: unknown, levels: number): boolean {
  const isPlain = Array.isArray(value) || (isObject(value) && !isInstance(value));
  if (!isPlain) return true;
  return levels > 0 && Object.values(value).every((field) => nestsAtMost(field, levels - 1));
}
/** Whether an object is an instance of a class, whose fields are not ours to read. */
function isInstance(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype !== null && prototype !== Object.prototype;
}
/** An array. */
export const list: Field = {
  fits: isArray,
  expected: "an array",
  entry: anything,
  schema: { type: "array" },
};
function isArray(value: unknown): boolean {
  return Array.isArray(value);
}
/** A finite number that passes a test. */
/* @__NO_SIDE_EFFECTS__ */ export function number(
  expected: string,
  fits: (value: number) => boolean = () => true,
): Field {
  return {
    fits: (value) => Number.isFinite(value) && fits(value as number),
    expected,
    schema: { type: "number" },
  };
}
/** An integer of at least 1. */
export const count = integer(1);
/** A number of at least 0. */
export const amount = number("a number of at least 0", (value) => value >= 0);
/** A duration of at least 1 ms. */
export const duration = number(
  "an integer of at least 1 (milliseconds)",
  (value) => Number.isInteger(value) && value >= 1,
);

/** An integer in a range. */
/* @__NO_SIDE_EFFECTS__ */ export function integer(
  least: number,
  most = Number.POSITIVE_INFINITY,
): Field {
  const range =
    most === Number.POSITIVE_INFINITY ? `of at least ${least}` : `from ${least} to ${most}`;
  const fits = (value: number) => Number.isInteger(value) && value >= least && value <= most;
  const maximum = most === Number.POSITIVE_INFINITY ? {} : { maximum: most };
  const schema = { type: "integer", minimum: least, ...maximum };
  return { ...number(`an integer ${range}`, fits), schema };
}

/** One of some strings. */
export function oneOf<Word extends string>(...words: readonly Word[]): Field {
  const expected = words.map((word) => JSON.stringify(word)).join(" or ");
  const schema = { type: "string", enum: words };
  return { fits: (value) => words.includes(value as Word), expected, schema };
}

/** An object with these functions. */
/* @__NO_SIDE_EFFECTS__ */ export function withFunctions(...functions: readonly string[]): Field {
  const fits = (value: unknown) =>
    isObject(value) && functions.every((key) => typeof value[key] === "function");
  return { fits, expected: `an object with ${functions.map((key) => `${key}()`).join(" and ")}` };
}

/** An array whose entries all fit a rule. */
export function listOf(entry: Field): Field {
  return { ...list, entry };
}

/** An object whose values all fit a rule, under any names. */
export function recordOf(entry: Field): Field {
  return { ...record, entry };
}

/** Options inside an option. */
export function options(fields: Shape): Field {
  return { ...record, fields };
}

/** The same rule, or other values, which are passed on as they are. */
export function or(field: Field, expected: string, also: (value: unknown) => boolean): Field {
  const isOther = (value: unknown) => field.also?.(value) || also(value);
  return { ...field, expected: `${field.expected}, or ${expected}`, also: isOther };
}

/** The same rule, or false. */
export function orFalse(field: Field): Field {
  return or(field, "false", (value) => value === false);
}

/** The same rule for an option that must be present. */
/* @__NO_SIDE_EFFECTS__ */ export function required(field: Field, example?: string): Field {
  return { ...field, isRequired: true, ...(example !== undefined && { example }) };
}

/** The clock of a store or a log. */
export const wallClock = withFunctions("now");
/** A clock. */
export const clock = withFunctions("now", "sleep");
/** An AbortSignal. */
export const signal: Field = /* @__PURE__ */ Object.assign(
  withFunctions("addEventListener", "removeEventListener", "throwIfAborted"),
  { expected: "an AbortSignal", example: "controller.signal" },
);

/**
 * Reads options once and returns them as a plain object without undefined values, so that no getter or proxy can change
 * them later. Throws `invalid_settings` for an option that is unknown or does not fit.
 */
export function readOptions<Settings extends object>(
  owner: string,
  given: Settings | undefined,
  fields: Fields<Settings>,
  prefix = "",
): Settings {
  return readFields(owner, given, fields, prefix, "invalid_settings") as Settings;
}

/** Throws `invalid_argument` if an argument of a function does not fit its rule; returns its copy. */
export function readArgument<Value>(place: string, value: Value, field: Field): Value {
  return readValue(place, value, field, "invalid_argument") as Value;
}

/** Like `readArgument` for each of them, but copies nothing: frequent calls with valid arguments cost little. */
export function checkArguments(
  places: readonly string[],
  values: readonly unknown[],
  fields: readonly Field[],
): void {
  let index = 0;
  try {
    while (index < fields.length && isValid(values[index], fields[index] as Field)) index += 1;
  } catch (error) {
    if (error instanceof RivuletError) throw error;
  }
  for (; index < fields.length; index++)
    readArgument(places[index] as string, values[index], fields[index] as Field);
}

function isValid(value: unknown, field: Field): boolean {
  if (value === undefined) return field.isRequired !== true;
  if (field.also?.(value)) return true;
  if (!field.fits(value)) return false;
  const { fields, entry } = field;
  if (!fields && !entry) return true;
  const settings = value as Readonly<Record<string, unknown>>;
  for (const key in settings) {
    if (fields && !Object.hasOwn(fields, key)) return false;
    if (entry && (settings[key] === undefined || !isValid(settings[key], entry))) return false;
  }
  for (const key in fields) if (!isValid(settings[key], fields[key] as Field)) return false;
  return true;
}

function readFields(
  owner: string,
  given: unknown,
  fields: Shape,
  prefix: string,
  code: string,
): Readonly<Record<string, unknown>> {
  const names = Object.keys(fields);
  if (!passes(() => isObject(given))) {
    const hint = `Pass an object with any of ${names.join(", ")}.`;
    throw new RivuletError(code, `${owner} takes an object, got ${describe(given)}.`, { hint });
  }
  const settings = given as Readonly<Record<string, unknown>>;
  const unknown = readable(owner, code, () => Object.keys(settings)).find(
    (key) => !Object.hasOwn(fields, key),
  );
  if (unknown !== undefined) throw unknownField(owner, unknown, names);
  const copy: Record<string, unknown> = {};
  for (const key of names) {
    const place = `${prefix}${key}`;
    const value = readable(place, code, () => settings[key]);
    const read = readValue(place, value, fields[key] as Field, code);
    if (read !== undefined) copy[key] = read;
  }
  return copy;
}

function readValue(place: string, value: unknown, field: Field, code: string): unknown {
  const { expected, example, fits, also, fields, entry, isRequired } = field;
  if (value === undefined && !isRequired) return undefined;
  if (also && passes(() => also(value))) return value;
  if (!passes(() => fits(value))) {
    const hint = example === undefined ? `Pass ${expected}.` : `Pass \`${example}\`.`;
    throw new RivuletError(code, mismatch(place, expected, value), { hint });
  }
  if (fields) return readFields(place, value, fields, `${place}.`, code);
  if (!entry) return value;
  const strict = required(entry);
  if (Array.isArray(value)) {
    const entries = readable(place, code, () => [...value]);
    return entries.map((one, index) => readValue(`${place}[${index}]`, one, strict, code));
  }
  const entries = readable(place, code, () => Object.entries(value as object));
  return Object.fromEntries(
    entries.map(([key, one]) => [key, readValue(`${place}.${key}`, one, strict, code)]),
  );
}

/** Runs code of the caller, such as a getter. */
function readable<T>(place: string, code: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    const message = `\`${place}\` cannot be read: ${reasonIn(cause)}.`;
    throw new RivuletError(code, message, { cause, hint: "Pass plain values without getters." });
  }
}

/** Whether a test passes; a value that throws when it is read does not. A test may throw a better error itself. */
export function passes(test: () => boolean): boolean {
  try {
    return test();
  } catch (error) {
    if (error instanceof RivuletError) throw error;
    return false;
  }
}

function reasonIn(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : typeof thrown;
}

/** The error for an option that does not exist; the hint names the option that was probably meant. */
export function unknownField(owner: string, key: string, names: readonly string[]): RivuletError {
  const ours = equivalentOf(key, names);
  const near = nearest(key, names).join(" or ");
  const guess = near === "" ? `Use any of ${names.join(", ")}.` : `Did you mean ${near}?`;
  const shown = key.slice(0, 100);
  return invalid(
    `${owner} has no option \`${shown}\`.`,
    ours === undefined ? guess : `Use ${ours}.`,
  );
}

/** Options as other agent libraries name them, and our names. */
const equivalents: Readonly<Record<string, string>> = {
  instructions: "systemPrompt",
  system: "systemPrompt",
  prompt: "systemPrompt",
  maxSteps: "maxIters",
  maxTurns: "maxIters",
  maxIterations: "maxIters",
  stopWhen: "maxIters",
  maxTokens: "modelOptions.maxOutputTokens",
  maxOutputTokens: "modelOptions.maxOutputTokens",
  temperature: "modelOptions.temperature",
  providerOptions: "modelOptions.providerOptions",
  maxRetries: "maxAttempts",
  timeout: "timeoutMs",
  timeoutSeconds: "timeoutMs",
  inputSchema: "input",
  parameters: "input",
  schema: "output",
  abortSignal: "signal",
};

/** Options that only a HarnessAgent has. */
const harnessOnly = new Set(["subagents", "workspace", "filesystem", "limits", "mcp"]);

/** Our option for a name of another library, as code, if it is one of `names` or inside one. */
function equivalentOf(key: string, names: readonly string[]): string | undefined {
  if (harnessOnly.has(key) && names.includes("prepareInput")) return "a HarnessAgent, which has it";
  const ours = Object.hasOwn(equivalents, key) ? (equivalents[key] as string) : "";
  const [outer = "", inner = outer] = ours.split(".");
  if (names.includes(inner)) return `\`${inner}\``;
  return names.includes(outer) ? `\`${ours}\`` : undefined;
}

/** The error for settings that cannot work. */
export function invalid(message: string, hint: string): RivuletError<"invalid_settings"> {
  return new RivuletError("invalid_settings", message, { hint });
}

/** A kind of thing and its name, if it has one, for errors; never throws. */
export function ownerOf(kind: string, value: unknown): string {
  try {
    const { name } = value as { name?: unknown };
    return typeof name === "string" && name !== "" ? `${kind} ${name.slice(0, 100)}` : kind;
  } catch {
    return kind;
  }
}

/** The sentence "`place` must be X, got Y." */
export function mismatch(place: string, expected: string, value: unknown): string {
  const path = place.lastIndexOf(": ") + 1; // after the owner, as in "Tool search: execution.jitter"
  const quoted =
    path === 0 ? `\`${place}\`` : `${place.slice(0, path)} \`${place.slice(path + 1)}\``;
  return `${quoted} must be ${expected}, got ${describe(value)}.`;
}

/** A value in an error message, without its contents. */
export function describe(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, 100));
  if (typeof value === "function") return "a function";
  if (typeof value !== "object" || value === null) return String(value);
  return passes(() => Array.isArray(value)) ? "an array" : "an object";
}

const maxNameLength = 64;

/** The names most similar to this one, at most three; only the beginning of a very long name counts. */
export function nearest(key: string, names: readonly string[]): readonly string[] {
  const wanted = key.slice(0, maxNameLength).toLowerCase();
  return names
    .map((candidate) => ({ candidate, distance: distance(wanted, candidate.toLowerCase()) }))
    .filter(({ distance }) => distance <= Math.max(2, wanted.length / 3))
    .sort((a, b) => a.distance - b.distance)
    .slice(0, 3)
    .map(({ candidate }) => candidate);
}

/** The edit distance of two names; 1 when a name contains the other. */
function distance(a: string, b: string): number {
  if (a !== "" && (a.includes(b) || b.includes(a))) return 1;
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
