import type { ServerResponse } from "node:http";
import { GzipStream } from "./gzip.ts";
import { partBytes, QueuedSink, type Sink, type UnsentBytes } from "./sink-queue.ts";

/** The headers of every stream of events. */
const streamHeaders = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
  "x-content-type-options": "nosniff",
};

/** A larger part is not copied to send it in one write. */
const maxCopied = 4_096;

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
  readonly #gzip: GzipStream | undefined;

  constructor(
    request: Request,
    outgoing: ServerResponse,
    headers: Record<string, string>,
    unsent: UnsentBytes,
  ) {
    super(unsent);
    this.#outgoing = outgoing;
    const isZipped = acceptsGzip(request.headers.get("accept-encoding") ?? "");
    if (isZipped) this.#gzip = new GzipStream();
    const coding = isZipped && { "content-encoding": "gzip" };
    outgoing.writeHead(200, { ...headers, ...coding, vary: "accept-encoding, origin" });
    outgoing.flushHeaders();
    outgoing.once("close", () => this.close());
    outgoing.on("error", () => {}); // `close` follows
  }

  protected put(part: Uint8Array, onSent: () => void): void {
    const bytes = this.#gzip ? this.#gzip.add(part, this.unsent.deflated(part)) : part;
    const { socket } = this.#outgoing;
    // Node writes the length, the bytes and the line end of a chunk apart, which costs more than a copy of few bytes.
    if (this.#outgoing.chunkedEncoding && socket && bytes.length < maxCopied) {
      socket.write(chunkOf(bytes), onSent);
    } else this.#outgoing.write(bytes, onSent);
  }

  override end(): void {
    if (this.isClosed || this.isEnded) return;
    const timer = setTimeout(() => this.cut(), lingerMs);
    void this.closed.then(() => clearTimeout(timer));
    super.end();
  }

  protected finish(): void {
    this.#outgoing.end(this.#gzip?.end());
  }

  cut(): void {
    this.close();
    this.#outgoing.destroy();
  }
}

/** One chunk of a chunked response. */
function chunkOf(bytes: Uint8Array): Uint8Array {
  const start = `${bytes.length.toString(16)}\r\n`;
  const chunk = Buffer.allocUnsafe(start.length + bytes.length + 2);
  chunk.write(start, "latin1");
  chunk.set(bytes, start.length);
  chunk.write("\r\n", chunk.length - 2, "latin1");
  return chunk;
}

function acceptsGzip(accepted: string): boolean {
  return accepted
    .split(",")
    .map((coding) => coding.trim().toLowerCase())
    .some((coding) => /^gzip(;|$)/.test(coding) && !/;\s*q=0(\.0*)?$/.test(coding));
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
