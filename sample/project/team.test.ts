import assert from "node:assert/strict";
import { test } from "node:test";
import { scriptedModel } from "rivulet/testing";
import { createTeam } from "./team.ts";

test("the lead asks the researcher and passes on the report", async () => {
  const model = scriptedModel(({ tools, prompt }) => {
    const isLead = tools?.some(({ name }) => name === "agent_spawn");
    if (!isLead) return "Salmon return to the river where they were born.";
    if (prompt.at(-1)?.role === "tool") return "They return to their river.";
    return [
      { call: "agent_spawn", input: { agent_id: "researcher", task: "Where do salmon go?" } },
    ];
  });
  const team = createTeam({ model, store: "memory" });

  const agents = new Set<string>();
  for await (const event of team.stream("Where do salmon go?"))
    agents.add(event.source?.agentId ?? "lead");

  assert.deepEqual([...agents], ["lead", "researcher"]);
});
