// The law "linear wire". What an event costs does not depend on what came before it, at any depth.
import { describe, it } from "vitest";
import {
  type Agent,
  agentTool,
  HarnessAgent,
  memoryStore,
  ReActAgent,
  type SubagentDeclaration,
} from "../src/index.ts";
import { scriptedModel } from "../src/testing.ts";
import { collect } from "./agent/support/collect.ts";
import { chunksOf, expectLinear } from "./support/wire-cost.ts";

/** Agents that are tools of each other; the one at `depth` says a text of about `size` bytes. */
function tools(depth: number, size: number): Agent {
  let agent = new ReActAgent({
    name: "researcher",
    model: scriptedModel([{ text: chunksOf(size) }]),
  });
  for (let level = 1; level <= depth; level++) {
    agent = new ReActAgent({
      name: `lead-${level}`,
      model: scriptedModel([{ call: agent.name, input: { prompt: "go" } }, "done"]),
      tools: [agentTool(agent)],
    });
  }
  return agent;
}

/** The same with subagents. */
function subagents(depth: number, size: number): Agent {
  const models = Array.from({ length: depth }, (_, level) =>
    scriptedModel([
      { call: "agent_spawn", input: { agent_id: `agent-${level + 1}`, task: "go" } },
      "done",
    ]),
  );
  let below: SubagentDeclaration[] = [];
  for (let level = depth; level > 0; level--) {
    const model = models[level] ?? scriptedModel([{ text: chunksOf(size) }]);
    const name = `agent-${level}`;
    below = [{ name, description: "Works.", model, leaf: false, subagents: below }];
  }
  const model = models[0] ?? scriptedModel([{ text: chunksOf(size) }]);
  const store = memoryStore();
  return new HarnessAgent({ name: "lead", model, store, filesystem: false, subagents: below });
}

describe.each([
  { name: "16 KB", size: 16_384 },
  { name: "1 MB", size: 1_048_576 },
])("a text of $name", ({ size }) => {
  const timeout = 60_000;

  it.each([0, 1, 2, 3])("of an agent that is a tool, at depth %i", { timeout }, async (depth) => {
    const run = tools(depth, size).run("go", { sessionId: "sess-001" });
    expectLinear(await collect(run), depth, size);
  });

  it.each([1, 2, 3])("of a subagent, at depth %i", { timeout }, async (depth) => {
    const run = subagents(depth, size).run("go", { sessionId: "sess-001" });
    expectLinear(await collect(run), depth, size);
  });
});
