import { describe, expect, it } from "vitest";
import { declarationLoader } from "../../../src/harness/subagents/load.ts";
import {
  HarnessAgent,
  memoryStore,
  ReActAgent,
  storeFilesystem,
  tool,
} from "../../../src/index.ts";
import { scriptedModel } from "../../../src/testing.ts";
import { workspaceWith } from "../agent/support/workspace.ts";
import { isSummary, readPage, summaryWith } from "./pages.ts";
import { blocksOf, compactions, reader } from "./support.ts";

const sessionId = "book";

describe("agent.compact() on a session that is not idle", () => {
  it("waits for the running task", async () => {
    const gate = Promise.withResolvers<string>();
    const started = Promise.withResolvers<void>();
    const wait = tool({
      name: "wait",
      description: "Waits.",
      execute() {
        started.resolve();
        return gate.promise;
      },
    });
    let turn = 0;
    const { agent, store } = reader(0, () => summaryWith("None."), {
      tools: [wait],
      model: scriptedModel((request) => {
        if (isSummary(request)) return summaryWith("None.");
        return turn++ === 1 ? { call: "wait" } : `Answer ${turn}. ${"word ".repeat(500)}`;
      }),
    });
    await agent.call("Talk.", { sessionId });
    const running = agent.call("Wait.", { sessionId });
    await started.promise;
    const compacting = agent.compact(sessionId);
    gate.resolve("done");
    expect((await running).text).toContain("Answer 3.");
    expect(await compacting).toMatchObject({ before: expect.any(Number) });
    const messages = await store.session(sessionId);
    expect(messages.findLastIndex(({ role }) => role === "assistant")).toBeLessThan(
      messages.findLastIndex(
        ({ content }) => blocksOf([{ id: "", role: "tool", content }]).length > 0,
      ),
    );
  });

  it("rejects while the session waits for an answer", async () => {
    const ask = tool({
      name: "ask",
      description: "Asks.",
      needsApproval: true,
      execute: () => "ok",
    });
    const { agent } = reader(0, () => summaryWith("None."), {
      tools: [ask],
      model: scriptedModel([{ call: "ask" }]),
    });
    await agent.call("Go.", { sessionId });
    await expect(agent.compact(sessionId)).rejects.toMatchObject({ code: "session_suspended" });
  });
});

describe("a declared subagent", () => {
  it("follows its own declaration, whatever its parent does", async () => {
    const store = memoryStore();
    let page = 0;
    const model = scriptedModel((request) => {
      const text = JSON.stringify(request.prompt);
      if (isSummary(request)) return summaryWith("None.");
      if (!text.includes("Subagent Context")) {
        const input = { agent_id: "reader", task: "Read.", timeout_seconds: 600 };
        return text.includes("All read.") ? "Thanks." : { call: "agent_spawn", input };
      }
      return page++ < 30 ? { call: "read_page", input: { page } } : "All read.";
    });
    const agent = new HarnessAgent({
      ...{ name: "lead", model, store, workspace: workspaceWith(), tools: [readPage] },
      compaction: false,
      subagents: [
        {
          ...{ name: "reader", description: "Reads.", maxIters: 40 },
          compaction: { window: 10_000, triggerTokens: 4_000 },
        },
      ],
    });
    const { text, task } = await agent.call("Go.", { sessionId });
    expect(text).toBe("Thanks.");
    const [child] = await store.tasks({ parentSessionId: sessionId });
    expect(blocksOf(await store.session(child?.sessionId ?? "")).length).toBeGreaterThan(0);
    expect(blocksOf(await store.session(sessionId))).toEqual([]);
    expect((await compactions(store, task.taskId)).length).toBeGreaterThan(0);
  });

  it("rejects a misspelled option of its compaction", () => {
    const subagents = [{ name: "a", description: "A.", compaction: { windw: 1 } }];
    const options = { name: "lead", model: scriptedModel([]), store: memoryStore(), subagents };
    expect(() => new HarnessAgent(options as never)).toThrow("windw");
  });
});

describe("a hook with preTurn", () => {
  it("replaces the compaction of the harness, and works in a ReActAgent", async () => {
    const store = memoryStore();
    const model = scriptedModel(["One.", "Two.", "Three."]);
    const agent = new ReActAgent({
      ...{ name: "clerk", model, store },
      hooks: [
        {
          name: "short",
          preTurn: ({ messages }, { offset }) =>
            messages.length < 4
              ? undefined
              : {
                  compaction: { summary: "They talked.", keepFrom: offset + messages.length - 1 },
                  hints: [{ type: "hint", text: "It is late." }],
                  events: { shortened: true },
                },
        },
      ],
    });
    for (const text of ["a", "b", "c"]) await agent.call(text, { sessionId });
    const texts = model.calls[2]?.prompt.flatMap(({ content }) =>
      typeof content === "string"
        ? content
        : content.map((part) => ("text" in part ? part.text : "")),
    );
    expect(texts).toEqual(["They talked.", "c", "It is late."]);
    expect(await store.session(sessionId)).toHaveLength(8);
  });
});

describe("a subagent file", () => {
  it("can switch compaction off or set its window", async () => {
    const files = storeFilesystem(memoryStore(), { readOnly: [] });
    const body = (compaction: string) =>
      `---\ndescription: Reads.\ncompaction: ${compaction}\n---\n`;
    await files.write("subagents/on.md", body("{ window: 50000 }"));
    await files.write("subagents/off.md", body("false"));
    await files.write("subagents/wrong.md", body("{ widow: 1 }"));
    const { declarations, problems } = await declarationLoader(files, "subagents")();
    expect(declarations.map(({ name, compaction }) => ({ name, compaction }))).toEqual([
      { name: "off", compaction: false },
      { name: "on", compaction: { window: 50_000 } },
    ]);
    expect(problems).toMatchObject([{ path: "subagents/wrong.md" }]);
  });
});
