import type { Message } from "../protocol/message.ts";
import { textOf } from "../protocol/message.ts";

const longest = 80;

/** What a session is called in a list: the beginning of the first thing a user said in it. */
export function sessionTitle(messages: readonly Message[]): string | undefined {
  for (const message of messages) {
    if (message.role !== "user") continue;
    // Far more than is shown, far less than a pasted book; in letters that every store can keep.
    const start = textOf(message.content).slice(0, 1000).toWellFormed().replaceAll("\0", " ");
    const text = start.replace(/\s+/g, " ").trim();
    if (text.length > longest) return `${cut(text, longest - 1)}…`;
    if (text !== "") return text;
  }
  return undefined;
}

/** The first `length` units, without half a surrogate pair at the end. */
function cut(text: string, length: number): string {
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length);
}
