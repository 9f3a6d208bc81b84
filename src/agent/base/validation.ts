import { RivuletError } from "../../protocol/error.ts";
import type { Block, Message, ToolResultState } from "../../protocol/message.ts";
import * as is from "../../protocol/options.ts";
import { describe, type Field, type Fields, mismatch, type Shape } from "../../protocol/options.ts";
import type { Execution } from "./execution.ts";
import { isRecord } from "./plain.ts";

/** The most bytes of JSON that the arguments of a call may have. */
export const maxArgumentBytes = 1_000_000;

const limit: Field = {
  fits: (value) => value === null || (Number.isFinite(value) && (value as number) > 0),
  expected: "a positive number of milliseconds, or null for no limit",
};
const executionFields: Fields<Execution> = {
  timeoutMs: limit,
  maxAttempts: is.count,
  initialBackoffMs: is.amount,
  maxBackoffMs: is.amount,
  backoffMultiplier: is.amount,
  jitter: is.number("a number from 0 to 1", (value) => value >= 0 && value <= 1),
  retryOn: is.callback,
};
/** The execution settings of a tool. */
export const executionField = is.options(executionFields);
/** The execution settings of a model. */
export const modelExecutionField = is.options({ ...executionFields, stallMs: limit });

/** The rule for an agent, of this package or not. */
export const agentField: Field = {
  ...is.withFunctions("run"),
  expected: "an agent, such as a ReActAgent",
};

/** Throws if an agent id cannot be one segment of a path such as `session/agent/agent`. */
export function checkAgentId(agentId: unknown): void {
  const isSegment = typeof agentId === "string" && agentId !== "" && !agentId.includes("/");
  if (isSegment && agentId.length <= 128) return;
  const message = `\`agentId\` must have 1 to 128 characters and no slash, got ${describe(agentId)}.`;
  throw new RivuletError("invalid_agent_id", message, { hint: 'Pass `agentId: "researcher"`.' });
}

type Role = Message["role"];
type BlockType = Block["type"];

const media = ["image", "audio", "video", "file"] as const;
/** The blocks that a message from outside may contain; the loop writes all other blocks itself. */
const blocksByRole: Readonly<Record<Role, ReadonlySet<BlockType>>> = {
  system: new Set(["text", "hint"]),
  user: new Set(["text", "hint", ...media, "tool_result"]),
  assistant: new Set(["text", "thinking", ...media, "tool_use"]),
  tool: new Set(["tool_result"]),
};
const outputBlocks: ReadonlySet<BlockType> = new Set(["text", "hint", ...media]);

/** The same rule for a field that may be missing. */
export function optional({ fits, expected }: Field): Field {
  return { fits: (value) => value === undefined || fits(value), expected };
}

const states: readonly ToolResultState[] = ["success", "error", "denied", "interrupted"];
/** The state of a tool result. */
export const resultState = is.oneOf(...states);
const role = is.oneOf(...Object.keys(blocksByRole));
const source: Field = {
  fits: isSource,
  expected: "an object with `data` and `mimeType`, or with a `url`",
};
const messageRules: Shape = {
  role,
  id: optional(is.text),
  name: optional(is.text),
  metadata: optional(is.record),
  usage: optional(is.record),
};
const everyBlock: Shape = { metadata: optional(is.record), signature: optional(is.text) };
const spoken: Shape = { ...everyBlock, text: is.text };
const medium: Shape = { ...everyBlock, source };
const decision: Shape = { ...everyBlock, callId: is.text, approvalId: is.name };
const blockRules: Readonly<Record<BlockType, Shape>> = {
  text: spoken,
  hint: spoken,
  thinking: spoken,
  image: medium,
  audio: medium,
  video: medium,
  file: medium,
  tool_use: {
    ...everyBlock,
    id: is.name,
    name: is.name,
    raw: optional(is.text),
    providerCallId: optional(is.text),
  },
  tool_result: { ...everyBlock, id: is.name, name: is.text, state: resultState },
  suspension: decision,
  answer: decision,
  compaction: {
    ...everyBlock,
    summary: is.text,
    keepFrom: is.number("an integer", Number.isInteger),
    pruned: optional(is.recordOf(is.text)),
  },
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
  rules: Shape,
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
  return data === undefined && typeof url === "string" && optional(is.text).fits(mimeType);
}
