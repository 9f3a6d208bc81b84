// The readers of a measurement, on raw sockets in one process: `node client.ts <task as JSON>`. They check every
// character that arrives.
import { connect, type Socket } from "node:net";
import { constants, createGunzip } from "node:zlib";
import { CheckedText } from "./check-text.ts";
import type { ClientReport, ClientRequest, ClientTask } from "./messages.ts";
import { monotonicMs } from "./wheel.ts";

/** Connections that are opened at a time: a listen queue holds a few hundred. */
const opening = 64;

const task = JSON.parse(process.argv[2] ?? "{}") as ClientTask;
const since = { tokens: 0, bytes: 0, delays: [] as number[], cpu: process.cpuUsage() };
const streams: CheckedText[] = [];
let total = 0;
let failed = 0;

/** Reads the frames of one connection. */
class FrameReader {
  readonly #streams = new Map<string, { readonly text: CheckedText; length: number }>();
  #rest = "";

  add(chunk: string): void {
    const text = this.#rest + chunk;
    let at = 0;
    for (let end = text.indexOf("\n\n", at); end >= 0; end = text.indexOf("\n\n", at)) {
      const mark = text.indexOf(task.mark, at);
      if (mark < 0) at = text.lastIndexOf("\n\n") + 2;
      else if (mark > end) at = text.lastIndexOf("\n\n", mark) + 2;
      else {
        this.#read(text.slice(at, end));
        at = end + 2;
      }
    }
    this.#rest = text.slice(at);
  }

  #read(frame: string): void {
    const key = task.stream === undefined ? "" : textAfter(frame, task.stream);
    const stream = this.#streams.get(key) ?? { text: new CheckedText(), length: 0 };
    if (stream.length === 0 && !this.#streams.has(key)) streams.push(stream.text);
    this.#streams.set(key, stream);
    const whole = textAfter(frame, task.field);
    const part = task.repeats ? whole.slice(stream.length) : whole;
    stream.length += part.length;
    if (!task.isText) {
      const stamp = /@(\w+)~/.exec(part)?.[1];
      if (stamp === undefined) return;
      count(1, Number.parseInt(stamp, 36));
      return;
    }
    const before = stream.text.tokens;
    const stamp = stream.text.add(part);
    count(stream.text.tokens - before, stamp);
  }
}

/** The text after a field up to the next quote: no text of the bench has escapes. */
function textAfter(frame: string, field: string): string {
  const start = frame.indexOf(field);
  if (start < 0) return "";
  const from = start + field.length;
  return frame.slice(from, frame.indexOf('"', from));
}

function count(tokens: number, stamp: number | undefined): void {
  total += tokens;
  since.tokens += tokens;
  if (stamp !== undefined) since.delays.push(monotonicMs() - stamp / 10);
}

/** Takes chunks of a chunked response apart. */
class Dechunker {
  readonly #onData: (data: Buffer) => void;
  #rest: Buffer = Buffer.alloc(0);

  constructor(onData: (data: Buffer) => void) {
    this.#onData = onData;
  }

  add(bytes: Buffer): void {
    this.#rest = this.#rest.length > 0 ? Buffer.concat([this.#rest, bytes]) : bytes;
    for (;;) {
      const line = this.#rest.indexOf("\r\n");
      if (line < 0) return;
      const length = Number.parseInt(this.#rest.toString("latin1", 0, line), 16);
      const end = line + 2 + length;
      if (this.#rest.length < end + 2) return;
      this.#onData(this.#rest.subarray(line + 2, end));
      this.#rest = this.#rest.subarray(end + 2);
    }
  }
}

/** Where the bytes of a body go. */
function readerOf(): (bytes: Buffer) => void {
  const frames = new FrameReader();
  if (!task.isZipped) {
    const chunks = new Dechunker((data) => frames.add(data.toString("latin1")));
    return (bytes) => chunks.add(bytes);
  }
  const gunzip = createGunzip({ flush: constants.Z_SYNC_FLUSH });
  gunzip.on("data", (data: Buffer) => frames.add(data.toString("latin1")));
  gunzip.on("error", () => {
    failed += 1;
  });
  const chunks = new Dechunker((data) => gunzip.write(data));
  return (bytes) => chunks.add(bytes);
}

/** Starts one run and reads it; resolves when the response has begun. */
function open(): Promise<void> {
  const body = JSON.stringify(task.body);
  const headers = {
    host: "localhost",
    accept: "text/event-stream",
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    ...(task.isZipped && { "accept-encoding": "gzip, deflate, br" }),
    ...task.headers,
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const { promise, resolve } = Promise.withResolvers<void>();
  const socket: Socket = connect(task.port, "127.0.0.1");
  socket.setNoDelay(true);
  socket.write([`POST ${task.path} HTTP/1.1`, ...lines, "", body].join("\r\n"));
  const read = readerOf();
  let head = "";
  let isOpen = false;
  socket.on("data", (data: Buffer) => {
    since.bytes += data.length;
    if (isOpen) return read(data);
    head += data.toString("latin1");
    const end = head.indexOf("\r\n\r\n");
    if (end < 0) return;
    isOpen = true;
    if (!/^HTTP\/1.1 20\d/.test(head)) failed += 1;
    read(Buffer.from(head.slice(end + 4), "latin1"));
    resolve();
  });
  socket.on("error", () => {
    failed += 1;
  });
  socket.on("close", () => resolve());
  return promise;
}

function report(): ClientReport {
  const delays = since.delays.sort((a, b) => a - b);
  const quantile = (share: number) =>
    delays[Math.min(delays.length - 1, Math.floor(share * delays.length))] ?? Number.NaN;
  const { user, system } = process.cpuUsage(since.cpu);
  const wrong = streams.flatMap((stream) => stream.wrong ?? []).slice(0, 3);
  return {
    ...{ total, wrong, failed, tokens: since.tokens, bytes: since.bytes },
    ...{ p50: quantile(0.5), p99: quantile(0.99), max: quantile(1) },
    cpuMs: (user + system) / 1_000,
  };
}

process.on("message", ({ op }: ClientRequest) => {
  if (op === "exit") process.exit(0);
  if (op === "reset")
    Object.assign(since, { tokens: 0, bytes: 0, delays: [], cpu: process.cpuUsage() });
  process.send?.(report());
});
process.on("disconnect", () => process.exit(0));

let begun = 0;
await Promise.all(
  Array.from({ length: Math.min(opening, task.connections) }, async () => {
    while (begun < task.connections) {
      begun += 1;
      await open();
    }
  }),
);
process.send?.(report());
