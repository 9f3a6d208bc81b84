import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { Message } from "../../src/contract/message.ts";
import {
  type Answer,
  type Approval,
  agentTool,
  type Hook,
  type Input,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  type Store,
  type ToolContext,
  tool,
  userMessage,
} from "../../src/index.ts";
import { checkStream } from "../../src/protocol/check/check.ts";
import { type Script, scriptedModel } from "../../src/testing.ts";
import { collect } from "./support/collect.ts";
import { readLog } from "./support/laws.ts";
import { inShort, whatIsLeft } from "./support/run-script.ts";

const path = z.object({ path: z.string() });

/** A world with a tool that asks, one that runs outside, one that has a question and one that just runs. */
function world(script: Script, options: Partial<ReActAgentOptions> = {}) {
  const executed: string[] = [];
  const store = (options.store as Store | undefined) ?? memoryStore();
  const model = scriptedModel(script);
  const tools = [
    tool({
      name: "remove",
      description: "Removes a file.",
      input: path,
      needsApproval: true,
      execute(given) {
        executed.push(given.path);
        return `removed ${given.path}`;
      },
    }),
    tool({ name: "outside", description: "Runs elsewhere.", input: path }),
    tool({
      name: "question",
      description: "Asks a question.",
      execute: (_, context) => context.suspend("Which one?"),
    }),
    tool({ name: "look", description: "Looks.", execute: () => "seen" }),
  ];
  const make = () => new ReActAgent({ name: "lead", model, tools, ...options, store });
  return { agent: make(), make, store, model, executed };
}

const remove = (name: string) => ({ call: "remove", input: { path: name } });
const options = { sessionId: "s" };

/** What must not change when something is refused. */
async function stateOf(store: Store) {
  const tasks = await store.tasks({ sessionId: "s" });
  const [{ rootTaskId = "" } = {}] = tasks;
  return JSON.stringify({
    tasks,
    messages: await store.session("s"),
    last: await store.last(rootTaskId),
    posts: await store.posts({}),
  });
}

function only(approvals: readonly Approval[]): Approval {
  expect(approvals).toHaveLength(1);
  return approvals[0] as Approval;
}

describe("an approval", () => {
  it("is in the reply, the stream and approvals() before the tool runs", async () => {
    const { agent, executed, store } = world([[remove("a")], "done"]);
    const reply = await agent.call("Go.", options);
    expect(reply.generateReason).toBe("approval_required");
    const approval = only(reply.approvals);
    expect(approval).toMatchObject({
      kind: "tool_call",
      taskId: reply.task.taskId,
      call: { name: "remove", input: { path: "a" } },
      message: "Allow remove?",
    });
    expect(reply.content.some((block) => block.type === "tool_use")).toBe(true);
    expect((await agent.approvals(options)).map(({ id }) => id)).toEqual([approval.id]);
    expect(executed).toEqual([]);
    const { tree, output } = await whatIsLeft(store, reply);
    expect(tree.tasks[reply.task.taskId]).toMatchObject({ status: "suspended" });
    expect(output.at(-1)).toMatchObject({ type: "tool_result", status: "in_progress" });
  });

  it.each([
    ["approved", (a: Approval) => a.approve(), "success: removed a", ["a"]],
    ["denied", (a: Approval) => a.deny("Not that one."), "denied: Not that one.", []],
    ["edited", (a: Approval) => a.edit({ path: "b" }), "success: removed b", ["b"]],
    [
      "edited badly",
      (a: Approval) => a.edit({ path: 7 }),
      expect.stringContaining("are invalid"),
      [],
    ],
    ["answered", (a: Approval) => a.answer("already gone"), "success: already gone", []],
    [
      "expired",
      (a: Approval) => ({ ...a.deny(), decision: "expire" }) as const,
      expect.stringContaining("in time"),
      [],
    ],
  ])("that is %s goes on with the same task", async (_, answer, result, ran) => {
    const { agent, store, executed } = world([[remove("a")], "done"]);
    const first = await agent.call("Go.", options);
    const reply = await agent.call(answer(only(first.approvals)) as Answer, options);
    expect(reply).toMatchObject({ text: "done", generateReason: "model_stop", approvals: [] });
    expect(reply.task).toEqual(first.task);
    expect(executed).toEqual(ran);
    const { results, messages, events } = await whatIsLeft(store, reply);
    expect(results.map(inShort)).toEqual([result]);
    const blocks = messages.flatMap(({ content }) => content.map(({ type }) => type));
    expect(blocks).toContain("answer");
    const order = events.map(({ type }) => type);
    const resumed = order.indexOf("task.resumed");
    expect(resumed).toBeGreaterThan(order.indexOf("task.suspended"));
    expect(order.indexOf("task.approval.resolved")).toBeGreaterThan(resumed);
  });

  it("survives JSON and still finds its session", async () => {
    const { agent } = world([[remove("a")], "done"]);
    const { approvals } = await agent.call("Go.", options);
    const answer = JSON.parse(JSON.stringify(only(approvals).approve())) as Answer;
    expect((await agent.call(answer)).text).toBe("done");
  });

  it("can be answered by another agent object on the same store", async () => {
    const { agent, make, executed } = world([[remove("a"), remove("b")], "done"]);
    const { approvals } = await agent.call("Go.", options);
    const other = make();
    const waiting = await other.approvals(options);
    expect(waiting.map(({ id }) => id)).toEqual(approvals.map(({ id }) => id));
    const reply = await other.call(
      waiting.map((one) => one.approve()),
      options,
    );
    expect(reply.text).toBe("done");
    expect(executed).toEqual(["a", "b"]);
  });

  it("stays pending while answered calls run", async () => {
    const { agent, executed, store } = world([
      [remove("a"), remove("b"), { call: "look" }],
      "done",
    ]);
    const first = await agent.call("Go.", options);
    expect(first.approvals).toHaveLength(2);
    const second = await agent.call([(first.approvals[1] as Approval).approve()], options);
    expect(executed).toEqual(["b"]);
    expect(second.generateReason).toBe("approval_required");
    expect(only(second.approvals).id).toBe(first.approvals[0]?.id);
    await whatIsLeft(store, second);
    const third = await agent.call(only(second.approvals).deny(), options);
    expect(third.text).toBe("done");
    const { results } = await whatIsLeft(store, third);
    expect(results.map(({ name, state }) => [name, state])).toEqual([
      ["look", "success"],
      ["remove", "success"],
      ["remove", "denied"],
    ]);
  });

  it("is returned again, without a write, by a call without input", async () => {
    const { agent, store } = world([[remove("a")], "done"]);
    const first = await agent.call("Go.", options);
    const before = await stateOf(store);
    const again = await agent.call(undefined, options);
    expect(again.approvals.map(({ id }) => id)).toEqual(first.approvals.map(({ id }) => id));
    expect(again).toMatchObject({ generateReason: "approval_required", task: first.task });
    expect(await stateOf(store)).toBe(before);
    const ends = await collect(agent.stream(undefined, options));
    expect(ends).toMatchObject([{ type: "agent_result", status: "suspended" }]);
  });

  it('"always" applies to its session only, also after a restart', async () => {
    const script = () => (request: { assistantCount: number }) =>
      request.assistantCount % 2 === 0 ? [remove(`f${request.assistantCount}`)] : "done";
    const { agent, make, executed } = world(script());
    const { approvals } = await agent.call("One.", options);
    await agent.call(only(approvals).approve({ always: true }), options);
    expect((await agent.call("Two.", options)).generateReason).toBe("model_stop");
    expect((await make().call("Three.", options)).generateReason).toBe("model_stop");
    expect(executed).toEqual(["f0", "f2", "f4"]);
    const other = await agent.call("One.", { sessionId: "other" });
    expect(other.generateReason).toBe("approval_required");
  });

  it("is required or skipped by a rule or a function of the input", async () => {
    const look = tool({ name: "look", description: "Looks.", execute: () => "seen" });
    const pay = tool({
      name: "pay",
      description: "Pays.",
      input: z.object({ amount: z.number() }),
      needsApproval: ({ amount }) => amount > 10,
      execute: ({ amount }) => `paid ${amount}`,
    });
    const calls = [
      { call: "look" },
      { call: "pay", input: { amount: 5 } },
      { call: "pay", input: { amount: 50 } },
    ];
    const tools = [look, pay];
    const model = () => scriptedModel([calls, "done"]);
    const asked = new ReActAgent({
      name: "a",
      model: model(),
      tools,
      permissions: { ask: ["l*"] },
    });
    const names = (await asked.call("Go.")).approvals.map(({ call }) => call);
    expect(names).toMatchObject([{ name: "look" }, { name: "pay", input: { amount: 50 } }]);
    const permissions = { allow: ["*"] };
    const spared = new ReActAgent({ name: "a", model: model(), tools, permissions });
    expect((await spared.call("Go.")).generateReason).toBe("model_stop");
  });

  it("shows the call as a hook edited it", async () => {
    const { agent } = world([[remove("a")], "done"], {
      hooks: [
        {
          name: "elsewhere",
          preActing: (_, call) => ({ ...call, input: { path: "b" } }),
        },
      ],
    });
    const events = await collect(agent.run("Go.", options));
    const asked = events.find((event) => event.type === "task.approval.requested");
    expect(asked).toMatchObject({ arguments: '{"path":"b"}', edited: true });
    expect(checkStream(events, { partial: true })).toEqual([]);
  });
});

describe("an approved call", () => {
  const executed: unknown[] = [];
  const asking = (name: string) =>
    tool({
      name,
      description: "Does something.",
      input: path,
      needsApproval: true,
      execute(given) {
        executed.push([name, given.path]);
        return name;
      },
    });
  const tools = [asking("remove"), asking("shred")];
  /** Makes another call of each: a `remove` shreds, in a place of its own. */
  const into = (edit: (path: string) => string): Hook => ({
    name: "into",
    preActing: (_, { id, input }) => ({
      id,
      name: "shred",
      input: { path: edit((input as { path: string }).path) },
    }),
  });
  function agentWith(hook: Hook, script: Script) {
    executed.length = 0;
    const { agent, store } = world(script, { tools, hooks: [hook] });
    return { agent, store };
  }

  it("runs as shown, with the edits of hooks", async () => {
    let edits = 0;
    const seen: unknown[] = [];
    const hook: Hook = {
      ...into((given) => `${given}/${++edits}`),
      postActing: (_, { name, input }) => void seen.push([name, input]),
    };
    const { agent, store } = agentWith(hook, [[remove("a")], "done"]);
    const call = { name: "shred", input: { path: "a/1" } };
    const run = agent.run("Go.", options);
    const events = await collect(run);
    expect(events.find(({ type }) => type === "task.approval.requested")).toMatchObject({
      name: "shred",
      arguments: '{"path":"a/1"}',
    });
    const approval = only((await run.result()).approvals);
    expect(approval.call).toMatchObject(call);
    expect(only(await agent.approvals(options)).call).toMatchObject(call);
    await expect(agent.call("Hello?", options)).rejects.toThrow(/waits for shred/);
    const reply = await agent.call(approval.approve(), options);
    expect(executed).toEqual([["shred", "a/1"]]);
    expect(seen).toEqual([["shred", { path: "a/1" }]]);
    const { results } = await whatIsLeft(store, reply);
    // The model reads the answer to the call that it made.
    expect(results).toMatchObject([{ name: "remove", state: "success" }]);
  });

  it('with "always" approves only the tool that was shown', async () => {
    const calls = [[remove("a")], "one", [remove("b")], "two", [remove("c")]];
    const { agent, store } = agentWith(into(String), calls);
    const first = only((await agent.call("Go.", options)).approvals);
    expect((await agent.call(first.approve({ always: true }), options)).text).toBe("one");
    expect((await agent.call("Again.", options)).text).toBe("two");
    expect(executed).toEqual([
      ["shred", "a"],
      ["shred", "b"],
    ]);
    const model = scriptedModel([[remove("d")]]);
    const plain = new ReActAgent({ name: "lead", model, tools, store });
    expect(only((await plain.call("Go.", options)).approvals).call.name).toBe("remove");
  });

  it("passes hooks after an edit, and asks again if a hook changes it", async () => {
    const outwards = into((given) => (given.startsWith("/safe/") ? given : `/safe/${given}`));
    const { agent } = agentWith(outwards, [[remove("a")], "done", [remove("c")], "done"]);
    let asked = only((await agent.call("Go.", options)).approvals);
    asked = only((await agent.call(asked.edit({ path: "b" }), options)).approvals);
    expect(asked.call).toMatchObject({ name: "shred", input: { path: "/safe/b" } });
    expect(executed).toEqual([]);
    expect((await agent.call(asked.approve(), options)).text).toBe("done");
    asked = only((await agent.call("Go.", options)).approvals);
    expect((await agent.call(asked.edit({ path: "/safe/d" }), options)).text).toBe("done");
    expect(executed).toEqual([
      ["shred", "/safe/b"],
      ["shred", "/safe/d"],
    ]);
  });

  it("stays denied when a hook would now edit it", async () => {
    let isCached = false;
    const hook: Hook = {
      name: "cache",
      preActing: () => (isCached ? { result: "from the cache" } : undefined),
    };
    const { agent, store } = agentWith(hook, [[remove("a")], "done"]);
    const asked = only((await agent.call("Go.", options)).approvals);
    isCached = true;
    const reply = await agent.call(asked.deny("No."), options);
    const { results } = await whatIsLeft(store, reply);
    expect(results.map(inShort)).toEqual(["denied: No."]);
  });

  it("shows the sent input when the schema's output is not JSON", async () => {
    const big = tool({
      name: "remove",
      description: "Counts.",
      input: z.object({ path: z.string().transform(() => 1n) }),
      needsApproval: true,
      execute: ({ path: given }) => String(given + 1n),
    });
    const { agent, store } = world([[remove("a")], "done"], { tools: [big] });
    const asked = only((await agent.call("Go.", options)).approvals);
    expect(asked.call.input).toEqual({ path: "a" });
    const reply = await agent.call(asked.approve(), options);
    expect((await whatIsLeft(store, reply)).results.map(inShort)).toEqual(["success: 2"]);
  });
});

describe("an external call", () => {
  it("is requested as external and returns the answer's output", async () => {
    const { agent, store } = world([
      [{ call: "outside", input: { path: "x" } }, { call: "question" }],
      "done",
    ]);
    const first = await agent.call("Go.", options);
    expect(first.generateReason).toBe("tool_suspended");
    expect(first.approvals.map(({ kind, message }) => [kind, message])).toEqual([
      ["external", "[Awaiting external execution]"],
      ["question", "Which one?"],
    ]);
    const [outside, question] = first.approvals as [Approval, Approval];
    const reply = await agent.call(
      [outside.answer("42"), question.answer("the left one")],
      options,
    );
    const { results } = await whatIsLeft(store, reply);
    expect(results.map(inShort)).toEqual(["success: 42", "success: the left one"]);
  });

  it("of a child is not an approval at the root", async () => {
    const store = memoryStore();
    const child = world([[{ call: "outside", input: { path: "x" } }], "done"], { store });
    const helper = agentTool(child.agent, { name: "helper", description: "Helps." });
    const { agent } = world([[{ call: "helper", input: { prompt: "Go." } }], "done"], {
      store,
      name: "root",
      tools: [helper],
    });
    const first = await agent.call("Go.", options);
    expect(first.generateReason).toBe("tool_suspended");
    expect(first.approvals.map(({ kind }) => kind)).toEqual(["external"]);
    const reply = await agent.call([only(first.approvals).answer("42")], options);
    expect(reply.text).toBe("done");
  });

  it("accepts tool_result blocks", async () => {
    const call = { call: "outside", input: { path: "x" } };
    const { agent, store } = world([[call, call], "done"]);
    const { approvals } = await agent.call("Go.", options);
    const results = approvals.map(
      ({ call: { id } }, index): Message => ({
        id: `r${index}`,
        role: "tool",
        content: [
          {
            type: "tool_result",
            id,
            name: "outside",
            output: [{ type: "text", text: `r${index}` }],
            state: "success",
          },
        ],
      }),
    );
    const reply = await agent.call(results, options);
    const left = await whatIsLeft(store, reply);
    expect(left.results.map(inShort)).toEqual(["success: r0", "success: r1"]);
  });

  it("is not executed here when it is approved", async () => {
    const { agent } = world([[{ call: "outside", input: { path: "x" } }], "done"]);
    const first = await agent.call("Go.", options);
    const second = await agent.call(only(first.approvals).approve(), options);
    expect(second.generateReason).toBe("tool_suspended");
    expect((await agent.call(only(second.approvals).answer("ok"), options)).text).toBe("done");
  });
});

describe("rejects and changes nothing for", () => {
  async function refused(input: (approvals: readonly Approval[]) => Input, code: string) {
    const { agent, store, executed } = world([[remove("a"), remove("b")], "done"]);
    const { approvals } = await agent.call("Go.", options);
    const before = await stateOf(store);
    const error = await agent.call(input(approvals), options).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ name: "RivuletError", code, hint: expect.any(String) });
    expect(await stateOf(store)).toBe(before);
    // And everything can still be answered.
    expect(
      (
        await agent.call(
          approvals.map((one) => one.approve()),
          options,
        )
      ).text,
    ).toBe("done");
    expect(executed).toEqual(["a", "b"]);
    return error as Error;
  }
  const first = (approvals: readonly Approval[]) => (approvals[0] as Approval).approve();

  it("an unknown approval id, also beside a known one", async () => {
    await refused((all) => ({ ...first(all), approvalId: "apr_none" }), "unknown_approval");
    await refused((all) => [first(all), { ...first(all), approvalId: "x" }], "unknown_approval");
  });

  it("a duplicate id, also as an answer and a result", async () => {
    await refused((all) => [first(all), first(all)], "duplicate_input");
    const result = (all: readonly Approval[]): Message => ({
      id: "m",
      role: "tool",
      content: [
        {
          type: "tool_result",
          id: all[0]?.call.id ?? "",
          name: "remove",
          output: [],
          state: "success",
        },
      ],
    });
    const both = (all: readonly Approval[]) => [first(all), result(all)] as unknown as Input;
    await refused(both, "duplicate_input");
  });

  it("an unknown decision", async () => {
    const odd = (all: readonly Approval[]) =>
      ({ ...first(all), decision: "yes" }) as unknown as Answer;
    await refused(odd, "invalid_input");
  });

  it("a result for a call that is not pending", async () => {
    const content = [
      { type: "tool_result", id: "call_none", name: "x", output: [], state: "success" } as const,
    ];
    await refused(() => ({ id: "m", role: "tool", content }), "unknown_approval");
  });

  it("text, or text with answers to only some approvals", async () => {
    const error = await refused(() => "Never mind.", "session_suspended");
    expect(error.message).toMatch(/remove \(apr_\w+\), remove \(apr_\w+\)/);
    const mixed = (all: readonly Approval[]) =>
      [first(all), userMessage("And?")] as unknown as Input;
    await refused(mixed, "session_suspended");
  });

  it("invalid input types", async () => {
    await refused(() => 7 as unknown as Input, "invalid_input");
    await refused(() => [{ role: "user" }] as unknown as Input, "invalid_input");
    await refused(() => null as unknown as Input, "invalid_input");
  });

  it("an answer when nothing is pending", async () => {
    const { agent, store } = world([[remove("a")], "done"]);
    const { approvals } = await agent.call("Go.", options);
    const answer = only(approvals).approve();
    await agent.call(answer, options);
    const before = await stateOf(store);
    await expect(agent.call(answer, options)).rejects.toMatchObject({ code: "unknown_approval" });
    await expect(agent.call(answer, { sessionId: "new" })).rejects.toMatchObject({
      code: "not_found",
    });
    expect(await stateOf(store)).toBe(before);
    expect(await store.tasks({ sessionId: "new" })).toEqual([]);
  });
});

describe("text to a suspended session", () => {
  it('denies pending approvals with onSuspended: "deny" and continues', async () => {
    const { agent, store, executed, model } = world([
      [remove("a"), { call: "outside", input: { path: "x" } }],
      "fine",
    ]);
    await agent.call("Go.", options);
    const reply = await agent.call("Never mind.", { ...options, onSuspended: "deny" });
    expect(reply.text).toBe("fine");
    expect(executed).toEqual([]);
    const { results } = await whatIsLeft(store, reply);
    expect(results.map(({ state }) => state)).toEqual(["denied", "denied"]);
    const prompt = JSON.stringify(model.calls[1]?.prompt);
    expect(prompt.indexOf("Never mind.")).toBeGreaterThan(prompt.indexOf("something else"));
  });

  it("is accepted with answers to all pending approvals", async () => {
    const { agent, executed, model } = world([[remove("a")], "fine"]);
    const { approvals } = await agent.call("Go.", options);
    const both = [only(approvals).approve(), userMessage("And hurry.")] as unknown as Input;
    expect((await agent.call(both, options)).text).toBe("fine");
    expect(executed).toEqual(["a"]);
    expect(JSON.stringify(model.calls[1]?.prompt)).toContain("And hurry.");
  });
});

describe("in a tree", () => {
  function family(childScript: Script) {
    const ask = world([]);
    const helper = new ReActAgent({
      name: "helper",
      model: scriptedModel(childScript),
      tools: [
        tool({
          name: "remove",
          description: "Removes.",
          input: path,
          needsApproval: true,
          execute: (given) => `removed ${given.path}`,
        }),
      ],
    });
    const store = memoryStore();
    const calls = ["one", "two"].map((prompt) => ({ call: "helper", input: { prompt } }));
    const model = scriptedModel([[...calls, { call: "look" }], "done"]);
    const look = tool({ name: "look", description: "Looks.", execute: () => "seen" });
    const agent = new ReActAgent({ name: "lead", model, tools: [agentTool(helper), look], store });
    return { agent, store, ask };
  }
  const twice = (request: { assistantCount: number }) =>
    request.assistantCount === 0 ? [remove("a")] : "helped";

  it("shows a child's path on its approval and resumes only the answered child", async () => {
    const { agent, store } = family(twice);
    const first = await agent.call("Go.", options);
    expect(first.generateReason).toBe("approval_required");
    expect(first.approvals.map((one) => one.path)).toEqual(["s/helper", "s/helper"]);
    const [one, two] = first.approvals as [Approval, Approval];
    expect(one.taskId).not.toBe(two.taskId);
    const before = await store.last(first.task.rootTaskId);
    const second = await agent.call(one.approve(), options);
    expect(second.approvals.map(({ id }) => id)).toEqual([two.id]);
    const log = (await readLog(store, first.task.rootTaskId)).slice(before + 1);
    expect(log.filter(({ task_id }) => task_id === two.taskId)).toEqual([]); // suspended siblings stay silent
    const [lead, child] = log.filter(({ type }) => type === "task.resumed");
    expect([lead?.task_id, child?.task_id]).toEqual([first.task.taskId, one.taskId]);
    const third = await agent.call(two.deny("no"), options);
    expect(third.text).toBe("done");
    const { tree } = await whatIsLeft(store, third);
    expect(Object.values(tree.tasks).map(({ status }) => status)).toEqual(
      Array(3).fill("completed"),
    );
  });

  it("streams each descendant's approval and suspension with its source", async () => {
    const { agent } = family(twice);
    const events = await collect(agent.stream("Go.", options));
    const asked = events.filter((event) => event.type === "approval");
    expect(asked.map(({ source }) => source?.path)).toEqual(["s/helper", "s/helper"]);
    const rests = events.filter((event) => event.type === "agent_result");
    expect(rests.map(({ source, status }) => [source?.depth, status])).toEqual([
      [1, "suspended"],
      [1, "suspended"],
      [undefined, "suspended"],
    ]);
  });

  it("applies deny rules to every descendant", async () => {
    const tools = [tool({ name: "rm", description: "Removes.", execute: () => "gone" })];
    const scout = new ReActAgent({
      name: "scout",
      model: scriptedModel([[{ call: "rm" }], "s"]),
      tools,
    });
    const helper = new ReActAgent({
      name: "helper",
      model: scriptedModel([[{ call: "scout", input: { prompt: "x" } }], "h"]),
      tools: [agentTool(scout)],
      permissions: { allow: ["*"] },
    });
    const store = memoryStore();
    const agent = new ReActAgent({
      name: "lead",
      model: scriptedModel([[{ call: "helper", input: { prompt: "x" } }], "l"]),
      tools: [agentTool(helper)],
      permissions: { deny: ["rm"] },
      store,
    });
    const reply = await agent.call("Go.", options);
    const records = await store.tasks({ rootTaskId: reply.task.rootTaskId });
    const deepest = records.find(({ depth }) => depth === 2);
    const blocks = (await store.session(deepest?.sessionId ?? "")).flatMap(
      ({ content }) => content,
    );
    expect(blocks.find(({ type }) => type === "tool_result")).toMatchObject({ state: "denied" });
  });
});

describe("an early answer", () => {
  it("is taken at once while a sibling runs", async () => {
    const slow = Promise.withResolvers<string>();
    const removed = Promise.withResolvers<void>();
    const store = memoryStore();
    const tools = [
      tool({ name: "slow", description: "Is slow.", execute: () => slow.promise }),
      tool({
        name: "remove",
        description: "Removes.",
        needsApproval: true,
        execute: () => removed.resolve(),
      }),
    ];
    const model = scriptedModel([[{ call: "slow" }, { call: "remove" }], "done"]);
    const agent = new ReActAgent({ name: "lead", model, tools, store });
    const run = agent.run("Go.", options);
    for await (const event of run) {
      if (event.type !== "task.approval.requested") continue;
      const { taskId, call, ...approval } = only(await agent.approvals(options));
      expect(approval.id).toBe(event.approval_id);
      await store.post([
        {
          id: `answer:${approval.id}`,
          kind: "answer",
          sessionId: "s",
          rootTaskId: taskId,
          message: {
            id: "m",
            role: "user",
            content: [
              { type: "answer", approvalId: approval.id, callId: call.id, decision: "approve" },
            ],
          },
        },
      ]);
      await removed.promise;
      slow.resolve("slow");
    }
    const reply = await run.result();
    expect(reply.text).toBe("done");
    const { results } = await whatIsLeft(store, reply);
    expect(results.map(({ name }) => name)).toEqual(["remove", "slow"]);
  });

  it("is not lost while a child suspends, whatever its siblings do", async () => {
    const store = memoryStore();
    const posted = Promise.withResolvers<void>();
    const removed = Promise.withResolvers<string>();
    const asking = tool({
      name: "remove",
      description: "Removes.",
      needsApproval: true,
      execute: () => removed.resolve("removed"),
    });
    const helper = new ReActAgent({
      name: "helper",
      model: scriptedModel([[{ call: "remove" }], "done"]),
      tools: [asking],
      hooks: [{ name: "slow", postCall: () => posted.promise }],
      store,
    });
    // It ends with the call that waits for the answer, so nothing but the answer can move anything.
    const sibling = tool({ name: "slow", description: "Is slow.", execute: () => removed.promise });
    const model = scriptedModel([
      [{ call: "helper", input: { prompt: "Go." } }, { call: "slow" }],
      "done",
    ]);
    const agent = new ReActAgent({
      name: "lead",
      model,
      tools: [agentTool(helper), sibling],
      store,
    });
    const run = agent.run("Go.", options);
    for await (const event of run) {
      if (event.type !== "task.approval.requested") continue;
      store.watch({ inbox: "s" }, () => setImmediate(posted.resolve));
      void agent.call(only(await agent.approvals(options)).approve(), options);
    }
    expect((await run.result()).text).toBe("done");
  });

  it("is not lost when it arrives before the suspension", async () => {
    const { agent, store, executed } = world([[remove("a")], "done"]);
    const run = agent.run("Go.", options);
    for await (const event of run) {
      if (event.type !== "task.approval.requested") continue;
      // In time or late: whoever answers finds the task waiting, or the task finds the answer.
      const reply = await agent.call(only(await agent.approvals(options)).approve(), options);
      expect(reply.text).toBe("done");
    }
    await run.result();
    expect(executed).toEqual(["a"]);
    await whatIsLeft(store, await run.result());
  });
});

it("shows no preset in approvals, events and transcript, whatever the schema makes of it", async () => {
  const secret = "the operator's secret";
  const received: unknown[] = [];
  const fields = z.object({ path: z.string(), owner: z.string() });
  const joined = fields.transform(({ path, owner }) => ({ path: `${path} for ${owner}` }));
  const invalid = fields.refine(({ owner }) => owner === "", {
    ...{ path: ["owner"], error: `${secret} is invalid` },
  });
  const preset = { owner: secret };
  const input = { path: "a", owner: "the model" };
  const execute = (given: unknown) => {
    received.push(given);
    return "done";
  };
  const made = { description: "x", preset, execute };
  const asking = { ...made, needsApproval: true };
  const suspending = (_: unknown, { suspend }: ToolContext) => suspend("Why?");
  const { agent, store } = world(
    [
      [
        ...[{ call: "outer" }, { call: "asking" }, { call: "joining" }, { call: "suspending" }],
        ...[{ call: "stopped" }, { call: "invalid" }],
      ].map((one) => ({ ...one, input })),
      "done",
    ],
    {
      tools: [
        tool({ name: "outer", description: "x", input: fields, preset }),
        tool({ ...asking, name: "asking", input: fields }),
        tool({ ...asking, name: "joining", input: joined }),
        tool({ ...made, name: "suspending", input: fields, execute: suspending }),
        tool({ ...made, name: "stopped", input: fields, needsApproval: true }),
        tool({ ...made, name: "invalid", input: invalid }),
      ],
    },
  );
  const { approvals, task } = await agent.call("Go.", options);
  const expected = Array(5).fill({ path: "a" });
  expect(approvals.map(({ call }) => call.input)).toEqual(expected);
  expect((await agent.approvals(options)).map(({ call }) => call.input)).toEqual(expected);
  const answers = approvals.map((one) => {
    if (one.kind !== "tool_call") return one.answer("yes");
    return one.call.name === "stopped" ? one.edit({ path: "b" }) : one.approve();
  });
  expect((await agent.call(answers, options)).text).toBe("done");
  expect(received).toEqual([
    { path: "a", owner: secret },
    { path: `a for ${secret}` },
    { path: "b", owner: secret },
  ]);
  const { events, messages, results } = await whatIsLeft(store, { task });
  expect(results.map(inShort)[0]).toContain("A value that the operator has set");
  const shown = events.flatMap((event) =>
    event.type === "task.approval.requested" ? [JSON.parse(event.arguments ?? "")] : [],
  );
  expect(shown).toEqual(expected);
  expect(JSON.stringify([events, messages, await store.tasks({ sessionId: "s" })])).not.toContain(
    secret,
  );
});

describe("a suspended reply", () => {
  it("has only the calls that wait", async () => {
    const calls = [{ call: "look" }, remove("a"), { call: "question" }, remove("b")];
    const { agent } = world([["I will. ", ...calls], "done"]);
    const namesIn = ({ content }: Pick<Message, "content">) =>
      content.map((block) => (block.type === "tool_use" ? block.name : block.type));
    const first = await agent.call("Go.", options);
    expect(first.text).toBe("");
    expect(namesIn(first)).toEqual(["remove", "question", "remove"]);
    const second = await agent.call(first.approvals[0]?.approve() as Answer, options);
    expect(namesIn(second)).toEqual(["question", "remove"]);
    expect(namesIn(await agent.attach({ sessionId: "s" }).result())).toEqual(namesIn(second));
  });

  it.each([[undefined], [""], ["  "]])(
    "says what waits when suspend(%j) says nothing",
    async (why) => {
      const pick = tool({
        ...{ name: "pick", description: "Picks." },
        execute: (_, context) => context.suspend(why),
      });
      const { agent } = world([[{ call: "pick" }], "done"], { tools: [pick] });
      const { approvals } = await agent.call("Go.", options);
      expect(only(approvals).message).toBe("pick waits for a result.");
    },
  );
});

it("a rejected answer to a busy session leaves no trace, also after a cancel", async () => {
  const gate = Promise.withResolvers<void>();
  const { agent } = world([
    async () => {
      await gate.promise;
      return "Done.";
    },
    "Again.",
  ]);
  const busy = agent.run("Go.", options);
  await busy.task;
  const ids = { taskId: "task_none", rootTaskId: "task_none" };
  const unknown: Answer = { type: "answer", approvalId: "apr_none", decision: "approve", ...ids };
  const refused = agent.run(unknown, options);
  await expect(refused.result()).rejects.toMatchObject({ code: "unknown_approval" });
  await refused.cancel(); // its turn never comes: nobody may be left to stumble over that
  gate.resolve();
  expect((await busy.result()).text).toBe("Done.");
  expect((await agent.call("On.", options)).text).toBe("Again.");
});
