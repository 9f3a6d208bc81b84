// Measures what finished runs leave behind: heap per run and the growth of the process with a memory store, file space per
// session in SQLite, and the cost of a HarnessAgent's step over a ReActAgent's. Runs are of 50 chunks; the file is measured
// after retention. Name parts to run only those: node bench/memory.ts growth heap file harness
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
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

const limits = {
  /** A table that doubles while the runs are measured adds 200 bytes to each of 1,000. */
  heapPerRun: 2_400,
  /** How much larger the process is after 50,000 runs than after 1,000, in megabytes. */
  growth: 300,
  growthOfSmallYoung: 180,
  fileBytesPerSession: 6_144,
  harnessStep: 1.7,
};
/** What is wanted and not reached everywhere. */
const goals = { growth: 150, harnessStep: 1.2 };
const steps = 200;
const rounds = 11;
const growthRounds = 5;

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

function report(title: string, value: number, limit: number, unit = "", goal = limit): void {
  const isOk = value <= limit;
  isWithinLimits &&= isOk;
  const digits = limit < 10 ? 2 : 0;
  const wanted = goal === limit ? "" : `, goal ${goal}${unit}`;
  const text = `${value.toFixed(digits)}${unit} (limit ${limit}${unit}${wanted})`;
  console.log(`  ${title}: ${text} ${isOk ? "ok" : "TOO HIGH"}`);
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] as number;
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

/** The median of the ratios of interleaved rounds, after a few that only compile the code. */
async function harnessOverReAct(): Promise<number> {
  const pairs: { readonly react: number; readonly harness: number }[] = [];
  for (let round = -3; round < rounds; round++) {
    const pair = { react: await stepMicros(false), harness: await stepMicros(true) };
    if (round >= 0) pairs.push(pair);
  }
  return median(pairs.map(({ react, harness }) => harness / react));
}

/** Returns how many megabytes this process grows from run 1,000 to run 50,000 of one store. */
async function processGrowth(): Promise<number> {
  const agent = talker({ store: memoryStore() });
  for (let run = 0; run < 1_000; run++) await agent.call("Go.");
  const before = process.memoryUsage.rss();
  for (let run = 1_000; run < 50_000; run++) await agent.call("Go.");
  return (process.memoryUsage.rss() - before) / 1e6;
}

/** The same of new processes. */
async function growthOf(...flags: readonly string[]): Promise<number> {
  const grown: number[] = [];
  const program = [...flags, "--no-warnings", import.meta.filename, "grow"];
  for (let round = 0; round < growthRounds; round++) {
    const { stdout } = await promisify(execFile)(process.execPath, program);
    grown.push(Number(stdout));
  }
  return median(grown);
}

const parts: Record<string, () => Promise<void>> = {
  async growth() {
    console.log("memory store, the process from 1,000 to 50,000 finished runs");
    report("as Node starts", await growthOf(), limits.growth, " MB", goals.growth);
    // Node 24 lets the young generation grow to 128 MB while it grows at all, Node 22 to 32 MB.
    const small = await growthOf("--max-semi-space-size=16");
    const title = "with the young generation of Node 22";
    report(title, small, limits.growthOfSmallYoung, " MB", goals.growth);
  },
  async heap() {
    console.log("memory store, finished runs");
    const agent = talker({ store: memoryStore() });
    for (let run = 0; run < 2_000; run++) await agent.call("Go."); // fills all caches
    for (let pass = 0; pass < 3; pass++) await heapBytes(); // V8 drops unused code only after some collections
    for (const runs of [1_000, 5_000]) {
      const title = `heap per run, ${runs.toLocaleString("en")} runs (goal 2048)`;
      report(title, await heapPerRun(agent, runs), limits.heapPerRun, " bytes");
    }
  },
  async file() {
    console.log("SQLite store, ended sessions after retention");
    const perSession = await fileBytesPerSession(1_000);
    report("file per session", perSession, limits.fileBytesPerSession, " bytes");
  },
  async harness() {
    console.log("HarnessAgent over ReActAgent");
    const ratio = await harnessOverReAct();
    report("CPU per step", ratio, limits.harnessStep, "", goals.harnessStep);
  },
};

const chosen = process.argv.slice(2);
try {
  if (chosen[0] === "grow") console.log(await processGrowth());
  else
    for (const [name, measure] of Object.entries(parts))
      if (chosen.length === 0 || chosen.includes(name)) await measure();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = isWithinLimits ? 0 : 1;
