import type { StandardIssue, StandardResult, StandardSchema } from "../../protocol/agent.ts";
import { copyPlain } from "../plain.ts";
import { reasonOf } from "./result.ts";
import type { ToolDefinition } from "./tool.ts";

/** A call's input, or what to tell the model about it. */
export type ToolArguments =
  | { readonly ok: true; readonly input: unknown }
  | { readonly ok: false; readonly message: string };

/** What the model sent: parsed, or as the text that did not parse. */
export interface SentArguments {
  readonly input?: unknown;
  readonly raw?: string;
}

type Fields = Readonly<Record<string, unknown>>;

/** The longest arguments that a call may have. */
export const maxBytes = 1_000_000;
const maxDepth = 64;
const maxIssues = 20;
const maxLine = 500;
// Keys that reach prototypes where a tool copies objects carelessly.
const forbidden = new Set(["__proto__", "constructor", "prototype"]);

/**
 * From what the model sent to what `execute` gets: defaults, then the call's extra input, then the model's fields, then
 * the presets, each over those before it, validated. Never throws; every problem is a sentence for the model.
 */
export async function readArguments(
  { name, input: schema, preset }: Pick<ToolDefinition, "name" | "input" | "preset">,
  sent: SentArguments,
  extraInput: Fields = {},
): Promise<ToolArguments> {
  try {
    const value = sent.raw === undefined ? (sent.input ?? {}) : parse(sent.raw);
    const problem = problemWith(value);
    if (problem !== undefined) return refused(name, [problem]);
    // The tool's own: what it does to its input reaches neither the transcript nor the settings.
    if (!schema) return { ok: true, input: copyPlain({ ...extraInput, ...preset }) };
    const own = copyPlain({ ...extraInput, ...(value as Fields), ...preset });
    const result = await validate(schema, own);
    return result.issues
      ? refused(name, result.issues.map(describe))
      : { ok: true, input: result.value };
  } catch (error) {
    return refused(name, [reasonOf(error)]);
  }
}

function parse(raw: string): unknown {
  if (Buffer.byteLength(raw) > maxBytes) throw new Error(tooLarge);
  if (raw.trim() === "") return {}; // how some models call a tool that takes nothing
  try {
    return JSON.parse(raw) ?? {};
  } catch (error) {
    throw new Error(`They are not valid JSON: ${(error as Error).message}`);
  }
}

const tooLarge = `They are larger than ${maxBytes.toLocaleString("en")} bytes.`;

/** Walks without recursion, because depth is one of the things it looks for, and stops at the first problem. */
function problemWith(root: unknown): string | undefined {
  if (!isFields(root)) return `They must be a JSON object, not ${kindOf(root)}.`;
  const open: { readonly value: object; readonly depth: number }[] = [{ value: root, depth: 1 }];
  let bytes = 0;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (next.depth > maxDepth) return `They are nested deeper than ${maxDepth} levels.`;
    for (const [key, value] of Object.entries(next.value)) {
      if (forbidden.has(key)) return `The key "${key}" is not allowed.`;
      bytes += Array.isArray(next.value) ? 1 : Buffer.byteLength(key) + 4;
      if (typeof value === "object" && value !== null) {
        bytes += 2;
        open.push({ value, depth: next.depth + 1 });
      } else bytes += typeof value === "string" ? Buffer.byteLength(value) + 2 : 4;
      if (bytes > maxBytes) return tooLarge;
    }
  }
  return undefined;
}

async function validate(schema: StandardSchema, value: Fields): Promise<StandardResult<unknown>> {
  const first = await schema["~standard"].validate(value);
  if (!first.issues) return first;
  // Models like to send null for a field that they mean to leave out.
  const trimmed = first.issues.reduce<unknown>(
    (rest, { path = [] }) => withoutNull(rest, path.map(keyOf)),
    value,
  );
  if (trimmed === value) return first;
  const second = await schema["~standard"].validate(trimmed);
  return second.issues ? first : second;
}

/** The same value without the field at the path, if that is null. */
function withoutNull(value: unknown, [key, ...rest]: readonly string[]): unknown {
  if (key === undefined || typeof value !== "object" || value === null) return value;
  const fields = value as Fields;
  if (rest.length === 0) {
    if (Array.isArray(value) || fields[key] !== null) return value;
    return Object.fromEntries(Object.entries(fields).filter(([other]) => other !== key));
  }
  const child = withoutNull(fields[key], rest);
  if (child === fields[key]) return value;
  return Array.isArray(value) ? value.with(Number(key), child) : { ...fields, [key]: child };
}

function refused(name: string, problems: readonly string[]): ToolArguments {
  const shown = problems.slice(0, maxIssues).map((problem) => `- ${problem.slice(0, maxLine)}`);
  if (problems.length > maxIssues) shown.push(`- and ${problems.length - maxIssues} more`);
  const message = `The arguments for ${name} were refused:\n${shown.join("\n")}\nCorrect them and call it again.`;
  return { ok: false, message };
}

function describe({ message, path = [] }: StandardIssue): string {
  const place = path
    .map(keyOf)
    .map((key) => (/^\d+$/.test(key) ? `[${key}]` : `.${key}`))
    .join("")
    .replace(/^\./, "");
  return place === "" ? message : `${place}: ${message}`;
}

function keyOf(part: PropertyKey | { readonly key: PropertyKey }): string {
  return String(typeof part === "object" ? part.key : part);
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "an array" : `a ${typeof value}`;
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
