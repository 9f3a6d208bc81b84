import { describe, expect, it } from "vitest";
import { HarnessAgent, memoryStore } from "../../../src/index.ts";
import { scriptedModel } from "../../../src/testing.ts";
import { expectLawful } from "../../agent/support/laws.ts";
import { workspaceWith } from "../agent/support/workspace.ts";
import { isSummary, readPage, summaryWith } from "./pages.ts";
import { compactions } from "./support.ts";

const sessionId = "book";
const tooLong = () => ({
  error: Object.assign(new Error("This model's maximum context length is 4096 tokens."), {
    statusCode: 400,
  }),
});
const roots = ["call", "stream", "run"] as const;

/** An agent whose provider refuses the prompt of one turn, however often it is asked in that form. */
function overflowing(at: number, pages: number, isHopeless = false) {
  let turn = 0;
  let refused = 0;
  const store = memoryStore();
  const model = scriptedModel((request) => {
    if (isSummary(request)) return summaryWith("Pages were read.");
    if (turn === at && (refused === 0 || isHopeless)) {
      refused += 1;
      return tooLong();
    }
    turn += 1;
    return turn > pages ? "Read." : { call: "read_page", input: { page: turn } };
  });
  const agent = new HarnessAgent({
    ...{ name: "reader", model, store, tools: [readPage], workspace: workspaceWith() },
    ...{ subagents: false, maxIters: 20, modelExecution: { maxAttempts: 1 } },
  });
  return { agent, model, store };
}

async function enter(agent: HarnessAgent, door: (typeof roots)[number]): Promise<string> {
  if (door === "call") return (await agent.call("Read.", { sessionId })).text;
  if (door === "run") return (await agent.run("Read.", { sessionId }).result()).text;
  let text = "";
  for await (const event of agent.stream("Read.", { sessionId }))
    if (event.type === "agent_result") text = event.text;
  return text;
}

describe.each(roots)("a prompt that the provider refuses for its length, in %s()", (door) => {
  it.each([1, 2, 3, 4, 5])("is compacted and sent once more, at turn %i", async (at) => {
    const { agent, store } = overflowing(at, 5);
    expect(await enter(agent, door)).toBe("Read.");
    const [{ taskId = "" } = {}] = await store.tasks({ sessionId });
    const events = await compactions(store, taskId);
    expect(events).toMatchObject([{ reason: "overflow" }]);
    await expectLawful(store, taskId);
  });

  it("fails with the provider's error when it is refused again", async () => {
    const { agent, model } = overflowing(3, 5, true);
    await expect(enter(agent, door)).rejects.toMatchObject({ code: "context_overflow" });
    expect(model.calls.filter((call) => !isSummary(call))).toHaveLength(5);
  });
});

describe("a child", () => {
  it.each([30, 0])("recovers like its parent (timeout_seconds %i)", async (timeout_seconds) => {
    const store = memoryStore();
    let turn = 0;
    let refused = 0;
    const model = scriptedModel((request) => {
      const isChild = JSON.stringify(request.prompt[0]).includes("Subagent Context");
      if (isSummary(request)) return summaryWith("Pages were read.");
      if (!isChild) {
        const text = JSON.stringify(request.prompt);
        if (text.includes("The child is done.")) return "Good.";
        if (text.includes("task_id: ")) return { call: "task_wait", input: {} };
        const input = { agent_id: "general-purpose", task: "Read.", timeout_seconds };
        return { call: "agent_spawn", input };
      }
      if (turn === 2 && refused++ === 0) return tooLong();
      turn += 1;
      return turn > 3 ? "The child is done." : { call: "read_page", input: { page: turn } };
    });
    const agent = new HarnessAgent({
      ...{ name: "lead", model, store, tools: [readPage], workspace: workspaceWith() },
      ...{ maxIters: 20, modelExecution: { maxAttempts: 1 } },
    });
    const { text, task } = await agent.call("Delegate.", { sessionId });
    expect(text).toBe("Good.");
    expect(await compactions(store, task.taskId)).toMatchObject([{ reason: "overflow" }]);
    await expectLawful(store, task.taskId);
  });
});
