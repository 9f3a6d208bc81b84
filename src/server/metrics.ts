import { monitorEventLoopDelay } from "node:perf_hooks";
import type { FlushQueue } from "../agent/index.ts";
import type { Route, Services } from "./route.ts";

/** How often the delay of the event loop is measured. */
const resolution = 20;
const contentType = "text/plain; version=0.0.4; charset=utf-8";

interface Metric {
  readonly name: string;
  readonly type: "counter" | "gauge";
  readonly help: string;
  readonly values: readonly (readonly [labels: string, value: number])[];
}

/** The measurements of the process for `/metrics`. */
export class Metrics {
  readonly #flushes: Pick<FlushQueue, "written" | "unwritten" | "windowMs" | "isOverloaded">;
  /** Measures from the first call on, because it wakes an idle process. */
  #delay: ReturnType<typeof monitorEventLoopDelay> | undefined;

  constructor(flushes: Pick<FlushQueue, "written" | "unwritten" | "windowMs" | "isOverloaded">) {
    this.#flushes = flushes;
  }

  /** The figures in the text format of Prometheus. The delays of the event loop are those since the last call. */
  text({ limits, streams }: Pick<Services, "limits" | "streams">): string {
    const { written, unwritten, windowMs, isOverloaded } = this.#flushes;
    const { runs, waiting, queued } = limits.totals();
    const metrics = [
      gauge("live_runs", "Runs that are queued or at work.", runs),
      gauge("waiting_runs", "Runs that wait for approvals.", waiting),
      gauge("queued_starts", "Starts that wait for a place.", queued),
      gauge("readers", "Open event streams.", streams.count),
      gauge("unsent_bytes", "Bytes that readers have not taken.", streams.settings.unsent.total),
      gauge("flush_window_seconds", "How long events wait to be written.", windowMs / 1_000),
      gauge("unwritten_events", "Events that are not durable yet.", unwritten),
      gauge("overloaded", "1 while new runs are refused.", isOverloaded ? 1 : 0),
      counter("events_total", "Events, each chunk of a model being one.", written.events),
      counter("steps_total", "Steps of all runs.", written.steps),
      counter("commits_total", "Commits to the store.", written.commits),
      counter("commit_seconds_total", "Time of all commits.", written.commitMs / 1_000),
      counter("store_errors_total", "Logs whose commit the store refused.", written.errors),
      this.#delays(),
    ];
    return `${metrics.map(textOf).join("\n")}\n`;
  }

  close(): void {
    this.#delay?.disable();
  }

  #delays(): Metric {
    this.#delay ??= startedMonitor();
    const delay = this.#delay;
    const seconds = (nanoseconds: number) => Math.max(0, nanoseconds / 1e9 - resolution / 1_000);
    const values = [
      ['{quantile="0.5"}', seconds(delay.percentile(50))],
      ['{quantile="0.99"}', seconds(delay.percentile(99))],
      ['{quantile="1"}', seconds(delay.max)],
    ] as const;
    delay.reset();
    const help = "How late the event loop is.";
    return { name: "event_loop_delay_seconds", type: "gauge", help, values };
  }
}

function startedMonitor(): ReturnType<typeof monitorEventLoopDelay> {
  const delay = monitorEventLoopDelay({ resolution });
  delay.enable();
  return delay;
}

function gauge(name: string, help: string, value: number): Metric {
  return { name, type: "gauge", help, values: [["", value]] };
}

function counter(name: string, help: string, value: number): Metric {
  return { name, type: "counter", help, values: [["", value]] };
}

function textOf({ name, type, help, values }: Metric): string {
  const lines = values.map(([labels, value]) => `rivulet_${name}${labels} ${value}`);
  return [`# HELP rivulet_${name} ${help}`, `# TYPE rivulet_${name} ${type}`, ...lines].join("\n");
}

/** The route for Prometheus. */
export const metricsRoute: Route = {
  method: "GET",
  path: "/metrics",
  needs: "read",
  summary: "Read the figures of this process in the text format of Prometheus.",
  returns: { status: 200, type: contentType, description: "The figures." },
  handle: ({ services, headers }) =>
    new Response(services.metrics.text(services), {
      headers: { ...headers, "content-type": contentType },
    }),
};
