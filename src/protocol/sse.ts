import { readInput, readText, readTyped } from "../base/argument.ts";
import { RivuletError } from "../base/error.ts";
import type { StreamFrame } from "./event.ts";
import { isIndex } from "./shape.ts";
import { type SourceRef, shortSource } from "./source.ts";

/** Options for `encodeSse`. */
export interface SseEncodeOptions {
  /** False leaves out the `event` line, for readers that only listen to unnamed events. */
  readonly eventNames?: boolean;
  /** The id of a `task.snapshot`, which has no number of its own; no other frame takes it. */
  readonly id?: number;
}

/** Writes one frame: `id` (events of a log only), `event`, one line of `data`, a blank line. */
export function encodeSse(frame: StreamFrame, options?: SseEncodeOptions): string {
  const read = options === undefined ? {} : readTyped(options, encodeTypes);
  try {
    return encodeFrame(frame, read);
  } catch (cause) {
    if (cause instanceof RivuletError) throw cause;
    throw invalidEvent("The payload cannot be written as a JSON object", cause);
  }
}

const encodeTypes = { eventNames: "a boolean", id: "a number" };

function encodeFrame(frame: StreamFrame, options: SseEncodeOptions): string {
  // Visible ASCII only, so that no name can end its line.
  if (typeof frame?.type !== "string" || !/^[!-~]+$/.test(frame.type)) {
    throw invalidEvent("The type must be visible ASCII characters");
  }
  const id = idOf(frame, options);
  const idLine = id === undefined ? "" : `id: ${id}\n`;
  const eventLine = options.eventNames === false ? "" : `event: ${frame.type}\n`;
  return `${idLine}${eventLine}data: ${toJson(frame)}\n\n`;
}

/** Writes a comment, which readers skip: a sign of life. */
export function encodeComment(text: string): string {
  return `: ${readText("text", text).replace(/[\r\n]+/g, " ")}\n\n`;
}

/** Writes the reconnection delay; send it before the first frame or comment. */
export function encodeRetry(ms: number): string {
  if (!isIndex(ms)) throw invalidEvent("The retry time must be whole milliseconds");
  return `retry: ${ms}\n`;
}

function idOf(frame: StreamFrame, options: SseEncodeOptions): number | undefined {
  if (frame.type === "error" || frame.type.startsWith("stream.")) return undefined;
  const { sequence_number } = frame as { sequence_number?: number };
  const id = frame.type === "task.snapshot" ? options.id : sequence_number;
  if (id !== undefined && !isIndex(id)) throw invalidEvent("The number must be whole, 0 or more");
  return id;
}

/** JSON has no raw line ends and escapes lone surrogates, so nothing in a payload can leave its line. */
function toJson(frame: StreamFrame): string {
  const { source } = frame as { source?: SourceRef };
  // `task.created` is the first event of a task, so it carries the whole source.
  const isFirst = frame.type === "task.created" || frame.type === "task.snapshot";
  const short = source && !isFirst ? shortSource(source) : source;
  const json = JSON.stringify(short === source ? frame : { ...frame, source: short });
  if (json?.startsWith("{")) return json;
  throw invalidEvent(`The payload of ${frame.type} cannot be written as a JSON object`);
}

/** Options for decoding. */
export interface SseDecodeOptions {
  /** The maximum size of one event in UTF-16 code units; defaults to 8 Mi. */
  readonly maxEventChars?: number;
}

/** The codes of decoding errors. */
export type SseErrorCode = "invalid_json" | "invalid_event" | "event_too_large";

/** One frame, or the error that it caused; an error does not affect the next frame. */
export type SseMessage = {
  readonly id: string | undefined;
  readonly event: string | undefined;
} & SseContent;
type SseContent =
  | { readonly frame: StreamFrame; readonly error?: undefined }
  | { readonly frame?: undefined; readonly error: RivuletError<SseErrorCode> };

/** The fields of an event so far. */
interface Fields {
  id?: string | undefined;
  event?: string | undefined;
  data?: string;
  isTooLarge?: boolean;
}

/**
 * Decodes a stream of server-sent events in chunks, as the HTML standard defines it. It only checks that a frame is an
 * object with a `type`. A malformed frame becomes a message with an `error`, and decoding continues.
 */
export class SseDecoder {
  /** The id of the last frame that had one; `end` keeps it for the next connection. */
  lastEventId = "";
  /** The reconnection delay that the stream asked for, in milliseconds. */
  retry: number | undefined;
  /** The number of comments so far. */
  comments = 0;

  readonly #maxEventChars: number;
  readonly #utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
  /** The last character that was read. */
  #last = "";
  /** The line so far; its first character only, if the event is too large. */
  #line = "";
  #fields: Fields = {};

  constructor(options: SseDecodeOptions = {}) {
    const { maxEventChars = 8 * 1024 * 1024 } = readTyped(options, { maxEventChars: "a number" });
    this.#maxEventChars = maxEventChars;
  }

  /** Decodes the next chunk and returns the frames that it completes. */
  push(chunk: Uint8Array | string): SseMessage[] {
    let text = readInput("chunk", "a string or bytes", chunk, () =>
      ArrayBuffer.isView(chunk)
        ? this.#utf8.decode(chunk, { stream: true })
        : typeof chunk === "string" && chunk,
    );
    const messages: SseMessage[] = [];
    if (text === "") return messages;
    const isRest = this.#last === "" ? text[0] === "\uFEFF" : this.#last + text[0] === "\r\n";
    this.#last = text.slice(-1);
    if (isRest) text = text.slice(1);
    const [first = "", ...lines] = text.split(/\r\n?|\n/);
    this.#takePiece(first, messages);
    for (const line of lines) {
      this.#endLine(messages);
      this.#takePiece(line, messages);
    }
    return messages;
  }

  /** Ends the connection and drops an incomplete frame; the decoder is ready for the next connection. */
  end(): void {
    this.#utf8.decode();
    this.#last = "";
    this.#line = "";
    this.#fields = {};
  }

  #takePiece(piece: string, messages: SseMessage[]): void {
    const { id, event, data, isTooLarge } = this.#fields;
    const most = this.#maxEventChars;
    this.#line += piece;
    if (!isTooLarge) {
      if (this.#line.length + (data === undefined ? 0 : data.length + 1) <= most) return;
      this.#fields = { id, event, isTooLarge: true };
      messages.push({ id, event, error: eventTooLarge(most) });
    }
    this.#line = this.#line.slice(0, 1);
  }

  #endLine(messages: SseMessage[]): void {
    if (this.#line === "") this.#endEvent(messages);
    else if (!this.#fields.isTooLarge) this.#readField(this.#line);
    this.#line = "";
  }

  #readField(line: string): void {
    const fields = this.#fields;
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") {
      fields.data = fields.data === undefined ? value : `${fields.data}\n${value}`;
    } else if (name === "event") {
      fields.event = value || undefined;
    } else if (name === "id") {
      if (!value.includes("\0")) fields.id = value;
    } else if (name === "retry") {
      if (/^[0-9]{1,15}$/.test(value)) this.retry = Number(value);
    } else if (name === "") {
      this.comments += 1;
    }
  }

  #endEvent(messages: SseMessage[]): void {
    const { id, event, data } = this.#fields;
    this.#fields = {};
    if (id !== undefined) this.lastEventId = id;
    if (data !== undefined) messages.push({ id, event, ...parseFrame(data) });
  }
}

/** Decodes the frames of a complete or a live stream; throws at the first malformed frame. */
export function decodeSse(source: Uint8Array | string, options?: SseDecodeOptions): StreamFrame[];
export function decodeSse(
  source: AsyncIterable<Uint8Array | string> | ReadableStream<Uint8Array | string>,
  options?: SseDecodeOptions,
): AsyncGenerator<StreamFrame, void, undefined>;
export function decodeSse(
  source:
    | Uint8Array
    | string
    | AsyncIterable<Uint8Array | string>
    | ReadableStream<Uint8Array | string>,
  options?: SseDecodeOptions,
): StreamFrame[] | AsyncGenerator<StreamFrame, void, undefined> {
  const decoder = new SseDecoder(options);
  return typeof source === "string" || ArrayBuffer.isView(source)
    ? [...framesOf(decoder.push(source))]
    : decodeChunks(
        decoder,
        readInput("source", "a string, bytes or a stream", source, () =>
          "getReader" in source ? chunksOf(source) : Symbol.asyncIterator in source && source,
        ),
      );
}

async function* decodeChunks(
  decoder: SseDecoder,
  chunks: AsyncIterable<Uint8Array | string>,
): AsyncGenerator<StreamFrame, void, undefined> {
  for await (const chunk of chunks) yield* framesOf(decoder.push(chunk));
}

/** Some browsers cannot iterate a stream. */
async function* chunksOf<T>(stream: ReadableStream<T>): AsyncGenerator<T, void, undefined> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel();
    reader.releaseLock();
  }
}

function* framesOf(messages: readonly SseMessage[]): Generator<StreamFrame, void, undefined> {
  for (const message of messages) {
    if (message.error) throw message.error;
    yield message.frame;
  }
}

function parseFrame(data: string): SseContent {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch (cause) {
    const hint = "Each event's data must be one JSON object; is this the address of a task stream?";
    return { error: new RivuletError("invalid_json", "The data is not JSON", { hint, cause }) };
  }
  if (typeof value === "object" && value !== null && "type" in value) {
    if (typeof value.type === "string") return { frame: value as StreamFrame };
  }
  return { error: invalidEvent("The data is not an object with a type") };
}

function invalidEvent(message: string, cause?: unknown): RivuletError<"invalid_event"> {
  const hint = "A frame is one of the events of the task stream protocol, as plain JSON.";
  return new RivuletError("invalid_event", message, { hint, cause });
}

function eventTooLarge(limit: number): RivuletError<"event_too_large"> {
  return new RivuletError("event_too_large", `An event has more than ${limit} characters`, {
    hint: "Send large content by reference, or raise maxEventChars.",
  });
}
