import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type {
  ClientReport,
  ClientRequest,
  ClientTask,
  ServerMark,
  ServerMemory,
  ServerRequest,
} from "./messages.ts";
import type { Listening, SideOptions } from "./side.ts";

/** A side of a measurement. */
export interface Contestant extends SideOptions {
  /** The name of its module. */
  readonly side: "bare" | "pi" | "ai-sdk" | "rivulet";
  readonly isZipped?: boolean;
}

/** How a point is measured. */
export interface PointOptions {
  readonly connections: number;
  readonly warmMs: number;
  readonly windowMs: number;
  /** Only the main thread of the server stays on its core. */
  readonly isSplit?: boolean;
  /** The times after the start at which to measure what a run keeps. */
  readonly heapAt?: readonly number[];
}

/** The figures of one point. */
export interface Point {
  readonly cpuPerToken: number;
  readonly tokens: number;
  readonly p50: number;
  readonly p99: number;
  readonly stallMs: number;
  readonly bytesPerToken: number;
  /** The share of its core that the server took, in percent. */
  readonly load: number;
  /** What each run keeps, in kilobytes, at the times of `heapAt`. */
  readonly heapPerRun: readonly number[];
  readonly rssPerRun: readonly number[];
}

const canPin = spawnSync("taskset", ["--version"]).status === 0;
const answerMs = 30_000;
/** How long the start of all runs may take. */
const openMs = 120_000;
const catchUpMs = 20_000;

/** The cores of a machine with two, on which a server and its client do not disturb each other. */
const cores = { server: 0, client: 1 } as const;

function start(
  core: number,
  file: string,
  args: readonly string[],
  flags: readonly string[] = [],
): ChildProcess {
  const path = fileURLToPath(new URL(file, import.meta.url));
  const command = [
    process.execPath,
    "--disable-warning=ExperimentalWarning",
    ...flags,
    path,
    ...args,
  ];
  const [program = "", ...rest] = canPin ? ["taskset", "-c", String(core), ...command] : command;
  return spawn(program, rest, { stdio: ["ignore", "inherit", "inherit", "ipc"], env: process.env });
}

/** Sends a request, if there is one, and resolves to the next message. */
export function ask<Reply>(
  child: ChildProcess,
  request?: ServerRequest | ClientRequest,
  patienceMs = answerMs,
): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  const onExit = () => reject(new Error("the process has ended"));
  const timer = setTimeout(
    () => reject(new Error(`no answer in ${patienceMs / 1_000} s: overloaded`)),
    patienceMs,
  );
  const onMessage = (message: unknown) => resolve(message as Reply);
  child.once("exit", onExit);
  child.once("message", onMessage);
  if (request) child.send(request);
  return promise.finally(() => {
    clearTimeout(timer);
    child.off("exit", onExit);
    child.off("message", onMessage);
  });
}

/** Ends a process. */
export async function stop(child: ChildProcess | undefined): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  child.once("exit", () => resolve());
  child.kill("SIGKILL");
  await promise;
}

/** Starts the server of a side. */
export async function startServer({ side, isZipped: _, ...options }: Contestant, isSplit = false) {
  const server = start(
    cores.server,
    "./server.ts",
    [side, JSON.stringify(options)],
    ["--expose-gc"],
  );
  const listening = await ask<Listening>(server);
  if (isSplit) splitThreads(server.pid ?? 0);
  return { server, listening };
}

function splitThreads(pid: number): void {
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    if (Number(thread) !== pid) spawnSync("taskset", ["-cp", String(cores.client), thread]);
  }
}

/** Lets time pass. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Measures one side with so many runs at once; throws when a character is wrong or missing. */
export async function measure(contestant: Contestant, options: PointOptions): Promise<Point> {
  const { connections, warmMs, windowMs, isSplit, heapAt = [] } = options;
  const { server, listening } = await startServer(contestant, isSplit);
  let client: ChildProcess | undefined;
  try {
    const before = await ask<ServerMemory>(server, { op: "memory" });
    const isText = contestant.workload === "flat" || contestant.workload === "nested";
    const isZipped = contestant.isZipped ?? false;
    const task: ClientTask = { ...listening, connections, isZipped, isText };
    client = start(cores.client, "./client.ts", [JSON.stringify(task)]);
    const { failed } = await ask<ClientReport>(client, undefined, openMs);
    if (failed > 0) throw new Error(`${failed} of ${connections} requests failed`);
    await pause(500);
    await ask(server, { op: "go" });
    const startedAt = performance.now();
    await pause(warmMs);
    const first = await ask<ServerMark>(server, { op: "mark" });
    await ask(client, { op: "reset" });
    await pause(windowMs);
    const [last, seen] = await Promise.all([
      ask<ServerMark>(server, { op: "mark" }),
      ask<ClientReport>(client, { op: "report" }),
    ]);
    const memories: ServerMemory[] = [];
    for (const at of heapAt) {
      await pause(Math.max(0, startedAt + at - performance.now()));
      memories.push(await ask<ServerMemory>(server, { op: "memory" }));
    }
    const { produced } = await ask<ServerMark>(server, { op: "stop" });
    if (isText) await assertAllArrived(client, produced);
    const tokens = last.produced - first.produced;
    const perRun = (bytes: number, start: number) => (bytes - start) / 1_024 / connections;
    return {
      cpuPerToken: (last.cpuMicros - first.cpuMicros) / tokens,
      ...{ tokens, p50: seen.p50, p99: seen.p99, stallMs: last.stallMs },
      bytesPerToken: seen.bytes / seen.tokens,
      load: (last.cpuMicros - first.cpuMicros) / (last.at - first.at) / 10,
      heapPerRun: memories.map(({ heapBytes }) => perRun(heapBytes, before.heapBytes)),
      rssPerRun: memories.map(({ rssBytes }) => perRun(rssBytes, before.rssBytes)),
    };
  } finally {
    await Promise.all([stop(client), stop(server)]);
  }
}

/** Waits until the readers have every token; throws if one is missing or wrong. */
async function assertAllArrived(client: ChildProcess, produced: number): Promise<void> {
  const until = performance.now() + catchUpMs;
  for (;;) {
    const { total, wrong, failed } = await ask<ClientReport>(client, { op: "report" });
    if (wrong.length > 0 || failed > 0) throw new Error(`wrong text: ${wrong.join("; ")}`);
    if (total === produced) return;
    if (performance.now() > until)
      throw new Error(`${produced - total} of ${produced} tokens are lost`);
    await pause(200);
  }
}
