// `preCall` and `postCall`, the hooks of one call, and what chunk hooks see.
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { textOf } from "../../src/contract/message.ts";
import {
  agentTool,
  assistantMessage,
  type Hook,
  type Message,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  type Store,
  Toolkit,
  tool,
  userMessage,
} from "../../src/index.ts";
import { ManualClock, type Script, scriptedModel } from "../../src/testing.ts";
import { collect } from "./support/collect.ts";
import { expiringStore, losingStore } from "./support/losing-store.ts";
import { runScript, whatIsLeft } from "./support/run-script.ts";

const session = { sessionId: "s" };
const ask = tool({ name: "ask", description: "Asks.", needsApproval: true, execute: () => "yes" });
const unavailable = Object.assign(new Error("busy"), { statusCode: 503, isRetryable: true });

function agentOf(script: Script, more: Partial<ReActAgentOptions> = {}) {
  const store = (more.store as Store | undefined) ?? memoryStore();
  const model = scriptedModel(script);
  return { store, model, agent: new ReActAgent({ name: "lead", model, ...more, store }) };
}
const said = (messages: readonly Message[]) =>
  messages.map(({ role, content }) => `${role}: ${textOf(content)}`);

describe("preCall", () => {
  const expand: Hook = {
    name: "expand",
    preCall: (_, input) =>
      input.map((message) => userMessage(`${textOf(message.content)} Please.`)),
  };

  it("returns other input, which alone is stored and sent", async () => {
    const seen: string[] = [];
    const after: Hook = {
      name: "after",
      preCall: ({ messages }, input) => void seen.push(...said(input), ...said(messages)),
    };
    const { messages, model, events } = await runScript(["Done."], { hooks: [expand, after] });
    expect(said(messages)).toEqual(["user: Go. Please.", "assistant: Done."]);
    expect(messages[0]?.metadata).toMatchObject({ input: true, taskId: expect.any(String) });
    expect(seen).toEqual(["user: Go. Please.", "user: Go. Please."]);
    expect(JSON.stringify(model.calls[0]?.prompt)).toContain("Go. Please.");
    expect(JSON.stringify(events)).not.toContain('"input"');
  });

  it.each([
    ["text", "Other."],
    ["no message", []],
    ["a message without content", [{ role: "user" }]],
    ["an answer", [{ type: "answer", approvalId: "a", taskId: "t", rootTaskId: "t" }]],
    ["a number", 7],
  ])("fails the call if it returns %s, and the input is kept", async (_, returned) => {
    const hook = { name: "wrong", preCall: () => returned as never };
    const { agent, store } = agentOf(["Done."], { hooks: [hook] });
    await expect(agent.call("Go.", session)).rejects.toMatchObject({
      code: "hook_failed",
      message: expect.stringContaining("Hook wrong failed in preCall: it"),
    });
    expect(said(await store.session("s"))).toEqual(["user: Go."]);
    const [record] = await store.tasks({});
    expect(record).toMatchObject({ status: "failed" });
    expect(record).not.toHaveProperty("input");
  });

  it("keeps the input when the call is cancelled meanwhile", async () => {
    const started = Promise.withResolvers<void>();
    const hook: Hook = {
      name: "slow",
      preCall: () => {
        started.resolve();
        return new Promise(() => {});
      },
    };
    const clock = new ManualClock();
    const { agent, store } = agentOf(["Done."], { hooks: [hook], clock });
    const run = agent.run("Go.", session);
    await started.promise;
    const cancelling = run.cancel();
    await clock.sleeping({ ms: 5_000 }); // the grace of a hook that does not stop
    await clock.advance(5_000);
    await cancelling;
    expect((await run.result()).generateReason).toBe("interrupted");
    expect(said(await store.session("s"))).toEqual(["user: Go."]);
  });

  it("sees the input again after a crash, and the input is stored once", async () => {
    const { store, expire } = expiringStore();
    const lost = agentOf(["Done."], { hooks: [expand], store: losingStore(store, 1, "before") });
    await expect(lost.agent.call("Go.", session)).rejects.toMatchObject({ code: "store_failed" });
    expect(await store.session("s")).toEqual([]);
    expire();
    const again = agentOf(["Done."], { hooks: [expand], store });
    const reply = await again.agent.call(undefined, session);
    expect(reply.text).toBe("Done.");
    expect(said(await again.store.session("s"))).toEqual(["user: Go. Please.", "assistant: Done."]);
  });

  it("gets no input when the call resumes a task, and must not return any", async () => {
    const inputs: number[] = [];
    const hook: Hook = { name: "count", preCall: (_, input) => void inputs.push(input.length) };
    const { agent } = agentOf([[{ call: "ask" }], "Done."], { hooks: [hook], tools: [ask] });
    const { approvals } = await agent.call("Go.", session);
    const answers = approvals.map((approval) => approval.approve());
    const late: Hook = { name: "late", preCall: () => [userMessage("More.")] };
    await expect(agent.call(answers, { ...session, hooks: [late] })).rejects.toMatchObject({
      code: "hook_failed",
      message: expect.stringContaining("resumes a task"),
    });
    expect(inputs).toEqual([1, 0]);
  });
});

describe("postCall", () => {
  const redact: Hook = {
    name: "redact",
    postCall: (_, reply) => ({ ...reply, text: reply.text.replace("1234", "****") }),
  };
  const sign: Hook = {
    name: "sign",
    postCall: (_, reply) => ({
      ...reply,
      content: [...reply.content, { type: "text", text: " Yours." }],
      metadata: { ...reply.metadata, signed: true },
    }),
  };

  it("returns another reply, which every door and every process returns", async () => {
    const { agent, store } = agentOf(["Code 1234."], { hooks: [redact, sign] });
    const reply = await agent.call("Go.", session);
    const expected = { text: "Code ****. Yours.", metadata: { signed: true } };
    expect(reply).toMatchObject(expected);
    expect(textOf(reply.content)).toBe(reply.text);
    expect(await agent.attach(session).result()).toMatchObject({ ...expected, id: reply.id });
    const other = agentOf([], { store: { ...store } }).agent;
    expect(await other.attach(session).result()).toMatchObject({ ...expected, id: reply.id });
    const streaming = agentOf(["Code 1234."], { hooks: [redact, sign] }).agent;
    const last = (await collect(streaming.stream("Go."))).at(-1);
    expect(last).toMatchObject({ type: "agent_result", ...{ text: expected.text } });
    const running = agentOf(["Code 1234."], { hooks: [redact, sign] }).agent.run("Go.");
    expect(await running.result()).toMatchObject(expected);
    // The transcript keeps what the model has said.
    expect(textOf((await store.session("s")).at(-1)?.content ?? [])).toBe("Code 1234.");
    await whatIsLeft(store, reply);
  });

  it("changes what the parent of a child reads and streams", async () => {
    const child = new ReActAgent({
      name: "child",
      model: scriptedModel(["Code 1234."]),
      hooks: [redact],
    });
    const script = [[{ call: "child", input: { prompt: "x" } }], "Done."];
    const { agent, model } = agentOf(script, { tools: [agentTool(child)] });
    const events = await collect(agent.stream("Go.", { chunks: false }));
    const texts = events.flatMap(({ type, text }) =>
      type === "agent_result" || type === "tool_result" ? [text] : [],
    );
    expect(texts).toEqual(["Code ****.", "Code ****.", "Done."]);
    expect(JSON.stringify(model.calls[1]?.prompt)).toContain("****");
    expect(JSON.stringify(model.calls[1]?.prompt)).not.toContain("1234");
  });

  it("changes a suspended reply, and the next one after the answer", async () => {
    const script = [["Code 1234.", { call: "ask" }], "Code 1234!"];
    const stop: Hook = {
      name: "stop",
      postReasoning: (_, { content }) => (content.length > 1 ? { stop: true } : undefined),
    };
    const { agent } = agentOf(script, { hooks: [redact, stop], tools: [ask] });
    const stopped = await agent.call("Go.", session);
    expect(stopped).toMatchObject({
      text: "Code ****.",
      generateReason: "reasoning_stop_requested",
    });
    expect((await agent.attach(session).result()).text).toBe("Code ****.");
    const first = await agent.call(undefined, session);
    expect(first).toMatchObject({ text: "", generateReason: "approval_required" });
    const answers = first.approvals.map((approval) => approval.approve());
    expect((await agent.call(answers, session)).text).toBe("Code ****!");
  });

  it.each<[string, (reply: Message) => unknown, string]>([
    ["text", () => "Other.", "a message"],
    ["an object without content", () => ({ text: "Other." }), "a message"],
    ["another reason", (reply) => ({ ...reply, generateReason: "failed" }), "`generateReason`"],
    ["other usage", (reply) => ({ ...reply, usage: { total_tokens: 0 } }), "`usage`"],
    [
      "a text that its content does not have",
      (reply) => ({ ...reply, content: [{ type: "text", text: "a" }], text: "b" }),
      "`text`",
    ],
  ])("fails the call if it returns %s", async (_, edit, named) => {
    const hook = { name: "wrong", postCall: (_: unknown, reply: Message) => edit(reply) as never };
    const { agent } = agentOf(["Done."], { hooks: [hook] });
    await expect(agent.call("Go.")).rejects.toMatchObject({
      code: "hook_failed",
      message: expect.stringContaining(named),
    });
  });

  it("may return a new message, which keeps the id of the reply", async () => {
    const hook: Hook = { name: "new", postCall: () => assistantMessage("Other.") };
    const { agent, store } = agentOf(["Done."], { hooks: [hook] });
    const reply = await agent.call("Go.", session);
    expect(reply).toMatchObject({ text: "Other.", name: "lead", generateReason: "model_stop" });
    expect(reply.id).toBe((await store.session("s")).at(-1)?.id);
  });

  it("cannot change a structured answer", async () => {
    const script = [[{ call: "generate_response", input: { n: 1 } }]];
    const { agent } = agentOf(script, { hooks: [sign] });
    const output = z.object({ n: z.number() });
    await expect(agent.call("Go.", { output })).rejects.toMatchObject({
      code: "hook_failed",
      message: expect.stringContaining("postReasoning"),
    });
  });

  it("fails the call if it changes the reply in place", async () => {
    const hook: Hook = {
      name: "sneaky",
      postCall: (_, reply) => void Object.assign(reply, { text: "Other." }),
    };
    await expect(agentOf(["Done."], { hooks: [hook] }).agent.call("Go.")).rejects.toMatchObject({
      code: "hook_failed",
    });
  });
});

describe("hooks of one call", () => {
  it("come after those of the agent, bring their tools, and end with the call", async () => {
    const seen: string[] = [];
    const note = (name: string, priority = 100): Hook => ({
      name,
      priority,
      preReasoning: () => void seen.push(name),
    });
    const extra = tool({ name: "extra", description: "Is extra.", execute: () => "extra" });
    const hooks = [note("own"), { name: "bringer", tools: [extra] }, note("first", 1)];
    const { agent, model } = agentOf([[{ call: "extra" }], "Done.", "Again."], {
      hooks: [note("agent")],
    });
    expect((await agent.call("Go.", { ...session, hooks })).text).toBe("Done.");
    expect(seen.slice(0, 3)).toEqual(["first", "agent", "own"]);
    seen.length = 0;
    await agent.call("More.", session);
    expect(seen).toEqual(["agent"]);
    expect(model.calls.map(({ tools }) => tools?.length ?? 0)).toEqual([1, 1, 0]);
  });

  it("are not those of a queued call of the same session", async () => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const seen: string[] = [];
    const hook = (name: string): Hook => ({ name, preReasoning: () => void seen.push(name) });
    const { agent } = agentOf([() => gate.then(() => "One."), "Two.", "Three."]);
    const one = agent.call("1", { ...session, hooks: [hook("one")] });
    const two = agent.call("2", { ...session, hooks: [hook("two")] });
    const three = agent.call("3", session);
    open();
    await Promise.all([one, two, three]);
    expect(seen.toSorted()).toEqual(["one", "two"]);
  });

  it.each([
    ["no array", { name: "a" }, "`hooks` must be an array"],
    ["no hook", [{ preCall() {} }], "requires a name"],
    ["an unknown point", [{ name: "a", preCal() {} }], "preCal"],
    [
      "a tool that the agent has",
      [{ name: "a", tools: [tool({ name: "ask", description: "x", execute: () => 1 })] }],
      "ask",
    ],
  ])("are refused before anything is stored: %s", async (_, hooks, message) => {
    const { agent, store } = agentOf(["Done."], { tools: [ask] });
    await expect(agent.call("Go.", { hooks: hooks as never })).rejects.toMatchObject({
      message: expect.stringContaining(message),
      hint: expect.any(String),
    });
    expect(await store.tasks({})).toEqual([]);
  });
});

describe("chunk hooks", () => {
  it("see thinking, text and retractions of the model", async () => {
    const seen: unknown[] = [];
    const hook: Hook = { name: "watch", reasoningChunk: (_, chunk) => void seen.push(chunk) };
    const script = [
      [{ thinking: "Hm." }, "Ha", { error: unavailable }],
      [{ thinking: "So." }, { text: ["Who", "le."] }],
    ];
    await runScript(script, { hooks: [hook], modelExecution: { initialBackoffMs: 0 } });
    expect(seen).toEqual([
      { type: "thinking", text: "Hm." },
      { type: "text", text: "Ha" },
      { type: "retracted" },
      { type: "thinking", text: "So." },
      { type: "text", text: "Who" },
      { type: "text", text: "le." },
    ]);
  });

  it("see output, progress and retractions of tools, like `onChunk` of the toolkit", async () => {
    const seen: unknown[] = [];
    const alike: unknown[] = [];
    const hook: Hook = { name: "watch", actingChunk: (_, __, chunk) => void seen.push(chunk) };
    const flaky = tool({
      name: "flaky",
      description: "Fails once.",
      idempotent: true,
      execution: { initialBackoffMs: 0 },
      execute(_, { emit, progress, attempt }) {
        emit(`try ${attempt}`);
        progress({ progress: attempt, total: 2 });
        progress({ progress: Number.NaN });
        if (attempt === 1) throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
        return "ok";
      },
    });
    const onChunk = (_: unknown, chunk: unknown) => void alike.push(chunk);
    const toolkit = new Toolkit({ tools: [flaky], onChunk });
    await runScript([[{ call: "flaky" }], "Done."], { hooks: [hook], toolkit });
    expect(seen).toEqual([
      "try 1",
      { type: "progress", progress: 1, total: 2 },
      { type: "retracted" },
      "try 2",
      { type: "progress", progress: 2, total: 2 },
    ]);
    expect(alike).toEqual(seen);
  });
});
