import fc from "fast-check";
import type { ScriptedPart } from "../../../src/testing.ts";
import { type Random, seededRandom } from "../../support/random.ts";
import { toolNames } from "./tools.ts";

/** What an agent will say, turn by turn, and the agents it can ask. Plain data, so that a failure can be read. */
export interface Plan {
  readonly name: string;
  readonly turns: readonly (readonly ScriptedPart[])[];
  readonly children: readonly Plan[];
  readonly maxIters: number;
  readonly parallel: boolean;
  /** What goes wrong with each turn before it goes right, attempt by attempt. */
  readonly troubles: readonly (readonly Trouble[])[];
  /** Whether there is a second model to fall back to. */
  readonly hasSpare: boolean;
  /** The turn of which every attempt fails. */
  readonly givesUpAt?: number;
}

/** How an attempt at a turn fails: before anything has come, or after so many chunks of it. */
export interface Trouble {
  readonly how: "refused" | "broken" | "ended" | "stalled";
  readonly after: number;
}

/** How often each model is asked for a turn. */
export const attemptsPerModel = 3;

/** How large a plan may get. */
export interface PlanSize {
  readonly turns: number;
  readonly calls: number;
  /** How deep children may go. */
  readonly depth: number;
  /** True: an agent's models may fail for good. */
  readonly mayGiveUp?: boolean;
}

/** Plans for properties; a failing one is made smaller by its size, and its seed stays. */
export function planArbitrary(largest: PlanSize): fc.Arbitrary<Plan> {
  return fc
    .record({
      seed: fc.noShrink(fc.integer({ min: 0, max: 0x7fffffff })),
      turns: fc.integer({ min: 1, max: largest.turns }),
      calls: fc.integer({ min: 0, max: largest.calls }),
      depth: fc.integer({ min: 0, max: largest.depth }),
    })
    .map(({ seed, ...size }) => generatePlan(seed, { ...largest, ...size }));
}

/** The plan of a seed. */
export function generatePlan(seed: number, size: PlanSize): Plan {
  const plan = agentPlan(seededRandom(seed), "lead", size);
  return withTroubles(seededRandom(~seed), plan, size);
}

/** The same plan on a bad line. */
function withTroubles(random: Random, plan: Quiet, size: PlanSize): Plan {
  const hasSpare = random.chance(0.3);
  const most = attemptsPerModel * (hasSpare ? 2 : 1) - 1;
  const troubles = plan.turns.map(() =>
    Array.from({ length: random.chance(0.35) ? random.int(1, most) : 0 }, () => trouble(random)),
  );
  const givesUp = random.chance(size.mayGiveUp ? 0.25 : 0);
  return {
    ...plan,
    children: plan.children.map((child) => withTroubles(random, child, size)),
    troubles,
    hasSpare,
    ...(givesUp && { givesUpAt: random.int(0, plan.turns.length - 1) }),
  };
}

function trouble(random: Random): Trouble {
  const how = random.chance(0.1) ? "stalled" : random.pick(["refused", "broken", "ended"] as const);
  return { how, after: random.int(0, 12) };
}

/** A plan before anything goes wrong. */
type Quiet = Omit<Plan, "children" | "troubles" | "hasSpare" | "givesUpAt"> & {
  readonly children: readonly Quiet[];
};

function agentPlan(random: Random, name: string, size: PlanSize): Quiet {
  const smaller = { turns: Math.min(size.turns, 2), calls: size.calls, depth: size.depth - 1 };
  const children = Array.from({ length: size.depth > 0 ? random.int(1, 2) : 0 }, (_, index) =>
    agentPlan(random, `${name}_${index}`, smaller),
  );
  const tools = [...toolNames, ...children.flatMap((child) => [child.name, child.name])];
  // Every call has an input of its own: the same one three times over would be stopped as a loop.
  let number = 0;
  const call = (): ScriptedPart => {
    const n = ++number;
    const tool = random.pick(tools);
    const prompt = children.some((child) => child.name === tool) && `Do ${n}.`;
    const input = prompt ? { prompt } : { n };
    if (random.chance(0.05)) return { call: tool, raw: `{"n": ${n}` };
    if (random.chance(0.05)) return { call: tool, input: { n: `not a number: ${n}` } };
    if (random.chance(0.05)) return { call: `missing_${n}`, input };
    const text = JSON.stringify(input);
    return { call: tool, input, deltas: cut(random, text) };
  };
  const turns = Array.from({ length: size.turns }, () => {
    if (random.chance(0.08)) return [{ thinking: "Hm." }];
    if (random.chance(0.04)) return [" "];
    const calls = Array.from({ length: size.calls > 0 ? random.int(1, size.calls) : 0 }, call);
    return [...remarks(random), ...calls, ...(random.chance(0.1) ? [words(random, "After.")] : [])];
  });
  return {
    name,
    turns: [...turns, [...remarks(random), words(random, `${name} is done 🌊.[^1]`)]],
    children,
    maxIters: random.chance(0.15) ? random.int(1, 2) : 10,
    parallel: random.chance(0.8),
  };
}

function remarks(random: Random): readonly ScriptedPart[] {
  return [
    ...(random.chance(0.3) ? [{ thinking: cut(random, "Let me think 🤔 about this.") }] : []),
    ...(random.chance(0.3) ? [words(random, "I shall look 👀 into it. [^1] [^99]")] : []),
  ];
}

function words(random: Random, text: string): ScriptedPart {
  return { text: cut(random, text) };
}

/** The text in pieces; a cut may fall anywhere, also into the middle of a character. */
function cut(random: Random, text: string): readonly string[] {
  const pieces: string[] = [];
  for (let start = 0; start < text.length; ) {
    const end = start + random.int(1, Math.max(1, text.length / 2));
    pieces.push(text.slice(start, end));
    start = end;
  }
  return pieces;
}
