import type { Block, Message, ToolResultState } from "../protocol/message.ts";
import { isRecord } from "./plain.ts";

type Role = Message["role"];
type BlockType = Block["type"];
type Fields = Readonly<Record<string, unknown>>;

const media = ["image", "audio", "video", "file"] as const;

/**
 * Who may say what. Answers, suspensions and compactions are in no list: they are the loop's own, and come from nobody
 * else.
 */
const sayable: Readonly<Record<Role, ReadonlySet<BlockType>>> = {
  system: new Set(["text", "hint"]),
  user: new Set(["text", "hint", ...media, "tool_result"]),
  assistant: new Set(["text", "thinking", ...media, "tool_use"]),
  tool: new Set(["tool_result"]),
};
const inResults: ReadonlySet<BlockType> = new Set(["text", "hint", ...media]);
const own = ["suspension", "answer", "compaction"] as const;
const anywhere = new Set<BlockType>([...sayable.assistant, ...sayable.user, ...own]);
const states: ReadonlySet<unknown> = new Set<ToolResultState>([
  "success",
  "error",
  "denied",
  "interrupted",
]);

/** What is wrong with a message that somebody else has made, and where in it; undefined when it can be stored. */
export function messageProblem(value: unknown, place: string): string | undefined {
  if (!isRecord(value)) return `${place} is no message.`;
  const { id, role, name, content, metadata, usage } = value;
  const allowed = Object.hasOwn(sayable, String(role)) ? sayable[role as Role] : undefined;
  if (allowed === undefined) return `${place}.role is none of system, user, assistant and tool.`;
  if (!isText(id, true)) return `${place}.id is no string.`;
  if (!isText(name, true)) return `${place}.name is no string.`;
  if (metadata !== undefined && !isRecord(metadata)) return `${place}.metadata is no object.`;
  if (usage !== undefined && !isRecord(usage)) return `${place}.usage is no object.`;
  if (!Array.isArray(content)) return `${place}.content is no list of blocks.`;
  return blocksProblem(content, `${place}.content`, allowed, `a message of role ${role}`);
}

/** The same for the output of a tool. */
export function outputProblem(value: unknown, place: string): string | undefined {
  if (!Array.isArray(value)) return `${place} is no list of blocks.`;
  return blocksProblem(value, place, inResults, "the output of a tool");
}

/** Whether a value is a list of blocks, of whatever kind; hooks may make any. */
export function isBlocks(value: unknown): value is readonly Block[] {
  return Array.isArray(value) && blocksProblem(value, "", anywhere, "") === undefined;
}

/** Whether a value is a message, apart from its id, with blocks of whatever kind. */
export function isMessage(value: unknown): value is Message {
  return isRecord(value) && Object.hasOwn(sayable, String(value.role)) && isBlocks(value.content);
}

/** Whether a value says how a call ended. */
export function isResultState(value: unknown): value is ToolResultState {
  return states.has(value);
}

function blocksProblem(
  blocks: readonly unknown[],
  place: string,
  allowed: ReadonlySet<BlockType>,
  whole: string,
): string | undefined {
  for (const [index, block] of blocks.entries()) {
    const here = `${place}[${index}]`;
    if (!isRecord(block)) return `${here} is no block.`;
    const type = block.type as BlockType;
    if (!allowed.has(type))
      return `${here}: ${whole} has no block of type ${JSON.stringify(type)}.`;
    const problem = blockProblem(type, block, here);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function blockProblem(type: BlockType, block: Fields, place: string): string | undefined {
  const { metadata } = block;
  if (metadata !== undefined && !isRecord(metadata)) return `${place}.metadata is no object.`;
  if (!isText(block.signature, true)) return `${place}.signature is no string.`;
  switch (type) {
    case "text":
    case "hint":
    case "thinking":
      return isText(block.text) ? undefined : `${place}.text is no string.`;
    case "tool_use":
      if (!isName(block.id)) return `${place}.id names no call.`;
      if (!isName(block.name)) return `${place}.name names no tool.`;
      if (!isText(block.raw, true)) return `${place}.raw is no string.`;
      return isText(block.providerCallId, true)
        ? undefined
        : `${place}.providerCallId is no string.`;
    case "tool_result":
      if (!isName(block.id)) return `${place}.id names no call.`;
      if (!isText(block.name)) return `${place}.name is no string.`;
      if (!isResultState(block.state)) return `${place}.state is no state of a result.`;
      return outputProblem(block.output, `${place}.output`);
    case "suspension":
    case "answer":
      if (!isText(block.callId)) return `${place}.callId is no string.`;
      return isName(block.approvalId) ? undefined : `${place}.approvalId names no approval.`;
    case "compaction":
      if (!isText(block.summary)) return `${place}.summary is no string.`;
      return Number.isInteger(block.keepFrom) ? undefined : `${place}.keepFrom is no index.`;
    default:
      return sourceProblem(block.source, `${place}.source`);
  }
}

function sourceProblem(source: unknown, place: string): string | undefined {
  if (!isRecord(source)) return `${place} is no source of a file.`;
  const { data, url, mimeType } = source;
  if (isText(data) && isText(mimeType)) return undefined;
  if (data === undefined && isText(url) && isText(mimeType, true)) return undefined;
  return `${place} has neither data and mimeType nor a url.`;
}

function isText(value: unknown, isOptional = false): boolean {
  return typeof value === "string" || (isOptional && value === undefined);
}

function isName(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}
