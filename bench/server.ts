// Compares the server's event streams with a plain node:http server that formats each event once and writes one shared
// buffer to all clients. The figures of a row come from one run, interleaved, and the limits are ratios. Then it holds
// 10,000 idle streams beside 100 active runs and prints memory and delays. Clients are raw sockets in a second process.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { memoryStore, ReActAgent, type Store } from "../src/index.ts";
import type { TaskEvent } from "../src/protocol/event.ts";
import { encodeSse } from "../src/protocol/sse.ts";
import { serve } from "../src/server.ts";
import { acquire, delta, record } from "../src/testing/store-contract/samples.ts";
import { scriptedModel } from "../src/testing.ts";
import { unlimited } from "../test/support/unlimited.ts";

const rounds = 3;
const batch = 64;
/** How many events are sent to so many clients. */
const loads = [
  { clients: 1, events: 128_000 },
  { clients: 100, events: 12_800 },
  { clients: 1_000, events: 1_920 },
] as const;
const idle = 10_000;
const active = 100;
/** With room for a busy machine. */
const limits = { ratio: 0.8, idleBytes: 40_000, p50Ms: 50, p99Ms: 500, slower: 1.05, stuckMb: 100 };

const token = "bench-0123456789abcdef";
const text = "some words ";

/** A command for the process that holds the clients. */
interface Request {
  readonly port: number;
  readonly paths: readonly string[];
  /** True: reports the delay of each event. */
  readonly measures?: boolean;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function percentile(values: readonly number[], share: number): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN;
}

/** Opens one stream per path; says when all have their headers, and when all have ended. */
async function runClients({ port, paths, measures }: Request): Promise<void> {
  const delays: number[] = [];
  const opened: Promise<unknown>[] = [];
  const ended: Promise<unknown>[] = [];
  for (const path of paths) {
    const socket = connect(port, "127.0.0.1");
    const lines = [`GET ${path} HTTP/1.1`, "host: localhost", `authorization: Bearer ${token}`];
    socket.write([...lines, "connection: close", "", ""].join("\r\n"));
    opened.push(once(socket, "data"));
    ended.push(new Promise((resolve) => socket.once("close", resolve)));
    socket.on("error", () => {});
    socket.on("data", (chunk: Buffer) => {
      if (!measures) return;
      const now = Date.now();
      for (const [, at] of chunk.toString("latin1").matchAll(/text\.delta.*?"created_at":(\d+)/g))
        delays.push(now - Number(at));
    });
    // A listen queue holds a few hundred connections.
    if (opened.length % 100 === 0) await opened.at(-1);
  }
  await Promise.all(opened);
  process.send?.("opened");
  await Promise.all(ended);
  process.send?.({ delays });
}

if (process.send) {
  process.on("message", (request: Request) => void runClients(request));
} else {
  await main();
}

async function main(): Promise<void> {
  const clients = fork(new URL(import.meta.url));
  let isWithinLimits = true;
  console.log(
    `events per second to all clients together (median of ${rounds}, batches of ${batch})\n`,
  );
  for (const load of loads) {
    const rates: { plain: number; ours: number }[] = [];
    for (let round = 0; round < rounds; round++) {
      const plain = await timePlain(clients, load);
      const ours = await timeOurs(clients, load);
      rates.push({ plain, ours });
    }
    const ratio = median(rates.map(({ plain, ours }) => ours / plain));
    const shown = (values: readonly number[]) =>
      Math.round(median(values)).toLocaleString("en").padStart(11);
    console.log(
      `${String(load.clients).padStart(5)} clients: server ${shown(rates.map(({ ours }) => ours))}, plain ${shown(rates.map(({ plain }) => plain))}, ratio ${ratio.toFixed(2)} (limit ${limits.ratio})`,
    );
    isWithinLimits &&= ratio >= limits.ratio;
  }
  isWithinLimits = (await benchIdle(clients)) && isWithinLimits;
  isWithinLimits = (await benchStuck(clients)) && isWithinLimits;
  clients.kill();
  process.exitCode = isWithinLimits ? 0 : 1;
}

/** Opens the clients, sends all batches, and returns the events per second that they got. */
async function timeSending(
  clients: ChildProcess,
  request: Request,
  events: number,
  send: (part: readonly TaskEvent[], isLast: boolean) => unknown,
): Promise<number> {
  clients.send(request);
  await once(clients, "message");
  const parts = Array.from({ length: events / batch }, () =>
    Array.from({ length: batch }, () => delta(text)),
  );
  const ended = once(clients, "message");
  const startedAt = performance.now();
  for (const [index, part] of parts.entries()) {
    await send(part, index === parts.length - 1);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await ended;
  const seconds = (performance.now() - startedAt) / 1_000;
  return (events * request.paths.length) / seconds;
}

async function timePlain(clients: ChildProcess, load: (typeof loads)[number]): Promise<number> {
  const responses: ServerResponse[] = [];
  const server = createServer((_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(": open\n\n");
    responses.push(response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const paths = Array.from({ length: load.clients }, () => "/");
  let number = 0;
  const rate = await timeSending(clients, { port, paths }, load.events, (part, isLast) => {
    for (const event of part) (event as { sequence_number: number }).sequence_number = number++;
    const bytes = Buffer.from(part.map((event) => encodeSse(event)).join(""));
    for (const response of responses) {
      response.write(bytes);
      if (isLast) response.end();
    }
  });
  await new Promise((resolve) => server.close(resolve));
  return rate;
}

async function timeOurs(clients: ChildProcess, load: (typeof loads)[number]): Promise<number> {
  const store = memoryStore({ maxLogBytes: 2 ** 32 });
  const { serving, port } = await startServer(store);
  const lease = await acquire(store, "sess_1");
  const task = record({ userId: "bench" });
  await store.commit({ lease, log: "task_1", tasks: [task] });
  const paths = Array.from({ length: load.clients }, () => "/v1/tasks/task_1/events");
  const rate = await timeSending(clients, { port, paths }, load.events, (events, isLast) => {
    const ended = { ...task, status: "completed" as const };
    return store.commit({
      lease,
      log: "task_1",
      events: isLast ? [...events, completed()] : events,
      ...(isLast && { tasks: [ended] }),
    });
  });
  await store.release(lease);
  await serving.close();
  return rate;
}

function completed(): TaskEvent {
  const { sequence_number, task_seq, created_at, task_id } = delta(text);
  const task = { id: task_id, object: "task", status: "completed" } as const;
  return { type: "task.completed", task_id, sequence_number, task_seq, created_at, task };
}

async function startServer(store: Store) {
  const words = Array.from({ length: 200 }, () => [{ delayMs: 10 }, { text }]).flat();
  const model = scriptedModel(() => words);
  const serving = await serve({
    agents: [new ReActAgent({ name: "assistant", model, store })],
    port: 0,
    log: false,
    auth: { tokens: { [token]: { userId: "bench" } } },
    limits: { ...unlimited, bufferBytes: 2 ** 30 },
  });
  return { serving, port: Number(new URL(serving.url).port) };
}

/** Idle streams follow a task that waits; active ones follow runs of 100 tokens per second. */
async function benchIdle(clients: ChildProcess): Promise<boolean> {
  const store = memoryStore();
  const { serving, port } = await startServer(store);
  const lease = await acquire(store, "sess_1");
  const task = record({ userId: "bench" });
  await store.commit({ lease, log: "task_1", tasks: [task], events: [delta(text)] });
  globalThis.gc?.();
  const before = process.memoryUsage().rss;
  const watchers = fork(new URL(import.meta.url));
  const paths = Array.from({ length: idle }, () => "/v1/tasks/task_1/events");
  watchers.send({ port, paths } satisfies Request);
  await once(watchers, "message");
  const held = process.memoryUsage().rss - before;
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const started = Array.from({ length: active }, async (_, n) => {
    const body = JSON.stringify({ agent: "assistant", input: "Go.", session_id: `run-${n}` });
    const response = await fetch(`${serving.url}/v1/tasks`, { method: "POST", headers, body });
    const { id } = (await response.json()) as { id: string };
    return `/v1/tasks/${id}/events?from=now`;
  });
  clients.send({ port, paths: await Promise.all(started), measures: true } satisfies Request);
  await once(clients, "message");
  const [{ delays }] = (await once(clients, "message")) as [{ delays: readonly number[] }];
  const all = process.memoryUsage().rss - before;
  watchers.kill();
  const [p50, p99] = [percentile(delays, 0.5), percentile(delays, 0.99)];
  const mega = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`;
  console.log(
    `\n${idle.toLocaleString("en")} idle streams: ${mega(held)}, ${(held / idle / 1e3).toFixed(1)} kB each (limit ${limits.idleBytes / 1e3} kB)`,
  );
  console.log(
    `with ${active} runs of 100 tokens/s beside them: ${mega(all)}; ${delays.length.toLocaleString("en")} events, delay p50 ${p50} ms (limit ${limits.p50Ms}), p99 ${p99} ms (limit ${limits.p99Ms})`,
  );
  await store.release(lease);
  await serving.close();
  return held / idle <= limits.idleBytes && p50 <= limits.p50Ms && p99 <= limits.p99Ms;
}

/** The same run alone, and with readers of which some never read: it takes as long, and the memory stays flat. */
async function benchStuck(clients: ChildProcess): Promise<boolean> {
  const { serving, port } = await startServer(memoryStore());
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  async function timeRun(readers: number, stuck: number): Promise<number> {
    const body = JSON.stringify({
      agent: "assistant",
      input: "Go.",
      task_id: `task_${readers}_${Date.now()}`,
    });
    const response = await fetch(`${serving.url}/v1/tasks`, { method: "POST", headers, body });
    const { id } = (await response.json()) as { id: string };
    const path = `/v1/tasks/${id}/events`;
    const sockets = Array.from({ length: stuck }, () => {
      const socket = connect(port, "127.0.0.1").pause();
      const lines = [`GET ${path} HTTP/1.1`, "host: localhost", `authorization: Bearer ${token}`];
      socket.write([...lines, "", ""].join("\r\n"));
      socket.on("error", () => {});
      return socket;
    });
    clients.send({
      port,
      paths: Array.from({ length: readers + 1 }, () => path),
    } satisfies Request);
    await once(clients, "message");
    await once(clients, "message");
    for (const socket of sockets) socket.destroy();
    const shown = await fetch(`${serving.url}/v1/tasks/${id}`, { headers });
    const { created_at, completed_at } = (await shown.json()) as Record<string, number>;
    return (completed_at ?? 0) - (created_at ?? 0);
  }
  const before = process.memoryUsage().rss;
  const ratios: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const alone = await timeRun(0, 0);
    ratios.push((await timeRun(100, 20)) / alone);
  }
  const grown = (process.memoryUsage().rss - before) / 1e6;
  const ratio = median(ratios);
  console.log(
    `\na run of 100 tokens/s with 100 readers and 20 that never read: ${ratio.toFixed(3)} of its time alone (limit ${limits.slower}), memory +${grown.toFixed(0)} MB (limit ${limits.stuckMb})`,
  );
  await serving.close();
  return ratio <= limits.slower && grown <= limits.stuckMb;
}
