import { type Block, type CompactionBlock, type Message, textOf } from "../contract/index.ts";

const maxTitleLength = 80;

/** The index of the first message that a model sees after the last compaction in an append; undefined without one. */
export function visibleFrom(messages: readonly Message[], at: number): number | undefined {
  for (let last = messages.length - 1; last >= 0; last--) {
    const block = messages[last]?.content.find(isCompaction);
    // The message of the compaction is needed too, wherever it says that the kept ones begin.
    if (block) return Math.max(0, Math.min(Math.trunc(block.keepFrom) || 0, at + last));
  }
  return undefined;
}

function isCompaction(block: Block): block is CompactionBlock {
  return block.type === "compaction";
}

/** An approval that a message asks for, and when it expires; or one that a message answers. */
export interface ApprovalChange {
  readonly approvalId: string;
  /** Absent: it is answered. */
  readonly dueAt?: number;
}

const noChanges: readonly ApprovalChange[] = [];

/** The approvals with an expiry that messages ask for, and those that they answer, in order. */
export function approvalChanges(messages: readonly Message[]): readonly ApprovalChange[] {
  let changes = noChanges;
  for (const { content } of messages) {
    for (const block of content) {
      if (block.type !== "answer" && block.type !== "suspension") continue;
      const { approvalId } = block;
      if (block.type === "answer") changes = [...changes, { approvalId }];
      else if (block.expiresAt) changes = [...changes, { approvalId, dueAt: block.expiresAt }];
    }
  }
  return changes;
}

/** The title of a session: the beginning of its first user message with text. */
export function sessionTitle(messages: readonly Message[]): string | undefined {
  for (const message of messages) {
    if (message.role !== "user") continue;
    // Limits the work for long messages, and removes characters that SQLite cannot store.
    const start = textOf(message.content).slice(0, 1000).toWellFormed().replaceAll("\0", " ");
    const text = start.replace(/\s+/g, " ").trim();
    if (text.length > maxTitleLength) return `${cut(text, maxTitleLength - 1)}…`;
    if (text !== "") return text;
  }
  return undefined;
}

/** The first `length` units, without a split surrogate pair at the end. */
function cut(text: string, length: number): string {
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length);
}
