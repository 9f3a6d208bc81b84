// Compares the SQLite store with raw inserts into a database with the same settings, and with plain file appends plus
// fdatasync. The figures of a row come from one run, interleaved, and the limits are ratios.
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Commit, Lease, Store } from "../src/protocol/store.ts";
import { sqliteStore } from "../src/store/sqlite.ts";
import {
  acquire,
  delta,
  deltas,
  follow,
  numberOf,
  record,
} from "../src/testing/store-contract/samples.ts";

const rounds = 3;
const roundMs = 1_500;
const liveLogs = [1, 64, 1_000] as const;
const resumed = 50_000;
/** Limits for ratios, with room for a busy machine. */
const limits = { appendsOverRaw: 0.3, resumeOverRaw: 3, endOverStart: 2 };

const folder = mkdtempSync(join(tmpdir(), "rivulet-bench-"));
const text = "some words ";
const encoded = JSON.stringify([delta(text)]);

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function percentile(values: readonly number[], share: number): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN;
}

/** Calls `work` until the round is over and returns the sum of its results per second. */
function perSecond(work: () => number): number {
  const start = performance.now();
  let count = 0;
  while (performance.now() - start < roundMs) count += work();
  return (count * 1_000) / (performance.now() - start);
}

/** Appends `logs` lines at a time to one file, each synced before the next; returns lines per second. */
function plainAppends(logs: number): number {
  const file = openSync(join(folder, "plain.jsonl"), "a");
  const lines = `${encoded}\n`.repeat(logs);
  const rate = perSecond(() => {
    writeSync(file, lines);
    fdatasyncSync(file);
    return logs;
  });
  closeSync(file);
  return rate;
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

function formatRatio(label: string, ratio: number, ok: boolean): string {
  isWithinLimits &&= ok;
  return `${label} ${ratio.toFixed(2)}${ok ? "" : " OUTSIDE THE LIMIT"}`;
}

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
  const rates = { store: [] as number[], raw: [] as number[], plain: [] as number[] };
  const delays: number[] = [];
  for (let round = 0; round < rounds; round++) {
    rates.plain.push(plainAppends(count));
    rates.raw.push(rawInserts(count));
    const own = await storeAppends(store, logs, kind);
    rates.store.push(own.rate);
    delays.push(...own.delays);
  }
  await store.close();
  const [own, raw, plain] = [median(rates.store), median(rates.raw), median(rates.plain)];
  const isLimited = kind === "deltas" && count === liveLogs.at(-1);
  const overRaw = formatRatio("ratio", own / raw, !isLimited || own / raw >= limits.appendsOverRaw);
  const millis = (share: number) => `${percentile(delays, share).toFixed(1)} ms`;
  console.log(`${format(count)} ${kind === "deltas" ? "logs" : "logs, steps"}`);
  console.log(`    store       ${format(own)}/s`);
  console.log(`    raw inserts ${format(raw)}/s   ${overRaw}`);
  console.log(`    fdatasync   ${format(plain)}/s   ratio ${(own / plain).toFixed(2)}`);
  console.log(
    `    append to tail p50 ${millis(0.5)}, p99 ${millis(0.99)};` +
      ` one raw transaction ${((1_000 * count) / raw).toFixed(1)} ms,` +
      ` one fdatasync ${((1_000 * count) / plain).toFixed(1)} ms`,
  );
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
  const pages: Record<"start" | "middle" | "end", number[]> = { start: [], middle: [], end: [] };
  for (let round = 0; round < rounds * 3; round++) {
    const start = performance.now();
    for (const row of rows.all(resumed / 2)) JSON.parse(row.events as string);
    raw.push(performance.now() - start);
    own.push(await resume(store, "task_1", resumed / 2 - 1));
    for (const [place, after] of Object.entries({ start: -1, middle: 24_999, end: 48_999 })) {
      const start = performance.now();
      await store.read("task_1", after, 1_000);
      pages[place as keyof typeof pages].push(performance.now() - start);
    }
  }
  database.close();
  await store.close();
  const overRaw = median(own) / median(raw);
  const overStart = median(pages.end) / median(pages.start);
  const page = (times: readonly number[]) => `${median(times).toFixed(1)} ms`;
  console.log(`${format(perCommit)} events per commit`);
  console.log(`    store                   ${format(median(own))} ms`);
  console.log(
    `    raw rows and JSON.parse ${format(median(raw))} ms   ` +
      formatRatio("ratio", overRaw, overRaw <= limits.resumeOverRaw),
  );
  console.log(
    `    1,000 events at the start ${page(pages.start)}, in the middle ${page(pages.middle)},` +
      ` at the end ${page(pages.end)};   ` +
      formatRatio("end over start", overStart, overStart <= limits.endOverStart),
  );
}

/** Commits to all logs at once; prints the longest time in which the event loop did not turn. */
async function benchStall(count: number): Promise<void> {
  const store = sqliteStore(join(folder, `stall-${count}.db`));
  const logs = await liveLogsOf(store, count);
  let longest = 0;
  let last = performance.now();
  let isOver = false;
  const turn = () => {
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
    if (!isOver) setImmediate(turn);
  };
  for (let round = 0; round < rounds; round++) {
    const commits = logs.map((live) => store.commit({ ...live, ...kinds.steps(live) }));
    last = performance.now();
    isOver = false;
    setImmediate(turn);
    await Promise.all(commits);
    await new Promise((resolve) => setImmediate(resolve)); // Until the turn after the last transaction.
    isOver = true;
  }
  await store.close();
  console.log(`${format(count)} sessions commit at once: longest stall ${longest.toFixed(0)} ms`);
}

try {
  console.log(`appends of one event each; every writer waits for its own (median of ${rounds})\n`);
  for (const count of liveLogs) await benchAppends(count, "deltas");
  for (const count of liveLogs) await benchAppends(count, "steps");
  const half = (resumed / 2).toLocaleString("en");
  console.log(`\nresume: ${half} events from the middle of ${resumed.toLocaleString("en")}\n`);
  for (const perCommit of [1, 20]) await benchResume(perCommit);
  console.log();
  for (const count of [200, 2_000]) await benchStall(count);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = isWithinLimits ? 0 : 1;
