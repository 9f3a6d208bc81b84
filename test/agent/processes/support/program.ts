import fc from "fast-check";
import type { ScriptedPart, ScriptedTurn } from "../../../../src/testing.ts";
import { type Random, seededRandom } from "../../../support/random.ts";
import { delegate, play, spawn } from "./script-prompt.ts";

/** A message to the lead. */
export interface ProgramMessage {
  readonly text: string;
  /** Whether a task below it asks for an approval. */
  readonly asks: boolean;
}

/** Messages to one session, in order; what the agents then do depends on the messages alone. */
export type Program = readonly ProgramMessage[];

/** How large a program may be. */
export interface ProgramSize {
  readonly messages: number;
  readonly turns: number;
  readonly calls: number;
  readonly depth: number;
}

/** Programs up to a size. */
export function programArbitrary(largest: ProgramSize): fc.Arbitrary<Program> {
  return fc
    .record({
      seed: fc.noShrink(fc.integer({ min: 0, max: 0x7fffffff })),
      messages: fc.integer({ min: 1, max: largest.messages }),
      turns: fc.integer({ min: 1, max: largest.turns }),
      calls: fc.integer({ min: 1, max: largest.calls }),
      depth: fc.integer({ min: 0, max: largest.depth }),
    })
    .map(({ seed, ...size }) => generateProgram(seededRandom(seed), size));
}

function generateProgram(random: Random, size: ProgramSize): Program {
  // Every call has an input of its own: the same call three times over counts as a loop.
  let number = 0;

  /** The turns of a task with so many levels below it. A background task asks nothing: `task_wait` would return before it ends. */
  function script(depth: number, mayAsk: boolean, note: () => void): readonly ScriptedTurn[] {
    const turns = Array.from({ length: random.int(1, size.turns) }, (): ScriptedTurn => {
      const remarks = random.chance(0.5) ? [remark(random)] : [];
      if (depth > 0 && random.chance(0.3)) return [...remarks, ...background(depth, note)];
      const calls = Array.from({ length: random.int(1, size.calls) }, () =>
        call(depth, mayAsk, note),
      );
      return [...remarks, ...calls];
    });
    return [...turns, { text: ["All ", "done."] }];
  }

  function call(depth: number, mayAsk: boolean, note: () => void): ScriptedPart {
    if (depth > 0 && random.chance(0.35)) {
      const agent = depth > 1 && random.chance(0.5) ? "manager" : "worker";
      return delegate(agent, ...script(agent === "manager" ? 1 : 0, mayAsk, note));
    }
    if (mayAsk && random.chance(0.25)) {
      note();
      return { call: "ask", input: { n: ++number } };
    }
    return { call: "look", input: { n: ++number } };
  }

  /** Background children, a second task for one of them, and the call that reads their results. */
  function background(depth: number, note: () => void): readonly ScriptedPart[] {
    const count = random.int(1, 2);
    const spawned = Array.from({ length: count }, () => {
      const agent = depth > 1 && random.chance(0.3) ? "manager" : "worker";
      return spawn(agent, ...script(agent === "manager" ? 1 : 0, false, note));
    });
    const label = random.chance(0.3) ? `label ${++number}` : undefined;
    const [first, ...rest] = spawned;
    const named =
      first && label ? [{ ...first, input: { ...first.input, label } }, ...rest] : spawned;
    const task = play(...script(0, false, note));
    const sent = { call: "agent_send", input: { label, message: task, timeout_seconds: 600 } };
    const wait = { call: "task_wait", input: { timeout_seconds: 600 } };
    return [...named, ...(label ? [sent] : []), wait];
  }

  return Array.from({ length: size.messages }, () => {
    let asks = false;
    const note = () => {
      asks = true;
    };
    const turns = script(size.depth, true, note);
    return { text: play(...turns), asks };
  });
}

function remark(random: Random): ScriptedPart {
  const words = ["Let ", "me ", "look ", "into ", "this 🌊. "].slice(0, random.int(1, 5));
  return random.chance(0.2) ? { thinking: words } : { text: words };
}
