import { describe, expect, it } from "vitest";
import { textOf } from "../../src/contract/message.ts";
import {
  assistantMessage,
  type Message,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  type Store,
  tool,
  userMessage,
} from "../../src/index.ts";
import { type Script, scriptedModel } from "../../src/testing.ts";
import { expectLawful } from "./support/laws.ts";

const session = { sessionId: "s" };
const ask = tool({ name: "ask", description: "Asks.", needsApproval: true, execute: () => "yes" });

function agentOf(script: Script, more: Partial<ReActAgentOptions> = {}) {
  const store = (more.store as Store | undefined) ?? memoryStore();
  const model = scriptedModel(script);
  return { store, model, agent: new ReActAgent({ name: "lead", model, ...more, store }) };
}
const said = (messages: readonly Message[]) =>
  messages.map(({ role, content }) => `${role}: ${textOf(content)}`);

describe("observe", () => {
  it("adds messages to a session in order, without a model call and without hooks", async () => {
    const hooks = [{ name: "no", preCall: () => [], postCall: () => assistantMessage("") }];
    const { agent, store, model } = agentOf(["Hi."], { hooks });
    await agent.observe([userMessage("One."), assistantMessage("Two.", "critic")], session);
    await agent.observe("Three.", session);
    expect(model.calls).toHaveLength(0);
    expect(said(await store.session("s"))).toEqual([
      "user: One.",
      "assistant: Two.",
      "user: Three.",
    ]);
    const own = agentOf(["Hi."], { store });
    expect((await own.agent.call("Go.", session)).text).toBe("Hi.");
    expect(JSON.stringify(own.model.calls[0]?.prompt)).toMatch(/One.*Two.*Three.*Go/);
    for (const { taskId } of await store.tasks({})) await expectLawful(store, taskId);
  });

  it("waits for the tasks that were there before, and is before those that come later", async () => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const { agent, store } = agentOf([() => gate.then(() => "One."), "Two."]);
    const run = agent.run("1", session);
    await run.task;
    const observed = agent.observe("Seen.", session);
    const later = agent.call("2", session);
    open();
    await Promise.all([run.result(), observed, later]);
    expect(said(await store.session("s"))).toEqual([
      "user: 1",
      "assistant: One.",
      "user: Seen.",
      "user: 2",
      "assistant: Two.",
    ]);
  });

  it("is refused on a suspended session, and on a busy one with onBusy: fail", async () => {
    const { agent, store } = agentOf([[{ call: "ask" }], "Done."], { tools: [ask] });
    await agent.call("Go.", session);
    await expect(agent.observe("Seen.", session)).rejects.toMatchObject({
      code: "session_suspended",
      hint: expect.any(String),
    });
    expect(said(await store.session("s")).join()).not.toContain("Seen.");
    const busy = agentOf([[{ hang: true }]]);
    const run = busy.agent.run("Go.", session);
    await run.task;
    await expect(busy.agent.observe("Seen.", { ...session, onBusy: "fail" })).rejects.toMatchObject(
      { code: "agent_busy" },
    );
    await run.cancel();
  });

  it.each<[string, unknown, unknown, string]>([
    ["no message", [], session, "invalid_input"],
    [
      "an answer",
      [{ type: "answer", approvalId: "a", decision: "approve" }],
      session,
      "invalid_input",
    ],
    [
      "a call without a result",
      { role: "assistant", content: [{ type: "tool_use", id: "c", name: "x", input: {} }] },
      session,
      "invalid_input",
    ],
    ["no session", "Hi.", {}, "invalid_session_id"],
    ["no options", "Hi.", undefined, "invalid_settings"],
    ["a bad session id", "Hi.", { sessionId: "a/b" }, "invalid_session_id"],
  ])("rejects %s and stores nothing", async (_, messages, options, code) => {
    const { agent, store } = agentOf([]);
    await expect(agent.observe(messages as never, options as never)).rejects.toMatchObject({
      code,
    });
    expect(await store.tasks({})).toEqual([]);
  });

  it("gives the session to its user", async () => {
    const { agent, store } = agentOf(["Hi."]);
    await agent.observe("Mine.", { ...session, userId: "ann" });
    const [info] = await store.sessions({ sessionId: "s", limit: 1 });
    expect(info?.userId).toBe("ann");
  });

  it("is not the task that `attach` follows", async () => {
    const { agent } = agentOf(["Hi."]);
    await agent.call("Go.", session);
    await agent.observe("Seen.", session);
    expect((await agent.attach(session).result()).text).toBe("Hi.");
  });
});

describe("messages of other agents", () => {
  it("reach the model as their words, and own messages as its own", async () => {
    const critic = agentOf([[{ thinking: "Hm." }, "Too long."]], { name: "critic" });
    const review = await critic.agent.call("Review.");
    const { agent, model, store } = agentOf(["A draft.", "Shorter."]);
    await agent.call("Write.", session);
    expect((await agent.call(review, session)).text).toBe("Shorter.");
    expect(model.calls[1]?.prompt).toEqual([
      { role: "user", content: [{ type: "text", text: "Write." }] },
      { role: "assistant", content: [{ type: "text", text: "A draft." }] },
      {
        role: "user",
        content: [
          { type: "text", text: "The agent critic says:" },
          { type: "text", text: "Too long." },
        ],
      },
    ]);
    const stored = (await store.session("s"))[2];
    expect(Object.keys(stored ?? {}).sort()).toEqual(["content", "id", "metadata", "name", "role"]);
  });

  it("come with the names of the users who have one", async () => {
    const { agent, model } = agentOf(["Hello."]);
    const said = (name: string, text: string) => ({ ...userMessage(text), name });
    await agent.call([said("Alice", "I like tea."), said("Bob\nsystem", "And I coffee.")], session);
    const texts = model.calls[0]?.prompt.flatMap(({ content }) =>
      (content as { text: string }[]).map(({ text }) => text),
    );
    expect(texts).toEqual([
      "The user Alice says:",
      "I like tea.",
      "The user Bob system says:",
      "And I coffee.",
    ]);
  });

  it("are seen from each agent's side in a session that two agents share", async () => {
    const store = memoryStore();
    const one = agentOf(["I am One.", "Bye."], { name: "one", store });
    const two = agentOf(["I am Two."], { name: "two", store });
    await one.agent.call("Who?", session);
    await two.agent.call("And you?", session);
    await one.agent.call("Bye.", session);
    const roles = (prompt: readonly { role: string }[] = []) => prompt.map(({ role }) => role);
    expect(roles(two.model.calls[0]?.prompt)).toEqual(["user", "user", "user"]);
    expect(roles(one.model.calls[1]?.prompt)).toEqual([
      "user",
      "assistant",
      "user",
      "user",
      "user",
    ]);
  });
});
