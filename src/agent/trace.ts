import type { Attributes, Context, Span, SpanOptions, Tracer } from "@opentelemetry/api";
import {
  context,
  ProxyTracerProvider,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { type ErrorShape, RivuletError } from "../protocol/error.ts";
import type { TaskRecord } from "../protocol/store.ts";
import type { ToolCall } from "./hook.ts";
import { flattenModels, type LanguageModel, providerOf } from "./model/resolve.ts";
import { type Turn, TurnInterrupted } from "./model/turn.ts";
import type { AgentSettings } from "./settings.ts";
import type { TaskRun } from "./task-run.ts";
import type { ToolOutcome } from "./tool/execute.ts";

/**
 * Where the spans of one task belong. Parents are handed on here and not found through a context manager, so they are
 * right when none is registered.
 */
export interface TaskTrace {
  readonly tracer: Tracer;
  /** What every span of the task says. */
  readonly attributes: Attributes;
  /** What the task's next span is put under: what asked for the task, then the task's own span. */
  context: Context;
  /** The same for the children of the calls that run now, by call id. */
  readonly calls: Map<string, Context>;
}

/**
 * The trace of a task; undefined when nobody listens. A child is put under the call that runs it, and has its parent's
 * tracer unless it has its own.
 */
export function openTrace(
  settings: AgentSettings,
  record: TaskRecord,
  parent: TaskTrace | undefined,
): TaskTrace | undefined {
  const tracer = settings.tracer ?? parent?.tracer ?? attempt(registeredTracer);
  if (tracer === undefined) return undefined;
  return {
    tracer,
    attributes: {
      "gen_ai.agent.id": record.agentId,
      "gen_ai.agent.name": record.agentName,
      "gen_ai.conversation.id": record.sessionId,
      "rivulet.task.id": record.taskId,
      "rivulet.task.root_id": record.rootTaskId,
    },
    context: parent?.calls.get(record.taskId) ?? parent?.context ?? activeContext(),
    calls: new Map(),
  };
}

/** The API's own tracer does nothing until a provider is registered; to have none makes not even an empty span. */
function registeredTracer(): Tracer | undefined {
  const provider = trace.getTracerProvider();
  return provider instanceof ProxyTracerProvider
    ? provider.getDelegateTracer("rivulet")
    : provider.getTracer("rivulet");
}

function activeContext(): Context {
  return attempt(() => context.active()) ?? ROOT_CONTEXT;
}

/** Drives a task inside its span. */
export function traceTask<T>(task: TaskRun, drive: () => Promise<T>): Promise<T> {
  const { trace: own, settings } = task;
  if (own === undefined) return drive();
  const { name, description } = settings;
  const attributes = {
    "gen_ai.operation.name": "invoke_agent",
    ...(description !== undefined && { "gen_ai.agent.description": description }),
  };
  return inSpan(own, `invoke_agent ${name}`, { attributes }, async (tell, inner) => {
    own.context = inner;
    try {
      return await drive();
    } finally {
      const { status, error } = task.record;
      tell((span) => span.setAttribute("rivulet.task.status", status));
      if (status === "failed" && error) tell((span) => setError(span, error));
    }
  });
}

/** Asks the model inside a span: one for all its attempts. */
export function traceModelCall(task: TaskRun, ask: () => Promise<Turn>): Promise<Turn> {
  const { trace: own, settings } = task;
  if (own === undefined) return ask();
  const [first] = flattenModels(settings.models);
  const asked = modelOf(first as LanguageModel | string);
  const attributes = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": providerName(asked.provider),
    "gen_ai.request.model": asked.modelId,
    "gen_ai.request.stream": true,
  };
  const options = { kind: SpanKind.CLIENT, attributes };
  return inSpan(own, `chat ${asked.modelId}`, options, async (tell) => {
    const turn = await ask();
    tell((span) =>
      span.setAttributes({
        // A fallback may have answered.
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

/** Executes a tool inside a span: one for all its attempts, and for each time that a suspended call goes on. */
export function traceToolCall(
  { trace: own }: TaskRun,
  { id, name }: ToolCall,
  execute: () => Promise<ToolOutcome>,
): Promise<ToolOutcome> {
  if (own === undefined) return execute();
  const attributes = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": name,
    "gen_ai.tool.call.id": id,
  };
  return inSpan(own, `execute_tool ${name}`, { attributes }, async (tell, inner) => {
    own.calls.set(id, inner);
    try {
      const outcome = await execute();
      tell((span) => span.setAttribute("rivulet.tool.state", outcome.state));
      const error = outcome.state === "error" ? outcome.error : undefined;
      if (error) tell((span) => setError(span, error));
      return outcome;
    } finally {
      own.calls.delete(id);
    }
  });
}

/** Says something to a span, if there is one and it listens. */
type Tell = (say: (span: Span) => unknown) => void;

/**
 * Runs something inside a new span, which is also the active one for whoever asks a context manager. What a tracer, a
 * span or a context manager throws is left alone: whoever cannot trace a run must not break it.
 */
async function inSpan<T>(
  { tracer, attributes: common, context: outer }: TaskTrace,
  name: string,
  { kind, attributes }: SpanOptions,
  run: (tell: Tell, inner: Context) => Promise<T>,
): Promise<T> {
  const options = { kind: kind ?? SpanKind.INTERNAL, attributes: { ...common, ...attributes } };
  const span = attempt(() => tracer.startSpan(name, options, outer));
  const tell: Tell = (say) => void attempt(() => span && say(span));
  const inner = span ? trace.setSpan(outer, span) : outer;
  try {
    let running: Promise<T> | undefined;
    const start = () => {
      running = run(tell, inner);
    };
    attempt(() => context.with(inner, start));
    return await (running ?? run(tell, inner));
  } catch (error) {
    // A cancel is not a failure.
    if (!(error instanceof TurnInterrupted)) {
      const message = error instanceof Error ? error.message : String(error);
      const code = error instanceof RivuletError ? error.code : "internal";
      tell((span) => setError(span, { code, message }));
    }
    throw error;
  } finally {
    tell((span) => span.end());
  }
}

function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

function setError(span: Span, { code, message }: Pick<ErrorShape, "code" | "message">): void {
  span.setAttribute("error.type", code);
  span.setStatus({ code: SpanStatusCode.ERROR, message });
}

function modelOf(model: LanguageModel | string): Turn["model"] {
  return typeof model === "string" ? providerOf(model) : model;
}

/** The providers that the conventions call by another name than the AI SDK does. */
const providerNames: readonly (readonly [RegExp, string])[] = [
  [/vertex/i, "gcp.vertex_ai"],
  [/bedrock/, "aws.bedrock"],
  [/^azure/, "azure.ai.openai"],
  [/^google/, "gcp.gemini"],
  [/^mistral/, "mistral_ai"],
  [/^moonshot/, "moonshot_ai"],
  [/^xai/, "x_ai"],
];

/** The provider as the conventions know it; the AI SDK adds which of its interfaces is used, after a dot. */
function providerName(provider: string): string {
  const known = providerNames.find(([pattern]) => pattern.test(provider));
  return known?.[1] ?? (provider.split(".", 1)[0] as string);
}
