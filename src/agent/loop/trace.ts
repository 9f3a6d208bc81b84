import { debuglog } from "node:util";
import type { Attributes, Context, Span, SpanOptions, Tracer } from "@opentelemetry/api";
import { type ErrorShape, rivuletErrorOf } from "../../base/error.ts";
import type { Retry, TaskRecord, ToolCall } from "../../contract/index.ts";
import { type LanguageModel, providerOf } from "../model/resolve.ts";
import { type Turn, TurnInterrupted } from "../model/turn.ts";
import type { ToolOutcome } from "../tool/execute.ts";
import type { AgentSettings } from "./settings.ts";
import type { TaskRun } from "./task-run.ts";

type OpenTelemetry = typeof import("@opentelemetry/api");

/** The trace of one task; it keeps the parents of spans itself, so that they are right without a context manager. */
export interface TaskTrace {
  readonly api: OpenTelemetry;
  readonly tracer: Tracer;
  /** The attributes of every span of the task. */
  readonly attributes: Attributes;
  /** The parent of the next span: first the span that started the task, then the task's own span. */
  context: Context;
  /** The parents of child tasks, by the id of the running call. */
  readonly calls: Map<string, Context>;
}

/** Opens the trace of a task and loads OpenTelemetry; undefined without a tracer of its own, its parent or a provider. */
export async function openTrace(
  settings: AgentSettings,
  record: TaskRecord,
  parent: TaskTrace | undefined,
): Promise<TaskTrace | undefined> {
  const given = settings.tracer ?? parent?.tracer;
  if (given === undefined && !hasProvider()) return undefined;
  const api = parent?.api ?? (await import("@opentelemetry/api"));
  const tracer = given ?? attempt(() => registeredTracer(api));
  if (tracer === undefined) return undefined;
  return {
    api,
    tracer,
    attributes: {
      "gen_ai.agent.id": record.agentId,
      "gen_ai.agent.name": record.agentName,
      "gen_ai.conversation.id": record.sessionId,
      "rivulet.task.id": record.taskId,
      "rivulet.task.root_id": record.rootTaskId,
    },
    context:
      parent?.calls.get(record.taskId) ??
      parent?.context ??
      remoteContext(api, record) ??
      attempt(() => api.context.active()) ??
      api.ROOT_CONTEXT,
    calls: new Map(),
  };
}

/** The span of the caller on another server. */
function remoteContext({ trace, ROOT_CONTEXT }: OpenTelemetry, { origin }: TaskRecord) {
  const [, traceId, spanId, flags] = origin?.traceparent?.split("-") ?? [];
  if (traceId === undefined || spanId === undefined) return undefined;
  const traceFlags = Number.parseInt(flags ?? "00", 16);
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true });
}

/** Whether the program has registered a provider, under the name that all copies of OpenTelemetry 1 share. */
function hasProvider(): boolean {
  const key = Symbol.for("opentelemetry.js.api.1");
  return (globalThis as { [key]?: { readonly trace?: unknown } })[key]?.trace !== undefined;
}

/** The registered tracer; undefined without a provider, which avoids even empty spans. */
function registeredTracer({ trace, ProxyTracerProvider }: OpenTelemetry): Tracer | undefined {
  const provider = trace.getTracerProvider();
  return provider instanceof ProxyTracerProvider
    ? provider.getDelegateTracer("rivulet")
    : provider.getTracer("rivulet");
}

/** Runs a task in its span. */
export function traceTask<T>(task: TaskRun, drive: () => Promise<T>): Promise<T> {
  const { trace: own, settings } = task;
  if (own === undefined) return drive();
  const { name, description } = settings;
  const attributes = {
    "gen_ai.operation.name": "invoke_agent",
    ...(description !== undefined && { "gen_ai.agent.description": description }),
  };
  return inSpan(own, `invoke_agent ${name}`, { attributes }, async (update, inner) => {
    own.context = inner;
    try {
      return await drive();
    } finally {
      const { status, error } = task.state.record;
      update((span) => span.setAttribute("rivulet.task.status", status));
      if (status === "failed" && error) update((span) => setError(own, span, error));
    }
  });
}

/** The W3C trace context of a task's span, for the server that runs the task. */
export function traceparentOf({ trace: own }: TaskRun): string | undefined {
  const span = own && attempt(() => own.api.trace.getSpanContext(own.context));
  if (own === undefined || !span || !own.api.isSpanContextValid(span)) return undefined;
  return `00-${span.traceId}-${span.spanId}-${span.traceFlags.toString(16).padStart(2, "0")}`;
}

type OnRetry = (retry: Retry) => void;
const log = debuglog("rivulet");

/** Tells of a retry: as an event of the task, on its span, and in the log of `NODE_DEBUG=rivulet`. */
function retryTeller(
  { output: { emitter }, identity: { ref } }: TaskRun,
  callId?: string,
  update?: UpdateSpan,
): OnRetry {
  let retries = 0;
  return (failed) => {
    const retry: Retry = { ...failed, ...(callId !== undefined && { callId }) };
    const { name, attempt, delayMs, error, fallback } = retry;
    emitter.append({ type: "task.custom", name: "rivulet.retry", value: retry });
    retries += 1;
    update?.((span) => {
      span.setAttribute("rivulet.retries", retries);
      const place = { "rivulet.attempt": attempt, "rivulet.delay_ms": delayMs };
      span.addEvent("rivulet.retry", { ...place, "error.type": error.code });
    });
    const next = fallback ? `asking ${fallback}` : `trying again in ${Math.round(delayMs)} ms`;
    const what = `attempt ${attempt} of ${name} failed (${error.code}: ${error.message})`;
    log("task %s: %s, %s", ref.taskId, what, next);
  };
}

/** Makes a model call in a span that covers all its attempts. */
export function traceModelCall(
  task: TaskRun,
  ask: (onRetry: OnRetry) => Promise<Turn>,
): Promise<Turn> {
  const { trace: own, settings } = task;
  if (own === undefined) return ask(retryTeller(task));
  const model = settings.models[0] as LanguageModel | string;
  const requested = typeof model === "string" ? providerOf(model) : model;
  const attributes = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": providerName(requested.provider),
    "gen_ai.request.model": requested.modelId,
    "gen_ai.request.stream": true,
  };
  const options = { kind: own.api.SpanKind.CLIENT, attributes };
  return inSpan(own, `chat ${requested.modelId}`, options, async (update) => {
    const turn = await ask(retryTeller(task, undefined, update));
    update((span) =>
      span.setAttributes({
        // A fallback model may have replied.
        "gen_ai.provider.name": providerName(turn.model.provider),
        "gen_ai.response.model": turn.model.modelId,
        "gen_ai.response.finish_reasons": [turn.finishReason.replace("-", "_")],
        "gen_ai.usage.input_tokens": turn.usage.input_tokens,
        "gen_ai.usage.output_tokens": turn.usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": turn.usage.cached_input_tokens,
        "gen_ai.usage.reasoning.output_tokens": turn.usage.reasoning_tokens,
      }),
    );
    return turn;
  });
}

/** Executes a tool in a span that covers all its attempts; a resumed call gets a new span. */
export function traceToolCall(
  task: TaskRun,
  { id, name }: ToolCall,
  execute: (onRetry: OnRetry) => Promise<ToolOutcome>,
): Promise<ToolOutcome> {
  const { trace: own } = task;
  if (own === undefined) return execute(retryTeller(task, id));
  const attributes = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": name,
    "gen_ai.tool.call.id": id,
  };
  return inSpan(own, `execute_tool ${name}`, { attributes }, async (update, inner) => {
    own.calls.set(id, inner);
    try {
      const outcome = await execute(retryTeller(task, id, update));
      update((span) => span.setAttribute("rivulet.tool.state", outcome.state));
      const error = outcome.state === "error" ? outcome.error : undefined;
      if (error) update((span) => setError(own, span, error));
      return outcome;
    } finally {
      own.calls.delete(id);
    }
  });
}

/** Changes the span, if there is one, and ignores its errors. */
type UpdateSpan = (change: (span: Span) => unknown) => void;

/** Runs a function in a new span, which is also active in the context manager; errors of tracing are ignored. */
async function inSpan<T>(
  own: TaskTrace,
  name: string,
  { kind, attributes }: SpanOptions,
  run: (update: UpdateSpan, inner: Context) => Promise<T>,
): Promise<T> {
  const { tracer, attributes: common, context: outer } = own;
  const { trace, context, SpanKind } = own.api;
  const options = { kind: kind ?? SpanKind.INTERNAL, attributes: { ...common, ...attributes } };
  const span = attempt(() => tracer.startSpan(name, options, outer));
  const update: UpdateSpan = (change) => void attempt(() => span && change(span));
  const inner = span ? trace.setSpan(outer, span) : outer;
  try {
    let running: Promise<T> | undefined;
    const start = () => {
      running = run(update, inner);
    };
    attempt(() => context.with(inner, start));
    return await (running ?? run(update, inner));
  } catch (error) {
    // A cancel is not an error.
    if (!(error instanceof TurnInterrupted)) {
      update((span) => setError(own, span, rivuletErrorOf(error)));
    }
    throw error;
  } finally {
    update((span) => span.end());
  }
}

function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

type Failure = Pick<ErrorShape, "code" | "message">;

function setError({ api }: TaskTrace, span: Span, { code, message }: Failure): void {
  span.setAttribute("error.type", code);
  span.setStatus({ code: api.SpanStatusCode.ERROR, message });
}

/** Providers whose name in the semantic conventions differs from that in the AI SDK. */
const providerNames: readonly (readonly [RegExp, string])[] = [
  [/vertex/i, "gcp.vertex_ai"],
  [/bedrock/, "aws.bedrock"],
  [/^azure/, "azure.ai.openai"],
  [/^google/, "gcp.gemini"],
  [/^mistral/, "mistral_ai"],
  [/^moonshot/, "moonshot_ai"],
  [/^xai/, "x_ai"],
];

/** The provider's name in the semantic conventions; the AI SDK appends its interface after a dot. */
function providerName(provider: string): string {
  const entry = providerNames.find(([pattern]) => pattern.test(provider));
  return entry?.[1] ?? (provider.split(".", 1)[0] as string);
}
