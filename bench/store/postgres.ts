// The store on PostgreSQL beside raw inserts of the same rows, and beside SQLite, with 1 to 1,000 live runs.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import type { Commit, Lease, Store } from "../../src/contract/store.ts";
import { postgresStore } from "../../src/postgres.ts";
import { sqliteStore } from "../../src/store/sqlite.ts";
import { acquire, delta, message, record } from "../../src/testing/store-contract/samples.ts";
import { hasPostgres, startPostgres } from "../../test/support/postgres-server.ts";

/** Prints a figure and its limit. */
export type Print = (
  label: string,
  figure: number,
  limit: number,
  bound?: "most" | "least",
) => void;

const liveRuns = [1, 10, 100, 1_000] as const;
const rounds = 3;
const roundMs = 700;
/** From here on commits share transactions, as they do on a busy server. */
const busy = 100;
const limits = { appendsOverRaw: 0.7, stepMs: 0.4 };
/** How many events the commits of a stream have, in turn: what a model sends within a flush window. */
const sizes = [1, 1, 2, 3, 5, 8, 13, 20] as const;
const sizeOf = (n: number) => sizes[n % sizes.length] as number;

/** An event of the usual size. */
const event = (n: number, log: string) => ({
  ...delta("some words ", log),
  item_id: `msg_${String(n).padStart(26, "0")}`,
});

interface Live {
  readonly lease: Lease;
  readonly log: string;
  steps: number;
}

const eventsOf = (n: number, log: string) =>
  Array.from({ length: sizeOf(n) }, (_, i) => event(n + i, log));

const commits: Readonly<Record<"events" | "steps", (live: Live, n: number) => Commit>> = {
  events: ({ lease, log }, n) => ({ lease, log, events: eventsOf(n, log) }),
  steps(live, n) {
    const { lease, log } = live;
    const { sessionId } = lease;
    const messages = [
      message(`the question ${n} of a user`),
      message(`the answer ${n} of a model`),
    ];
    const at = 2 * live.steps;
    live.steps += 1;
    return {
      ...{ lease, log, events: Array.from({ length: 5 }, (_, i) => event(5 * n + i, log)) },
      appends: [{ sessionId, at, messages }],
      tasks: [record({ taskId: log, sessionId, committedOutput: live.steps })],
    };
  },
};

interface Rate {
  /** Events or steps. */
  readonly perSecond: number;
  /** Milliseconds of the processor for each of them, in the database and in this process. */
  readonly databaseMs: number;
  readonly ownMs: number;
}

/** Runs writers that each wait for their own commit, and resolve to the number of events or steps in it. */
async function measure(
  writers: readonly ((n: number) => Promise<number>)[],
  databaseCpu: () => number,
): Promise<Rate> {
  const [cpu, own, start] = [databaseCpu(), process.cpuUsage(), performance.now()];
  let [count, next] = [0, 0];
  await Promise.all(
    writers.map(async (write) => {
      while (performance.now() - start < roundMs) {
        next += 1;
        const written = await write(next);
        count += written;
      }
    }),
  );
  const seconds = (performance.now() - start) / 1_000;
  const { user, system } = process.cpuUsage(own);
  return {
    perSecond: count / seconds,
    databaseMs: (databaseCpu() - cpu) / count,
    ownMs: (user + system) / 1_000 / count,
  };
}

/** The time that a server and its backends have used, in milliseconds; NaN where the system does not tell. */
function cpuOf(postmaster: number | undefined): number {
  if (process.platform !== "linux" || postmaster === undefined) return Number.NaN;
  let ticks = 0;
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const text = readFileSync(join("/proc", name, "stat"), "utf8");
      const fields = text
        .slice(text.lastIndexOf(")") + 2)
        .split(" ")
        .map(Number);
      const [, parent = 0] = fields;
      const isOwn = Number(name) === postmaster;
      if (!isOwn && parent !== postmaster) continue;
      ticks += (fields[11] ?? 0) + (fields[12] ?? 0);
      if (isOwn) ticks += (fields[13] ?? 0) + (fields[14] ?? 0); // backends that have ended
    } catch {
      // The process has ended.
    }
  }
  return ticks * 10;
}

/** Inserts rows without any check, grouped over as many connections as the store has writers. */
async function rawWriters(url: string, table: string, count: number) {
  const clients = await Promise.all(
    Array.from({ length: 4 }, async () => {
      const client = new pg.Client(url);
      await client.connect();
      return client;
    }),
  );
  await clients[0]?.query(`CREATE TABLE ${table}
    (log bigint, last bigint, n int, fence bigint, events bytea, PRIMARY KEY (log, last))`);
  const sql = `INSERT INTO ${table} SELECT log, last, n, 1, substring($6::bytea FROM at FOR len)
    FROM unnest($1::bigint[], $2::bigint[], $3::int[], $4::int[], $5::int[]) AS g(log, last, n, at, len)`;
  interface Row {
    readonly log: number;
    readonly last: number;
    readonly count: number;
    readonly body: Buffer;
    readonly done: (count: number) => void;
  }
  const lanes = clients.map((client) => {
    const waiting: Row[] = [];
    let isActive = false;
    const run = async () => {
      while (waiting.length > 0) {
        const rows = waiting.splice(0, 256);
        let at = 1;
        const ats = rows.map(({ body }) => {
          const place = at;
          at += body.length;
          return place;
        });
        await client.query(sql, [
          rows.map(({ log }) => log),
          rows.map(({ last }) => last),
          rows.map(({ count }) => count),
          ats,
          rows.map(({ body }) => body.length),
          Buffer.concat(rows.map(({ body }) => body)),
        ]);
        for (const { done, count } of rows) done(count);
      }
      isActive = false;
    };
    return (row: Row) => {
      waiting.push(row);
      if (!isActive) setImmediate(run);
      isActive = true;
    };
  });
  const writers = Array.from({ length: count }, (_, log) => {
    let last = -1;
    return (n: number) =>
      new Promise<number>((done) => {
        const count = sizeOf(n);
        last += count;
        const body = Buffer.from(`\u0001${JSON.stringify(eventsOf(n, `task_${log}`))}`);
        lanes[log % lanes.length]?.({ log, last, count, body, done });
      });
  });
  return { writers, close: () => Promise.all(clients.map((client) => client.end())) };
}

async function storeWriters(store: Store, count: number, kind: keyof typeof commits) {
  const live = await Promise.all(
    Array.from({ length: count }, async (_, n): Promise<Live> => {
      const lease = await acquire(store, `sess_${n}`, { ttlMs: 3_600_000 });
      return { lease, log: `task_${n}`, steps: 0 };
    }),
  );
  return live.map((one) => async (n: number) => {
    await store.commit(commits[kind](one, n));
    return kind === "events" ? sizeOf(n) : 1;
  });
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function show(label: string, rates: readonly Rate[]): Rate {
  const of = (field: keyof Rate) => median(rates.map((rate) => rate[field]));
  const [perSecond, databaseMs, ownMs] = [of("perSecond"), of("databaseMs"), of("ownMs")];
  const database = Number.isNaN(databaseMs)
    ? ""
    : `, database ${(1_000 * databaseMs).toFixed(1)} µs`;
  const rate = Math.round(perSecond).toLocaleString("en").padStart(9);
  console.log(`    ${label.padEnd(12)}${rate}/s, own ${(1_000 * ownMs).toFixed(1)} µs${database}`);
  return { perSecond, databaseMs, ownMs };
}

/** Measures one kind of commit with some live runs, in rounds that take turns. */
async function compare(
  { url, pid, folder }: { url: string; pid: number | undefined; folder: string },
  kind: keyof typeof commits,
  count: number,
  print: Print,
): Promise<void> {
  const none = () => Number.NaN;
  const name = `bench_${kind}_${count}`;
  const postgres = postgresStore({ url, schema: name });
  const sqlite = sqliteStore(join(folder, `${name}.db`));
  const raw = kind === "events" ? await rawWriters(url, `raw_${count}`, count) : undefined;
  const [onPostgres, onSqlite] = await Promise.all([
    storeWriters(postgres, count, kind),
    storeWriters(sqlite, count, kind),
  ]);
  const rates = { postgres: [] as Rate[], raw: [] as Rate[], sqlite: [] as Rate[] };
  await measure(onPostgres, none); // V8 compiles the code, and the functions plan their statements
  for (let round = 0; round < rounds; round++) {
    if (raw) rates.raw.push(await measure(raw.writers, () => cpuOf(pid)));
    rates.postgres.push(await measure(onPostgres, () => cpuOf(pid)));
    rates.sqlite.push(await measure(onSqlite, none));
  }
  await raw?.close();
  await Promise.all([postgres.close(), sqlite.close()]);
  console.log(`  ${count.toLocaleString("en")} live runs, ${kind}`);
  const own = show("PostgreSQL", rates.postgres);
  show("SQLite", rates.sqlite);
  if (raw) {
    const { perSecond } = show("raw INSERT", rates.raw);
    const least = count >= busy ? limits.appendsOverRaw : 0;
    print("events over raw inserts", own.perSecond / perSecond, least, "least");
  } else if (count >= busy && !Number.isNaN(own.databaseMs)) {
    print("milliseconds of the database for a step", own.databaseMs, limits.stepMs);
  }
}

/** Runs if `DATABASE_URL` is set, or if `npm test` has installed a server. */
export async function benchPostgres(folder: string, print: Print): Promise<void> {
  const { DATABASE_URL } = process.env;
  if (DATABASE_URL === undefined && !hasPostgres()) return;
  const server = DATABASE_URL === undefined ? await startPostgres() : undefined;
  const url = DATABASE_URL ?? server?.url ?? "";
  try {
    for (const kind of ["events", "steps"] as const)
      for (const count of liveRuns)
        await compare({ url, pid: server?.pid(), folder }, kind, count, print);
  } finally {
    await server?.remove();
    if (server === undefined) await clean(url);
  }
}

async function clean(url: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query("SET client_min_messages = warning");
  for (const count of liveRuns) {
    for (const kind of Object.keys(commits))
      await client.query(`DROP SCHEMA IF EXISTS bench_${kind}_${count} CASCADE`);
    await client.query(`DROP TABLE IF EXISTS raw_${count}`);
  }
  await client.end();
}
