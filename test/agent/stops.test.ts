import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { z } from "zod";
import {
  type Agent,
  type AgentEvent,
  type Answer,
  type Approval,
  agentTool,
  type Hook,
  type Input,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  type Reply,
  type Store,
  sqliteStore,
  tool,
} from "../../src/index.ts";
import { type Script, scriptedModel } from "../../src/testing.ts";
import { collect } from "./support/collect.ts";
import { expiringStore, losingStore } from "./support/losing-store.ts";
import { inShort, whatIsLeft } from "./support/run-script.ts";

const options = { sessionId: "s" };
const path = z.object({ path: z.string() });
const remove = (name: string) => ({ call: "remove", input: { path: name } });
const ask = (name: string) => ({ call: "ask", input: { path: name } });

/** Stops after the n-th reasoning or acting. */
function stopAt(point: "postReasoning" | "postActing", at = 0): Hook {
  let count = 0;
  return { name: "stop", [point]: () => (count++ === at ? { stop: true } : undefined) };
}

const stopEvery: Hook = { name: "stop", postReasoning: () => ({ stop: true }) };

function toolsInto(executed: string[]) {
  const execute = (given: { path: string }) => {
    executed.push(given.path);
    return `removed ${given.path}`;
  };
  return [
    tool({ name: "remove", description: "Removes a file.", input: path, execute }),
    tool({ name: "ask", description: "Asks.", input: path, needsApproval: true, execute }),
  ];
}

function world(script: Script, more: Partial<ReActAgentOptions> = {}) {
  const executed: string[] = [];
  const store = (more.store as Store | undefined) ?? memoryStore();
  const model = scriptedModel(script);
  const tools = toolsInto(executed);
  const make = (changes: Partial<ReActAgentOptions> = {}) =>
    new ReActAgent({ name: "lead", model, tools, ...more, store, ...changes });
  return { agent: make(), make, store, model, executed };
}

/** The same world with the stopped agent `depth` levels below the one that is called. */
function worldAt(depth: number, script: Script, hook: Hook) {
  const executed: string[] = [];
  const store = memoryStore();
  let agent = new ReActAgent({
    ...{ name: `level${depth}`, store, hooks: [hook] },
    ...{ model: scriptedModel(script), tools: toolsInto(executed) },
  });
  for (let level = depth - 1; level >= 0; level--) {
    const call = { call: agent.name, input: { prompt: "Do it." } };
    const model = scriptedModel([[call], "done"]);
    agent = new ReActAgent({ name: `level${level}`, store, model, tools: [agentTool(agent)] });
  }
  return { agent, store, executed };
}

const resultsOf = async (store: Store, reply: Reply) =>
  (await whatIsLeft(store, reply)).results.map(inShort);

describe.each([0, 1, 2])("a stop after a reasoning, %i levels below the call", (depth) => {
  const decisions: readonly [string, (one: Approval) => Answer, readonly string[]][] = [
    ["approved", (one) => one.approve(), ["a", "b"]],
    ["denied", (one) => one.deny("No."), []],
    [
      "edited",
      (one) => one.edit({ path: `${(one.call.input as { path: string }).path}!` }),
      ["a!", "b!"],
    ],
    ["answered with a result", (one) => one.answer("gone already"), []],
  ];
  it.each(decisions)("is listed with its calls and %s", async (_, answer, ran) => {
    const script = [[remove("a"), remove("b")], "done"];
    const { agent, store, executed } = worldAt(depth, script, stopAt("postReasoning"));
    const first = await agent.call("Go.", options);
    expect(first.approvals).toMatchObject([
      { kind: "stop", call: { name: "remove", input: { path: "a" } } },
      { kind: "stop", call: { name: "remove", input: { path: "b" } } },
    ]);
    expect(first.generateReason).toBe(
      depth === 0 ? "reasoning_stop_requested" : "approval_required",
    );
    const { events } = await whatIsLeft(store, first);
    expect(events.filter(({ type }) => type === "task.approval.requested")).toMatchObject([
      { kind: "stop", name: "remove", arguments: '{"path":"a"}' },
      { kind: "stop", name: "remove", arguments: '{"path":"b"}' },
    ]);
    expect(executed).toEqual([]);
    const second = await agent.call(first.approvals.map(answer), options);
    expect(second).toMatchObject({ text: "done", approvals: [], task: first.task });
    expect(executed).toEqual(ran);
    await whatIsLeft(store, second);
  });

  it("throws session_suspended for text, and denies with onSuspended", async () => {
    const { agent, store, executed } = worldAt(
      depth,
      [[remove("a")], "done", "done"],
      stopAt("postReasoning"),
    );
    const first = await agent.call("Go.", options);
    const [{ id = "" } = {}] = first.approvals;
    await expect(agent.call("Faster.", options)).rejects.toMatchObject({
      code: "session_suspended",
      message: `The session waits for remove (${id}).`,
    });
    expect(executed).toEqual([]);
    const denied = await agent.call("Leave it.", { ...options, onSuspended: "deny" });
    expect(denied).toMatchObject({ approvals: [], task: first.task });
    expect(executed).toEqual([]);
    await whatIsLeft(store, denied);
  });

  it("is approved by a call without input", async () => {
    const { agent, executed } = worldAt(depth, [[remove("a")], "done"], stopAt("postReasoning"));
    await agent.call("Go.", options);
    expect((await agent.call(undefined, options)).text).toBe("done");
    expect(executed).toEqual(["a"]);
  });

  it("is cancelled with its task, and the session takes text again", async () => {
    const script: Script = [[remove("a")], "done"];
    const { agent, store, executed } = worldAt(depth, script, stopAt("postReasoning"));
    const run = agent.run("Go.", options);
    const { approvals, task } = await run.result();
    await run.cancel();
    const { events } = await whatIsLeft(store, { task });
    expect(events.filter(({ type }) => type === "task.approval.resolved")).toMatchObject([
      { approval_id: approvals[0]?.id, decision: "cancel" },
    ]);
    expect(await agent.approvals(options)).toEqual([]);
    expect((await agent.call("Again.", options)).text).toBe("done");
    expect(executed).toEqual([]);
  });
});

describe("a stop after a reasoning", () => {
  it("lets answered calls run and keeps the others", async () => {
    const { agent, store, executed } = world([[remove("a"), remove("b")], "done"], {
      hooks: [stopAt("postReasoning")],
    });
    const first = await agent.call("Go.", options);
    const second = await agent.call(first.approvals[1]?.approve() as Answer, options);
    expect(executed).toEqual(["b"]);
    expect(second).toMatchObject({
      generateReason: "reasoning_stop_requested",
      approvals: [{ kind: "stop", call: { input: { path: "a" } } }],
    });
    expect(
      second.content.flatMap((block) => (block.type === "tool_use" ? [block.input] : [])),
    ).toEqual([{ path: "a" }]);
    const third = await agent.call(second.approvals[0]?.deny("No.") as Answer, options);
    expect(await resultsOf(store, third)).toEqual(["success: removed b", "denied: No."]);
  });

  it("takes the results of its calls as tool messages", async () => {
    const { agent, store, executed } = world([[remove("a")], "done"], {
      hooks: [stopAt("postReasoning")],
    });
    const { approvals } = await agent.call("Go.", options);
    const { id = "", name = "" } = approvals[0]?.call ?? {};
    const output = [{ type: "text", text: "outside" }] as const;
    const result = { type: "tool_result", id, name, output, state: "success" } as const;
    const reply = await agent.call([{ id: "m", role: "tool", content: [result] }], options);
    expect(await resultsOf(store, reply)).toEqual(["success: outside"]);
    expect(executed).toEqual([]);
  });

  it("does not replace the approval that the tool itself needs", async () => {
    const { agent, executed } = world([[ask("a"), ask("b")], "done"], {
      hooks: [stopAt("postReasoning")],
    });
    const first = await agent.call("Go.", options);
    const [a, b] = first.approvals as [Approval, Approval];
    const second = await agent.call([a.approve({ always: true }), b.edit({ path: "c" })], options);
    expect(second.generateReason).toBe("approval_required");
    expect(second.approvals).toMatchObject([
      { kind: "tool_call", call: { input: { path: "a" } } },
      { kind: "tool_call", call: { input: { path: "c" } } },
    ]);
    expect(executed).toEqual([]);
    await agent.call(
      second.approvals.map((one) => one.approve()),
      options,
    );
    expect(executed).toEqual(["a", "c"]);
  });

  it("lets preActing hooks see the approved call", async () => {
    const seen: unknown[] = [];
    const watch: Hook = { name: "watch", preActing: (_, { input }) => void seen.push(input) };
    const { agent } = world([[remove("a")], "done"], { hooks: [stopAt("postReasoning"), watch] });
    const { approvals } = await agent.call("Go.", options);
    expect(seen).toEqual([]);
    await agent.call(approvals[0]?.approve() as Answer, options);
    expect(seen).toEqual([{ path: "a" }]);
  });

  it("on every reasoning: a loop that denies everything runs no tool and ends", async () => {
    const { agent, executed } = world((request) => [remove(`${request.assistantCount}`)], {
      hooks: [stopEvery],
      maxIters: 3,
    });
    let reply = await agent.call("Go.", options);
    for (let turn = 0; reply.approvals.length > 0; turn++) {
      expect(turn).toBeLessThan(5);
      reply = await agent.call(
        reply.approvals.map((one) => one.deny()),
        options,
      );
    }
    expect(reply.generateReason).toBe("max_iterations");
    expect(executed).toEqual([]);
  });

  it("on a final answer is accepted, or denied with a reason that the model reads", async () => {
    for (const [decision, text] of [
      ["approve", "first"],
      ["deny", "second"],
    ] as const) {
      const { agent, store, model } = world(["first", "second"], {
        hooks: [stopAt("postReasoning")],
      });
      const stopped = await agent.call("Go.", options);
      expect(stopped.text).toBe("first");
      expect(stopped.approvals).toMatchObject([
        { kind: "stop", call: { id: "", name: "" }, message: "Accept this reply?" },
      ]);
      const [stop] = stopped.approvals as [Approval];
      const answer = decision === "approve" ? stop.approve() : stop.deny("Too short.");
      const reply = await agent.call(answer, options);
      expect(reply).toMatchObject({ text, generateReason: "model_stop", task: stopped.task });
      await whatIsLeft(store, reply);
      const isTold = JSON.stringify(model.calls.at(-1)?.prompt).includes("Too short.");
      expect(isTold).toBe(decision === "deny");
    }
  });

  it("without a call cannot be edited or answered with a result", async () => {
    const { agent } = world(["first"], { hooks: [stopAt("postReasoning")] });
    const [stop] = (await agent.call("Go.", options)).approvals;
    for (const answer of [stop?.edit({}), stop?.answer("x")])
      await expect(agent.call(answer as Answer, options)).rejects.toMatchObject({
        code: "invalid_input",
        hint: expect.stringContaining("Approve it or deny it"),
      });
    expect((await agent.call(undefined, options)).text).toBe("first");
  });

  it("without a call is cancelled with its task, and the session takes text again", async () => {
    const { agent, store } = world(["first", "second"], { hooks: [stopAt("postReasoning")] });
    const run = agent.run("Go.", options);
    const { task } = await run.result();
    await run.cancel();
    await whatIsLeft(store, { task });
    expect((await agent.call("Again.", options)).text).toBe("second");
  });

  it("shows in the stream after its message, with the approvals in the result", async () => {
    const { agent } = world([["I will. ", remove("a")], "done"], {
      hooks: [stopAt("postReasoning")],
    });
    const events: readonly AgentEvent[] = await collect(
      agent.stream("Go.", { ...options, chunks: false }),
    );
    const types = events.map(({ type }) => type);
    expect(types).toEqual(["reasoning", "tool_call", "approval", "agent_result"]);
    expect(events[2]).toMatchObject({ approval: { kind: "stop", call: { name: "remove" } } });
    expect(events[3]).toMatchObject({ status: "suspended", approvals: [{ kind: "stop" }] });
  });

  it("is no resume of a task that runs: a call without input follows it and approves nothing", async () => {
    const gate = Promise.withResolvers<void>();
    const executed: string[] = [];
    const helper = new ReActAgent({
      ...{ name: "helper", hooks: [stopAt("postReasoning")] },
      ...{ model: scriptedModel([[remove("a")], "helped"]), tools: toolsInto(executed) },
    });
    const slow = tool({ name: "slow", description: "Waits.", execute: () => gate.promise });
    const calls = [{ call: "helper", input: { prompt: "x" } }, { call: "slow" }];
    const { agent } = world([calls, "done"], { tools: [agentTool(helper), slow] });
    const run = agent.run("Go.", options);
    for await (const event of run) if (event.type === "task.approval.requested") break;
    const followed = agent.call(undefined, options);
    await agent.attach({ sessionId: "s" }).task;
    gate.resolve();
    expect((await run.result()).approvals).toMatchObject([{ kind: "stop" }]);
    expect((await followed).approvals).toMatchObject([{ kind: "stop" }]);
    expect(executed).toEqual([]);
  });
});

describe("a stop of an agent that is not of this package", () => {
  /** Hides that an agent is of this package. */
  const foreign = (agent: ReActAgent): Agent => ({
    name: agent.name,
    run: (...args) => agent.run(...args),
    stream: (...args) => agent.stream(...args),
    call: (...args) => agent.call(...args),
    approvals: (query) => agent.approvals(query),
    attach: (...args) => agent.attach(...args),
  });

  it.each([
    ["approved", (one: Approval) => one.approve(), ["a"]],
    ["denied", (one: Approval) => one.deny("No."), []],
    ["edited", (one: Approval) => one.edit({ path: "b" }), ["b"]],
  ])("is listed at the root and %s", async (_, answer, ran) => {
    const executed: string[] = [];
    const helper = new ReActAgent({
      ...{ name: "helper", hooks: [stopAt("postReasoning")], store: memoryStore() },
      ...{ model: scriptedModel([[remove("a")], "helped"]), tools: toolsInto(executed) },
    });
    const call = { call: "helper", input: { prompt: "x" } };
    const { agent, store } = world([[call], "done"], { tools: [agentTool(foreign(helper))] });
    const user = { ...options, userId: "ann" };
    const first = await agent.call("Go.", user);
    expect(first.approvals).toMatchObject([{ kind: "stop", call: { input: { path: "a" } } }]);
    const second = await agent.call(first.approvals.map(answer), user);
    expect(second.text).toBe("done");
    expect(executed).toEqual(ran);
    await whatIsLeft(store, second);
  });

  it("on a final answer is listed and accepted, or cancelled with its task", async () => {
    for (const isCancelled of [false, true]) {
      const helper = new ReActAgent({
        ...{ name: "helper", hooks: [stopAt("postReasoning")], store: memoryStore() },
        model: scriptedModel(["helped"]),
      });
      const call = { call: "helper", input: { prompt: "x" } };
      const { agent, store } = world([[call], "done"], { tools: [agentTool(foreign(helper))] });
      const run = agent.run("Go.", options);
      const { approvals, task } = await run.result();
      expect(approvals).toMatchObject([{ kind: "stop", call: { id: "" } }]);
      if (isCancelled) await run.cancel();
      else expect((await agent.call(approvals[0]?.approve() as Answer, options)).text).toBe("done");
      await whatIsLeft(store, { task });
    }
  });

  it("is not approved by the recovery of a lost process", async () => {
    let hasLost = false;
    for (let at = 1; at < 30; at++) {
      const { store, expire } = expiringStore();
      const losing = losingStore(store, at, "before");
      const executed: string[] = [];
      const helper = new ReActAgent({
        ...{ name: "helper", hooks: [stopEvery], store: memoryStore() },
        model: scriptedModel([[remove("a")], "helped"], { by: "prompt" }),
        tools: toolsInto(executed),
      });
      const model = scriptedModel([[{ call: "helper", input: { prompt: "x" } }], "done"], {
        by: "prompt",
      });
      const tools = [agentTool(foreign(helper))];
      const make = (on: Store) => new ReActAgent({ name: "lead", model, tools, store: on });
      const isLost = await make(losing)
        .call("Go.", options)
        .then(
          () => false,
          () => true,
        );
      if (!isLost) break;
      hasLost = true;
      expire();
      const [{ status } = {}] = await store.tasks(options);
      if (status === "in_progress")
        await make(store)
          .call(undefined, options)
          .catch(() => {});
      expect(executed).toEqual([]);
    }
    expect(hasLost).toBe(true);
  });
});

it("awaiting one child's reply: a child that waits has not replied yet", async () => {
  const executed: string[] = [];
  const helper = new ReActAgent({
    ...{ name: "helper", tools: toolsInto(executed) },
    model: scriptedModel([["Let me ask. ", ask("a")], "helped"]),
  });
  const call = { call: "helper", input: { prompt: "x" } };
  const { agent } = world([[call], "done"], { tools: [agentTool(helper)] });
  /** The pattern of the streaming guide. */
  async function replyOf(agentId: string, input: Input): Promise<string | undefined> {
    for await (const event of agent.stream(input, { ...options, types: ["agent_result"] })) {
      if (event.type !== "agent_result" || event.source?.agentId !== agentId) continue;
      if (event.status !== "suspended") return event.text;
    }
    return undefined;
  }
  expect(await replyOf("helper", "Go.")).toBeUndefined();
  const answers = (await agent.approvals(options)).map((one) => one.approve());
  expect(await replyOf("helper", answers)).toBe("helped");
});

describe("a stop after an acting", () => {
  it("asks about the calls that have not begun, and nothing else", async () => {
    const { agent, store, executed } = world([[remove("a"), remove("b"), remove("c")], "done"], {
      hooks: [stopAt("postActing", 0)],
      parallel: false,
    });
    const first = await agent.call("Go.", options);
    expect(first).toMatchObject({ generateReason: "acting_stop_requested", role: "tool" });
    expect(first.approvals.map(({ kind, call }) => [kind, call.input])).toEqual([
      ["stop", { path: "b" }],
      ["stop", { path: "c" }],
    ]);
    const [b, c] = first.approvals as [Approval, Approval];
    const second = await agent.call([b.deny("No."), c.approve()], options);
    expect(second.text).toBe("done");
    expect(executed).toEqual(["a", "c"]);
    await whatIsLeft(store, second);
  });

  it("asks about going on when every call has begun", async () => {
    const { agent, store, executed, model } = world([[remove("a"), remove("b")], "done"], {
      hooks: [{ name: "stop", postActing: () => ({ stop: true }) }],
    });
    const first = await agent.call("Go.", options);
    expect(first.approvals).toMatchObject([
      { kind: "stop", call: { id: "" }, message: "Continue after remove?" },
    ]);
    expect(executed).toEqual(["a", "b"]);
    expect(model.calls).toHaveLength(1);
    await expect(agent.call("Go on.", options)).rejects.toMatchObject({
      code: "session_suspended",
      message: expect.stringContaining("a stop"),
    });
    const second = await agent.call(first.approvals[0]?.approve() as Answer, options);
    expect(second.text).toBe("done");
    await whatIsLeft(store, second);
  });
});

describe("a process that is lost at any commit", () => {
  const stops: Hook = {
    name: "stops",
    postReasoning: () => ({ stop: true }),
    postActing: (_, { name }) => (name === "remove" ? { stop: true } : undefined),
  };
  /** Denies the call of `a` and approves everything else. */
  const answerTo = (one: Approval) =>
    (one.call.input as { path?: string }).path === "a" ? one.deny("No.") : one.approve();

  async function answerToEnd(agent: ReActAgent, store: Store): Promise<Reply> {
    const [{ status } = {}] = await store.tasks(options);
    // A call without input would approve the stops of a suspended task.
    const waiting = status === "suspended" ? await agent.approvals(options) : [];
    const answers = waiting.map(answerTo);
    let reply = await agent.call(answers.length > 0 ? answers : undefined, options);
    for (let turn = 0; reply.approvals.length > 0; turn++) {
      expect(turn).toBeLessThan(10);
      reply = await agent.call(reply.approvals.map(answerTo), options);
    }
    return reply;
  }

  it.each(["before", "after"] as const)("leaves its stops as they were, %s it", async (when) => {
    let lost = true;
    for (let at = when === "before" ? 1 : 0; lost; at++) {
      const { store, expire } = expiringStore();
      const losing = losingStore(store, at, when);
      const executed: string[] = [];
      const script: Script = [[remove("a"), remove("b"), ask("c")], "done"];
      const model = scriptedModel(script, { by: "prompt" });
      const make = (on: Store) =>
        new ReActAgent({
          ...{ name: "lead", model, store: on, tools: toolsInto(executed) },
          ...{ hooks: [stops], parallel: false },
        });
      lost = await make(losing)
        .call("Go.", options)
        .then(() => answerToEnd(make(losing), losing))
        .then(
          () => false,
          () => true,
        );
      expire();
      const [{ status } = {}] = await store.tasks(options);
      const reply = status === "completed" ? undefined : await answerToEnd(make(store), store);
      if (reply) expect(reply.text).toBe("done");
      expect(executed).not.toContain("a");
      expect(new Set(executed).size, `at ${at}`).toBe(executed.length);
      const [{ taskId = "" } = {}] = await store.tasks(options);
      await whatIsLeft(store, { task: { taskId, rootTaskId: taskId, sessionId: "s" } });
    }
  });
});

describe("between processes", () => {
  const files: string[] = [];
  const openFile = () => {
    const file = join(tmpdir(), `rivulet-stop-${crypto.randomUUID()}.db`);
    files.push(file);
    return file;
  };
  afterEach(async () => {
    for (const file of files.splice(0))
      for (const end of ["", "-wal", "-shm"]) await rm(`${file}${end}`, { force: true });
  });

  it("a stop is listed and answered by another process, after the first has gone", async () => {
    const file = openFile();
    const store = sqliteStore(file);
    const { agent, make, executed } = world([[remove("a"), remove("b")], "done"], {
      hooks: [stopAt("postReasoning")],
      store,
    });
    const first = await agent.call("Go.", options);
    await store.close();
    const other = sqliteStore(file);
    const second = make({ store: other });
    const waiting = await second.approvals(options);
    expect(waiting.map(({ id, kind }) => [id, kind])).toEqual(
      first.approvals.map(({ id }) => [id, "stop"]),
    );
    const [a, b] = waiting as [Approval, Approval];
    const reply = await second.call([a.deny("No."), b.approve()], options);
    expect(reply).toMatchObject({ text: "done", task: first.task });
    expect(executed).toEqual(["b"]);
    await whatIsLeft(other, reply);
    await other.close();
  });

  it("a deny that comes after an approval says so, in one process and in two", async () => {
    const file = openFile();
    const stores = [sqliteStore(file), sqliteStore(file)] as const;
    const { make, executed } = world([[ask("a")], "done"], { store: stores[0] });
    const [one, two] = stores.map((store) => make({ store })) as [ReActAgent, ReActAgent];
    const { approvals } = await one.call("Go.", options);
    const [approval] = approvals as [Approval];
    const replies = await Promise.allSettled([
      one.call(approval.approve(), options),
      two.call(approval.deny("No."), options),
    ]);
    const [winner, loser] = [
      replies.find(({ status }) => status === "fulfilled"),
      replies.find(({ status }) => status === "rejected"),
    ];
    expect(winner).toMatchObject({ value: { text: "done" } });
    const { code } = (loser as PromiseRejectedResult).reason;
    expect(["already_answered", "unknown_approval"]).toContain(code);
    expect(executed).toEqual(replies[0].status === "fulfilled" ? ["a"] : []);
    for (const store of stores) await store.close();
  });
});

describe("an answer that loses a race", () => {
  /** Posts an approval of another person just before the rows of the next call. */
  function racing(): { store: Store; win(approvals: readonly Approval[]): void } {
    const inner = memoryStore();
    let winners: readonly Approval[] = [];
    const store: Store = {
      ...inner,
      async post(rows) {
        const won = rows.flatMap((row) => {
          const winner = winners.find(({ id }) => row.id === `answer:${id}`);
          const [block] = row.message?.content ?? [];
          if (winner === undefined || block?.type !== "answer" || row.message === undefined)
            return [];
          const { approvalId, callId } = block;
          const approve = { type: "answer", approvalId, callId, decision: "approve" } as const;
          return [{ ...row, message: { ...row.message, content: [approve] } }];
        });
        await inner.post(won);
        return inner.post(rows);
      },
    };
    return { store, win: (approvals) => (winners = approvals) };
  }

  it("throws already_answered at once, and the first answer counts", async () => {
    const { store, win } = racing();
    const { agent, executed } = world([[ask("a")], "done"], { store });
    const { approvals } = await agent.call("Go.", options);
    win(approvals);
    const [approval] = approvals as [Approval];
    await expect(agent.call(approval.deny("No."), options)).rejects.toMatchObject({
      code: "already_answered",
      message: `Approval ${approval.id} was answered before with approve, so deny has no effect.`,
      hint: expect.stringContaining("agent.approvals"),
    });
    expect((await agent.call(undefined, options)).text).toBe("done");
    expect(executed).toEqual(["a"]);
  });

  it("says so when the task rests, if other answers of the call took effect", async () => {
    const { store, win } = racing();
    const { agent, executed } = world([[ask("a"), ask("b")], "done"], { store });
    const { approvals } = await agent.call("Go.", options);
    win(approvals.slice(0, 1));
    const denials = approvals.map((one) => one.deny("No."));
    await expect(agent.call(denials, options)).rejects.toMatchObject({ code: "already_answered" });
    expect(executed).toEqual(["a"]);
    const [{ status } = {}] = await store.tasks(options);
    expect(status).toBe("completed");
  });

  it("and says the same as the first is accepted", async () => {
    const { store, win } = racing();
    const { agent, executed } = world([[ask("a")], "done"], { store });
    const { approvals } = await agent.call("Go.", options);
    win(approvals);
    expect((await agent.call(approvals[0]?.approve() as Answer, options)).text).toBe("done");
    expect(executed).toEqual(["a"]);
  });
});
