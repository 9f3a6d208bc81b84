import type { ServerResponse } from "node:http";
import { constants, createBrotliCompress, createGzip } from "node:zlib";
import { partBytes, QueuedSink, type Sink, type UnsentBytes } from "./sink-queue.ts";

/** The headers of every stream of events. */
const streamHeaders = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
  "x-content-type-options": "nosniff",
};

/** How long a connection may take to send its last bytes. */
const lingerMs = 5_000;

/** Opens the sink for a response: Node's own response where there is one, because it is faster than a web stream. */
export function openSink(
  request: Request,
  outgoing: ServerResponse | undefined,
  headers: Readonly<Record<string, string>>,
  unsent: UnsentBytes,
): Sink {
  const all = { ...headers, ...streamHeaders };
  return outgoing ? new NodeSink(request, outgoing, all, unsent) : new WebSink(all, unsent);
}

/** Waits until the reader has taken what was sent; false: it takes nothing for too long. */
export async function untilDrained(sink: Sink, patienceMs: number): Promise<boolean> {
  const drained = sink.drained().then(() => true);
  for (;;) {
    const before = sink.buffered;
    const { promise, resolve } = Promise.withResolvers<false>();
    const timer = setTimeout(() => resolve(false), patienceMs);
    const isDrained = await Promise.race([drained, promise]);
    clearTimeout(timer);
    if (isDrained) return true;
    if (sink.buffered >= before) return false;
  }
}

/** A response that tells @hono/node-server that the handler has written the response itself. */
function sentResponse(): Response {
  const response = new Response(null, { headers: { "x-hono-already-sent": "true" } });
  // By default @hono/node-server replaces `Response` by a class that it sends unread unless something was read from it.
  void response.body;
  return response;
}

class NodeSink extends QueuedSink {
  readonly response = sentResponse();
  readonly #outgoing: ServerResponse;
  readonly #encoder: ReturnType<typeof encoderFor>;
  /** The writes of encoded bytes that the connection has not taken yet. */
  #writes = 0;
  #onSent: (() => void) | undefined;

  constructor(
    request: Request,
    outgoing: ServerResponse,
    headers: Record<string, string>,
    unsent: UnsentBytes,
  ) {
    super(unsent);
    this.#outgoing = outgoing;
    const encoding = encodingOf(request.headers.get("accept-encoding") ?? "");
    this.#encoder = encoderFor(encoding);
    const coding = encoding && { "content-encoding": encoding };
    outgoing.writeHead(200, { ...headers, ...coding, vary: "accept-encoding, origin" });
    outgoing.flushHeaders();
    this.#encoder?.on("data", (chunk: Buffer) => {
      this.#writes += 1;
      outgoing.write(chunk, this.#onWritten);
    });
    this.#encoder?.on("end", () => outgoing.end());
    this.#encoder?.on("error", () => outgoing.destroy());
    outgoing.once("close", () => {
      this.#encoder?.destroy();
      this.close();
    });
    outgoing.on("error", () => {}); // `close` follows
  }

  protected put(part: Uint8Array, onSent: () => void): void {
    if (!this.#encoder) {
      this.#outgoing.write(part, onSent);
      return;
    }
    this.#onSent = undefined;
    this.#encoder.write(part, () => {
      this.#onSent = onSent;
      this.#checkSent();
    });
  }

  readonly #onWritten = (): void => {
    this.#writes -= 1;
    this.#checkSent();
  };

  /** A part is sent when the connection has taken all that the encoder made of it. */
  #checkSent(): void {
    if (this.#writes > 0 || (this.#encoder?.readableLength ?? 0) > 0) return;
    const onSent = this.#onSent;
    this.#onSent = undefined;
    onSent?.();
  }

  override end(): void {
    if (this.isClosed || this.isEnded) return;
    const timer = setTimeout(() => this.cut(), lingerMs);
    void this.closed.then(() => clearTimeout(timer));
    super.end();
  }

  protected finish(): void {
    if (this.#encoder) this.#encoder.end();
    else this.#outgoing.end();
  }

  cut(): void {
    this.close();
    this.#outgoing.destroy();
  }
}

/** The first of the codings that we have; gzip needs less memory per connection than brotli. */
function encodingOf(accepted: string): "gzip" | "br" | undefined {
  const codings = new Set(
    accepted
      .split(",")
      .map((coding) => coding.trim().toLowerCase())
      .filter((coding) => !/;\s*q=0(\.0*)?$/.test(coding))
      .map((coding) => coding.split(";", 1)[0]),
  );
  if (codings.has("gzip")) return "gzip";
  return codings.has("br") ? "br" : undefined;
}

/** Every write is flushed, so that no event waits in the encoder. A small window keeps a connection at some 24 kB. */
function encoderFor(encoding: "gzip" | "br" | undefined) {
  if (encoding === "gzip") {
    return createGzip({ flush: constants.Z_SYNC_FLUSH, windowBits: 13, memLevel: 5, level: 5 });
  }
  if (encoding !== "br") return undefined;
  return createBrotliCompress({
    flush: constants.BROTLI_OPERATION_FLUSH,
    params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_LGWIN]: 14 },
  });
}

class WebSink extends QueuedSink {
  readonly response: Response;
  readonly #controller: ReadableStreamDefaultController<Uint8Array>;
  #onPulled: (() => void) | undefined;

  constructor(headers: Record<string, string>, unsent: UnsentBytes) {
    super(unsent);
    let opened: ReadableStreamDefaultController<Uint8Array> | undefined;
    const body = new ReadableStream<Uint8Array>(
      {
        start(controller) {
          opened = controller;
        },
        pull: () => {
          const onPulled = this.#onPulled;
          this.#onPulled = undefined;
          onPulled?.();
        },
        cancel: () => this.close(),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: partBytes }),
    );
    this.#controller = opened as ReadableStreamDefaultController<Uint8Array>;
    this.response = new Response(body, { headers });
  }

  protected put(part: Uint8Array, onSent: () => void): void {
    this.#onPulled = onSent;
    // The stream may transfer or keep a chunk, and other connections share this one.
    this.#controller.enqueue(new Uint8Array(part));
  }

  override end(): void {
    if (this.isClosed || this.isEnded) return;
    this.isEnded = true;
    this.finish();
  }

  /** Leaves the rest to the stream: the runtime says nothing about a connection that it has lost. */
  protected finish(): void {
    const rest = this.takeRest();
    if (rest.length > 0) this.#controller.enqueue(new Uint8Array(rest));
    this.#controller.close();
    this.close();
  }

  cut(): void {
    if (this.isClosed) return;
    this.#controller.error(new Error("The reader is too slow."));
    this.close();
  }
}
