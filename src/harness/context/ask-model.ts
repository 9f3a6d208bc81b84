import { type flattenModels, runTurn, type Turn, type TurnSink } from "../../agent/index.ts";
import { after, type Clock } from "../../base/clock.ts";
import { RivuletError } from "../../base/error.ts";
import type { IdSource } from "../../base/id.ts";
import { isObject } from "../../base/plain.ts";
import { textOf, userMessage } from "../../contract/index.ts";

/** How the harness calls a model for itself, outside of any task's transcript. */
export interface ModelAsker {
  readonly models: ReturnType<typeof flattenModels>;
  readonly options: Readonly<Record<string, unknown>>;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly timeoutMs: number;
}

/** The answer of a model. */
export interface ModelAnswer extends Pick<Turn, "usage" | "model" | "finishReason"> {
  readonly text: string;
}

const silent: TurnSink = {
  open() {},
  delta() {},
  close() {},
  block() {},
  source() {},
  discard() {},
};

/** Returns the answer to one text, without tools; rejects when the call fails or takes too long. */
export async function askModel(
  { models, options, clock, ids, timeoutMs }: ModelAsker,
  systemPrompt: string,
  text: string,
  signal: AbortSignal,
): Promise<ModelAnswer> {
  const limit = new AbortController();
  const stop = after(clock, timeoutMs, () => limit.abort(tooSlow(timeoutMs)));
  try {
    const request = {
      ...{ messages: [userMessage(text)], systemPrompt, tools: [], options },
      signal: AbortSignal.any([signal, limit.signal]),
    };
    const dependencies = { ids, clock, random: Math.random, execution: { timeoutMs } };
    const { content, ...turn } = await runTurn(models, request, silent, dependencies);
    return { ...turn, text: textOf(content).trim() };
  } catch (error) {
    signal.throwIfAborted();
    throw limit.signal.aborted ? limit.signal.reason : error;
  } finally {
    stop();
  }
}

function tooSlow(ms: number): RivuletError {
  return new RivuletError("timeout", `The model took more than ${ms / 1_000} seconds.`);
}

/** The call options of an agent that also apply to the calls of its harness. */
export function commonOptions(options: unknown = {}): Readonly<Record<string, unknown>> {
  const { headers, providerOptions } = isObject(options) ? options : {};
  return {
    ...(headers !== undefined && { headers }),
    ...(providerOptions !== undefined && { providerOptions }),
  };
}
