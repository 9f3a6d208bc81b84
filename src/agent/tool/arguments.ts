import { reasonOf } from "../../base/error.ts";
import { copyPlain, isObject } from "../../base/plain.ts";
import type { Awaitable } from "../../base/time.ts";
import { isThenable, whenDone } from "../../base/time.ts";
import type { StandardIssue, StandardResult, StandardSchema } from "../../contract/index.ts";
import { argumentErrors } from "../base/prompts.ts";
import type { ToolContext } from "./context.ts";
import type { ToolDefinition } from "./tool.ts";

/** The input of a call, or a message for the model that says why it is invalid. */
export type ToolArguments =
  | { readonly ok: true; readonly input: unknown }
  | { readonly ok: false; readonly message: string };

/** The arguments that the model sent: parsed, or the text that did not parse. */
export interface SentArguments {
  readonly input?: unknown;
  readonly raw?: string;
}

type Fields = Readonly<Record<string, unknown>>;
type ReadDefinition = Pick<ToolDefinition, "name" | "input" | "preset" | "paths">;

/** The most bytes of JSON that the arguments of a call may have. */
export const maxArgumentBytes = 1_000_000;
const maxDepth = 64;
const maxIssues = 20;
const maxLine = 500;
// Keys that could reach prototypes when a tool copies objects.
const forbidden = new Set(["__proto__", "constructor", "prototype"]);

/** Validates defaults, extra input, the model's fields and presets, merged in this order; normalizes paths. Never throws. */
export function readArguments(
  definition: ReadDefinition,
  sent: SentArguments,
  extraInput: Fields = {},
  createContext?: () => ToolContext,
): Awaitable<ToolArguments> {
  const { name, input: schema, preset } = definition;
  const onError = (error: unknown) => rejected(name, [reasonOf(error)]);
  try {
    const value = sent.raw === undefined ? (sent.input ?? {}) : parse(sent.raw);
    const problem = problemWith(value);
    if (problem !== undefined) return rejected(name, [problem]);
    // A copy, so that the tool cannot change the transcript or the settings.
    if (!schema) return { ok: true, input: copyPlain({ ...extraInput, ...preset }) };
    const own = copyPlain({ ...extraInput, ...(value as Fields), ...preset });
    const read = (result: StandardResult<unknown>) =>
      argumentsOf(definition, result, createContext);
    const result = whenDone(validate(schema, own), read);
    return isThenable(result) ? result.then(undefined, onError) : result;
  } catch (error) {
    return onError(error);
  }
}

/** The arguments after validation. */
function argumentsOf(
  { name, preset, paths }: ReadDefinition,
  result: StandardResult<unknown>,
  createContext: (() => ToolContext) | undefined,
): ToolArguments {
  const { issues } = result;
  if (issues)
    return rejected(
      name,
      issues.map((one) => describeUnlessPreset(one, preset)),
    );
  const input = result.value;
  const fields = isObject(input) ? Object.keys(paths).filter((field) => field in input) : [];
  if (!createContext || fields.length === 0) return { ok: true, input };
  const context = createContext();
  const normalized = fields.map((field) => {
    const { [field]: value } = input as Fields;
    const one = (path: unknown) =>
      typeof path === "string" ? paths[field]?.(path, context) : path;
    return [field, Array.isArray(value) ? value.map(one) : one(value)];
  });
  return { ok: true, input: { ...(input as Fields), ...Object.fromEntries(normalized) } };
}

function parse(raw: string): unknown {
  if (Buffer.byteLength(raw) > maxArgumentBytes)
    throw new Error(argumentErrors.tooLarge(maxArgumentBytes));
  if (raw.trim() === "") return {}; // some models send it for no arguments
  try {
    return JSON.parse(raw) ?? {};
  } catch (error) {
    throw new Error(argumentErrors.notJson((error as Error).message));
  }
}

/** The first problem of the arguments; iterative, because they may be deeply nested. */
function problemWith(root: unknown): string | undefined {
  if (!isObject(root))
    return argumentErrors.notObject(Array.isArray(root) ? "an array" : `a ${typeof root}`);
  const open: { readonly value: object; readonly depth: number }[] = [{ value: root, depth: 1 }];
  let bytes = 0;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (next.depth > maxDepth) return argumentErrors.tooDeep(maxDepth);
    for (const [key, value] of Object.entries(next.value)) {
      if (forbidden.has(key)) return argumentErrors.forbiddenKey(key);
      bytes += Array.isArray(next.value) ? 1 : Buffer.byteLength(key) + 4;
      if (typeof value === "object" && value !== null) {
        bytes += 2;
        open.push({ value, depth: next.depth + 1 });
      } else bytes += typeof value === "string" ? Buffer.byteLength(value) + 2 : 4;
      if (bytes > maxArgumentBytes) return argumentErrors.tooLarge(maxArgumentBytes);
    }
  }
  return undefined;
}

function validate(schema: StandardSchema, value: Fields): Awaitable<StandardResult<unknown>> {
  return whenDone(schema["~standard"].validate(value), (first) => {
    if (!first.issues) return first;
    // Models often send null or "" for a field that they leave out.
    const trimmed = first.issues.reduce<unknown>(
      (rest, { path = [] }) => withoutEmpty(rest, path.map(keyOf)),
      value,
    );
    if (trimmed === value) return first;
    return whenDone(schema["~standard"].validate(trimmed), (second) =>
      second.issues ? first : second,
    );
  });
}

function withoutEmpty(value: unknown, [key, ...rest]: readonly string[]): unknown {
  if (key === undefined || typeof value !== "object" || value === null) return value;
  const fields = value as Fields;
  if (rest.length === 0) {
    if (Array.isArray(value) || (fields[key] !== null && fields[key] !== "")) return value;
    return Object.fromEntries(Object.entries(fields).filter(([field]) => field !== key));
  }
  const child = withoutEmpty(fields[key], rest);
  if (child === fields[key]) return value;
  return Array.isArray(value) ? value.with(Number(key), child) : { ...fields, [key]: child };
}

function rejected(name: string, problems: readonly string[]): ToolArguments {
  const lines = problems.slice(0, maxIssues).map((problem) => problem.slice(0, maxLine));
  if (problems.length > maxIssues) lines.push(argumentErrors.more(problems.length - maxIssues));
  return { ok: false, message: argumentErrors.invalid(name, lines) };
}

/** An issue as "place: message". */
export function describeIssue({ message, path = [] }: StandardIssue): string {
  const place = path
    .map(keyOf)
    .map((key) => (/^\d+$/.test(key) ? `[${key}]` : `.${key}`))
    .join("")
    .replace(/^\./, "");
  return place === "" ? message : `${place}: ${message}`;
}

function describeUnlessPreset(issue: StandardIssue, preset: Fields): string {
  const [first] = issue.path ?? [];
  const isPreset = first !== undefined && Object.hasOwn(preset, keyOf(first));
  return isPreset ? argumentErrors.preset : describeIssue(issue);
}

function keyOf(part: PropertyKey | { readonly key: PropertyKey }): string {
  return String(typeof part === "object" ? part.key : part);
}
