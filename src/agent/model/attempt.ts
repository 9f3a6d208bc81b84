import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import type { Clock } from "../../protocol/clock.ts";
import { after } from "../after.ts";
import { coarseNow } from "../coarse-now.ts";
import { longestTimer } from "../execution.ts";
import type { Collector, StreamPart } from "./collect.ts";
import { stalled, timedOut } from "./model-error.ts";
import type { LanguageModel } from "./resolve.ts";
import type { TurnSink } from "./turn.ts";

/** One request to one model. */
export interface Attempt {
  readonly model: LanguageModel;
  /** What the model's version of the interface takes, without the signal. */
  readonly options: Readonly<Record<string, unknown>>;
  readonly collector: Collector;
  readonly ready: TurnSink["ready"];
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** The longest silence between two chunks; null: any. */
  readonly stallMs: number | null;
  /** The longest the whole reply may take, without the time that it waits for `ready`; null: any. */
  readonly timeoutMs: number | null;
}

/**
 * Sends a request and hands each part of the reply to the collector, to the end of the stream. Rejects with the signal's
 * reason, with `stalled` or with `timeout` as soon as one of them is due, whatever the provider does about it: it is
 * told through its own signal and its stream is cancelled, but nobody waits for it. Leaves no timer and no listener.
 */
export async function runAttempt(attempt: Attempt): Promise<void> {
  const { model, options, collector, ready, signal, clock, stallMs, timeoutMs } = attempt;
  signal.throwIfAborted();
  const request = new AbortController(); // what the provider gets
  let endWatch = () => {};
  const stopped = Promise.withResolvers<never>();
  const now = coarseNow(clock);
  const began = clock.now();
  let live = true;
  let lastChunk = began;
  let pausedAt: number | undefined; // by our own side, so the silence is not the model's
  let pausedMs = 0; // before that
  let reader: ReadableStreamDefaultReader<StreamPart> | undefined;

  function stop(reason: unknown): void {
    live = false;
    stopped.reject(reason);
    request.abort(reason);
    reader?.cancel(reason).catch(ignore); // ends a read that hangs, too
  }

  async function pump(): Promise<void> {
    const { stream } = await (model as LanguageModelV4).doStream({
      ...(options as LanguageModelV4CallOptions),
      abortSignal: request.signal,
    });
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
    } finally {
      reader.cancel().catch(ignore); // nothing to do after the end, and all there is to do after an error
      reader.releaseLock();
    }
  }

  function watch(): void {
    if (!live) return;
    const now = clock.now();
    const silentFor = pausedAt === undefined ? now - lastChunk : 0;
    const tookFor = (pausedAt ?? now) - began - pausedMs;
    const untilStall = (stallMs ?? Number.POSITIVE_INFINITY) - silentFor;
    const untilTimeout = (timeoutMs ?? Number.POSITIVE_INFINITY) - tookFor;
    if (untilTimeout <= 0) stop(timedOut(nameOf(model), timeoutMs as number));
    else if (untilStall <= 0) stop(stalled(nameOf(model), stallMs as number));
    else endWatch = after(clock, Math.min(untilStall, untilTimeout, longestTimer), watch);
  }

  const onAbort = () => stop(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    if (stallMs !== null || timeoutMs !== null) watch();
    await Promise.race([pump(), stopped.promise]);
  } finally {
    live = false;
    signal.removeEventListener("abort", onAbort);
    endWatch();
  }
}

/** How a model is called in what people read. */
export function nameOf(model: LanguageModel | string): string {
  return typeof model === "string" ? model : `${model.provider} ${model.modelId}`;
}

function ignore(): void {}
