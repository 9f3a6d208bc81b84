import type { Clock } from "../../protocol/clock.ts";
import { RivuletError } from "../../protocol/error.ts";
import type { Execution } from "../execution.ts";
import { backoffMs } from "../execution.ts";
import { retryAfterMs } from "./failure.ts";

/** How a list of models is tried. */
export interface Retry<Model, Result> {
  readonly models: readonly Model[];
  /** Rejects with a `RivuletError` when the model failed; any other rejection ends it all, and so does an abort. */
  readonly attempt: (model: Model) => Promise<Result>;
  /** Before each attempt but the first, when the wait is over. */
  readonly onRetry: (reason: "provider_retry" | "fallback") => void;
  readonly execution: Required<Execution>;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly random: () => number;
}

// A provider that asks for a longer pause than this is as good as gone.
const longestRetryAfterMs = 60_000;

// Another model may take what this one does not. If none does, this is what has to be changed: no wait and no key helps.
const ofTheRequest = new Set(["invalid_request", "context_overflow"]);

/**
 * Tries each model in turn as often as it may be tried, until one succeeds; rejects with the first error that is about
 * the request, or else with the error of the last.
 */
export async function retry<Model, Result>(options: Retry<Model, Result>): Promise<Result> {
  const { models, attempt, onRetry, execution, signal, clock, random } = options;
  let refusal: RivuletError | undefined;
  for (let index = 0; ; index++) {
    for (let count = 1; ; count++) {
      try {
        return await attempt(models[index] as Model);
      } catch (error) {
        if (signal.aborted || !(error instanceof RivuletError)) throw error;
        const asked = retryAfterMs(error.cause, clock.now()) ?? 0;
        const again =
          count < execution.maxAttempts && asked <= longestRetryAfterMs && execution.retryOn(error);
        if (!again) {
          if (ofTheRequest.has(error.code)) refusal ??= error;
          if (index >= models.length - 1) throw refusal ?? error;
          break;
        }
        await clock.sleep(Math.max(asked, backoffMs(execution, count, random)), signal);
        onRetry("provider_retry");
      }
    }
    onRetry("fallback");
  }
}
