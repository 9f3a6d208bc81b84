import { expect, it } from "vitest";
import { HarnessAgent, memoryStore, tool } from "../../../../src/index.ts";
import { scriptedModel } from "../../../../src/testing.ts";
import { expectLawful } from "../../../agent/support/laws.ts";

const ask = tool({
  name: "ask",
  description: "Asks first.",
  needsApproval: true,
  execute: () => "done as asked",
});

it("cancels a message that is queued behind a suspended child", async () => {
  const store = memoryStore();
  const spawn = { agent_id: "worker", task: "go", label: "w", timeout_seconds: 0 };
  const send = { label: "w", message: "And then?", timeout_seconds: 600 };
  const lead = new HarnessAgent({
    name: "lead",
    model: scriptedModel([
      [{ call: "agent_spawn", input: spawn }],
      [{ call: "task_wait" }],
      [{ call: "agent_send", input: send }],
    ]),
    store,
    filesystem: false,
    subagents: [
      {
        name: "worker",
        description: "Works.",
        model: scriptedModel([[{ call: "ask" }]]),
        tools: [ask],
      },
    ],
  });
  const run = lead.run("Start.", { sessionId: "s" });
  const { rootTaskId } = await run.task;
  const statuses = async () => (await store.tasks({ rootTaskId })).map(({ status }) => status);
  await expect.poll(statuses).toEqual(["in_progress", "suspended", "queued"]);
  await run.cancel("enough");
  expect(await statuses()).toEqual(["cancelled", "cancelled", "cancelled"]);
  await expectLawful(store, rootTaskId);
});
