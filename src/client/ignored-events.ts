import { tooManyIgnored } from "../contract/index.ts";

/** Enough to repeat a whole log of the default size. */
const maxBytes = 64 * 1024 * 1024;
/** The size of a frame that cannot be read. */
const unreadableBytes = 64 * 1024;

/**
 * Returns a function that counts what the reader of a stream ignores: events that it knows, signs of life, unknown types,
 * frames that it cannot read (undefined). It throws when they are too many.
 */
export function ignoredEvents(): (event: object | undefined) => void {
  let bytes = 0;
  return (event) => {
    bytes += event ? JSON.stringify(event).length : unreadableBytes;
    if (bytes > maxBytes) throw tooManyIgnored(maxBytes);
  };
}
