import { describe, expect, it } from "vitest";
import { HarnessAgent, memoryStore } from "../../../src/index.ts";
import type { TaskEvent } from "../../../src/protocol/event.ts";
import { scriptedModel } from "../../../src/testing.ts";
import { readLog } from "../../agent/support/laws.ts";
import { isSummary, pageText, readPage, summaryWith } from "../compaction/pages.ts";
import { agentWith, toolTexts } from "./support/agent.ts";
import { workspaceWith } from "./support/workspace.ts";

const todos = [
  { content: "Read the pages", status: "in_progress" },
  { content: "Write the report", status: "pending" },
];
const isTodos = (event: TaskEvent) =>
  event.type === "task.custom" && event.name === "rivulet.todos";

describe("the todo list", () => {
  it("is shown to readers of the stream", async () => {
    const store = memoryStore();
    const script = [{ call: "todo_write", input: { todos } }, "Started."];
    const { agent, model } = agentWith(script, { store, workspace: workspaceWith(), todos: true });
    const { task } = await agent.call("Go.");
    const events = (await readLog(store, task.taskId)).filter(isTodos);
    expect(events).toMatchObject([{ value: todos }]);
    expect(toolTexts(model.calls[1])).toEqual(["The list has 2 steps. Now: Read the pages"]);
  });

  it("refuses two steps in progress", async () => {
    const both = todos.map((todo) => ({ ...todo, status: "in_progress" }));
    const script = [{ call: "todo_write", input: { todos: both } }, "Oh."];
    const { agent, model } = agentWith(script, { workspace: workspaceWith(), todos: true });
    await agent.call("Go.");
    expect(toolTexts(model.calls[1])[0]).toContain("Only one step can be in_progress, and 2 are.");
  });

  it("is off by default", async () => {
    const { agent, model } = agentWith(["Hi."], { workspace: workspaceWith() });
    await agent.call("Go.");
    expect(model.calls[0]?.tools?.map(({ name }) => name)).not.toContain("todo_write");
  });

  it("survives compactions, in later tasks as well", async () => {
    const store = memoryStore();
    let page = 0;
    const model = scriptedModel((request) => {
      if (isSummary(request)) return summaryWith("None.");
      if (page++ === 0) return { call: "todo_write", input: { todos } };
      return page % 30 === 0 ? "A part is read." : { call: "read_page", input: { page } };
    });
    const agent = new HarnessAgent({
      ...{ name: "reader", model, store, tools: [readPage], workspace: workspaceWith() },
      ...{ subagents: false, maxIters: 40, todos: true },
      compaction: { window: 10_000, triggerTokens: 4_000 },
    });
    const sessionId = "todos";
    for (const text of ["Start.", "Continue.", "And on."]) {
      await agent.call(text, { sessionId });
      await agent.compact(sessionId);
    }
    await agent.call("Finish.", { sessionId });
    const last = JSON.stringify(model.calls.filter((call) => !isSummary(call)).at(-1)?.prompt);
    expect(last).toContain("- [>] Read the pages\\n- [ ] Write the report");
    expect(last).not.toContain(pageText(2));
  });
});
