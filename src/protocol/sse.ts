import { RivuletError, readInput, readText, readTyped } from "./error.ts";
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

const encodeTypes = { eventNames: "boolean", id: "number" };

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

const lineEnd = /[\r\n]/g;

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
  #started = false;
  #afterCarriageReturn = false;
  #tooLarge = false;
  #line: string[] = [];
  #lineChars = 0;
  #data: string[] = [];
  #dataChars = 0;
  #id: string | undefined;
  #event: string | undefined;

  constructor(options: SseDecodeOptions = {}) {
    const { maxEventChars = 8 * 1024 * 1024 } = readTyped(options, { maxEventChars: "number" });
    this.#maxEventChars = maxEventChars;
  }

  /** Decodes the next chunk and returns the frames that it completes. */
  push(chunk: Uint8Array | string): SseMessage[] {
    const isBytes = ArrayBuffer.isView(chunk);
    if (!isBytes && typeof chunk !== "string")
      readInput("chunk", "a string or bytes", chunk, () => false);
    const text = isBytes ? this.#utf8.decode(chunk, { stream: true }) : chunk;
    const messages: SseMessage[] = [];
    if (text === "") return messages;
    let at = !this.#started && text.startsWith("\uFEFF") ? 1 : 0;
    if (this.#afterCarriageReturn && text.startsWith("\n")) at = 1;
    this.#started = true;
    this.#afterCarriageReturn = false;

    while (at < text.length) {
      lineEnd.lastIndex = at;
      const end = lineEnd.test(text) ? lineEnd.lastIndex - 1 : text.length;
      this.#takePiece(text.slice(at, end), messages);
      if (end === text.length) break;
      this.#endLine(messages);
      at = end + 1;
      if (text[end] !== "\r") continue;
      if (at === text.length) this.#afterCarriageReturn = true;
      else if (text[at] === "\n") at += 1;
    }
    return messages;
  }

  /** Ends the connection and drops an incomplete frame; the decoder is ready for the next connection. */
  end(): void {
    this.#utf8.decode();
    this.#started = false;
    this.#afterCarriageReturn = false;
    this.#clearLine();
    this.#clearEvent();
  }

  #takePiece(piece: string, messages: SseMessage[]): void {
    this.#lineChars += piece.length;
    if (this.#tooLarge) return;
    this.#line.push(piece);
    if (this.#dataChars + this.#lineChars <= this.#maxEventChars) return;
    this.#tooLarge = true;
    this.#line = [];
    this.#data = [];
    const error = eventTooLarge(this.#maxEventChars);
    messages.push({ id: this.#id, event: this.#event, error });
  }

  #endLine(messages: SseMessage[]): void {
    if (this.#lineChars === 0) this.#endEvent(messages);
    else if (!this.#tooLarge) this.#readField(join(this.#line, ""));
    this.#clearLine();
  }

  #readField(line: string): void {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") {
      this.#data.push(value);
      this.#dataChars += value.length + 1;
    } else if (name === "event") {
      this.#event = value || undefined;
    } else if (name === "id") {
      if (!value.includes("\0")) this.#id = value;
    } else if (name === "retry") {
      if (/^[0-9]{1,15}$/.test(value)) this.retry = Number(value);
    } else if (name === "") {
      this.comments += 1;
    }
  }

  #endEvent(messages: SseMessage[]): void {
    if (this.#id !== undefined) this.lastEventId = this.#id;
    if (this.#data.length > 0) {
      const content = parseFrame(join(this.#data, "\n"));
      messages.push({ id: this.#id, event: this.#event, ...content });
    }
    this.#clearEvent();
  }

  #clearLine(): void {
    this.#line = [];
    this.#lineChars = 0;
  }

  #clearEvent(): void {
    this.#data = [];
    this.#dataChars = 0;
    this.#id = undefined;
    this.#event = undefined;
    this.#tooLarge = false;
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

/** Most lines arrive in one chunk, and most events have one line of data. */
function join(pieces: readonly string[], separator: string): string {
  return pieces.length === 1 ? (pieces[0] as string) : pieces.join(separator);
}
