import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";
import { type Bar, chartOf, shown } from "./chart.ts";
import type { Point } from "./pipe.ts";

/** The medians of a side at one size. */
export interface Row {
  readonly name: string;
  readonly isOurs: boolean;
  readonly runs: number;
  /** The CPU of the server per token, in microseconds, and over that of the floor. */
  readonly cpu: number;
  readonly over: number;
  readonly p50: number;
  readonly p99: number;
  readonly bytes: number;
  /** What a run keeps, in kilobytes. */
  readonly heap: readonly number[];
}

const guide = fileURLToPath(new URL("../../docs/guide/performance.md", import.meta.url));
const images = fileURLToPath(new URL("../../docs/images/", import.meta.url));

/** Prints the figures, and writes them into the guide. */
export class Report {
  readonly #tables = new Map<string, readonly string[]>();
  readonly #charts = new Map<string, string>();

  /** Prints one point. */
  progress(name: string, runs: number, point: Point): void {
    const { cpuPerToken, load, p99, heapPerRun } = point;
    const heap = heapPerRun.map((kilobytes) => `${shown(kilobytes)} KB`).join(", ");
    console.log(
      `${name}, ${runs} runs: ${cpuPerToken.toFixed(1)} µs per token, p99 ${p99.toFixed(0)} ms, ${load.toFixed(0)} % of its core ${heap}`,
    );
  }

  /** Keeps and prints a table of rows, and draws their CPU and heap. */
  table(key: string, title: string, rows: readonly Row[]): void {
    const hasHeap = rows.some(({ heap }) => heap.length > 0);
    const names = ["server", "runs", "CPU, µs per token", "over the first", "p50", "p99", "bytes"];
    if (hasHeap) names.push("heap per run");
    const lines = rows.map((row) => {
      const figures = [row.name, String(row.runs), row.cpu.toFixed(1), row.over.toFixed(2)];
      figures.push(`${shown(row.p50)} ms`, `${shown(row.p99)} ms`, shown(row.bytes));
      if (hasHeap) figures.push(row.heap.map((kilobytes) => `${shown(kilobytes)} KB`).join(", "));
      return `| ${figures.join(" | ")} |`;
    });
    const head = [`| ${names.join(" | ")} |`, `|${names.map(() => "---").join("|")}|`];
    this.lines(key, [...head, ...lines], title);
    const largest = Math.max(...rows.map(({ runs }) => runs));
    const bar = ({ name, isOurs }: Row, value: number): Bar => ({ label: name, value, isOurs });
    const shownRows = rows.filter(({ runs }) => runs === largest);
    const bars = shownRows.map((row) => bar(row, hasHeap ? (row.heap.at(-1) ?? 0) : row.cpu));
    const unit = hasHeap ? "KB" : "µs";
    this.#charts.set(key, chartOf(`${title}, ${largest} runs`, unit, bars));
  }

  /** Keeps and prints a table. */
  lines(key: string, lines: readonly string[], title = key): void {
    console.log(`\n${title} (${setting()})\n\n${lines.join("\n")}\n`);
    this.#tables.set(key, lines);
  }

  /** Replaces the tables of the guide that were measured, and their charts. */
  write(): void {
    let text = readFileSync(guide, "utf8");
    for (const [key, lines] of this.#tables) {
      const block = new RegExp(`(<!-- bench live ${key} -->\n)[\\s\\S]*?(<!-- end -->)`);
      text = text.replace(block, (_, start, end) => `${start}${lines.join("\n")}\n${end}`);
    }
    text = text.replace(/(<!-- bench live setting -->)[\s\S]*?(<!-- end -->)/, `$1${setting()}$2`);
    writeFileSync(guide, text);
    for (const [key, chart] of this.#charts) {
      if (text.includes(`live-${key}.svg`)) writeFileSync(`${images}live-${key}.svg`, chart);
    }
  }
}

function setting(): string {
  return `Node ${process.versions.node}, ${cpus().length} cores`;
}
