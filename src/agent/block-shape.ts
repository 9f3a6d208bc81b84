import type { Block, Message, ToolResultState } from "../protocol/message.ts";

type Fields = Readonly<Record<string, unknown>>;

const isText = ({ text }: Fields) => typeof text === "string";
const isMedia = ({ source }: Fields) =>
  isRecord(source) &&
  (typeof source.url === "string" ||
    (typeof source.data === "string" && typeof source.mimeType === "string"));

/** What each kind of block needs; the fields that it may have are not looked at. */
const shapes: Readonly<Record<Block["type"], (block: Fields) => boolean>> = {
  text: isText,
  thinking: isText,
  hint: isText,
  image: isMedia,
  audio: isMedia,
  video: isMedia,
  file: isMedia,
  tool_use: ({ id, name }) => isName(id) && isName(name),
  tool_result: ({ id, name, output, state }) =>
    isName(id) && isName(name) && isBlocks(output) && isResultState(state),
  suspension: ({ callId, approvalId }) => typeof callId === "string" && isName(approvalId),
  answer: ({ callId, approvalId }) => typeof callId === "string" && isName(approvalId),
  compaction: ({ summary, keepFrom }) => typeof summary === "string" && Number.isInteger(keepFrom),
};

/** Whether a value is a list of blocks, each with what its kind needs. */
export function isBlocks(value: unknown): value is readonly Block[] {
  return Array.isArray(value) && value.every(isBlock);
}

function isBlock(value: unknown): value is Block {
  if (!isRecord(value) || typeof value.type !== "string") return false;
  return Object.hasOwn(shapes, value.type) && shapes[value.type as Block["type"]](value);
}

const roles: ReadonlySet<unknown> = new Set<Message["role"]>([
  "system",
  "user",
  "assistant",
  "tool",
]);

/** Whether a value is a message, apart from its id. */
export function isMessage(value: unknown): value is Message {
  return isRecord(value) && roles.has(value.role) && isBlocks(value.content);
}

const states: ReadonlySet<unknown> = new Set<ToolResultState>([
  "success",
  "error",
  "denied",
  "interrupted",
]);

/** Whether a value says how a call ended. */
export function isResultState(value: unknown): value is ToolResultState {
  return states.has(value);
}

/** Whether a value is an object with fields, and no list. */
export function isRecord(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isName(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}
