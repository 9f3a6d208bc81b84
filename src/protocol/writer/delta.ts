import type { Envelope, LogEvent } from "../event.ts";

/** An event without the fields that the writer adds. */
export type EventBody = LogEvent extends infer Event
  ? Event extends LogEvent
    ? Omit<Event, keyof Envelope>
    : never
  : never;
/** An event of a type, without the fields that the writer adds. */
export type BodyOf<Type extends LogEvent["type"]> = Extract<EventBody, { readonly type: Type }>;

/** The longest delta: smaller than the largest event that a reader takes, in any encoding. */
export const maxDelta = 32 * 1024;

/** The number of UTF-16 units at the end of a text that wait for the rest of their surrogate pair: 0 or 1. */
export function halfAtEnd(text: string): 0 | 1 {
  const last = text.charCodeAt(text.length - 1);
  return last >= 0xd800 && last <= 0xdbff ? 1 : 0;
}

/** Cuts a delta into pieces that do not split a surrogate pair. */
export function piecesOf(text: string): readonly string[] {
  const pieces: string[] = [];
  for (let from = 0; from < text.length; ) {
    const piece = text.slice(from, from + maxDelta);
    const isLast = from + maxDelta >= text.length;
    const end = isLast ? piece.length : piece.length - halfAtEnd(piece);
    pieces.push(piece.slice(0, end));
    from += end;
  }
  return pieces;
}
