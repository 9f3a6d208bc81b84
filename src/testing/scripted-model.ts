import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { type Clock, systemClock } from "../base/clock.ts";
import { RivuletError } from "../base/error.ts";
import * as is from "../base/options.ts";
import { type Field, type Fields, readArgument, readOptions } from "../base/options.ts";
import { generatePlay, streamPlay } from "./play.ts";
import { type Play, playOf, type ScriptedRequest, type ScriptedTurn } from "./script.ts";

/** Creates the turn that answers a request. */
export type TurnFunction = (request: ScriptedRequest) => ScriptedTurn | PromiseLike<ScriptedTurn>;

/** Turns in order, each given or created from its request; or one function that answers every request. */
export type Script = readonly (ScriptedTurn | TurnFunction)[] | TurnFunction;

/** The options of a scripted model. */
export interface ScriptedModelOptions {
  /**
   * Which turn answers a request. `"call"` (the default) takes the next turn of the model object, so a retry gets the
   * turn after the failed one. `"prompt"` takes the turn whose index is the number of assistant messages in the prompt.
   * The model then has no state: one object serves many conversations, and a retry gets the same turn.
   */
  readonly by?: "call" | "prompt";
  readonly modelId?: string;
  /** The clock for `delayMs`. */
  readonly clock?: Pick<Clock, "sleep">;
}

/** A language model of the AI SDK that plays a script. */
export interface ScriptedModel extends LanguageModelV4 {
  readonly provider: "scripted";
  /** All requests, oldest first. */
  readonly calls: readonly ScriptedRequest[];
}

const scriptField = is.or(is.list, "a function", (value) => typeof value === "function");
const optionFields: Fields<ScriptedModelOptions> = {
  by: is.oneOf("call", "prompt"),
  modelId: is.text,
  clock: is.withFunctions("sleep"),
};
const callField: Field = {
  fits: (value) => {
    const { prompt, abortSignal } = value as LanguageModelV4CallOptions;
    return (
      Array.isArray(prompt) &&
      prompt.every(is.record.fits) &&
      (abortSignal === undefined || is.signal.fits(abortSignal))
    );
  },
  expected: "call options of the AI SDK with a prompt",
};

/** Creates a language model that plays a script, without a network or an API key. */
export function scriptedModel(script: Script, options: ScriptedModelOptions = {}): ScriptedModel {
  const turns = readArgument("script", script, is.required(scriptField));
  const read = readOptions("scriptedModel()", options, optionFields);
  const { by = "call", modelId = "scripted", clock = systemClock } = read;
  const calls: ScriptedRequest[] = [];
  if (typeof turns !== "function") {
    for (const turn of turns) {
      // An invalid script throws here, where it is written.
      if (typeof turn !== "function") playOf(turn, { prompt: [], assistantCount: 0 });
    }
  }

  async function answer(
    callOptions: LanguageModelV4CallOptions,
    streaming: boolean,
  ): Promise<Play> {
    readArgument("options", callOptions, is.required(callField));
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
    supportedUrls: { "*/*": [/.*/] }, // the model reads no URLs, so none must be downloaded
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
  for (const message of prompt) if (message?.role === "assistant") count += 1;
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
  const position =
    by === "call"
      ? `this is request ${index + 1}`
      : `the prompt already has ${index} assistant messages`;
  throw new RivuletError("script_exhausted", `The script has ${length}, and ${position}.`, {
    hint: "Add a turn to the script, or pass a function that answers every request.",
  });
}
