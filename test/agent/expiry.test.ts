import { expect, it } from "vitest";
import { ReActAgent, tool } from "../../src/index.ts";
import { ManualClock, scriptedModel } from "../../src/testing.ts";

/** An agent whose one tool asks, and whose questions wait for a minute. */
function asking() {
  const clock = new ManualClock(1_000_000);
  let removed = 0;
  const remove = tool({
    name: "remove",
    description: "Removes a file.",
    needsApproval: true,
    execute: () => `removed ${++removed}`,
  });
  const model = scriptedModel([{ call: "remove" }, "Very well."]);
  const options = { name: "lead", model, tools: [remove], clock, approvalTimeoutMs: 60_000 };
  return { agent: new ReActAgent(options), clock, removed: () => removed };
}

it("accepts an answer before expiresAt, which the approval shows", async () => {
  const { agent, clock, removed } = asking();
  const asked = await agent.call("Clean up.", { sessionId: "s" });
  expect(asked.approvals[0]?.expiresAt).toBe(1_060_000);
  await clock.advance(59_999);
  const reply = await agent.call(asked.approvals.map((one) => one.approve()));
  expect(reply.text).toBe("Very well.");
  expect(removed()).toBe(1);
});

it("denies an expired approval on a late answer and on the next call", async () => {
  for (const isAnswered of [true, false]) {
    const { agent, clock, removed } = asking();
    const asked = await agent.call("Clean up.", { sessionId: "s" });
    await clock.advance(60_000);
    const answers = isAnswered ? asked.approvals.map((one) => one.approve()) : undefined;
    const run = agent.run(answers, { sessionId: "s" });
    const decisions: string[] = [];
    for await (const event of run) {
      if (event.type === "task.approval.resolved") decisions.push(event.decision);
    }
    expect((await run.result()).text).toBe("Very well.");
    expect(decisions).toEqual(["expire"]);
    expect(removed()).toBe(0);
  }
});
