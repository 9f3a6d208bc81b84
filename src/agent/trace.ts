import type { Attributes, Context, Span, SpanOptions, Tracer } from "@opentelemetry/api";
import { context, isSpanContextValid, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { type ErrorShape, RivuletError } from "../protocol/error.ts";
import type { TaskRecord } from "../protocol/store.ts";
import type { Usage } from "../protocol/task.ts";
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

/** The trace of a task. A child is put under the call that runs it, and has its parent's tracer unless it has its own. */
export function openTrace(
  settings: AgentSettings,
  record: TaskRecord,
  parent: TaskTrace | undefined,
): TaskTrace {
  return {
    tracer: settings.tracer ?? parent?.tracer ?? trace.getTracer("rivulet"),
    attributes: {
      "gen_ai.agent.id": record.agentId,
      "gen_ai.agent.name": record.agentName,
      "gen_ai.conversation.id": record.sessionId,
      "rivulet.task.id": record.taskId,
      "rivulet.task.root_id": record.rootTaskId,
    },
    context: parent?.calls.get(record.taskId) ?? parent?.context ?? context.active(),
    calls: new Map(),
  };
}

/** Drives a task inside its span. */
export function traceTask<T>(task: TaskRun, drive: () => Promise<T>): Promise<T> {
  const { name, description } = task.settings;
  const attributes = {
    "gen_ai.operation.name": "invoke_agent",
    ...(description !== undefined && { "gen_ai.agent.description": description }),
  };
  return inSpan(task, `invoke_agent ${name}`, { attributes }, async (span, inner) => {
    task.trace.context = inner;
    try {
      return await drive();
    } finally {
      const { status, error } = task.record;
      span.setAttribute("rivulet.task.status", status);
      if (status === "failed" && error) setError(span, error);
    }
  });
}

/** Asks the model inside a span: one for all its attempts. */
export function traceModelCall(task: TaskRun, ask: () => Promise<Turn>): Promise<Turn> {
  const [first] = flattenModels(task.settings.models);
  const asked = modelOf(first as LanguageModel | string);
  const attributes = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": providerName(asked.provider),
    "gen_ai.request.model": asked.modelId,
    "gen_ai.request.stream": true,
  };
  const options = { kind: SpanKind.CLIENT, attributes };
  return inSpan(task, `chat ${asked.modelId}`, options, async (span) => {
    try {
      const turn = await ask();
      span.setAttributes({
        // A fallback may have answered.
        "gen_ai.provider.name": providerName(turn.model.provider),
        "gen_ai.response.model": turn.model.modelId,
        "gen_ai.response.finish_reasons": [turn.finishReason.replace("-", "_")],
        ...usageAttributes(turn.usage),
      });
      return turn;
    } catch (error) {
      if (error instanceof TurnInterrupted && error.usage) {
        span.setAttributes(usageAttributes(error.usage));
      }
      throw error;
    }
  });
}

/** Executes a tool inside a span: one for all its attempts, and for each time that a suspended call goes on. */
export function traceToolCall(
  task: TaskRun,
  { id, name }: ToolCall,
  execute: () => Promise<ToolOutcome>,
): Promise<ToolOutcome> {
  const attributes = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": name,
    "gen_ai.tool.call.id": id,
  };
  return inSpan(task, `execute_tool ${name}`, { attributes }, async (span, inner) => {
    const { calls } = task.trace;
    calls.set(id, inner);
    try {
      const outcome = await execute();
      span.setAttribute("rivulet.tool.state", outcome.state);
      if (outcome.state === "error" && outcome.error) setError(span, outcome.error);
      return outcome;
    } finally {
      calls.delete(id);
    }
  });
}

/** Runs something inside a new span, which is also the active one for whoever asks a context manager. */
async function inSpan<T>(
  task: TaskRun,
  name: string,
  { kind, attributes }: SpanOptions,
  run: (span: Span, inner: Context) => Promise<T>,
): Promise<T> {
  const { tracer, attributes: common, context: outer } = task.trace;
  const options = { kind: kind ?? SpanKind.INTERNAL, attributes: { ...common, ...attributes } };
  const span = tracer.startSpan(name, options, outer);
  // Nothing is registered: there is no trace to keep together either.
  if (!span.isRecording() && !isSpanContextValid(span.spanContext())) return run(span, outer);
  const inner = trace.setSpan(outer, span);
  try {
    return await context.with(inner, run, undefined, span, inner);
  } catch (error) {
    // A cancel is not a failure.
    if (!(error instanceof TurnInterrupted)) {
      const message = error instanceof Error ? error.message : String(error);
      setError(span, { code: error instanceof RivuletError ? error.code : "internal", message });
    }
    throw error;
  } finally {
    span.end();
  }
}

function setError(span: Span, { code, message }: Pick<ErrorShape, "code" | "message">): void {
  span.setAttribute("error.type", code);
  span.setStatus({ code: SpanStatusCode.ERROR, message });
}

function usageAttributes(usage: Usage): Attributes {
  return {
    "gen_ai.usage.input_tokens": usage.input_tokens,
    "gen_ai.usage.output_tokens": usage.output_tokens,
    "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens,
    "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
  };
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
