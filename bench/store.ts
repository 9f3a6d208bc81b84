// Compares the SQLite store with raw inserts into a database with the same settings, and measures agents on both stores:
// many children on one log, steps, and many streaming sessions. The figures of a row come from one run, interleaved; the
// limits are ratios or counts, except for the longest stall.
// node bench/store.ts [appends] [resume] [stall] [children] [steps] [sessions] [postgres]
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Commit, Lease, Store } from "../src/contract/store.ts";
import { agentTool, memoryStore, ReActAgent, tool } from "../src/index.ts";
import { sqliteStore } from "../src/store/sqlite.ts";
import {
  acquire,
  delta,
  deltas,
  follow,
  numberOf,
  record,
} from "../src/testing/store-contract/samples.ts";
import { type ScriptedPart, scriptedModel } from "../src/testing.ts";
import { benchPostgres } from "./store/postgres.ts";

const rounds = 3;
const roundMs = 500;
const liveLogs = [1, 64, 1_000] as const;
const resumed = 50_000;
/** The sizes of a fan of children; the growth of the cost is that from the first to the last. */
const fans = [50, 500, 2_000] as const;
const chunks = 50;
const fanRounds = 5;
/** Limits, with room for a busy machine. */
const limits = {
  /** Commits per second over raw inserts per second, at least. */
  appends: { deltas: 0.3, steps: 0.15 },
  /** The median time from a commit to a reader, in raw transactions. */
  tail: 6,
  resumeOverRaw: 3,
  endOverStart: 2,
  stallMs: 50,
  /** In memory, the garbage collector copies the events and the state of all children that live at once. */
  growth: { memory: 2, SQLite: 1.5 },
  transactionsPerChild: 1,
  transactionsPerStep: 1.5,
  /** Less on a slow disk, whose insert takes longer than the work of the step; more on a busy machine. */
  /** Depends on the disk: the faster it is, the more the work of the processor counts. */
  stepOverRaw: 7.5,
  transactionsPerSecond: 60,
};

/** What is wanted and not reached everywhere. */
const goals = { growth: 1.5, stepOverRaw: 2 };

const folder = mkdtempSync(join(tmpdir(), "rivulet-bench-"));
const text = "some words ";
const encoded = JSON.stringify([delta(text)]);

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** Calls `work` until the round is over and returns the sum of its results per second. */
function perSecond(work: () => number): number {
  const start = performance.now();
  let count = 0;
  while (performance.now() - start < roundMs) count += work();
  return (count * 1_000) / (performance.now() - start);
}

/** Inserts one row for each log in one transaction, each synced before the next; returns rows per second. */
function rawInserts(logs: number): number {
  const database = new DatabaseSync(join(folder, `raw-${logs}.db`));
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  database.exec(
    `CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY, log INTEGER, last INTEGER, events TEXT) STRICT;
     CREATE UNIQUE INDEX IF NOT EXISTS batches_by_log ON batches (log, last)`,
  );
  const insert = database.prepare("INSERT INTO batches (log, last, events) VALUES (?, ?, ?)");
  const row = database.prepare("SELECT max(last) AS last FROM batches").get();
  let last = Number(row?.last ?? -1);
  const rate = perSecond(() => {
    last += 1;
    database.exec("BEGIN IMMEDIATE");
    for (let log = 0; log < logs; log++) insert.run(log, last, encoded);
    database.exec("COMMIT");
    return logs;
  });
  database.close();
  return rate;
}

let isWithinLimits = true;

/** Prints a figure and its limit. */
function print(label: string, figure: number, limit: number, bound: "most" | "least" = "most") {
  const isWithin = bound === "most" ? figure <= limit : figure >= limit;
  isWithinLimits &&= isWithin;
  const outcome = isWithin ? "ok" : `OUTSIDE THE LIMIT`;
  console.log(`    ${label}: ${figure.toFixed(2)} (at ${bound} ${limit}) ${outcome}`);
}

let transactions = 0;
const { prepare } = DatabaseSync.prototype;
DatabaseSync.prototype.prepare = function (sql) {
  const statement = Reflect.apply(prepare, this, [sql]);
  if (sql !== "COMMIT") return statement;
  const { run } = statement;
  return Object.assign(statement, {
    run: () => {
      transactions += 1;
      return Reflect.apply(run, statement, []);
    },
  });
};

interface LiveLog {
  readonly lease: Lease;
  readonly log: string;
}

/** The commits of a writer. The store may batch deltas with others, but not a step with its record. */
const kinds = {
  deltas: () => ({ events: [delta(text)] }),
  steps: ({ log, lease }) => ({
    events: [delta(text)],
    tasks: [record({ taskId: log, sessionId: lease.sessionId })],
  }),
} satisfies Record<string, (live: LiveLog) => Partial<Commit>>;

/** Writes to every log, each writer waiting for its commits, while a reader follows the first log. */
async function storeAppends(store: Store, logs: readonly LiveLog[], kind: keyof typeof kinds) {
  const delays: number[] = [];
  const sent: number[] = [];
  const watched = logs[0] as LiveLog;
  const first = (await store.last(watched.log)) + 1;
  let isOver = false;
  const reading = (async () => {
    for await (const event of follow(store, watched.log, { after: first - 1 })) {
      const at = sent[numberOf(event) - first];
      if (at !== undefined) delays.push(performance.now() - at);
      if (isOver && delays.length === sent.length) return;
    }
  })();
  const start = performance.now();
  let count = 0;
  await Promise.all(
    logs.map(async (live) => {
      while (performance.now() - start < roundMs) {
        if (live === watched) sent.push(performance.now());
        await store.commit({ ...live, ...kinds[kind](live) });
        count += 1;
      }
    }),
  );
  const rate = (count * 1_000) / (performance.now() - start);
  isOver = true;
  sent.push(performance.now());
  await store.commit({ ...watched, events: [delta(text)] });
  await reading;
  return { rate, delays };
}

async function liveLogsOf(store: Store, count: number): Promise<readonly LiveLog[]> {
  const ids = Array.from({ length: count }, (_, i) => i);
  return Promise.all(
    ids.map(async (i) => ({ log: `task_${i}`, lease: await acquire(store, `sess_${i}`) })),
  );
}

function format(rate: number): string {
  return Math.round(rate).toLocaleString("en").padStart(9);
}

async function benchAppends(count: number, kind: keyof typeof kinds): Promise<void> {
  const store = sqliteStore(join(folder, `${kind}-${count}.db`));
  const logs = await liveLogsOf(store, count);
  const rates = { store: [] as number[], raw: [] as number[] };
  const delays: number[] = [];
  for (let round = 0; round < rounds; round++) {
    rates.raw.push(rawInserts(count));
    const own = await storeAppends(store, logs, kind);
    rates.store.push(own.rate);
    delays.push(...own.delays);
  }
  await store.close();
  const raw = median(rates.raw);
  console.log(`  ${format(count)} logs, ${kind}`);
  print("commits over raw inserts", median(rates.store) / raw, limits.appends[kind], "least");
  const transactionMs = (1_000 * count) / raw;
  print("append to tail over one raw transaction", median(delays) / transactionMs, limits.tail);
}

/** Reads from `after` to the end of the log in pages, as a reconnecting reader does; returns the milliseconds. */
async function resume(store: Store, log: string, after: number): Promise<number> {
  const start = performance.now();
  let cursor = after;
  for (;;) {
    const events = await store.read(log, cursor, 1_000);
    if (events.length === 0) return performance.now() - start;
    cursor += events.length;
  }
}

async function benchResume(perCommit: number): Promise<void> {
  const path = join(folder, `resume-${perCommit}.db`);
  const store = sqliteStore(path);
  const lease = await acquire(store);
  const commits: Promise<number>[] = [];
  for (let n = 0; n < resumed; n += perCommit) {
    commits.push(store.commit({ lease, log: "task_1", events: deltas(perCommit, n) }));
  }
  await Promise.all(commits);
  const database = new DatabaseSync(path, { readOnly: true });
  const rows = database.prepare(
    "SELECT events FROM batches WHERE log = 1 AND last >= ? ORDER BY last",
  );
  const raw: number[] = [];
  const own: number[] = [];
  const pages: Record<"start" | "end", number[]> = { start: [], end: [] };
  for (let round = 0; round < rounds * 3; round++) {
    const start = performance.now();
    for (const row of rows.all(resumed / 2)) JSON.parse(row.events as string);
    raw.push(performance.now() - start);
    own.push(await resume(store, "task_1", resumed / 2 - 1));
    for (const [place, after] of Object.entries({ start: -1, end: 48_999 })) {
      const start = performance.now();
      await store.read("task_1", after, 1_000);
      pages[place as keyof typeof pages].push(performance.now() - start);
    }
  }
  database.close();
  await store.close();
  console.log(`  ${format(perCommit)} events per commit`);
  print("over raw rows and JSON.parse", median(own) / median(raw), limits.resumeOverRaw);
  const overStart = median(pages.end) / median(pages.start);
  print("1,000 events at the end over the start", overStart, limits.endOverStart);
}

/** Commits to all logs at once; returns the longest time in which the event loop did not turn, as a median. */
async function benchStall(count: number): Promise<void> {
  const store = sqliteStore(join(folder, `stall-${count}.db`));
  const logs = await liveLogsOf(store, count);
  const stalls: number[] = [];
  for (let round = 0; round < rounds * 3; round++) {
    const commits = logs.map((live) => store.commit({ ...live, ...kinds.steps(live) }));
    let longest = 0;
    let last = performance.now();
    let isOver = false;
    const turn = () => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
      if (!isOver) setImmediate(turn);
    };
    setImmediate(turn);
    await Promise.all(commits);
    await new Promise((resolve) => setImmediate(resolve)); // Until the turn after the last transaction.
    isOver = true;
    stalls.push(longest);
  }
  await store.close();
  print(`longest stall when ${count} sessions commit at once, ms`, median(stalls), limits.stallMs);
}

const openStore = {
  memory: () => memoryStore(),
  SQLite: (name: string) => sqliteStore(join(folder, `${name}.db`)),
};
type StoreKind = keyof typeof openStore;

/** Runs a lead with many children that stream side by side into one log; returns the milliseconds of CPU. */
async function runChildren(kind: StoreKind, count: number): Promise<number> {
  const store = openStore[kind](`children-${count}-${transactions}`);
  const text = { text: Array.from({ length: chunks }, () => "some words ") };
  const worker = new ReActAgent({
    name: "worker",
    store,
    model: scriptedModel([text], { by: "prompt" }),
  });
  const call = { call: "worker", input: { prompt: "go" } };
  const model = scriptedModel([Array.from({ length: count }, () => call), "done"]);
  const lead = new ReActAgent({ name: "lead", store, model, tools: [agentTool(worker)] });
  const start = process.cpuUsage();
  let seen = 0;
  for await (const { type } of lead.run("go")) if (type === "task.text.delta") seen += 1;
  const { user, system } = process.cpuUsage(start);
  await store.close();
  if (seen !== count * chunks + 1) throw new Error(`Read ${seen} deltas of ${count} children.`);
  return (user + system) / 1_000;
}

async function benchChildren(kind: StoreKind): Promise<void> {
  for (let round = 0; round < rounds; round++) await runChildren(kind, fans[0]); // V8 compiles the code
  const perChunk = fans.map((): number[] => []);
  const perChild = fans.map((): number[] => []);
  for (let round = -1; round < fanRounds; round++) {
    for (const [index, count] of fans.entries()) {
      // Each size has as many children, so that each has as much garbage to collect.
      const times: number[] = [];
      const before = transactions;
      for (let done = 0; done < fans[2]; done += count) times.push(await runChildren(kind, count));
      if (round < 0) continue;
      perChunk[index]?.push(times.reduce((sum, time) => sum + time, 0) / (fans[2] * chunks));
      perChild[index]?.push((transactions - before) / fans[2]);
    }
  }
  for (const [index, count] of fans.entries()) {
    const written = median(perChild[index] ?? []);
    if (kind === "SQLite")
      print(`transactions per child of ${count}`, written, limits.transactionsPerChild);
  }
  for (const [index, count] of fans.entries()) {
    if (index === 0) continue;
    const ratios = perChunk[index]?.map((time, round) => time / (perChunk[0]?.[round] ?? 1)) ?? [];
    const label = `${kind}: CPU per chunk, ${count} / ${fans[0]} (goal ${goals.growth})`;
    print(label, median(ratios), limits.growth[kind]);
  }
}

/** Runs steps of one tool call each; compares one with a raw insert of the bytes that it stores. */
async function benchSteps(): Promise<void> {
  const steps = 50;
  const path = join(folder, "steps.db");
  const store = sqliteStore(path);
  const add = tool({ name: "add", description: "Adds.", execute: () => "done" });
  const run = async (count: number) => {
    const calls: ScriptedPart[][] = Array.from({ length: count }, (_, n) => [
      { call: "add", input: { n } },
    ]);
    const model = scriptedModel([...calls, "done"]);
    const settings = { name: "worker", store, tools: [add], maxIters: count + 1 };
    await new ReActAgent({ ...settings, model }).call("go");
  };
  const raw = new DatabaseSync(join(folder, "raw-steps.db"));
  raw.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  raw.exec("CREATE TABLE steps (number INTEGER PRIMARY KEY, data TEXT) STRICT");
  const insert = raw.prepare("INSERT INTO steps (data) VALUES (?)");
  const sizeOf = () => {
    const database = new DatabaseSync(path, { readOnly: true });
    const { size } = database
      .prepare(
        "SELECT sum(length(events)) + (SELECT sum(length(message)) FROM messages) AS size FROM batches",
      )
      .get() as { size: number };
    database.close();
    return size;
  };
  for (let round = 0; round < rounds; round++) await run(steps); // V8 compiles the code
  const times: { readonly own: number; readonly raw: number }[] = [];
  let perStep = 0;
  for (let round = 0; round < rounds * 7; round++) {
    const [size, before] = [sizeOf(), transactions];
    const begun = performance.now();
    await run(steps);
    const own = performance.now() - begun;
    perStep = (transactions - before) / steps;
    const data = "x".repeat(Math.round((sizeOf() - size) / steps));
    const inserting = performance.now();
    for (let step = 0; step < steps; step++) insert.run(data);
    times.push({ own, raw: performance.now() - inserting });
  }
  raw.close();
  await store.close();
  print("transactions per step", perStep, limits.transactionsPerStep);
  const micros = (all: readonly number[]) => Math.round((1_000 * median(all)) / steps);
  const [own, inserts] = [micros(times.map((one) => one.own)), micros(times.map((one) => one.raw))];
  const label = `a step of ${own} µs over one raw insert of ${inserts} µs (goal ${goals.stepOverRaw})`;
  print(label, median(times.map((one) => one.own / one.raw)), limits.stepOverRaw);
}

/** Streams 100 tokens per second to each of many sessions. */
async function benchSessions(count: number): Promise<void> {
  const store = sqliteStore(join(folder, "sessions.db"));
  const parts = Array.from({ length: 200 }, () => [{ text: "word " }, { delayMs: 10 }]).flat();
  const agent = new ReActAgent({
    name: "talker",
    store,
    model: scriptedModel([parts], { by: "prompt" }),
  });
  const [start, before] = [performance.now(), transactions];
  await Promise.all(
    Array.from({ length: count }, async (_, n) => {
      await new Promise((resolve) => setTimeout(resolve, n % 10));
      await agent.call("go", { sessionId: `sess_${n}` });
    }),
  );
  const seconds = (performance.now() - start) / 1_000;
  await store.close();
  const label = `transactions per second of ${count} sessions at 100 tokens per second`;
  print(label, (transactions - before) / seconds, limits.transactionsPerSecond);
}

const benches: Record<string, () => Promise<void>> = {
  async appends() {
    console.log(`appends of one event each; every writer waits for its own (median of ${rounds})`);
    for (const kind of ["deltas", "steps"] as const)
      for (const count of liveLogs) await benchAppends(count, kind);
  },
  async resume() {
    const half = (resumed / 2).toLocaleString("en");
    console.log(`resume: ${half} events from the middle of ${resumed.toLocaleString("en")}`);
    for (const perCommit of [1, 20]) await benchResume(perCommit);
  },
  stall: () => benchStall(2_000),
  async children() {
    console.log(`children on one log, ${chunks} chunks each`);
    for (const kind of ["memory", "SQLite"] as const) await benchChildren(kind);
  },
  steps: benchSteps,
  sessions: () => benchSessions(100),
  postgres: () => benchPostgres(folder, print),
};
const chosen = process.argv.slice(2);
try {
  for (const [name, bench] of Object.entries(benches))
    if (chosen.length === 0 || chosen.includes(name)) await bench();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = isWithinLimits ? 0 : 1;
