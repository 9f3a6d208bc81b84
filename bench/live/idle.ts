import { connect, type Socket } from "node:net";
import type { ServerMark, ServerMemory } from "./messages.ts";
import { ask, pause, startServer, stop } from "./pipe.ts";

/** What a server costs while nothing happens. */
export interface Idle {
  /** The share of a core, in percent, with suspended sessions and no readers. */
  readonly cpu: number;
  /** What each suspended session keeps in memory, in kilobytes. */
  readonly heapPerSession: number;
  /** The share of a core, in percent, and the longest stall with a reader of each of some sessions. */
  readonly readersCpu: number;
  readonly stallMs: number;
}

/** How many requests are under way at a time. */
const parallel = 50;

/** Measures a server with sessions that wait for approvals, alone and with readers. */
export async function measureIdle(
  store: "memory" | "sqlite",
  sizes: { readonly sessions: number; readonly readers: number; readonly windowMs: number },
): Promise<Idle> {
  const { sessions, readers, windowMs } = sizes;
  const { server, listening } = await startServer({ side: "rivulet", workload: "waiting", store });
  const sockets: Socket[] = [];
  try {
    const { port, headers } = listening;
    const address = `http://127.0.0.1:${port}/v1/tasks`;
    const json = { "content-type": "application/json", ...headers };
    const body = JSON.stringify({ agent: "bench", input: "go" });
    const before = await ask<ServerMemory>(server, { op: "memory" });
    const ids: string[] = [];
    await inParallel(sessions, async () => {
      const response = await fetch(address, { method: "POST", headers: json, body });
      ids.push(((await response.json()) as { readonly id: string }).id);
    });
    for (const id of ids) await untilSuspended(`${address}/${id}`, headers);
    await pause(2_000);
    const after = await ask<ServerMemory>(server, { op: "memory" });
    const alone = await share(server, windowMs);
    await inParallel(readers, async (n) => {
      sockets.push(await follow(port, `/v1/tasks/${ids[n % ids.length]}/events`, headers));
    });
    await pause(2_000);
    const read = await share(server, windowMs);
    return {
      cpu: alone.cpu,
      heapPerSession: (after.heapBytes - before.heapBytes) / 1_024 / sessions,
      readersCpu: read.cpu,
      stallMs: read.stallMs,
    };
  } finally {
    for (const socket of sockets) socket.destroy();
    await stop(server);
  }
}

async function inParallel(count: number, work: (index: number) => Promise<void>): Promise<void> {
  let begun = 0;
  const take = async () => {
    while (begun < count) await work(begun++);
  };
  await Promise.all(Array.from({ length: parallel }, take));
}

async function untilSuspended(url: string, headers: Readonly<Record<string, string>>) {
  for (;;) {
    const response = await fetch(url, { headers });
    const { status } = (await response.json()) as { readonly status: string };
    if (status === "suspended") return;
    await pause(100);
  }
}

async function share(server: Parameters<typeof ask>[0], windowMs: number) {
  const first = await ask<ServerMark>(server, { op: "mark" });
  await pause(windowMs);
  const last = await ask<ServerMark>(server, { op: "mark" });
  const cpu = (last.cpuMicros - first.cpuMicros) / (last.at - first.at) / 10;
  return { cpu, stallMs: last.stallMs };
}

/** Opens a stream; resolves when it has begun. */
async function follow(
  port: number,
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  const lines = Object.entries({ host: "localhost", ...headers }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  socket.write([`GET ${path} HTTP/1.1`, ...lines, "", ""].join("\r\n"));
  const { promise, resolve } = Promise.withResolvers<void>();
  socket.on("error", () => {});
  socket.once("data", () => {
    socket.resume();
    resolve();
  });
  await promise;
  return socket;
}
