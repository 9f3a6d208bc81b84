import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { after, type Clock, onAbort } from "../../base/clock.ts";
import type { RivuletError } from "../../base/error.ts";
import type { IdSource } from "../../base/id.ts";
import { coarseNow, longestTimer } from "../../base/time.ts";
import type { Retry } from "../../contract/index.ts";
import { noUsage } from "../../protocol/index.ts";
import { backoffMs, type Execution, mergeExecution, modelExecution } from "../base/execution.ts";
import { Collector, type StreamPart } from "./collect.ts";
import {
  modelError,
  replyFailed,
  retryAfterMs,
  stalled,
  streamCut,
  timedOut,
} from "./model-error.ts";
import { callOptions } from "./request.ts";
import { type LanguageModel, resolveModel } from "./resolve.ts";
import { type Turn, TurnInterrupted, type TurnRequest, type TurnSink } from "./turn.ts";

/** How models are called; `stallMs` ends a reply that is silent for so long (60 seconds by default; null: never). */
export interface ModelExecution extends Execution {
  readonly stallMs?: number | null;
}

/** The surroundings of a turn. */
export interface TurnDependencies {
  readonly ids: IdSource;
  readonly clock: Clock;
  readonly execution: ModelExecution;
  /** Returns a number in [0, 1). */
  readonly random: () => number;
  /** Called before the pause between a failed attempt and the next one. */
  readonly onRetry?: (retry: Retry) => void;
  /** Called with the usage of an attempt whose output is not kept; `noUsage` if the provider did not report it. */
  readonly onWaste?: (spent: Pick<Turn, "usage" | "model">) => void;
  /** Called before another attempt; throws if none may follow. */
  readonly beforeRetry?: () => void;
}

const defaultStallMs = 60_000;
/** A provider that asks for a longer pause is treated as unavailable. */
const maxRetryAfterMs = 60_000;
/** Errors that another model may not have; when every model fails, they say best what to change. */
const requestErrors = new Set(["invalid_request", "context_overflow"]);

/**
 * Streams one turn of the first model that succeeds, after up to `maxAttempts` attempts of each. Rejects with
 * `TurnInterrupted` on abort, else with a `RivuletError`: the first one about the request, otherwise the last one.
 */
export async function runTurn(
  models: readonly (LanguageModel | string)[],
  request: TurnRequest,
  sink: TurnSink,
  dependencies: TurnDependencies,
): Promise<Turn> {
  const { signal } = request;
  const { ids, clock, onRetry, onWaste, beforeRetry } = dependencies;
  let collector: Collector | undefined;
  let resolved: LanguageModel | undefined;
  let requestError: RivuletError | undefined;
  try {
    for (let index = 0, count = 1; ; count++) {
      const model = models[index] as LanguageModel | string;
      collector = new Collector(sink, ids);
      try {
        resolved = typeof model === "string" ? await resolveModel(model) : model;
        return await attempt(resolved, request, collector, sink.ready, dependencies);
      } catch (thrown) {
        if (signal.aborted) throw thrown;
        const { usage = noUsage } = collector.finish ?? {};
        if (resolved && (collector.hasOutput || usage !== noUsage))
          onWaste?.({ usage, model: identityOf(resolved) });
        const error = modelError(thrown, nameOf(model), collector.hasOutput);
        const delayMs = retryDelay(error, count, dependencies);
        const next = models[index + 1];
        if (delayMs !== undefined || next !== undefined) beforeRetry?.();
        if (delayMs !== undefined) {
          onRetry?.({ ...failedAttempt(model, count, error), delayMs });
          await clock.sleep(delayMs, signal);
        } else {
          if (requestErrors.has(error.code)) requestError ??= error;
          if (next === undefined) throw requestError ?? error;
          onRetry?.({ ...failedAttempt(model, count, error), fallback: nameOf(next) });
          index += 1;
          count = 0;
        }
        if (collector.hasOutput)
          sink.discard(delayMs === undefined ? "fallback" : "provider_retry");
      }
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new TurnInterrupted(signal.reason, collector?.partial() ?? [], {
      ...collector?.finish,
      ...(resolved && { model: identityOf(resolved) }),
    });
  }
}

/** The pause before the same model is tried again; undefined if it is not worth it. */
function retryDelay(
  error: RivuletError,
  attempts: number,
  { clock, execution, random }: TurnDependencies,
): number | undefined {
  const { maxAttempts, retryOn } = mergeExecution(modelExecution, execution);
  const askedMs = retryAfterMs(error.cause, clock.now()) ?? 0;
  if (attempts >= maxAttempts || askedMs > maxRetryAfterMs || !retryOn(error)) return undefined;
  return Math.max(askedMs, backoffMs(execution, attempts, random));
}

/** Streams one reply of a model. */
async function attempt(
  model: LanguageModel,
  request: TurnRequest,
  collector: Collector,
  ready: TurnSink["ready"],
  dependencies: TurnDependencies,
): Promise<Turn> {
  try {
    await stream(model, request, collector, ready, dependencies);
  } catch (error) {
    // An error after the model has finished does not invalidate its reply.
    if (request.signal.aborted || collector.finish === undefined) throw error;
  }
  return turnOf(model, collector);
}

function turnOf(model: LanguageModel, collector: Collector): Turn {
  const reason = collector.finish?.reason ?? "cut";
  if (reason === "cut") throw streamCut(nameOf(model));
  if (reason === "error") throw replyFailed(nameOf(model));
  return { ...collector.complete(reason), finishReason: reason, model: identityOf(model) };
}

function identityOf({ provider, modelId }: LanguageModel): Turn["model"] {
  return { provider, modelId };
}

function nameOf(model: LanguageModel | string): string {
  return typeof model === "string" ? model : `${model.provider} ${model.modelId}`;
}

function failedAttempt(model: LanguageModel | string, attempt: number, error: RivuletError): Retry {
  const { code, message } = error;
  return { name: nameOf(model), attempt, delayMs: 0, error: { code, message } };
}

/** Passes a reply to the collector; rejects on abort, stall or timeout without waiting for the provider. */
function stream(
  model: LanguageModel,
  turn: TurnRequest,
  collector: Collector,
  ready: TurnSink["ready"],
  { clock, execution }: TurnDependencies,
): Promise<void> {
  const { signal } = turn;
  const { stallMs = defaultStallMs, timeoutMs = modelExecution.timeoutMs } = execution;
  signal.throwIfAborted();
  const request = new AbortController(); // the provider gets its signal
  let endWatch = () => {};
  let ignoreAbort = () => {};
  const ended = Promise.withResolvers<void>();
  const now = coarseNow(clock);
  const began = clock.now();
  let live = true;
  let lastChunk = began;
  let pausedAt: number | undefined; // while the sink makes the stream wait
  let pausedMs = 0; // before that
  let reader: ReadableStreamDefaultReader<StreamPart> | undefined;

  function end(error?: { readonly reason: unknown }): void {
    live = false;
    ignoreAbort();
    endWatch();
    if (error) ended.reject(error.reason);
    else ended.resolve();
  }

  function stop(reason: unknown): void {
    end({ reason });
    request.abort(reason);
    reader?.cancel(reason).catch(ignore); // also ends a pending read
  }

  async function pump(): Promise<void> {
    const options = callOptions(model, turn) as LanguageModelV4CallOptions;
    const { signal: abortSignal } = request;
    const { stream } = await (model as LanguageModelV4).doStream({ ...options, abortSignal });
    if (!live) return void stream.cancel().catch(ignore);
    reader = stream.getReader() as ReadableStreamDefaultReader<StreamPart>;
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done || !live) return;
        lastChunk = now();
        collector.accept(value);
        const wait = ready?.();
        if (wait === undefined) continue;
        pausedAt = clock.now();
        await wait;
        lastChunk = clock.now();
        pausedMs += lastChunk - pausedAt;
        pausedAt = undefined;
      }
    } catch (error) {
      reader.cancel().catch(ignore); // frees the stream
      throw error;
    }
  }

  function watch(): void {
    if (!live) return;
    const now = clock.now();
    const silentMs = pausedAt === undefined ? now - lastChunk : 0;
    const elapsedMs = (pausedAt ?? now) - began - pausedMs;
    const untilStall = (stallMs ?? Number.POSITIVE_INFINITY) - silentMs;
    const untilTimeout = (timeoutMs ?? Number.POSITIVE_INFINITY) - elapsedMs;
    if (untilTimeout <= 0) stop(timedOut(nameOf(model), timeoutMs as number));
    else if (untilStall <= 0) stop(stalled(nameOf(model), stallMs as number));
    else endWatch = after(clock, Math.min(untilStall, untilTimeout, longestTimer), watch);
  }

  ignoreAbort = onAbort(signal, () => stop(signal.reason));
  if (stallMs !== null || timeoutMs !== null) watch();
  pump().then(
    () => end(),
    (reason: unknown) => end({ reason }),
  );
  return ended.promise;
}

function ignore(): void {}
