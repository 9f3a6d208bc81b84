import type { LanguageModelV4 } from "@ai-sdk/provider";
import { type ManualClock, withFaults } from "../../../src/testing.ts";
import { attemptsPerModel, type Plan, type Trouble } from "./plan.ts";

/** How often a model is asked, and how long it may be silent. */
export const troubledExecution = {
  maxAttempts: attemptsPerModel,
  initialBackoffMs: 0,
  stallMs: 1_000,
} as const;

/**
 * The models of a plan: the same one as often as there are fallbacks, on a bad line. Which attempt it is, they count
 * together, for each turn of each task; everything else they know from the request. What stalls moves the clock.
 */
export function troubledModels(
  plan: Plan,
  model: LanguageModelV4,
  clock: ManualClock | undefined,
): readonly LanguageModelV4[] {
  const attempts = new Map<string, number>();
  const next = (task: unknown, turn: unknown): Trouble | undefined => {
    if (turn === undefined) return undefined;
    if (plan.givesUpAt === Number(turn)) return { how: "broken", after: 3 };
    const key = `${task} ${turn}`;
    const attempt = attempts.get(key) ?? 0;
    attempts.set(key, attempt + 1);
    return plan.troubles[Number(turn)]?.[attempt];
  };
  const troubled: LanguageModelV4 = {
    ...model,
    async doStream(options) {
      const { task, turn } = options.providerOptions?.script ?? {};
      const trouble = next(task, turn);
      if (trouble === undefined) return model.doStream(options);
      if (trouble.how === "stalled") void passTime(clock);
      return withFaults(model, faultsOf(trouble)).doStream(options);
    },
  };
  return plan.hasSpare ? [troubled, troubled] : [troubled];
}

/** Whether anything in the tree of a plan stalls. */
export function hasStalls({ troubles, children }: Plan): boolean {
  return troubles.flat().some(({ how }) => how === "stalled") || children.some(hasStalls);
}

function faultsOf({ how, after }: Trouble) {
  if (how === "refused") return { failCalls: [0] };
  if (how === "stalled") return { stallAfterChunks: after };
  return {
    cutAfterChunks: after,
    cutWith: how === "ended" ? ("end" as const) : ("error" as const),
  };
}

/** In small steps: whoever is not stalled goes on in between. */
async function passTime(clock: ManualClock | undefined): Promise<void> {
  for (let step = 0; step < 16; step++) await clock?.advance(troubledExecution.stallMs / 8);
}
