import { expect, it, vi } from "vitest";
import { recordingOf } from "../../../src/harness/index.ts";
import { jsonSchema, memoryStore, ReActAgent, tool } from "../../../src/index.ts";
import { scriptedModel } from "../../../src/testing.ts";

const canary = "canary-7f3a9c";

it("keeps headers, the environment, metadata and the context of tools out of a recording", async () => {
  vi.stubEnv("SECRET_KEY", canary);
  const store = memoryStore();
  const agent = new ReActAgent({
    ...{ name: "lead", store, model: scriptedModel([{ call: "look" }, "Done."]) },
    modelOptions: {
      headers: { authorization: canary },
      providerOptions: { scripted: { key: canary } },
    },
    tools: [
      tool({
        name: "look",
        description: "Looks.",
        input: jsonSchema({ type: "object" }),
        execute: () => `found ${process.env.SECRET_KEY?.length}`,
      }),
    ],
  });
  const options = { taskId: "task_1", userId: canary, context: { key: canary } };
  await agent.call("Look.", { ...options, metadata: { token: canary } });
  const text = JSON.stringify(await recordingOf(store, "task_1"));
  expect(text).toContain("found 13");
  expect(text).not.toContain(canary);
});
