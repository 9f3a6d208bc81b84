// Many live runs, each followed over HTTP: what people deploy. Each run gets 50 tokens per second, each has one reader,
// the server has one core, and the readers, in a process of their own, check every character. Beside Rivulet it measures a
// hand-written server (bare), pi and the AI SDK, interleaved. pi stays at 0.87.1, because its later releases need a
// package that not every registry has. Without the peers (no network, or `--no-peers`) it measures the rest.
//   npm run bench -- live                         all parts
//   npm run bench -- live flat --runs 50,200      one part, other sizes
//   npm run bench -- live --write                 writes the tables and charts of docs/guide/performance.md
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { shown } from "./live/chart.ts";
import { foldMicros, recordRun } from "./live/fold.ts";
import { measureIdle } from "./live/idle.ts";
import { type Contestant, measure, type Point, type PointOptions } from "./live/pipe.ts";
import { Report, type Row } from "./live/report.ts";

const { values: given, positionals: chosen } = parseArgs({
  allowPositionals: true,
  options: {
    runs: { type: "string" },
    seconds: { type: "string", default: "15" },
    rounds: { type: "string", default: "3" },
    write: { type: "boolean", default: false },
    "no-peers": { type: "boolean", default: false },
  },
});
const windowMs = Number(given.seconds) * 1_000;
const rounds = Number(given.rounds);
const warmMs = 4_000;
const sizes = (usual: readonly number[]) => given.runs?.split(",").map(Number) ?? usual;
/** A reader waits at most so long for 99 of 100 tokens. */
const heldMs = 100;

const bare = { side: "bare" } as const;
const memory = { side: "rivulet", store: "memory" } as const;
const sqlite = { side: "rivulet", store: "sqlite" } as const;
const pi = { side: "pi" } as const;
const aiSdk = { side: "ai-sdk" } as const;
type Side = Omit<Contestant, "workload">;

const hasPeers = !given["no-peers"] && installPeers();
const report = new Report();

function installPeers(): boolean {
  const folder = fileURLToPath(new URL("../tools/peers", import.meta.url));
  if (existsSync(join(folder, "node_modules"))) return true;
  const command = ["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
  const { status } = spawnSync("npm", command, { cwd: folder, stdio: "inherit" });
  if (status !== 0) console.log("The peers cannot be installed, so they are left out.");
  return status === 0;
}

function nameOf({ side, store, isZipped }: Side): string {
  const names = { bare: "bare node:http", pi: "pi, SSE by hand", "ai-sdk": "AI SDK", rivulet: "" };
  const ours = `Rivulet, ${store === "sqlite" ? "SQLite" : "memory"}${isZipped ? ", gzip" : ""}`;
  return names[side] || ours;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** The points of some sides, interleaved; a side that fails has none from then on. */
async function interleaved(
  workload: Contestant["workload"],
  sides: readonly Side[],
  options: Omit<PointOptions, "warmMs" | "windowMs">,
): Promise<ReadonlyMap<Side, readonly Point[]>> {
  const points = new Map<Side, Point[]>(sides.map((side) => [side, []]));
  const failed = new Set<Side>();
  for (let round = 0; round < rounds; round++) {
    for (const side of sides.filter((one) => !failed.has(one))) {
      try {
        const point = await measure({ ...side, workload }, { ...options, warmMs, windowMs });
        points.get(side)?.push(point);
        report.progress(nameOf(side), options.connections, point);
      } catch (error) {
        failed.add(side);
        console.log(`${nameOf(side)}, ${options.connections} runs: ${(error as Error).message}`);
      }
    }
  }
  return points;
}

/** The medians of the sides, and how much CPU a token costs over the first side in the same round. */
function rowsOf(points: ReadonlyMap<Side, readonly Point[]>, runs: number): readonly Row[] {
  const [floor = []] = points.values();
  return [...points].flatMap(([side, own]) => {
    if (own.length === 0) return [];
    const of = (value: (point: Point) => number) => median(own.map(value));
    const over = median(own.map((p, n) => p.cpuPerToken / (floor[n]?.cpuPerToken ?? Number.NaN)));
    return {
      ...{ name: nameOf(side), isOurs: side.side === "rivulet", runs },
      ...{ cpu: of((p) => p.cpuPerToken), over, p50: of((p) => p.p50), p99: of((p) => p.p99) },
      ...{
        bytes: of((p) => p.bytesPerToken),
        heap: own[0]?.heapPerRun.map((_, at) => of((p) => p.heapPerRun[at] ?? 0)) ?? [],
      },
    };
  });
}

const parts: Readonly<Record<string, () => Promise<void>>> = {
  async flat() {
    const rows: Row[] = [];
    const withPi = hasPeers ? [pi] : [];
    for (const runs of sizes([300, 500])) {
      const points = await interleaved("flat", [bare, memory, sqlite, ...withPi], {
        connections: runs,
      });
      rows.push(...rowsOf(points, runs));
    }
    // The AI SDK takes a core with 75 runs.
    if (hasPeers) {
      const points = await interleaved("flat", [bare, aiSdk, memory], { connections: 50 });
      rows.push(...rowsOf(points, 50));
    }
    report.table("flat", "one stream of text per run", rows);
  },
  async heap() {
    const [runs = 500] = sizes([500]);
    const heapAt = [8_000, 30_000];
    const points = await interleaved("flat", [bare, memory, sqlite], { connections: runs, heapAt });
    report.table("heap", "what a live run keeps after 8 and 30 seconds", rowsOf(points, runs));
  },
  async gzip() {
    const [runs = 300] = sizes([300]);
    const zipped = { ...memory, isZipped: true } as const;
    const points = await interleaved("flat", [memory, zipped], { connections: runs });
    report.table("gzip", "with the browser's gzip", rowsOf(points, runs));
  },
  async nested() {
    const rows: Row[] = [];
    for (const runs of sizes([100])) {
      const sides = [bare, memory, sqlite, ...(hasPeers ? [pi] : [])];
      rows.push(...rowsOf(await interleaved("nested", sides, { connections: runs }), runs));
    }
    report.table("nested", "a lead with three subagents per run", rows);
  },
  async steps() {
    const rows: Row[] = [];
    for (const runs of sizes([500, 2_000])) {
      rows.push(
        ...rowsOf(await interleaved("steps", [memory, sqlite], { connections: runs }), runs),
      );
    }
    report.table("steps", "a tool call every 500 ms per run; CPU per step", rows);
  },
  async holds() {
    const ladders = [
      { side: memory, sizes: sizes([700, 1_000, 1_300]) },
      { side: sqlite, sizes: sizes([400, 600, 800, 1_000]) },
    ];
    const rows: Row[] = [];
    for (const isSplit of [false, true]) {
      for (const { side, sizes: runs } of ladders) {
        for (const connections of runs) {
          const points = await interleaved("flat", [side], { connections, isSplit });
          const [row] = rowsOf(points, connections);
          if (row === undefined || row.p99 > heldMs) break;
          rows.push({ ...row, name: `${row.name}, ${isSplit ? "split" : "pinned"}` });
        }
      }
    }
    report.table("holds", `sizes with 99 of 100 tokens within ${heldMs} ms`, rows);
  },
  async fold() {
    const folder = mkdtempSync(join(tmpdir(), "rivulet-fold-"));
    const clients = hasPeers ? (["rivulet", "ai-sdk"] as const) : (["rivulet"] as const);
    const lines: string[] = [];
    try {
      for (const workload of ["flat", "nested"] as const) {
        for (const side of clients) {
          await recordRun(side, workload, folder);
          const micros: number[] = [];
          for (let round = 0; round < rounds; round++) micros.push(await foldMicros(side, folder));
          const name = side === "rivulet" ? "Rivulet" : "AI SDK";
          lines.push(`| ${workload} | ${name} | ${shown(median(micros))} |`);
        }
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
    report.lines("fold", ["| text | client | CPU, µs per token |", "|---|---|---|", ...lines]);
  },
  async idle() {
    const lines: string[] = [];
    for (const store of ["memory", "sqlite"] as const) {
      const scale = { sessions: sizes([10_000])[0] ?? 0, readers: 5_000, windowMs };
      const { cpu, heapPerSession, readersCpu, stallMs } = await measureIdle(store, scale);
      const figures = [`${cpu.toFixed(1)} %`, `${shown(heapPerSession)} KB`];
      figures.push(`${readersCpu.toFixed(1)} %`, `${shown(stallMs)} ms`);
      lines.push(`| ${store === "sqlite" ? "SQLite" : "memory"} | ${figures.join(" | ")} |`);
    }
    report.lines("idle", [
      "| store | core, 10,000 suspended sessions | heap per session | core, 5,000 readers | longest stall |",
      "|---|---|---|---|---|",
      ...lines,
    ]);
  },
};

for (const [name, run] of Object.entries(parts)) {
  if (chosen.length === 0 || chosen.includes(name)) await run();
}
if (given.write) report.write();
