import { after } from "../../agent/base/time.ts";
import { runTurn } from "../../agent/model/model.ts";
import type { flattenModels } from "../../agent/model/resolve.ts";
import type { TurnSink } from "../../agent/model/turn.ts";
import type { Clock } from "../../protocol/clock.ts";
import { RivuletError } from "../../protocol/error.ts";
import type { IdSource } from "../../protocol/id.ts";
import { textOf, userMessage } from "../../protocol/message.ts";
import type { Usage } from "../../protocol/task.ts";

/** How the memory calls its model. */
export interface Asker {
  readonly models: ReturnType<typeof flattenModels>;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly timeoutMs: number;
  readonly onUsage?: (usage: Usage, model: string) => void;
}

const silent: TurnSink = {
  open() {},
  delta() {},
  close() {},
  block() {},
  source() {},
  discard() {},
};

/** Returns the text of one model call without tools; undefined if it was cut off or filtered. Rejects on a timeout. */
export async function ask(
  { models, clock, ids, timeoutMs, onUsage }: Asker,
  systemPrompt: string,
  text: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const limit = new AbortController();
  const stop = after(clock, timeoutMs, () => limit.abort(tooSlow(timeoutMs)));
  try {
    const request = {
      ...{ messages: [userMessage(text)], systemPrompt, tools: [], options: {} },
      signal: AbortSignal.any([signal, limit.signal]),
    };
    const dependencies = { ids, clock, random: Math.random, execution: { timeoutMs } };
    const turn = await runTurn(models, request, silent, dependencies);
    onUsage?.(turn.usage, `${turn.model.provider}/${turn.model.modelId}`);
    const isWhole = turn.finishReason !== "length" && turn.finishReason !== "content-filter";
    return isWhole ? textOf(turn.content).trim() : undefined;
  } catch (error) {
    throw limit.signal.aborted ? limit.signal.reason : error;
  } finally {
    stop();
  }
}

function tooSlow(ms: number): RivuletError {
  return new RivuletError("timeout", `The model took more than ${ms} ms.`);
}
