import { describe, expect, it } from "vitest";
import { type Block, userMessage } from "../../src/contract/message.ts";
import {
  agentTool,
  assistantMessage,
  type Input,
  type Message,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  tool,
} from "../../src/index.ts";
import { type Script, scriptedModel } from "../../src/testing.ts";
import { inShort, whatIsLeft } from "./support/run-script.ts";

const session = { sessionId: "s" };
const user = (...content: unknown[]) => ({ role: "user", content }) as unknown as Message;
const text = { type: "text", text: "Hello." } as const;
const use = { type: "tool_use", id: "c0", name: "rm", input: {} } as const;
const result = (id: string, more = {}) =>
  ({ type: "tool_result", id, name: "rm", output: [text], state: "success", ...more }) as const;
const rm = () => {
  const ran: unknown[] = [];
  const made = tool({
    name: "rm",
    description: "Removes.",
    needsApproval: true,
    execute: (input) => void ran.push(input),
  });
  return { ran, rm: made };
};

function agentOf(script: Script, more: Partial<ReActAgentOptions> = {}) {
  const store = memoryStore();
  const model = scriptedModel(script);
  return { store, model, agent: new ReActAgent({ name: "lead", model, store, ...more }) };
}

describe("forbidden input", () => {
  const always = {
    type: "answer",
    approvalId: "x",
    callId: "c0",
    decision: "approve",
    always: true,
  };
  const stop = { type: "suspension", callId: "", kind: "stop", approvalId: "x" };
  const compaction = { type: "compaction", summary: "Nothing.", keepFrom: 0 };

  it.each([
    ["a call of its own", user(use, text), "input.content[0]"],
    ["an answer beside it", [user(text), user(text, always)], "input[1].content[1]"],
    ["an answer in a list", user(text, always), "input.content[1]"],
    ["a stop", user(stop, text), "input.content[0]"],
    ["a compaction", user(compaction), "input.content[0]"],
    ["a call without a result", { ...assistantMessage([use], "lead") }, "input.content[0]"],
    ["a text without text", user({ type: "text" }), "input.content[0].text"],
    ["no block", user(null), "input.content[0]"],
    ["a block of no kind", user({ type: "texts", text: "x" }), "input.content[0]"],
    ["an image of nothing", user({ type: "image", source: {} }), "input.content[0].source"],
    ["a result in a circle", user(result("c", { output: [result("d")] })), ".output[0]"],
    ["a result of no state", user(result("c", { state: "fine" })), "input.content[0].state"],
    ["text of a tool", { role: "tool", content: [text] }, "input.content[0]"],
    ["another role", { role: "owner", content: [text] }, "input.role"],
    ["a bigint", { ...user(text), metadata: { n: 1n } }, "`input` must be plain JSON"],
  ])("%s is refused, and nothing has changed", async (_, input, place) => {
    const { ran, rm: tool } = rm();
    const { agent, store, model } = agentOf(["Hi."], { tools: [tool] });
    await expect(agent.call(input as Input, session)).rejects.toMatchObject({
      name: "RivuletError",
      code: "invalid_input",
      message: expect.stringContaining(place),
      hint: expect.any(String),
    });
    expect(await store.session("s")).toEqual([]);
    expect(await store.tasks({ sessionId: "s" })).toEqual([]);
    expect((await agent.call("Hello?", session)).text).toBe("Hi.");
    expect([ran.length, model.calls.length]).toEqual([0, 1]);
  });

  it("is rejected by steer(), and the run continues", async () => {
    const { ran, rm: tool } = rm();
    const { agent, store } = agentOf([[{ call: "rm" }], "Hi."], { tools: [tool] });
    const run = agent.run("Go.", session);
    const { approvals } = await run.result();
    for (const said of [user(text, always), user({ type: "text" }), user(result("c0"))]) {
      await expect(run.steer(said)).rejects.toMatchObject({ code: "invalid_input" });
    }
    const own = assistantMessage("Done.", "lead");
    await expect(run.steer(own)).rejects.toMatchObject({ code: "invalid_input" });
    expect(await store.posts({ sessionId: "s" })).toEqual([]);
    const reply = await agent.call(approvals.map((one) => one.deny()));
    expect([reply.text, ran.length]).toEqual(["Hi.", 0]);
  });

  it("is rejected in an answer", async () => {
    const { rm: tool } = rm();
    const { agent, store } = agentOf([[{ call: "rm" }], "Hi."], { tools: [tool] });
    const { approvals } = await agent.call("Go.", session);
    const answer = { ...approvals[0]?.answer("x"), output: [text, null, 5] };
    await expect(agent.call(answer as unknown as Input)).rejects.toMatchObject({
      code: "invalid_input",
      message: expect.stringContaining("input.output[1]"),
    });
    expect(await store.posts({ sessionId: "s" })).toEqual([]);
  });
});

describe("results of external calls", () => {
  const asks = () => {
    const outside = tool({ name: "outside", description: "Is elsewhere." });
    return agentOf([[{ call: "outside" }], "Thanks."], { tools: [outside] });
  };

  it("keep their state", async () => {
    const { agent, store } = asks();
    const { approvals } = await agent.call("Go.", session);
    const id = approvals[0]?.call.id ?? "";
    const broken = result(id, { state: "error", output: [{ type: "text", text: "It broke." }] });
    const reply = await agent.call({ id: "m", role: "tool", content: [broken] }, session);
    const { results, output } = await whatIsLeft(store, reply);
    expect(results.map(inShort)).toEqual(["error: It broke."]);
    expect(output.find(({ type }) => type === "tool_result")).toMatchObject({ status: "failed" });
  });

  it("are accepted with text beside them", async () => {
    const { agent, store, model } = asks();
    const { approvals } = await agent.call("Go.", session);
    const said = user(result(approvals[0]?.call.id ?? ""), { type: "text", text: "And hurry." });
    const reply = await agent.call(said, session);
    expect(reply.text).toBe("Thanks.");
    expect(JSON.stringify(model.calls[1]?.prompt)).toContain("And hurry.");
    await whatIsLeft(store, reply);
  });
});

describe("messages of an earlier conversation", () => {
  const earlier: readonly Message[] = [
    userMessage("Remove it."),
    { ...assistantMessage([use], "lead"), metadata: { taskId: "task_0", iteration: 99 } },
    { id: "r", role: "tool", name: "lead", content: [result("c0")] },
    assistantMessage("Removed.", "lead"),
  ];

  it("reach the model but do not belong to the task", async () => {
    const { ran, rm: tool } = rm();
    const { agent, store, model } = agentOf(["As I said."], { tools: [tool], maxIters: 1 });
    const reply = await agent.call([...earlier, userMessage("Sure?")], session);
    expect([reply.text, reply.generateReason, ran.length]).toEqual(["As I said.", "model_stop", 0]);
    expect(model.calls[0]?.prompt.map(({ role }) => role)).toEqual([
      "user",
      "assistant",
      "tool",
      "assistant",
      "user",
    ]);
    const { messages, output } = await whatIsLeft(store, reply);
    expect(output).toHaveLength(1);
    expect(messages.every(({ metadata }, index) => index === 5 || metadata?.input)).toBe(true);
  });

  it("start a model call, also when the last message is the agent's own", async () => {
    const { agent, store, model } = agentOf(["And more."]);
    const reply = await agent.call(earlier, session);
    expect([reply.text, model.calls.length]).toEqual(["And more.", 1]);
    await whatIsLeft(store, reply);
  });

  it("are rejected while a task of the session is suspended", async () => {
    const { rm: tool } = rm();
    const { agent, store } = agentOf([[{ call: "rm" }], "Hi."], { tools: [tool] });
    await agent.call("Go.", session);
    const before = await store.session("s");
    const later = agent.call(earlier, { ...session, onSuspended: "deny" });
    await expect(later).rejects.toMatchObject({ code: "invalid_input" });
    expect(await store.session("s")).toEqual(before);
    expect(await agent.approvals(session)).toHaveLength(1);
  });
});

describe("prepareInput", () => {
  it.each([
    ["throws", () => Promise.reject(new TypeError("no file"))],
    ["gives what cannot be stored", () => [user({ type: "text" })]],
    ["gives an answer", () => [{ type: "answer" }] as unknown as Message[]],
  ])("that %s changes nothing, and says so", async (_, prepareInput) => {
    const { agent, store } = agentOf(["Hi."], { prepareInput });
    await expect(agent.call("Hello.", session)).rejects.toMatchObject({
      name: "RivuletError",
      code: "prepare_input_failed",
      cause: expect.any(Error),
    });
    expect(await store.session("s")).toEqual([]);
  });
});

describe("a late steer()", () => {
  it("comes before the input of the next call", async () => {
    const { agent, store, model } = agentOf(["One.", "Two."]);
    const run = agent.run("First.", session);
    await run.result();
    await run.steer("In French.");
    const reply = await agent.call("Second.", session);
    const said = model.calls[1]?.prompt.flatMap(({ role, content }) =>
      role === "user" ? content.map((part) => part.type === "text" && part.text) : [],
    );
    expect(said).toEqual(["First.", "In French.", "Second."]);
    expect(await store.posts({ sessionId: "s" })).toEqual([]);
    await whatIsLeft(store, reply);
  });
});

describe("an inbox row of another process", () => {
  const rows: readonly (readonly ["answer" | "hint" | "input" | "cancel", unknown])[] = [
    ["input", user({ type: "text" })],
    ["input", { role: "user" }],
    ["input", null],
    ["input", assistantMessage("Done.", "lead")],
    ["hint", user({ type: "answer", approvalId: "x", callId: "c0", decision: "approve" })],
    ["answer", user(text)],
    ["answer", { role: "user", content: 7 }],
    ["answer", user({ type: "answer", approvalId: 7, callId: "c", decision: "approve" })],
  ];

  it.each(rows)("of kind %s that is malformed is dropped: %j", async (kind, message) => {
    const { agent, store } = agentOf(["Hi.", "Ho."]);
    await store.post([{ id: "bad", kind, sessionId: "s", message: message as Message }]);
    const reply = await agent.call("Hello.", session);
    expect(reply.text).toBe("Hi.");
    const { events } = await whatIsLeft(store, reply);
    expect(events.filter(({ type }) => type === "task.custom")).toMatchObject([
      { name: "rivulet.ignored", value: { post: "bad", kind, problem: expect.any(String) } },
    ]);
    expect(await store.posts({ sessionId: "s" })).toEqual([]);
    expect((await agent.call("Again.", session)).text).toBe("Ho.");
  });

  it("cancels with a malformed reason", async () => {
    const { agent, store } = agentOf(["Hi."]);
    const message = { role: "user", content: 7 } as unknown as Message;
    await store.post([{ id: "bad", kind: "cancel", sessionId: "s", message }]);
    expect((await agent.call("Hello.", session)).generateReason).toBe("interrupted");
  });
});

describe("a suspended task", () => {
  const twoNames = () => {
    const store = memoryStore();
    const { ran, rm: tool } = rm();
    const named = (name: string, script: Script) =>
      new ReActAgent({ name, model: scriptedModel(script), store, tools: [tool] });
    return { store, ran, one: named("one", [[{ call: "rm" }], "done"]), other: named("other", []) };
  };

  it("resumes only with the agent that owns its open calls", async () => {
    const { store, one, other } = twoNames();
    const { approvals, task } = await one.call("Go.", session);
    const before = [await store.session("s"), await store.last(task.taskId)];
    const answers = approvals.map((approval) => approval.approve());
    for (const input of [answers, undefined, "And now?", [...answers, "And now?"]]) {
      await expect(other.call(input as Input, session)).rejects.toMatchObject({
        code: "other_agent",
        message: expect.stringContaining("agent one"),
      });
    }
    expect(await store.posts({ sessionId: "s" })).toEqual([]);
    expect([await store.session("s"), await store.last(task.taskId)]).toEqual(before);
    const reply = await one.call(answers);
    expect(reply.text).toBe("done");
    await whatIsLeft(store, reply);
  });

  it("fails as a child when its agent was renamed", async () => {
    const { rm: tool } = rm();
    const store = memoryStore();
    const lead = (helper: string) =>
      new ReActAgent({
        name: "lead",
        model: scriptedModel(({ callIndex, prompt }) =>
          callIndex === 0 && prompt.length === 1
            ? [{ call: "help", input: { prompt: "x" } }]
            : "ok",
        ),
        store,
        tools: [
          agentTool(
            new ReActAgent({
              name: helper,
              model: scriptedModel([[{ call: "rm" }], "removed"]),
              tools: [tool],
            }),
            { name: "help" },
          ),
        ],
      });
    const { approvals } = await lead("one").call("Go.", session);
    const reply = await lead("other").call(approvals.map((approval) => approval.approve()));
    expect(reply.text).toBe("ok");
    const { results } = await whatIsLeft(store, reply);
    expect(results.map(inShort)).toEqual([expect.stringContaining("not to other")]);
  });
});

describe("any failure", () => {
  it("reaches the caller as an error with a code and its cause", async () => {
    const broken = memoryStore();
    const failure = new TypeError("The disk is gone.");
    broken.commit = () => Promise.reject(failure);
    const agent = new ReActAgent({ name: "lead", model: scriptedModel(["Hi."]), store: broken });
    await expect(agent.call("Hello.")).rejects.toMatchObject({
      name: "RivuletError",
      code: "store_failed",
      cause: failure,
    });
    const silent = memoryStore();
    silent.posts = () => Promise.reject(failure);
    const other = new ReActAgent({ name: "lead", model: scriptedModel(["Hi."]), store: silent });
    await expect(other.call("Hello.")).rejects.toMatchObject({ code: "internal", cause: failure });
    const options = { context: null } as unknown as object;
    await expect(agentOf(["Hi."]).agent.call("Hello.", options)).rejects.toMatchObject({
      code: "invalid_settings",
    });
  });
});

it("stores allowed blocks of every kind unchanged", async () => {
  const source = { data: "AAAA", mimeType: "image/png" };
  const blocks: readonly Block[] = [
    text,
    { type: "hint", text: "It rains." },
    { type: "image", source },
    { type: "file", source: { url: "https://example.com/a.pdf" } },
  ];
  const { agent, store } = agentOf(["Hi."]);
  await agent.call([{ id: "m0", role: "system", content: [text] }, userMessage(blocks)], session);
  expect((await store.session("s")).slice(0, 2).map(({ content }) => content)).toEqual([
    [text],
    blocks,
  ]);
});
