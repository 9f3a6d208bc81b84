import type { Clock } from "../../protocol/clock.ts";
import type { IdSource } from "../../protocol/id.ts";
import type { Execution } from "../execution.ts";
import { mergeExecution, modelExecution } from "../execution.ts";
import { nameOf, runAttempt } from "./attempt.ts";
import { callOptions } from "./call-options.ts";
import type { Collector } from "./collect.ts";
import { createCollector } from "./collect.ts";
import { modelError, replyFailed, streamCut } from "./model-error.ts";
import type { LanguageModel, Model } from "./resolve.ts";
import { flattenModels, resolveModel } from "./resolve.ts";
import { retry } from "./retry.ts";
import type { Turn, TurnRequest, TurnSink } from "./turn.ts";
import { TurnInterrupted } from "./turn.ts";

/** How model calls are made: as tools are, and `stallMs` ends one that is silent for so long (60 seconds; null: never). */
export interface ModelExecution extends Execution {
  readonly stallMs?: number | null;
}

/** What a turn needs from its surroundings. */
export interface TurnDependencies {
  readonly ids: IdSource;
  readonly clock: Clock;
  readonly execution: ModelExecution;
  /** A number in [0, 1). */
  readonly random: () => number;
}

const defaultStallMs = 60_000;

/**
 * Asks the models for one turn, the later ones only when the earlier ones have failed, and tells the sink as it comes.
 * Rejects with `TurnInterrupted` when the request's signal aborts, otherwise with a `RivuletError`.
 */
export async function runTurn(
  models: readonly Model[],
  request: TurnRequest,
  sink: TurnSink,
  { ids, clock, execution, random }: TurnDependencies,
): Promise<Turn> {
  const { signal } = request;
  const settings = mergeExecution(modelExecution, execution);
  const stallMs = execution.stallMs === undefined ? defaultStallMs : execution.stallMs;
  let lastKey = 0;
  let collector: Collector | undefined;

  async function attempt(entry: LanguageModel | string): Promise<Turn> {
    const current = createCollector(sink, ids, () => ++lastKey);
    collector = current;
    try {
      const model = await resolveModel(entry);
      try {
        await runAttempt({
          model,
          options: callOptions(model, request),
          collector: current,
          ready: sink.ready,
          signal,
          clock,
          stallMs,
          timeoutMs: settings.timeoutMs,
        });
      } catch (error) {
        // What breaks after the model has finished takes nothing from what it said.
        if (signal.aborted || current.finish() === undefined) throw error;
      }
      return turnOf(model, current);
    } catch (error) {
      throw modelError(error, nameOf(entry), current.shown());
    }
  }

  try {
    return await retry({
      models: flattenModels(models),
      attempt,
      onRetry(reason) {
        if (collector?.shown()) sink.discard(reason);
        collector = undefined;
      },
      execution: settings,
      signal,
      clock,
      random,
    });
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new TurnInterrupted(
      signal.reason,
      collector?.partial() ?? [],
      collector?.finish()?.usage,
    );
  }
}

function turnOf(model: LanguageModel, collector: Collector): Turn {
  const reason = collector.finish()?.reason ?? "cut";
  if (reason === "cut") throw streamCut(nameOf(model));
  if (reason === "error") throw replyFailed(nameOf(model));
  const { provider, modelId } = model;
  return { ...collector.complete(reason), finishReason: reason, model: { provider, modelId } };
}
