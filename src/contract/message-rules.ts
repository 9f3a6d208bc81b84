import * as is from "../base/options.ts";
import { type Field, mismatch, required, type Shape } from "../base/options.ts";
import { isObject } from "../base/plain.ts";
import { words } from "../protocol/index.ts";
import type { Answer } from "./agent.ts";
import type { Block, Message } from "./message.ts";

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

/** The state of a tool result. */
export const resultState = is.oneOf("success", "error", "denied", "interrupted");
const role = required(is.oneOf(...Object.keys(blocksByRole)));
const text = required(is.text);
const name = required(is.name);
const shortText: Field = {
  fits: (value) => typeof value === "string" && value.length <= 256,
  expected: "a string of at most 256 characters",
};
const messageRules: Shape = {
  ...{ role, id: shortText, name: shortText, metadata: is.record, usage: is.record },
};
const everyBlock: Shape = { metadata: is.record, signature: is.text };
const spoken: Shape = { ...everyBlock, text };
const medium: Shape = {
  ...everyBlock,
  source: required({
    fits: isSource,
    expected: "an object with `data` and `mimeType`, or with a `url`",
  }),
};
const decision: Shape = { ...everyBlock, callId: text, approvalId: name };
const blockRules: Readonly<Record<BlockType, Shape>> = {
  text: spoken,
  hint: spoken,
  thinking: spoken,
  image: medium,
  audio: medium,
  video: medium,
  file: medium,
  tool_use: { ...everyBlock, id: name, name, raw: is.text, providerCallId: is.text },
  tool_result: { ...everyBlock, id: name, name: text, state: required(resultState) },
  suspension: decision,
  answer: decision,
  compaction: {
    ...everyBlock,
    summary: text,
    keepFrom: required(is.number("an integer", Number.isInteger)),
    pruned: is.recordOf(is.text),
  },
};
const allBlocks = new Set(Object.keys(blockRules) as BlockType[]);
const answerRules: Shape = {
  ...{ approvalId: text, decision: required(is.oneOf(...words.decision)) },
  ...{ reason: is.text, always: is.flag, state: resultState },
};

/** Why a message from outside cannot be stored; undefined when it can. */
export function messageProblem(value: unknown, place: string): string | undefined {
  if (!isObject(value)) return mismatch(place, "a message", value);
  const problem = fieldsProblem(value, place, messageRules);
  if (problem !== undefined) return problem;
  const container = `A message of role ${value.role}`;
  const allowed = blocksByRole[value.role as Role];
  return blocksProblem(value.content, `${place}.content`, allowed, container);
}

/** Why an answer is invalid; undefined when it is valid. */
export function answerProblem(
  answer: Partial<Record<keyof Answer, unknown>>,
  place: string,
): string | undefined {
  const problem = fieldsProblem(answer, place, answerRules);
  if (problem !== undefined || answer.output === undefined) return problem;
  return outputProblem(answer.output, `${place}.output`);
}

/** Whether a value is an array of blocks of any type, as hooks may return. */
export function isBlocks(value: unknown): value is readonly Block[] {
  return blocksProblem(value, "", allBlocks, "") === undefined;
}

/** Whether a value is a message with blocks of any type; its id may be missing. */
export function isMessage(value: unknown): value is Message {
  return isObject(value) && role.fits(value.role) && isBlocks(value.content);
}

/** Why an object breaks one of the rules for its fields; undefined when it keeps them all. */
export function fieldsProblem(
  value: Readonly<Record<string, unknown>>,
  place: string,
  rules: Shape,
): string | undefined {
  for (const field in rules) {
    const { [field]: sent } = value;
    const { fits, expected, isRequired } = rules[field] as Field;
    if (sent === undefined ? isRequired : !fits(sent))
      return mismatch(`${place}.${field}`, expected, sent);
  }
  return undefined;
}

/** Why a value cannot be the output of a tool; undefined when it can. */
function outputProblem(value: unknown, place: string): string | undefined {
  return blocksProblem(value, place, outputBlocks, "The output of a tool");
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
    if (!isObject(block)) return mismatch(here, "a block", block);
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
  if (!isObject(value)) return false;
  const { data, url, mimeType } = value;
  if (typeof data === "string") return typeof mimeType === "string";
  const hasType = mimeType === undefined || typeof mimeType === "string";
  return data === undefined && typeof url === "string" && hasType;
}
