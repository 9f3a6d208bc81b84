import { describe, expect, it } from "vitest";
import { expectLawful } from "../../agent/support/laws.ts";
import { workspaceWith } from "../agent/support/workspace.ts";
import { isSummary, pageText, summaryWith } from "./pages.ts";
import { blocksOf, compactions, reader, turnsOf } from "./support.ts";

const sessionId = "book";
const size = (request: { prompt: unknown }) => JSON.stringify(request.prompt).length / 4;

describe("a session that outgrows the model's window", () => {
  it("prunes old results first, then summarises, and stays within its budget", async () => {
    const { agent, model, store } = reader(60, () => summaryWith("Page 5 says page 5."));
    const { text, task } = await agent.call("Read everything.", { sessionId });
    expect(text).toBe("All pages are read.");
    const events = await compactions(store, task.taskId);
    expect(events.some(({ summarized }) => summarized === false)).toBe(true);
    expect(events.some(({ summarized }) => summarized === true)).toBe(true);
    for (const { from_tokens, to_tokens } of events as { from_tokens: number; to_tokens: number }[])
      expect(to_tokens).toBeLessThan(from_tokens);
    for (const request of turnsOf(model)) expect(size(request)).toBeLessThan(10_000);
    await expectLawful(store, task.taskId);
    // Everything is still there.
    const messages = await store.session(sessionId);
    expect(JSON.stringify(messages)).toContain(pageText(1));
    expect(messages.filter(({ role }) => role === "assistant")).toHaveLength(61);
  });

  it("gives the model the summary, the last request and whole pairs", async () => {
    const { agent, model } = reader(60, () => summaryWith("The code word is heron."));
    await agent.call("Read everything, please.", { sessionId });
    const last = turnsOf(model).at(-1);
    const [summary] = last?.prompt.filter(({ role }) => role === "user") ?? [];
    const text = JSON.stringify(summary);
    expect(text).toContain("The code word is heron.");
    expect(JSON.stringify(last?.prompt)).toContain("Read everything, please.");
    for (const { prompt } of turnsOf(model)) {
      const parts = prompt.flatMap(({ role, content }) =>
        role === "system" ? [] : (content as { type: string; toolCallId: string }[]),
      );
      const calls = parts
        .filter(({ type }) => type === "tool-call")
        .map(({ toolCallId }) => toolCallId);
      const results = parts
        .filter(({ type }) => type === "tool-result")
        .map(({ toolCallId }) => toolCallId);
      expect(results).toEqual(calls);
    }
  });

  it("keeps pruned results readable by path", async () => {
    const { agent, model, store } = reader(30, () => summaryWith("None."));
    const { task } = await agent.call("Read.", { sessionId });
    const pruned = blocksOf(await store.session(sessionId)).flatMap(({ pruned = {} }) =>
      Object.values(pruned),
    );
    const [, path = ""] = /saved as (\S+):/.exec(pruned[0] ?? "") ?? [];
    expect(path).toMatch(/^tool-results\//);
    await agent.call([{ role: "user", content: "Check." }], { sessionId });
    expect(model.calls.length).toBeGreaterThan(30);
    expect(task.sessionId).toBe(sessionId);
  });
});

it("also compacts by the number of messages, if that is set", async () => {
  const { agent, model, store } = reader(60, () => summaryWith("None."), {
    compaction: { triggerMessages: 20 },
  });
  const { task } = await agent.call("Read everything.", { sessionId });
  const events = await compactions(store, task.taskId);
  expect(events.length).toBeGreaterThan(4);
  expect(events.every(({ summarized }) => summarized === true)).toBe(true);
  for (const { prompt } of turnsOf(model)) expect(prompt.length).toBeLessThan(30);
});

describe("a summary that cannot be used", () => {
  it.each([
    ["fails", () => ({ error: new Error("no summary today") })],
    ["is empty", () => ""],
    ["is nonsense", () => "Sure! How can I help you?"],
    ["is longer than the conversation", () => summaryWith("blah ".repeat(20_000))],
  ])("leaves the history as it is when it %s", async (_, summarise) => {
    const { agent, store } = reader(40, summarise as never, {
      modelExecution: { maxAttempts: 1 },
      compaction: { window: 10_000, triggerTokens: 6_000, timeoutMs: 200 },
    });
    const { text, task } = await agent.call("Read everything.", { sessionId });
    expect(text).toBe("All pages are read.");
    expect(blocksOf(await store.session(sessionId)).every(({ summary }) => summary === "")).toBe(
      true,
    );
    const problems = (await compactions(store, task.taskId)).flatMap(
      ({ problem }) => problem ?? [],
    );
    expect(problems.length).toBeGreaterThan(0);
    await expectLawful(store, task.taskId);
  });

  it("does not hold up the reply when it hangs", async () => {
    const { agent, store, model } = reader(40, () => ({ hang: true }) as never, {
      compaction: { window: 10_000, triggerTokens: 6_000, timeoutMs: 50 },
    });
    const { task } = await agent.call("Read everything.", { sessionId });
    const problems = (await compactions(store, task.taskId)).flatMap(
      ({ problem }) => problem ?? [],
    );
    expect(problems[0]).toMatch(/took more than 0.05 seconds/);
    expect(model.calls.filter(isSummary).length).toBeLessThanOrEqual(6);
  });
});

describe("agent.compact()", () => {
  it("compacts an idle session and says from how many tokens to how many", async () => {
    const { agent, store } = reader(4, () => summaryWith("Done."));
    await agent.call("Read.", { sessionId });
    const { before = 0, after = 0 } = (await agent.compact(sessionId)) ?? {};
    expect(after).toBeLessThan(before);
    expect(blocksOf(await store.session(sessionId))).toHaveLength(1);
    const { text } = await agent.call("Again.", { sessionId });
    expect(text).toBe("All pages are read.");
  });

  it("rejects a session of another user", async () => {
    const { agent } = reader(1, () => summaryWith("Done."));
    await agent.call("Read.", { sessionId, userId: "ann" });
    await expect(agent.compact(sessionId, { userId: "bob" })).rejects.toMatchObject({
      code: "not_found",
    });
    await expect(agent.compact("unknown")).rejects.toMatchObject({ code: "not_found" });
  });
});

describe("what a compaction carries over", () => {
  it("names the skills in use, and keeps instructions of the session", async () => {
    const { agent, model } = reader(1, () => summaryWith("None."), {
      workspace: workspaceWith({
        "skills/baking/SKILL.md": "---\nname: baking\ndescription: Bakes.\n---\nUse butter.\n",
      }),
      hooks: [
        {
          name: "loader",
          postReasoning: (_, message) => ({
            ...message,
            content: message.content.map((block) =>
              block.type === "tool_use"
                ? { ...block, name: "load_skill", input: { name: "baking" } }
                : block,
            ),
          }),
        },
      ],
    });
    const system = { role: "system", content: "Answer in verse." } as const;
    await agent.call([system, { role: "user", content: "Bake." }], { sessionId });
    await agent.call("More.", { sessionId });
    await agent.compact(sessionId);
    await agent.compact(sessionId);
    await agent.call("Again.", { sessionId });
    const text = JSON.stringify(turnsOf(model).at(-2)?.prompt);
    expect(text.split("no longer in view: baking").length).toBe(2); // once
    expect(text).toContain("Answer in verse.");
  });
});
