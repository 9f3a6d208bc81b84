import parse from "parse-prometheus-text-format";
import { describe, expect, it } from "vitest";
import { memoryStore } from "../../src/index.ts";
import { limitsOf, UserLimits } from "../../src/server/limits.ts";
import { Metrics } from "../../src/server/metrics.ts";
import { ManualClock, type Script } from "../../src/testing.ts";
import { scripted, startServer, tokens } from "./support/server.ts";

/** The values of a text in the format of Prometheus, by name and labels. */
function valuesIn(text: string): Record<string, number> {
  const values: Record<string, number> = {};
  for (const { name, metrics } of parse(text))
    for (const { value, labels } of metrics)
      values[[name, ...Object.values(labels ?? {})].join(" ")] = Number(value);
  return values;
}

const hanging: Script = () => [{ text: ["a ", "b ", "c"] }, { hang: true }];

describe("GET /metrics", () => {
  it("has the figures of the process, without users", async () => {
    const { agent } = scripted(hanging);
    const server = await startServer({ agents: [agent] });
    const ann = server.as(tokens.ann);
    const { body } = await ann.post("/v1/tasks", { agent: "lead", input: "Go." });
    const stream = await ann.send("GET", `/v1/tasks/${body.id}/events`);
    await stream.body?.getReader().read();
    const response = await ann.send("GET", "/metrics");
    expect(response.headers.get("content-type")).toContain("text/plain; version=0.0.4");
    const text = await response.text();
    expect(text).not.toMatch(/ann|task_|sess/);
    const values = valuesIn(text);
    expect(values).toMatchObject({
      rivulet_live_runs: 1,
      rivulet_waiting_runs: 0,
      rivulet_readers: 1,
      rivulet_overloaded: 0,
      rivulet_store_errors_total: 0,
    });
    for (const name of ["events", "steps", "commits"])
      expect(values[`rivulet_${name}_total`]).toBeGreaterThan(0);
    for (const name of ["unsent_bytes", "flush_window_seconds", "commit_seconds_total"])
      expect(values[`rivulet_${name}`]).toBeGreaterThanOrEqual(0);
    expect(Object.keys(values).filter((name) => name.includes("event_loop_delay"))).toHaveLength(3);
  });

  it("needs a credential", async () => {
    const server = await startServer({ agents: [scripted(["Hi."]).agent] });
    expect((await fetch(`${server.url}/metrics`)).status).toBe(401);
  });

  it("measures the delay of the event loop since the last call", async () => {
    const metrics = new Metrics({
      ...{ unwritten: 7, windowMs: 50, isOverloaded: true },
      written: { events: 10, steps: 2, commits: 3, commitMs: 40, errors: 1 },
    });
    const limits = new UserLimits(limitsOf(), new ManualClock(), memoryStore());
    const streams = { count: 2, settings: { unsent: { total: 5 } } } as never;
    metrics.text({ limits, streams });
    await new Promise((resolve) => setTimeout(resolve, 30));
    const end = performance.now() + 100;
    while (performance.now() < end);
    await new Promise((resolve) => setTimeout(resolve, 30));
    const values = valuesIn(metrics.text({ limits, streams }));
    metrics.close();
    expect(values["rivulet_event_loop_delay_seconds 1"]).toBeGreaterThan(0.05);
    expect(values).toMatchObject({
      rivulet_unwritten_events: 7,
      rivulet_flush_window_seconds: 0.05,
      rivulet_overloaded: 1,
      rivulet_commit_seconds_total: 0.04,
    });
  });
});

describe("a start on an overloaded server", () => {
  it("is refused until the process has caught up, and other requests are not", async () => {
    let isOverloaded = true;
    const store = memoryStore();
    const limits = new UserLimits(limitsOf(), new ManualClock(), store, () => isOverloaded);
    const refusal = { code: "overloaded", retryable: true, retryAfterSeconds: 2 };
    await expect(limits.start("ann")).rejects.toMatchObject(refusal);
    limits.request("ann");
    limits.resume("ann", "task_1"); // a run that continues makes place for others
    isOverloaded = false;
    await limits.start("ann");
    expect(limits.totals()).toEqual({ runs: 2, waiting: 0, queued: 0 });
  });
});
