import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { tool } from "../../../src/index.ts";
import { ManualClock } from "../../../src/testing.ts";
import { agentWith, systemOf, userTexts } from "./support/agent.ts";
import { put, workspaceWith } from "./support/workspace.ts";

describe("context files", () => {
  it("follow the system prompt, the persona first", async () => {
    const workspace = workspaceWith({
      "AGENTS.md": "You are a gardener.",
      "MEMORY.md": "Ann likes roses.",
      "memory/2030-05-02.md": "Today it rains.",
      "memory/2030-05-01.md": "Yesterday it was dry.",
      "memory/2030-04-30.md": "Long ago.",
      "knowledge/KNOWLEDGE.md": "Roses need sun.",
    });
    const clock = new ManualClock(Date.parse("2030-05-02T08:00:00Z"));
    const { agent, model } = agentWith(["hello"], { workspace, clock, systemPrompt: "Be brief." });
    await agent.call("Hi.");
    const system = systemOf(model.calls[0]);
    const inOrder = (text: string, order: readonly string[]) => {
      const places = order.map((words) => text.indexOf(words));
      expect(places).toEqual(places.toSorted((a, b) => a - b));
      expect(Math.min(...places)).toBe(0);
    };
    inOrder(system, ["Be brief.", "gardener", "sun"]);
    expect(system).toContain('<workspace-file path="AGENTS.md">\nYou are a gardener.\n');
    // The memory changes, so it comes after the messages.
    const texts = userTexts(model.calls[0]);
    inOrder(texts.join("\n"), ["Hi.", "roses", "rains", "dry"]);
    expect(system).not.toContain("roses");
    expect(texts.join("\n")).not.toContain("Long ago");
  });

  it("do not change the prompt when they are missing", async () => {
    const { agent, model } = agentWith(["hello"], {
      workspace: workspaceWith(),
      systemPrompt: "Be brief.",
    });
    await agent.call("Hi.");
    expect(systemOf(model.calls[0])).toBe("Be brief.");
  });

  it("are read again after a change, even within one run", async () => {
    const workspace = workspaceWith({ "AGENTS.md": "You are a cook." });
    const change = tool({
      name: "change",
      description: "The operator edits the file.",
      execute: () => put(workspace, "AGENTS.md", "You are a poet."),
    });
    const { agent, model } = agentWith([{ call: "change" }, "hello"], {
      workspace,
      tools: [change],
    });
    await agent.call("Hi.");
    expect(model.calls.map((request) => /You are a \w+/.exec(systemOf(request))?.[0])).toEqual([
      "You are a cook",
      "You are a poet",
    ]);
  });

  it("are cut with a notice at the token limit, and omitted files are named", async () => {
    const workspace = workspaceWith({
      "AGENTS.md": "You are a gardener.",
      "MEMORY.md": "A line of memory.\n".repeat(500),
      "knowledge/KNOWLEDGE.md": "Roses need sun.\n".repeat(100),
    });
    const { agent, model } = agentWith(["hello"], {
      ...{ workspace, maxContextTokens: 400 },
      contextFiles: ["AGENTS.md", "MEMORY.md", "knowledge/KNOWLEDGE.md"],
    });
    await agent.call("Hi.");
    const system = systemOf(model.calls[0]);
    expect(system).toContain("You are a gardener.\n</workspace-file>");
    const [, missing, length] =
      /\[MEMORY\.md is cut here: (\d+) of its (\d+) characters are missing/.exec(system) ?? [];
    const shown = system.split("A line of memory.").length - 1;
    expect(shown).toBeGreaterThan(10);
    expect(Number(length)).toBe(500 * 18 - 1);
    expect(Number(missing)).toBe(Number(length) - (shown * 18 - 1));
    expect(system).toMatch(/\[knowledge\/KNOWLEDGE\.md is omitted: .* its 1599 characters/);
    expect(system.length / 4).toBeLessThan(400 + 50); // the last notice stands beyond the budget
  });

  it("are named when they cannot be read", async () => {
    const workspace = workspaceWith({
      "AGENTS.md/inside": "it is a directory",
      "knowledge/KNOWLEDGE.md": new Uint8Array([1, 0, 2]),
    });
    symlinkSync("/etc/hostname", join(workspace, "MEMORY.md"));
    const { agent, model } = agentWith(["hello"], { workspace });
    const { text } = await agent.call("Hi.");
    expect(text).toBe("hello");
    const system = systemOf(model.calls[0]);
    for (const path of ["AGENTS.md", "knowledge/KNOWLEDGE.md"]) {
      expect(system).toContain(`[${path} cannot be shown: `);
    }
    expect(userTexts(model.calls[0]).join("\n")).toContain("[MEMORY.md cannot be shown: ");
  });

  it("can be replaced by other paths", async () => {
    const workspace = workspaceWith({ "AGENTS.md": "persona", "rules/house.md": "No shoes." });
    const { agent, model } = agentWith(["hello"], { workspace, contextFiles: ["rules/house.md"] });
    await agent.call("Hi.");
    expect(systemOf(model.calls[0])).toContain("No shoes.");
    expect(systemOf(model.calls[0])).not.toContain("persona");
  });

  it("are in the prompt of the final summary as well", async () => {
    const workspace = workspaceWith({ "AGENTS.md": "You are a cook." });
    const noop = tool({ name: "noop", description: "Nothing.", execute: () => "ok" });
    const { agent, model } = agentWith([{ call: "noop" }, "summed up"], {
      workspace,
      tools: [noop],
      maxIters: 1,
    });
    await agent.call("Hi.");
    expect(systemOf(model.calls[1])).toContain("You are a cook.");
  });

  it("are the common ones until a user has written their own", async () => {
    const workspace = workspaceWith({
      "AGENTS.md": "You are a cook.",
      "MEMORY.md": "Guests like salt.",
    });
    const write = (content: string) => ({
      call: "write_file",
      input: { path: "MEMORY.md", content },
    });
    const { agent, model } = agentWith([write("Ann likes tea."), "ok", "ok", "ok"], { workspace });
    await agent.call("Remember: tea.", { userId: "ann" });
    await agent.call("Hi.", { userId: "bob" });
    await agent.call("Hi.", { userId: "ann" });
    expect(systemOf(model.calls[2])).toContain("You are a cook.");
    const [, , bob, ann] = model.calls.map((request) => userTexts(request).join("\n"));
    expect(bob).toContain("Guests like salt.");
    expect(bob).not.toContain("tea");
    expect(ann).toContain("Ann likes tea.");
    expect(ann).not.toContain("salt");
  });
});
