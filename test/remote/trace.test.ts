import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { expect, it } from "vitest";
import { serveAgents } from "../client/support/serving.ts";
import { stored } from "../server/support/server.ts";
import { on, scripted, serveOne, spawn, storeOf } from "./support/team.ts";

/** A tracer of one server, and the spans that it has recorded. */
function tracing() {
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const span = (name: string): ReadableSpan | undefined =>
    exporter.getFinishedSpans().find((one) => one.name === name);
  return { tracer: provider.getTracer("test"), spans: () => exporter.getFinishedSpans(), span };
}

it("carries the trace of the root to a child and a grandchild on other servers", async () => {
  const [first, second, third] = [tracing(), tracing(), tracing()];
  await using cleaners = await serveOne(scripted("cleaner", ["Clean."], { tracer: third.tracer }));
  await using reviewers = await serveOne(
    scripted("reviewer", [[spawn("cleaner")], "Good."], {
      tracer: second.tracer,
      subagents: [on(cleaners, "cleaner")],
    }),
  );
  const lead = scripted("lead", [[spawn("reviewer")], "Done."], {
    tracer: first.tracer,
    subagents: [on(reviewers, "reviewer")],
  });
  await lead.call("Go.", { sessionId: "s" });

  const traceId = first.span("invoke_agent lead")?.spanContext().traceId;
  expect(traceId).toMatch(/^[0-9a-f]{32}$/);
  const all = [first, second, third].map(({ spans }) => spans());
  for (const spans of all) {
    expect(spans.length).toBeGreaterThan(1);
    expect(new Set(spans.map((span) => span.spanContext().traceId))).toEqual(new Set([traceId]));
  }
  // The span of a task on its server is below the span of the same task on the server of its parent.
  const hops = [
    [first.span("invoke_agent reviewer"), second.span("invoke_agent reviewer")],
    [second.span("invoke_agent cleaner"), third.span("invoke_agent cleaner")],
  ] as const;
  for (const [here, there] of hops) {
    expect(there?.parentSpanContext).toMatchObject({
      spanId: here?.spanContext().spanId,
      isRemote: true,
    });
    expect(there?.attributes["rivulet.task.id"]).toBe(here?.attributes["rivulet.task.id"]);
  }
});

it("takes the trace context from a valid header alone, and nothing else from it", async () => {
  const { tracer, span } = tracing();
  const reviewer = scripted("reviewer", () => "Good.", { tracer });
  const authenticate = (request: Request) => {
    const [, userId] = /^Bearer (\w+)$/.exec(request.headers.get("authorization") ?? "") ?? [];
    return userId === undefined ? undefined : { userId };
  };
  await using served = await serveAgents([reviewer], { auth: { authenticate } }, { token: "ann" });
  const store = storeOf(reviewer);
  const trace = "0af7651916cd43dd8448eb211c80319c";
  const traceparent = `00-${trace}-b7ad6b7169203331-01`;
  const start = async (id: string, more: object, headers: Record<string, string> = {}) => {
    const response = await fetch(`${served.server.url}/v1/tasks`, {
      method: "POST",
      headers: { authorization: "Bearer ann", "content-type": "application/json", ...headers },
      body: JSON.stringify({ agent: "reviewer", input: "Go.", task_id: id, ...more }),
    });
    return response.status;
  };

  expect(await start("task_header", {}, { traceparent })).toBe(201);
  expect(await store.task(stored("task_header"))).toMatchObject({
    userId: "ann",
    origin: { traceparent },
  });

  // A payload cannot set it.
  expect(await start("task_body", { traceparent, origin: { traceparent } })).toBe(400);
  expect(await start("task_metadata", { metadata: { traceparent, userId: "bob" } })).toBe(201);
  // A header that is no trace context starts a trace of its own.
  const malformed = { traceparent: `${traceparent}\tbob`, tracestate: "user=bob", userid: "bob" };
  expect(await start("task_malformed", {}, malformed)).toBe(201);
  for (const id of ["task_metadata", "task_malformed"]) {
    const record = await store.task(stored(id));
    expect(record?.userId).toBe("ann");
    expect(record?.origin).toBe(undefined);
  }
  // Whoever knows the trace does not reach the task.
  const other = await fetch(`${served.server.url}/v1/tasks/task_header`, {
    headers: { authorization: "Bearer bob", traceparent },
  });
  expect(other.status).toBe(404);
  await served.remote.task("task_header").result();
  expect(span("invoke_agent reviewer")?.spanContext().traceId).toBe(trace);
});
