import { createParser } from "eventsource-parser";
import { SseDecoder } from "../../src/protocol/sse.ts";

/** The result of reading a stream. */
interface Reading {
  readonly messages: { id?: string; event?: string; frame?: unknown; error?: string }[];
  readonly comments: number;
  readonly retry: number | undefined;
}

/** Reads a stream with our own decoder. */
export function read(chunks: Iterable<Uint8Array>): Reading {
  const decoder = new SseDecoder();
  const messages: Reading["messages"] = [];
  for (const chunk of chunks) {
    for (const { error, ...rest } of decoder.push(chunk)) {
      messages.push({ ...rest, ...(error && { error: error.code }) });
    }
  }
  return { messages, comments: decoder.comments, retry: decoder.retry };
}

/** Reads a stream with an independent parser. */
export function readWithOracle(chunks: Iterable<Uint8Array>): Reading {
  const messages: Reading["messages"] = [];
  let comments = 0;
  let retry: number | undefined;
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true }); // the parser removes the byte order mark itself
  const parser = createParser({
    onEvent: ({ id, event, data }) => {
      const known = { ...(id !== undefined && { id }), ...(event !== undefined && { event }) };
      messages.push({ ...known, ...parseData(data) });
    },
    onComment: () => {
      comments += 1;
    },
    onRetry: (ms) => {
      retry = ms;
    },
  });
  for (const chunk of chunks) parser.feed(decoder.decode(chunk, { stream: true }));
  return { messages, comments, retry };
}

function parseData(data: string): { frame: unknown } | { error: string } {
  try {
    const frame = JSON.parse(data);
    return typeof frame?.type === "string" ? { frame } : { error: "invalid_event" };
  } catch {
    return { error: "invalid_json" };
  }
}

/** Cuts bytes into pieces of these sizes, repeatedly. */
export function* cut(bytes: Uint8Array, sizes: readonly number[]): Generator<Uint8Array> {
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length] ?? bytes.length;
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

/** Yields every way to cut bytes into three pieces, which may be empty. */
export function* splitsInThree(bytes: Uint8Array): Generator<Uint8Array[]> {
  for (let i = 0; i <= bytes.length; i++) {
    for (let j = i; j <= bytes.length; j++) {
      yield [bytes.subarray(0, i), bytes.subarray(i, j), bytes.subarray(j)];
    }
  }
}
