import { expect, it } from "vitest";
import { ask } from "../../src/cli/ask.ts";
import { createPlainView } from "../../src/cli/plain-view.ts";
import { ReActAgent, tool } from "../../src/index.ts";
import type { Answer, Approval } from "../../src/protocol/agent.ts";
import { rootTask } from "../../src/protocol/select.ts";
import { scriptedModel } from "../../src/testing/index.ts";

/** Asks an agent that makes two calls with approval, and returns the outcome. */
async function askWith(decide: (approval: Approval, cancel: AbortController) => Promise<Answer>) {
  let runs = 0;
  const guarded = tool({
    name: "guarded",
    description: "Needs a word.",
    needsApproval: true,
    execute: () => `run ${++runs}`,
  });
  const agent = new ReActAgent({
    name: "lead",
    model: scriptedModel([[{ call: "guarded" }, { call: "guarded" }], "Done."], { by: "prompt" }),
    tools: [guarded],
  });
  const view = createPlainView(() => {});
  const cancel = new AbortController();
  const reply = await ask(agent, "Go.", {
    sessionId: "s",
    view,
    decide: (approval) => decide(approval, cancel),
    signal: cancel.signal,
  });
  return {
    reply,
    runs,
    root: rootTask(view.tree),
    waiting: await agent.approvals({ sessionId: "s" }),
  };
}

it("passes on each decision and continues", async () => {
  const answers = [true, false];
  const { reply, runs, root } = await askWith(async (approval) =>
    answers.shift() ? approval.approve() : approval.deny("No."),
  );
  expect(reply.text).toBe("Done.");
  expect(runs).toBe(1);
  expect(root).toMatchObject({
    status: "completed",
    approvals: [{ decision: "approve" }, { decision: "deny" }],
  });
});

it("cancels the suspended run when the user cancels at a question", async () => {
  let asked = 0;
  const { runs, root, waiting } = await askWith(async (approval, cancel) => {
    asked += 1;
    cancel.abort();
    return approval.approve();
  });
  expect({ asked, runs, waiting }).toEqual({ asked: 1, runs: 0, waiting: [] });
  expect(root?.status).toBe("cancelled");
});
