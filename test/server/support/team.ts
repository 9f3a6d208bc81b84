import { z } from "zod";
import { type Agent, agentTool, ReActAgent, type Store, tool } from "../../../src/index.ts";
import { type ScriptedTurn, scriptedModel } from "../../../src/testing.ts";

/** A team that works for a while, and one agent that asks first; every process that runs them goes on with the same script. */
export function team(store: Store, pauseMs: number): readonly Agent[] {
  const leaseMs = 1_000;
  const says = (words: string): ScriptedTurn =>
    words.split(/(?<= )/).flatMap((text) => [{ delayMs: pauseMs }, { text }]);
  const model = (turns: readonly ScriptedTurn[]) => scriptedModel(turns, { by: "prompt" });
  const helper = new ReActAgent({
    name: "helper",
    store,
    model: model([says("The helper found a river.")]),
  });
  const remove = tool({
    name: "remove",
    description: "Removes a file.",
    input: z.object({ path: z.string() }),
    needsApproval: true,
    idempotent: true,
    execute: ({ path }) => `removed ${path}`,
  });
  return [
    new ReActAgent({
      name: "lead",
      store,
      leaseMs,
      tools: [agentTool(helper)],
      model: model([
        [1, 2].map((n) => ({ call: "helper", input: { prompt: `Help ${n}.` } })),
        says("The lead has the answers of both helpers."),
      ]),
    }),
    new ReActAgent({
      name: "asking",
      store,
      leaseMs,
      tools: [remove],
      model: model([{ call: "remove", input: { path: "a" } }, says("It is removed.")]),
    }),
  ];
}
