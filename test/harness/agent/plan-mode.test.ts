import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Store } from "../../../src/contract/store.ts";
import { HarnessAgent, memoryStore, tool } from "../../../src/index.ts";
import { type Script, type ScriptedTurn, scriptedModel } from "../../../src/testing.ts";
import { isSummary, summaryWith } from "../compaction/pages.ts";
import { agentWith, toolTexts } from "./support/agent.ts";
import { workspaceWith } from "./support/workspace.ts";

const sessionId = "plan";
const write = { call: "write_file", input: { path: "a.md", content: "A" } };
const exit = { call: "exit_plan", input: { plan: "1. Write a.md." } };
const planned = (script: Script, options = {}) => {
  const workspace = workspaceWith();
  return { ...agentWith(script, { workspace, planMode: true, ...options }), workspace };
};

describe("plan mode", () => {
  it("lets nothing change until a person approves the plan", async () => {
    const script = [write, { call: "list_files" }, exit, write, "Written."];
    const { agent, model, workspace } = planned(script);
    const asked = await agent.call("Write a.md.", { sessionId });
    expect(asked.generateReason).toBe("approval_required");
    expect(asked.approvals[0]?.call).toMatchObject({ name: "exit_plan", input: exit.input });
    expect(existsSync(join(workspace, "a.md"))).toBe(false);
    expect(toolTexts(model.calls[1])[0]).toContain(
      "write_file was not run, because plan mode is on",
    );
    expect(toolTexts(model.calls[2])[1]).toBe("(no entries)");
    const { text } = await agent.call(
      asked.approvals.map((one) => one.approve()),
      { sessionId },
    );
    expect(text).toBe("Written.");
    expect(existsSync(join(workspace, "a.md"))).toBe(true);
  });

  it("stays on when a person denies the plan, or answers it with words", async () => {
    const { agent, model, workspace } = planned([exit, exit, write, "Still planning."]);
    const first = await agent.call("Write a.md.", { sessionId });
    const second = await agent.call(
      first.approvals.map((one) => one.deny("Too short.")),
      { sessionId },
    );
    await agent.call(
      second.approvals.map((one) => one.answer("What about b.md?")),
      { sessionId },
    );
    expect(toolTexts(model.calls.at(-1))).toEqual([
      "Too short.",
      "What about b.md?",
      expect.stringContaining("write_file was not run"),
    ]);
    expect(existsSync(join(workspace, "a.md"))).toBe(false);
  });

  it("asks a person even if a rule allows every tool", async () => {
    const { agent, workspace } = planned([exit, "Never."], { permissions: { allow: ["*"] } });
    const { approvals } = await agent.call("Go.", { sessionId });
    expect(approvals).toHaveLength(1);
    expect(existsSync(join(workspace, "a.md"))).toBe(false);
  });

  it("holds tools that do not say that they only read", async () => {
    const ran: string[] = [];
    const act = tool({ name: "act", description: "Acts.", execute: () => ran.push("act") });
    const look = tool({
      ...{ name: "look", description: "Looks.", readOnly: true },
      execute: () => ran.push("look"),
    });
    const { agent } = planned([{ call: "act" }, { call: "look" }, "ok"], { tools: [act, look] });
    await agent.call("Go.");
    expect(ran).toEqual(["look"]);
  });

  it("is switched by a message with metadata.planMode", async () => {
    const { agent, workspace } = planned([write, "Written.", write, "Not written."]);
    const message = (planMode: boolean) =>
      ({ role: "user", content: "Go.", metadata: { planMode } }) as const;
    await agent.call(message(false), { sessionId });
    expect(existsSync(join(workspace, "a.md"))).toBe(true);
    const { task } = await agent.call(message(true), { sessionId });
    expect(task.sessionId).toBe(sessionId);
  });

  it("survives a compaction and another process, on and off", async () => {
    const store = memoryStore();
    const workspace = workspaceWith();
    const agentOn = (script: readonly ScriptedTurn[], opened: Store) => {
      const model = scriptedModel((request) => {
        if (isSummary(request)) return summaryWith("None.");
        return script[turn++] ?? "Done.";
      });
      let turn = 0;
      return new HarnessAgent({
        name: "lead",
        model,
        store: opened,
        workspace,
        planMode: true,
        subagents: false,
      });
    };
    await agentOn([write, "On."], store).call("Go.", { sessionId });
    await agentOn([], store).compact(sessionId);
    await agentOn([write, "Still on."], store).call("Go.", { sessionId });
    expect(existsSync(join(workspace, "a.md"))).toBe(false);
    const { approvals } = await agentOn([exit], store).call("Go.", { sessionId });
    await agentOn(["Approved."], store).call(
      approvals.map((one) => one.approve()),
      { sessionId },
    );
    await agentOn([], store).compact(sessionId);
    await agentOn([], store).compact(sessionId);
    await agentOn([write, "Off."], store).call("Go.", { sessionId });
    expect(existsSync(join(workspace, "a.md"))).toBe(true);
  });

  it.each([30, 0])("holds children as well (timeout_seconds %i)", async (timeout_seconds) => {
    const workspace = workspaceWith();
    const model = scriptedModel(({ prompt }) => {
      const text = JSON.stringify(prompt);
      const isChild = text.includes("Subagent Context");
      if (isChild && text.includes("was not run")) return "I could not write.";
      if (isChild) return write;
      if (text.includes("I could not write.")) return "Reported.";
      if (text.includes("task_id: ")) return { call: "task_wait", input: {} };
      return {
        call: "agent_spawn",
        input: { agent_id: "general-purpose", task: "Write.", timeout_seconds },
      };
    });
    const options = { name: "lead", model, workspace, store: memoryStore(), planMode: true };
    const agent = new HarnessAgent(options);
    expect((await agent.call("Go.")).text).toBe("Reported.");
    expect(existsSync(join(workspace, "a.md"))).toBe(false);
  });

  it("does not start agents that the harness cannot hold", async () => {
    const { agent: other } = agentWith(["Hi."], { name: "other", workspace: workspaceWith() });
    const spawn = { call: "agent_spawn", input: { agent_id: "other", task: "Write." } };
    const { agent, model } = planned([spawn, "ok"], {
      subagents: [{ name: "other", description: "Another agent.", agent: other }],
    });
    await agent.call("Go.");
    expect(toolTexts(model.calls[1])[0]).toContain("other cannot be used in plan mode");
  });
});
