import { RivuletError } from "../../protocol/error.ts";
import type { Block, Message, ToolResultState } from "../../protocol/message.ts";
import type { Execution } from "./execution.ts";
import { isRecord } from "./plain.ts";

/** The most bytes of JSON that the arguments of a call may have. */
export const maxArgumentBytes = 1_000_000;

/** The rule for one option; undefined always passes. */
export interface Field {
  readonly fits: (value: unknown) => boolean;
  /** Follows "must be". */
  readonly expected: string;
  /** A valid value as code, for the hint. */
  readonly example?: string;
}

/** The rules for all options of an object; any other option is an error. */
export type Fields<Settings> = { readonly [Name in keyof Required<Settings>]: Field };

/** Any value: checked elsewhere, or not at all. */
export const anything: Field = { fits: () => true, expected: "a value" };
/** A string. */
export const text: Field = { fits: (value) => typeof value === "string", expected: "a string" };
/** A boolean. */
export const flag: Field = { fits: (value) => typeof value === "boolean", expected: "a boolean" };
/** An array. */
export const list: Field = { fits: Array.isArray, expected: "an array" };
/** An object that is not an array. */
export const record: Field = { fits: isRecord, expected: "an object" };
/** A function. */
export const callback: Field = {
  fits: (value) => typeof value === "function",
  expected: "a function",
};
/** A positive integer. */
export const count: Field = number(
  "an integer of at least 1",
  (value) => Number.isInteger(value) && value >= 1,
);

/** A finite number that passes a test. */
export function number(expected: string, fits: (value: number) => boolean = () => true): Field {
  return { fits: (value) => Number.isFinite(value) && fits(value as number), expected };
}

const limit: Field = {
  fits: (value) => value === null || (Number.isFinite(value) && (value as number) > 0),
  expected: "a positive number of milliseconds, or null for no limit",
};
/** A number of at least 0. */
export const amount = number("a number of at least 0", (value) => value >= 0);
const executionFields: Fields<Execution> = {
  timeoutMs: limit,
  maxAttempts: count,
  initialBackoffMs: amount,
  maxBackoffMs: amount,
  backoffMultiplier: amount,
  jitter: number("a number from 0 to 1", (value) => value >= 0 && value <= 1),
  retryOn: callback,
};

/** Throws if the execution settings of a tool are invalid; `owner` names them. */
export function checkExecution(owner: string, execution: unknown): void {
  if (execution !== undefined) checkFields(owner, execution, executionFields);
}

/** Throws if the execution settings of a model are invalid; `owner` names them. */
export function checkModelExecution(owner: string, execution: unknown): void {
  if (execution !== undefined)
    checkFields(owner, execution, { ...executionFields, stallMs: limit });
}

/** Throws if an option is unknown or invalid, because a misspelled option would otherwise have no effect. */
export function checkFields(
  owner: string,
  settings: unknown,
  fields: Readonly<Record<string, Field>>,
  prefix = `${owner}.`,
): void {
  const names = Object.keys(fields);
  if (!isRecord(settings)) {
    const hint = `Pass an object with any of ${names.join(", ")}.`;
    throw invalid(`${owner} takes an object, got ${describe(settings)}.`, hint);
  }
  for (const [name, value] of Object.entries(settings)) {
    if (!Object.hasOwn(fields, name)) throw unknownField(owner, name, names);
    const { fits, expected, example } = fields[name] as Field;
    if (value === undefined || fits(value)) continue;
    const hint = example === undefined ? expected : `\`${example}\``;
    throw invalid(mismatch(`${prefix}${name}`, expected, value), `Pass ${hint}.`);
  }
}

/** The error for an option that does not exist; the hint names the option that was probably meant. */
export function unknownField(owner: string, name: string, names: readonly string[]): RivuletError {
  const ours = equivalentOf(name, names);
  const near = nearest(name, names).join(" or ");
  const guess = near === "" ? `Use any of ${names.join(", ")}.` : `Did you mean ${near}?`;
  const hint = ours === undefined ? guess : `Use \`${ours}\`.`;
  return invalid(`${owner} has no option \`${name}\`.`, hint);
}

/** Options as other agent libraries name them, and our names. */
const equivalents: Readonly<Record<string, string>> = {
  instructions: "systemPrompt",
  system: "systemPrompt",
  prompt: "systemPrompt",
  maxSteps: "maxIters",
  maxTurns: "maxIters",
  maxIterations: "maxIters",
  maxTokens: "modelOptions.maxOutputTokens",
  maxOutputTokens: "modelOptions.maxOutputTokens",
  temperature: "modelOptions.temperature",
  providerOptions: "modelOptions.providerOptions",
  maxRetries: "maxAttempts",
  timeout: "timeoutMs",
  inputSchema: "input",
  parameters: "input",
};

/** Our name for an option that other libraries name differently, if it is one of `names`. */
export function equivalentOf(name: string, names: readonly string[]): string | undefined {
  const ours = Object.hasOwn(equivalents, name) ? equivalents[name] : undefined;
  return ours !== undefined && names.includes(ours.replace(/\..*/, "")) ? ours : undefined;
}

/** The error for settings that cannot work. */
export function invalid(message: string, hint: string): RivuletError<"invalid_settings"> {
  return new RivuletError("invalid_settings", message, { hint });
}

/** Throws if an agent id cannot be one segment of a path such as `session/agent/agent`. */
export function checkAgentId(agentId: unknown): void {
  const isSegment = typeof agentId === "string" && agentId !== "" && !agentId.includes("/");
  if (isSegment && agentId.length <= 128) return;
  const message = `\`agentId\` must have 1 to 128 characters and no slash, got ${describe(agentId)}.`;
  throw new RivuletError("invalid_agent_id", message, { hint: 'Pass `agentId: "researcher"`.' });
}

/** The sentence "`place` must be X, got Y." */
export function mismatch(place: string, expected: string, value: unknown): string {
  const path = place.lastIndexOf(": ") + 1; // after the owner, as in "Tool search: execution.jitter"
  const quoted =
    path === 0 ? `\`${place}\`` : `${place.slice(0, path)} \`${place.slice(path + 1)}\``;
  return `${quoted} must be ${expected}, got ${describe(value)}.`;
}

function describe(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, 100));
  if (typeof value === "function") return "a function";
  if (Array.isArray(value)) return "an array";
  return isRecord(value) ? "an object" : String(value);
}

const maxNameLength = 64;

/** The names most similar to this one, at most three; only the beginning of a very long name counts. */
export function nearest(name: string, names: readonly string[]): readonly string[] {
  const wanted = name.slice(0, maxNameLength).toLowerCase();
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

type Role = Message["role"];
type BlockType = Block["type"];
type Rules = Readonly<Record<string, Field>>;

const media = ["image", "audio", "video", "file"] as const;
/** The blocks that a message from outside may contain; the loop writes all other blocks itself. */
const blocksByRole: Readonly<Record<Role, ReadonlySet<BlockType>>> = {
  system: new Set(["text", "hint"]),
  user: new Set(["text", "hint", ...media, "tool_result"]),
  assistant: new Set(["text", "thinking", ...media, "tool_use"]),
  tool: new Set(["tool_result"]),
};
const outputBlocks: ReadonlySet<BlockType> = new Set(["text", "hint", ...media]);

/** One of some strings. */
export function oneOf(values: readonly string[]): Field {
  const allowed = new Set<unknown>(values);
  return { fits: (value) => allowed.has(value), expected: `one of ${values.join(", ")}` };
}

/** The same rule for a field that may be missing. */
export function optional({ fits, expected }: Field): Field {
  return { fits: (value) => value === undefined || fits(value), expected };
}

const states: readonly ToolResultState[] = ["success", "error", "denied", "interrupted"];
/** The state of a tool result. */
export const resultState = oneOf(states);
const role = oneOf(Object.keys(blocksByRole));
const id: Field = {
  fits: (value) => typeof value === "string" && value !== "",
  expected: "a non-empty string",
};
const source: Field = {
  fits: isSource,
  expected: "an object with `data` and `mimeType`, or with a `url`",
};
const messageRules: Rules = {
  role,
  id: optional(text),
  name: optional(text),
  metadata: optional(record),
  usage: optional(record),
};
const everyBlock: Rules = { metadata: optional(record), signature: optional(text) };
const spoken: Rules = { ...everyBlock, text };
const medium: Rules = { ...everyBlock, source };
const decision: Rules = { ...everyBlock, callId: text, approvalId: id };
const blockRules: Readonly<Record<BlockType, Rules>> = {
  text: spoken,
  hint: spoken,
  thinking: spoken,
  image: medium,
  audio: medium,
  video: medium,
  file: medium,
  tool_use: { ...everyBlock, id, name: id, raw: optional(text), providerCallId: optional(text) },
  tool_result: { ...everyBlock, id, name: text, state: resultState },
  suspension: decision,
  answer: decision,
  compaction: { ...everyBlock, summary: text, keepFrom: number("an integer", Number.isInteger) },
};
const allBlocks = new Set(Object.keys(blockRules) as BlockType[]);

/** Why a message from outside cannot be stored; undefined when it can. */
export function messageProblem(value: unknown, place: string): string | undefined {
  if (!isRecord(value)) return mismatch(place, "a message", value);
  const problem = fieldsProblem(value, place, messageRules);
  if (problem !== undefined) return problem;
  const allowed = blocksByRole[value.role as Role];
  return blocksProblem(
    value.content,
    `${place}.content`,
    allowed,
    `A message of role ${value.role}`,
  );
}

/** Why a value cannot be the output of a tool; undefined when it can. */
export function outputProblem(value: unknown, place: string): string | undefined {
  return blocksProblem(value, place, outputBlocks, "The output of a tool");
}

/** Whether a value is an array of blocks of any type, as hooks may return. */
export function isBlocks(value: unknown): value is readonly Block[] {
  return blocksProblem(value, "", allBlocks, "") === undefined;
}

/** Whether a value is a message with blocks of any type; its id may be missing. */
export function isMessage(value: unknown): value is Message {
  return isRecord(value) && role.fits(value.role) && isBlocks(value.content);
}

/** Why an object breaks one of the rules for its fields; undefined when it keeps them all. */
export function fieldsProblem(
  value: Readonly<Record<string, unknown>>,
  place: string,
  rules: Rules,
): string | undefined {
  for (const name in rules) {
    const { fits, expected } = rules[name] as Field;
    if (!fits(value[name])) return mismatch(`${place}.${name}`, expected, value[name]);
  }
  return undefined;
}

function blocksProblem(
  blocks: unknown,
  place: string,
  allowed: ReadonlySet<BlockType>,
  container: string,
): string | undefined {
  if (!Array.isArray(blocks)) return mismatch(place, "an array of blocks", blocks);
  for (const [index, block] of blocks.entries()) {
    const here = `${place}[${index}]`;
    if (!isRecord(block)) return mismatch(here, "a block", block);
    const type = block.type as BlockType;
    if (!allowed.has(type)) {
      return `${container} cannot contain a block of type ${JSON.stringify(type)}, at \`${here}\`.`;
    }
    const problem =
      fieldsProblem(block, here, blockRules[type]) ??
      (type === "tool_result" ? outputProblem(block.output, `${here}.output`) : undefined);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function isSource(value: unknown): boolean {
  if (!isRecord(value)) return false;
  const { data, url, mimeType } = value;
  if (typeof data === "string") return typeof mimeType === "string";
  return data === undefined && typeof url === "string" && optional(text).fits(mimeType);
}
