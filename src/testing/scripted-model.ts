import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import type { Clock } from "../protocol/clock.ts";
import { systemClock } from "../protocol/clock.ts";
import { RivuletError } from "../protocol/error.ts";
import { generatePlay, streamPlay } from "./play.ts";
import type { Play, ScriptedRequest, ScriptedTurn } from "./script.ts";
import { playOf } from "./script.ts";

/** Makes a turn out of the request that it answers. */
export type TurnFunction = (request: ScriptedRequest) => ScriptedTurn | PromiseLike<ScriptedTurn>;

/** The turns in order, each given or made from its request; or one function that answers every request. */
export type Script = readonly (ScriptedTurn | TurnFunction)[] | TurnFunction;

/** How a scripted model behaves besides its script. */
export interface ScriptedModelOptions {
  /**
   * Which turn answers a request. `"call"` (the default): the next one, counted on the model object, so
   * that a retry gets the turn after the one that failed. `"prompt"`: the one with as many turns before
   * it as the prompt has assistant messages. Then the model has no state: one object serves any number of
   * conversations at once, a resumed conversation goes on where it stood, and a retry gets the same turn.
   */
  readonly by?: "call" | "prompt";
  readonly modelId?: string;
  /** What `delayMs` waits on. */
  readonly clock?: Pick<Clock, "sleep">;
}

/** A language model of the AI SDK that says what it was told to say. */
export interface ScriptedModel extends LanguageModelV4 {
  readonly provider: "scripted";
  /** Every request so far, oldest first. */
  readonly calls: readonly ScriptedRequest[];
}

/** A language model that plays a script: the same requests get the same replies, with no network and no key. */
export function scriptedModel(turns: Script, options: ScriptedModelOptions = {}): ScriptedModel {
  const { by = "call", modelId = "scripted", clock = systemClock } = options;
  const calls: ScriptedRequest[] = [];
  if (typeof turns !== "function") {
    for (const turn of turns) {
      // A bad script fails here, where it was written.
      if (typeof turn !== "function") playOf(turn, { prompt: [], assistantCount: 0 });
    }
  }

  async function answer(
    callOptions: LanguageModelV4CallOptions,
    streaming: boolean,
  ): Promise<Play> {
    callOptions.abortSignal?.throwIfAborted();
    const assistantCount = countAssistant(callOptions.prompt);
    const request = { ...callOptions, callIndex: calls.length, assistantCount, streaming };
    calls.push(request);
    const turn = turnFor(turns, by, request);
    const play = playOf(typeof turn === "function" ? await turn(request) : turn, request);
    callOptions.abortSignal?.throwIfAborted();
    const [first] = play.steps;
    if (first?.type === "error") throw first.error;
    return play;
  }

  return {
    specificationVersion: "v4",
    provider: "scripted",
    modelId,
    supportedUrls: { "*/*": [/.*/] }, // nobody needs to fetch anything for a model that does not look
    calls,
    async doGenerate(callOptions) {
      return generatePlay(await answer(callOptions, false), clock, callOptions.abortSignal);
    },
    async doStream(callOptions) {
      return {
        stream: streamPlay(await answer(callOptions, true), clock, callOptions.abortSignal),
      };
    },
  };
}

function countAssistant(prompt: LanguageModelV4CallOptions["prompt"]): number {
  let count = 0;
  for (const message of prompt) if (message.role === "assistant") count += 1;
  return count;
}

function turnFor(
  turns: Script,
  by: "call" | "prompt",
  request: ScriptedRequest,
): ScriptedTurn | TurnFunction {
  if (typeof turns === "function") return turns;
  const index = by === "call" ? request.callIndex : request.assistantCount;
  const turn = turns[index];
  if (turn !== undefined) return turn;
  const length = turns.length === 1 ? "1 turn" : `${turns.length} turns`;
  const asked =
    by === "call"
      ? `this is request ${index + 1}`
      : `the prompt already has ${index} assistant messages`;
  throw new RivuletError("script_exhausted", `The script has ${length}, and ${asked}.`, {
    hint: "Add a turn to the script, or give scriptedModel a function, which answers every request.",
  });
}
