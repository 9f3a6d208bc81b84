import { expect, it, vi } from "vitest";
import { noteWaits, waitText } from "../../src/cli/outcome.ts";
import { createPlainView } from "../../src/cli/plain-view.ts";
import { ask } from "../../src/client/ask.ts";
import type { Answer, Approval } from "../../src/contract/agent.ts";
import { HarnessAgent, ReActAgent, tool } from "../../src/index.ts";
import { rootTask, subtreeUsage } from "../../src/protocol/select.ts";
import { scriptedModel } from "../../src/testing.ts";

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

it("reads the log while an approval waits, so that background agents move and count", async () => {
  const opened = Promise.withResolvers<void>();
  const gate = tool({
    name: "gate",
    description: "Opens when the person is asked.",
    execute: () => opened.promise.then(() => "open"),
  });
  const guarded = tool({
    name: "guarded",
    description: "Needs a word.",
    needsApproval: true,
    execute: () => "done",
  });
  const agent = new HarnessAgent({
    name: "lead",
    store: "memory",
    model: scriptedModel(({ tools, prompt }) => {
      const isAnswered = prompt.some(({ role }) => role === "tool");
      if (!tools?.some(({ name }) => name === "agent_spawn"))
        return isAnswered ? "The helper is done." : [{ call: "gate" }];
      if (isAnswered) return "Done.";
      const input = { agent_id: "helper", task: "Help.", timeout_seconds: 0 };
      return [{ call: "agent_spawn", input }, { call: "guarded" }];
    }),
    tools: [guarded, gate],
    subagents: [{ name: "helper", description: "Helps.", systemPrompt: "Help.", tools: ["gate"] }],
  });
  const lines: string[] = [];
  const view = createPlainView((line) => lines.push(line));
  const helper = () => Object.values(view.tree.tasks).find(({ agentId }) => agentId === "helper");
  const reply = await ask(agent, "Go.", {
    sessionId: "s",
    view,
    signal: new AbortController().signal,
    async decide(approval) {
      expect(helper()?.status).toBe("in_progress");
      opened.resolve();
      await vi.waitUntil(() => helper()?.status === "completed");
      return approval.approve();
    },
  });
  expect(reply.text).toBe("Done.");
  const root = rootTask(view.tree);
  expect(helper()?.usage?.total_tokens).toBeGreaterThan(0);
  expect(subtreeUsage(view.tree, root?.id ?? "").total_tokens).toBe(
    (root?.usage?.total_tokens ?? 0) + (helper()?.usage?.total_tokens ?? 0),
  );
  // Each event was seen once, although the log was opened again after the answer.
  expect(lines).toHaveLength(new Set(lines).size);
  await agent.close();
});

it("says once what a run waits for, and once that it continues", async () => {
  const opened = Promise.withResolvers<void>();
  const gate = tool({
    name: "gate",
    description: "Opens later.",
    execute: () => opened.promise.then(() => "open"),
  });
  const agent = new ReActAgent({
    name: "lead",
    model: scriptedModel([[{ call: "gate" }], "First.", "Second."]),
    tools: [gate],
  });
  const first = agent.call("Go.", { sessionId: "s" });
  const notes: string[] = [];
  const note = noteWaits((line) => notes.push(line));
  const reply = await ask(agent, "And you?", {
    sessionId: "s",
    view: createPlainView(() => {}),
    signal: new AbortController().signal,
    decide: async (approval) => approval.approve(),
    onWait(reason) {
      note(reason);
      note(reason);
      opened.resolve();
    },
  });
  expect((await first).text).toBe("First.");
  expect(reply.text).toBe("Second.");
  expect(notes[0]).toBe("waiting for another task of this session");
  expect(notes.at(-1)).toBe("the wait is over");
  expect(notes).toHaveLength(new Set(notes).size);
});

it("says how long the lease of a dead process lasts", () => {
  expect(waitText({ reason: "owner_silent", leftMs: 7_400 })).toBe(
    "waiting for the lease of a process that is gone, 8 s left",
  );
});
