import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";
import { isDeep } from "../../src/testing/deep.ts";

const program = fileURLToPath(new URL("./support/log-server.ts", import.meta.url));
const directory = mkdtempSync(join(tmpdir(), "readers-"));
let server: ChildProcess | undefined;
const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  server?.kill("SIGKILL");
  rmSync(directory, { recursive: true, force: true });
});

/** A process that serves one finished log with a small heap. */
async function serveLog(store: string, megabytes: number, heapMb: number) {
  const place = store === "memory" ? "memory" : join(directory, "log.db");
  const started = fork(program, [place, `${megabytes}`, "2000"], {
    execArgv: ["--disable-warning=ExperimentalWarning", `--max-old-space-size=${heapMb}`],
  });
  server = started;
  const [ready] = await once(started, "message");
  const { url, token, length } = ready as { url: string; token: string; length: number };
  const headers = { authorization: `Bearer ${token}` };
  /** Starts a request for all events of the log; nothing is read yet. */
  function open(accepted = "identity"): Socket {
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    const lines = [
      "GET /v1/tasks/task_1/events HTTP/1.1",
      "host: localhost",
      `authorization: ${headers.authorization}`,
      `accept-encoding: ${accepted}`,
      "connection: close",
    ];
    socket.on("error", () => {});
    socket.pause();
    socket.write([...lines, "", ""].join("\r\n"));
    sockets.push(socket);
    return socket;
  }
  async function memory() {
    const answer = once(started, "message");
    started.send("memory");
    return (await answer)[0] as { rss: number; peak: number };
  }
  const isHealthy = async () => (await fetch(`${url}/healthz`)).ok;
  return { open, memory, isHealthy, length, process: started };
}

/** Reads a stream to its end; returns how many events came, in order, and whether the stream was complete. */
async function readAll(socket: Socket): Promise<{ events: number; isComplete: boolean }> {
  let events = 0;
  let tail = "";
  socket.on("data", (chunk: Buffer) => {
    const text = tail + chunk.toString("latin1");
    for (const [, id] of text.matchAll(/\nid: (\d+)\n/g)) if (Number(id) === events) events += 1;
    tail = text.slice(-400);
  });
  socket.resume();
  await once(socket, "close");
  return { events, isComplete: tail.includes('"reason":"terminal","final":true') };
}

/** Lets sockets read so many bytes per second each, until the function that it returns is called. */
function readSlowly(slow: readonly Socket[], bytesPerSecond: number): () => void {
  const timer = setInterval(() => {
    for (const socket of slow) socket.read(bytesPerSecond / 10);
  }, 100);
  return () => clearInterval(timer);
}

const load = isDeep
  ? { megabytes: 50, heapMb: 512, readers: 1_000, toTheEnd: 50, allowedMb: 400 }
  : { megabytes: 6, heapMb: 128, readers: 120, toTheEnd: 10, allowedMb: 100 };

describe.each(["memory", "sqlite"])("%s: many readers of one finished log", (store) => {
  it("take a bounded amount of memory, whether they read, stall or read slowly", {
    timeout: 300_000,
  }, async () => {
    const { open, memory, isHealthy, length } = await serveLog(store, load.megabytes, load.heapMb);
    const before = await memory();
    const stalled = Array.from({ length: (load.readers - load.toTheEnd) / 2 }, (_, n) =>
      open(n % 4 === 0 ? "gzip" : "identity"),
    );
    const slow = stalled.map(() => open());
    const stop = readSlowly(slow, 10_000);
    const complete = Array.from({ length: load.toTheEnd }, () => readAll(open()));
    expect(await isHealthy()).toBe(true);
    const got = await Promise.all(complete);
    stop();
    expect(got).toEqual(got.map(() => ({ events: length, isComplete: true })));
    expect(await isHealthy()).toBe(true);
    const { peak } = await memory();
    expect((peak - before.rss) / 1e6).toBeLessThan(load.allowedMb);
  });
});
