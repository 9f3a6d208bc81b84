import { expect, it } from "vitest";
import { HarnessAgent } from "../harness/index.ts";
import { ReActAgent } from "../index.ts";
import { scriptedModel } from "../testing.ts";
import { withModel } from "./config.ts";

/** Asks a team for research, and returns the last text of each agent. */
async function textsOf(model: string, researcher: object) {
  const lead = new HarnessAgent({
    name: "lead",
    model: scriptedModel(() => "The old lead."),
    store: "memory",
    filesystem: false,
    subagents: [{ name: "researcher", description: "Searches for answers.", ...researcher }],
  });
  const agent = await withModel(lead, model);
  const texts: Record<string, string> = {};
  for await (const event of agent.stream("How do rivers form?", { types: ["agent_result"] }))
    texts[event.source?.agentId ?? "lead"] = event.text;
  return texts;
}

it("changes the model of an agent and of the subagents without a model of their own", async () => {
  const { lead, researcher } = await textsOf("demo:analyst", {});
  expect(lead).not.toContain("The old lead.");
  expect(researcher).toBeDefined();
  expect(researcher).not.toContain("The old lead.");
});

it("keeps the model that a subagent names", async () => {
  const own = { model: scriptedModel(() => "The researcher's own model.") };
  const { researcher } = await textsOf("demo:analyst", own);
  expect(researcher).toBe("The researcher's own model.");
});

it("changes the model of an agent without a harness, and rejects a model that cannot be loaded", async () => {
  const agent = new ReActAgent({ name: "lead", model: scriptedModel(() => "The old lead.") });
  const reply = await (await withModel(agent, "demo:analyst")).call("Hello!");
  expect(reply.text).not.toBe("The old lead.");
  await expect(withModel(agent, "cohere:x")).rejects.toMatchObject({
    code: "provider_not_installed",
  });
});
