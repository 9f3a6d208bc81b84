// Compares a child on another server with a client that reads the same run of that server: time and bytes per event, in
// one run, interleaved. Then it measures how long a cancel at the root takes to stop a model request two servers away.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, connect as connectSocket, createServer } from "node:net";
import { connect } from "../src/client.ts";
import { HarnessAgent, memoryStore, type SubagentDeclaration } from "../src/index.ts";
import { serve } from "../src/server.ts";
import { type Script, type ScriptedPart, scriptedModel } from "../src/testing.ts";

const rounds = 5;
const chunks = 20_000;
const limits = { time: 2, bytes: 1.02, cancelMs: 2_000 };
const token = "bench-0123456789abcdef";

function agentOf(name: string, script: Script, subagents: readonly SubagentDeclaration[] | false) {
  const store = memoryStore({ maxLogBytes: 2 ** 30 });
  return new HarnessAgent({
    name,
    model: scriptedModel(script),
    store,
    filesystem: false,
    subagents,
  });
}

function on(url: string, name: string): SubagentDeclaration {
  return {
    ...{ name, description: "Works.", url: `${url}/agents/${name}`, allowPrivateNetwork: true },
    headers: { authorization: `Bearer ${token}` },
    limits: { maxBytes: 2 ** 30 },
  };
}

const spawn = (agent_id: string) => ({
  call: "agent_spawn",
  input: { agent_id, task: "Go.", timeout_seconds: 600 },
});
/** A script with one call per task. */
const callOnce =
  (call: ScriptedPart): Script =>
  ({ assistantCount }) =>
    assistantCount === 0 ? [call] : "Done.";
const words = Array.from({ length: chunks }, (_, n) => `word ${n} `);

/** A process with one server: `writer` writes many chunks, `waiter` asks a model that never answers. */
async function serveHere(next: string): Promise<void> {
  const waiter =
    next === ""
      ? agentOf("waiter", () => [{ text: "I wait." }, { hang: true }], false)
      : agentOf("waiter", callOnce(spawn("waiter")), [on(next, "waiter")]);
  const writer = agentOf("writer", () => [{ text: words }], false);
  const options = { port: 0, log: false, token, limits: { bufferBytes: 2 ** 30 } } as const;
  const waiting = await serve({ agents: [waiter], ...options });
  const writing = await serve({ agents: [writer], ...options });
  process.send?.({ waiter: waiting.url, writer: writing.url });
}

if (process.send) await serveHere(process.argv[2] ?? "");
else await main();

async function start(next = ""): Promise<{ child: ChildProcess; waiter: string; writer: string }> {
  const child = fork(new URL(import.meta.url), [next]);
  const [urls] = (await once(child, "message")) as [{ waiter: string; writer: string }];
  return { child, ...urls };
}

/** Passes everything on and counts the bytes of the server. */
async function countingProxy(url: string) {
  const counted = { bytes: 0 };
  const server = createServer((client) => {
    const upstream = connectSocket(Number(new URL(url).port), "127.0.0.1");
    upstream.on("data", (chunk) => {
      counted.bytes += chunk.length;
    });
    for (const socket of [client, upstream]) socket.on("error", () => {});
    client.pipe(upstream).pipe(client);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return { counted, url: `http://127.0.0.1:${port}`, close: () => server.close() };
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** Microseconds and bytes per event. */
interface Cost {
  readonly time: number;
  readonly bytes: number;
}

async function costOf(bytes: () => number, read: () => Promise<number>): Promise<Cost> {
  const before = bytes();
  const startedAt = performance.now();
  const events = await read();
  const time = ((performance.now() - startedAt) * 1_000) / events;
  return { time, bytes: (bytes() - before) / events };
}

async function main(): Promise<void> {
  const last = await start();
  const second = await start(last.waiter);
  const proxy = await countingProxy(second.writer);
  const client = connect(proxy.url, { token }).agent("writer");
  const lead = agentOf("lead", callOnce(spawn("writer")), [on(proxy.url, "writer")]);
  const bytes = () => proxy.counted.bytes;
  const costs: { reader: Cost; child: Cost }[] = [];
  for (let round = 0; round <= rounds; round++) {
    const reader = await costOf(bytes, async () => {
      let events = 0;
      for await (const _ of client.run("Go.")) events += 1;
      return events;
    });
    const child = await costOf(bytes, async () => {
      let events = 0;
      for await (const _ of lead.run("Go.")) events += 1;
      return events;
    });
    if (round > 0) costs.push({ reader, child }); // the first round warms up
  }
  const ratioOf = (part: keyof Cost) =>
    median(costs.map(({ reader, child }) => child[part] / reader[part]));
  const shown = (who: "reader" | "child", part: keyof Cost) =>
    median(costs.map((cost) => cost[who][part])).toFixed(1);
  const [time, size] = [ratioOf("time"), ratioOf("bytes")];
  console.log(
    `a run of ${chunks.toLocaleString("en")} chunks on another server (median of ${rounds})`,
  );
  console.log(
    `  time per event: child ${shown("child", "time")} µs, reader ${shown("reader", "time")} µs, ratio ${time.toFixed(2)} (limit ${limits.time})`,
  );
  console.log(
    `  bytes per event: child ${shown("child", "bytes")}, reader ${shown("reader", "bytes")}, ratio ${size.toFixed(3)} (limit ${limits.bytes})`,
  );
  const times: number[] = [];
  for (let round = 0; round < rounds; round++) times.push(await cancelOnce(second.waiter));
  const cancelMs = median(times);
  console.log(
    `cancel of a model request two servers away: median ${cancelMs.toFixed(0)} ms, worst ${Math.max(...times).toFixed(0)} ms (limit ${limits.cancelMs})`,
  );
  proxy.close();
  for (const { child } of [last, second]) child.kill();
  process.exitCode =
    time <= limits.time && size <= limits.bytes && cancelMs <= limits.cancelMs ? 0 : 1;
}

/** The time from the cancel at the root until the task two servers away has ended, as the root reads it. */
async function cancelOnce(url: string): Promise<number> {
  const lead = agentOf("lead", callOnce(spawn("waiter")), [on(url, "waiter")]);
  const run = lead.run("Go.", { until: "tree" });
  let startedAt = 0;
  const cancel = () => {
    startedAt ||= performance.now();
    void run.cancel();
  };
  for await (const event of run)
    if (event.type === "task.text.delta" && event.source?.depth === 2) cancel();
  if (startedAt === 0) throw new Error("No model request was there to cancel.");
  return performance.now() - startedAt;
}
