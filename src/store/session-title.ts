import type { Message } from "../protocol/message.ts";
import { textOf } from "../protocol/message.ts";

const maxTitleLength = 80;

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
