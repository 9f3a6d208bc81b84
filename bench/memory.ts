// Measures what finished runs leave behind: heap per run in a memory store, file space per session in SQLite, and the
// cost of a HarnessAgent's step over a ReActAgent's. Runs are of 50 chunks; the file is measured after retention.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { LanguageModelV4, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { z } from "zod";
import {
  HarnessAgent,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  sqliteStore,
  tool,
} from "../src/index.ts";

const limits = { heapPerRun: 2_400, fileBytesPerSession: 6_144, harnessStep: 2.6 };
/** What is wanted of a step and not reached in this bench: each one looks whether files have changed. */
const harnessStepGoal = 1.2;
const steps = 200;
const rounds = 5;

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");
const folder = mkdtempSync(join(tmpdir(), "rivulet-bench-"));
const words = Array.from({ length: 50 }, (_, index) => `w${String(index).padStart(6, "0")} `);
let isWithinLimits = true;

/** A model that keeps nothing of its calls, unlike a scripted one; `parts` gets the number of the call. */
function plainModel(
  parts: (call: number) => readonly LanguageModelV4StreamPart[],
): LanguageModelV4 {
  let calls = 0;
  const usage = {
    inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 1, text: 1, reasoning: 0 },
  };
  const end: LanguageModelV4StreamPart = {
    type: "finish",
    finishReason: { unified: "stop", raw: "stop" },
    usage,
  };
  return {
    specificationVersion: "v4",
    provider: "bench",
    modelId: "plain",
    supportedUrls: {},
    doGenerate: () => Promise.reject(new Error("The bench only streams.")),
    async doStream() {
      const all = [...parts(calls++), end];
      let next = 0;
      const stream = new ReadableStream<LanguageModelV4StreamPart>({
        pull(controller) {
          const part = all[next++];
          if (part) controller.enqueue(part);
          else controller.close();
        },
      });
      return { stream };
    },
  };
}

const speech: readonly LanguageModelV4StreamPart[] = [
  { type: "text-start", id: "t" },
  ...words.map((delta) => ({ type: "text-delta", id: "t", delta }) as const),
  { type: "text-end", id: "t" },
];

function callOf(n: number): readonly LanguageModelV4StreamPart[] {
  const input = JSON.stringify({ n });
  return [{ type: "tool-call", toolCallId: `call-${n}`, toolName: "echo", input }];
}

function report(title: string, value: number, limit: number, unit = ""): void {
  const isOk = value <= limit;
  isWithinLimits &&= isOk;
  const digits = limit < 10 ? 2 : 0;
  const text = `${value.toFixed(digits)}${unit} (limit ${limit}${unit})`;
  console.log(`  ${title}: ${text} ${isOk ? "ok" : "TOO HIGH"}`);
}

function talker(options: Pick<ReActAgentOptions, "store">): ReActAgent {
  return new ReActAgent({
    name: "talker",
    model: plainModel(() => speech),
    ...options,
  });
}

/** Lets the trimmer work until the heap no longer shrinks, and returns its size. */
async function heapBytes(): Promise<number> {
  for (let last = Number.POSITIVE_INFINITY; ; ) {
    await sleep(100);
    collectGarbage();
    const { heapUsed } = process.memoryUsage();
    if (heapUsed > last * 0.99) return heapUsed;
    last = heapUsed;
  }
}

/** Returns the heap that each of `runs` finished runs keeps. */
async function heapPerRun(agent: ReActAgent, runs: number): Promise<number> {
  const before = await heapBytes();
  for (let run = 0; run < runs; run++) await agent.call("Go.");
  return ((await heapBytes()) - before) / runs;
}

async function fileBytesPerSession(sessions: number): Promise<number> {
  const path = join(folder, "store.db");
  const store = sqliteStore(path, { retention: { logs: { maxAgeMs: 0 } } });
  const agent = talker({ store });
  for (let run = 0; run < sessions; run++) await agent.call("Go.");
  const database = new DatabaseSync(path);
  const numberOf = (sql: string) => Number(Object.values(database.prepare(sql).get() ?? {})[0]);
  while (numberOf("SELECT count(*) FROM batches") > 0) await sleep(50);
  await store.close();
  const pages = numberOf("PRAGMA page_count") - numberOf("PRAGMA freelist_count");
  const bytes = pages * numberOf("PRAGMA page_size");
  database.close();
  return bytes / sessions;
}

const echo = tool({
  name: "echo",
  description: "Echoes.",
  input: z.object({ n: z.number() }),
  execute: ({ n }) => `${n}`,
});

/** Returns the CPU time of a step in microseconds. */
async function stepMicros(isHarness: boolean): Promise<number> {
  const options = {
    name: "agent",
    model: plainModel((call) => (call < steps ? callOf(call) : speech)),
    tools: [echo],
    store: memoryStore(),
    maxIters: steps + 1,
  };
  const workspace = join(folder, "workspace");
  const agent = isHarness ? new HarnessAgent({ ...options, workspace }) : new ReActAgent(options);
  const before = process.cpuUsage();
  for await (const _ of agent.run("Go."));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / steps;
}

async function harnessOverReAct(): Promise<number> {
  const best = { harness: Number.POSITIVE_INFINITY, react: Number.POSITIVE_INFINITY };
  for (let round = 0; round < rounds; round++) {
    best.react = Math.min(best.react, await stepMicros(false));
    best.harness = Math.min(best.harness, await stepMicros(true));
  }
  console.log(`  a step: ${best.react.toFixed(0)} µs, harness ${best.harness.toFixed(0)} µs`);
  return best.harness / best.react;
}

try {
  console.log("memory store, finished runs");
  const agent = talker({ store: memoryStore() });
  for (let run = 0; run < 2_000; run++) await agent.call("Go."); // fills all caches
  const first = await heapPerRun(agent, 1_000);
  const later = await heapPerRun(agent, 5_000);
  report("heap per run, 1,000 runs", first, limits.heapPerRun, " bytes");
  report("heap per run, 5,000 runs", later, limits.heapPerRun, " bytes");
  console.log("SQLite store, ended sessions after retention");
  const perSession = await fileBytesPerSession(1_000);
  report("file per session", perSession, limits.fileBytesPerSession, " bytes");
  console.log("HarnessAgent over ReActAgent");
  report(`step (goal ${harnessStepGoal})`, await harnessOverReAct(), limits.harnessStep);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
if (!isWithinLimits) process.exitCode = 1;
