import { RivuletError } from "../../base/error.ts";

/** The most bytes of padding at once; how many more each second and each line of data allow. */
const maxBytes = 1024 * 1024;
const bytesPerSecond = 64 * 1024;
const bytesPerDataLine = 1024;

const dataName = Buffer.from("data:");
const [lineFeed, carriageReturn] = [10, 13];

/**
 * Counts the bytes of an event stream outside its lines of data: blank lines, comments, ids, names. They cost time to read
 * and bring no event, so a stream may have a few for each event, and a steady trickle of keep-alive comments.
 */
export class StreamPadding {
  readonly #now: () => number;
  #bytes = 0;
  #countedAt: number;
  /** The bytes of the line so far, and how many of its first bytes are those of `data:`; -1 for a line of another kind. */
  #line = 0;
  #matched = 0;

  constructor(now: () => number) {
    this.#now = now;
    this.#countedAt = now();
  }

  /** Counts the lines that end in the next bytes; throws when the stream has too much padding. */
  count(chunk: Uint8Array): void {
    const now = this.#now();
    const allowed = ((now - this.#countedAt) / 1_000) * bytesPerSecond;
    this.#countedAt = now;
    let bytes = Math.max(0, this.#bytes - allowed);
    let [line, matched] = [this.#line, this.#matched];
    // An iterator takes several times as long.
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at];
      line += 1;
      if (byte === lineFeed || byte === carriageReturn) {
        const isData = matched === dataName.length;
        bytes = isData ? Math.max(0, bytes - bytesPerDataLine) : bytes + line;
        line = 0;
        matched = 0;
      } else if (matched >= 0 && matched < dataName.length)
        matched = byte === dataName[matched] ? matched + 1 : -1;
    }
    this.#bytes = bytes;
    this.#line = line;
    this.#matched = matched;
    if (bytes > maxBytes) throw tooMuchPadding();
  }
}

/** Retryable: a proxy may have sent it, and the next connection continues from the last event. */
function tooMuchPadding(): RivuletError {
  const message = `The server sent more than ${maxBytes} bytes of comments and blank lines.`;
  return new RivuletError("disconnected", message, {
    retryable: true,
    hint: "Check the other server, and the proxies before it.",
  });
}
