import type { ServerResponse } from "node:http";
import { constants, createBrotliCompress, createGzip } from "node:zlib";

/** The headers of every stream of events. */
const streamHeaders = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
  "x-content-type-options": "nosniff",
};

/** How many unsent bytes a sink takes while a reader catches up. */
const highWater = 64 * 1024;
/** How long a connection may take to send its last bytes. */
const lingerMs = 5_000;

/** The sending end of one connection. */
export interface Sink {
  readonly response: Response;
  /** The number of bytes that wait to be sent. */
  readonly buffered: number;
  readonly isClosed: boolean;
  write(bytes: Uint8Array): void;
  /** Resolves when little is left to be sent, or when the connection is closed. */
  drained(): Promise<void>;
  /** Sends the buffered bytes and closes the connection; a reader that does not read is cut off. Later writes are ignored. */
  end(): void;
  /** Resolves when the connection is closed, by either side. */
  readonly closed: Promise<void>;
}

/** Opens the sink for a response: Node's own response where there is one, because it is faster than a web stream. */
export function openSink(
  request: Request,
  outgoing: ServerResponse | undefined,
  headers: Readonly<Record<string, string>>,
): Sink {
  const all = { ...headers, ...streamHeaders };
  return outgoing ? new NodeSink(request, outgoing, all) : new WebSink(all);
}

/** Waits until the reader has taken most of what was sent; false: it takes nothing for too long. */
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

class NodeSink implements Sink {
  readonly response = sentResponse();
  readonly closed: Promise<void>;
  isClosed = false;
  #isEnded = false;
  readonly #outgoing: ServerResponse;
  readonly #encoder: ReturnType<typeof encoderFor>;

  constructor(request: Request, outgoing: ServerResponse, headers: Record<string, string>) {
    this.#outgoing = outgoing;
    const encoding = encodingOf(request.headers.get("accept-encoding") ?? "");
    this.#encoder = encoderFor(encoding);
    const coding = encoding && { "content-encoding": encoding };
    outgoing.writeHead(200, { ...headers, ...coding, vary: "accept-encoding, origin" });
    outgoing.flushHeaders();
    this.#encoder?.on("data", (chunk: Buffer) => outgoing.write(chunk));
    this.#encoder?.on("end", () => outgoing.end());
    this.#encoder?.on("error", () => outgoing.destroy());
    this.closed = new Promise((resolve) => {
      outgoing.once("close", () => {
        this.isClosed = true;
        this.#encoder?.destroy();
        resolve();
      });
    });
    outgoing.on("error", () => {}); // `close` follows
  }

  get buffered(): number {
    return this.#outgoing.writableLength + (this.#encoder?.writableLength ?? 0);
  }

  write(bytes: Uint8Array): void {
    if (!this.isClosed && !this.#isEnded) (this.#encoder ?? this.#outgoing).write(bytes);
  }

  async drained(): Promise<void> {
    while (!this.isClosed && this.buffered > highWater) {
      const drain = new Promise<void>((resolve) => {
        const stream = this.#outgoing.writableNeedDrain ? this.#outgoing : this.#encoder;
        if (stream) stream.once("drain", resolve);
        else setImmediate(resolve);
      });
      await Promise.race([drain, this.closed]);
    }
  }

  end(): void {
    if (this.isClosed || this.#isEnded) return;
    this.#isEnded = true;
    if (this.#encoder) this.#encoder.end();
    else this.#outgoing.end();
    const cut = setTimeout(() => this.#outgoing.destroy(), lingerMs);
    void this.closed.then(() => clearTimeout(cut));
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

class WebSink implements Sink {
  readonly response: Response;
  readonly closed: Promise<void>;
  isClosed = false;
  readonly #controller: ReadableStreamDefaultController<Uint8Array>;
  #close: () => void = () => {};
  #wake: () => void = () => {};

  constructor(headers: Record<string, string>) {
    this.closed = new Promise((resolve) => {
      this.#close = resolve;
    });
    let opened: ReadableStreamDefaultController<Uint8Array> | undefined;
    const body = new ReadableStream<Uint8Array>(
      {
        start(controller) {
          opened = controller;
        },
        pull: () => this.#wake(),
        cancel: () => this.#closeNow(),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: highWater }),
    );
    this.#controller = opened as ReadableStreamDefaultController<Uint8Array>;
    this.response = new Response(body, { headers });
  }

  get buffered(): number {
    return highWater - (this.#controller.desiredSize ?? highWater);
  }

  write(bytes: Uint8Array): void {
    // The stream may transfer or keep a chunk, and other connections share this one.
    if (!this.isClosed) this.#controller.enqueue(new Uint8Array(bytes));
  }

  async drained(): Promise<void> {
    while (!this.isClosed && this.buffered > highWater) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  end(): void {
    if (this.isClosed) return;
    this.#controller.close();
    this.#closeNow();
  }

  #closeNow(): void {
    this.isClosed = true;
    this.#close();
    this.#wake();
  }
}
