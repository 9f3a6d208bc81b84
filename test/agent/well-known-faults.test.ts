// The places at which loops of this kind break, and what happens there instead: one group for each.
import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { Message } from "../../src/contract/message.ts";
import {
  type Approval,
  type Hook,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  type Store,
  type Tool,
  Toolkit,
  tool,
} from "../../src/index.ts";
import { type Script, scriptedModel } from "../../src/testing.ts";
import { readLog } from "./support/laws.ts";
import { expiringStore, losingStore } from "./support/losing-store.ts";
import { inShort, runScript, whatIsLeft } from "./support/run-script.ts";

const options = { sessionId: "s" };
const path = z.object({ path: z.string() });
const remove = (name: string) => ({ call: "remove", input: { path: name } });
const outside = tool({ name: "outside", description: "Runs elsewhere.", input: path });

/** A tool that asks before it runs, and what it has run with. */
function remover(): { readonly tools: readonly Tool[]; readonly executed: string[] } {
  const executed: string[] = [];
  const asking = tool({
    name: "remove",
    description: "Removes a file.",
    input: path,
    needsApproval: true,
    execute(given) {
      executed.push(given.path);
      return `removed ${given.path}`;
    },
  });
  return { tools: [asking], executed };
}

/** Agents that are one and the same to their store: each stands for another process. */
function processes(script: Script, settings: Partial<ReActAgentOptions>) {
  const model = scriptedModel(script, { by: "prompt" });
  return (store: Store) => new ReActAgent({ name: "lead", model, ...settings, store });
}

describe("a call that waits for approval", () => {
  it("keeps one id and runs once, after the answer", async () => {
    const { tools, executed } = remover();
    const { agent, store, reply } = await runScript([[remove("a")], "done"], { tools });
    expect(executed).toEqual([]);
    await agent.call((reply.approvals[0] as Approval).approve(), options);
    expect(executed).toEqual(["a"]);
    const events = await readLog(store, reply.task.rootTaskId);
    const ids = events.flatMap((event) =>
      event.type === "task.approval.requested" || event.type === "task.approval.resolved"
        ? [[event.type, event.approval_id]]
        : [],
    );
    expect(ids).toEqual([
      ["task.approval.requested", reply.approvals[0]?.id],
      ["task.approval.resolved", reply.approvals[0]?.id],
    ]);
  });

  it("stays pending through calls without an answer", async () => {
    const { tools, executed } = remover();
    const store = memoryStore();
    const make = processes([[remove("a"), remove("b")], "done"], { tools });
    const asked = await make(store).call("Go.", options);
    const [first, second] = asked.approvals as [Approval, Approval];
    for (let restart = 0; restart < 3; restart++) {
      const again = await make(store).call(undefined, options);
      expect(again.approvals.map(({ id }) => id)).toEqual([first.id, second.id]);
    }
    const half = await make(store).call(second.approve(), options);
    expect(half.approvals.map(({ id }) => id)).toEqual([first.id]);
    expect(executed).toEqual(["b"]);
    const reply = await make(store).call(first.deny("No."), options);
    const { results } = await whatIsLeft(store, reply);
    expect(results.map(inShort)).toEqual(["success: removed b", "denied: No."]);
  });

  it("runs with the approved arguments or not at all, wherever a crash happens", async () => {
    let at = 0;
    for (let isOver = false; !isOver; at++) {
      const { tools, executed } = remover();
      const make = processes([[remove("a")], "done"], { tools });
      const { store, expire } = expiringStore();
      const { approvals } = await make(store).call("Go.", options);
      const losing = losingStore(store, at, "after");
      const answered = make(losing).call((approvals[0] as Approval).edit({ path: "b" }), options);
      await answered.catch(() => {});
      isOver = losing.commits <= at;
      expire();
      const [task] = await store.tasks({ sessionId: "s" });
      if (task?.status === "completed") continue; // nobody was told, but it is done
      let reply = await make(store).call(undefined, options);
      // Lost before anybody had the answer: it is asked again.
      const [again] = reply.approvals;
      if (again) reply = await make(store).call(again.edit({ path: "b" }), options);
      expect({ at, taskId: reply.task.taskId }).toEqual({ at, taskId: task?.taskId });
      expect(["", "b"]).toContain(executed.join());
      await whatIsLeft(store, reply);
    }
    expect(at).toBeGreaterThan(3);
  });
});

describe("a run stopped between reasoning and acting", () => {
  const stop: Hook = { name: "stop", postReasoning: () => ({ stop: true }) };

  it("continues with a call without input, also in another process", async () => {
    const { tools, executed } = remover();
    const store = memoryStore();
    const make = processes([[remove("a")], "done"], { tools, hooks: [stop] });
    const first = await make(store).call("Go.", options);
    expect(first.generateReason).toBe("reasoning_stop_requested");
    const second = await make(store).call(undefined, options);
    expect(second).toMatchObject({ generateReason: "approval_required", task: first.task });
    expect(executed).toEqual([]);
  });

  it("has run no call, and then runs each call once", async () => {
    const seen: string[] = [];
    const look = tool({
      name: "look",
      description: "Looks.",
      input: path,
      execute: ({ path: at }) => seen.push(at),
    });
    const calls = ["a", "b", "c"].map((at) => ({ call: "look", input: { path: at } }));
    const { agent, reply } = await runScript([calls, "done"], { tools: [look], hooks: [stop] });
    expect(reply.content.filter(({ type }) => type === "tool_use")).toHaveLength(3);
    expect(seen).toEqual([]);
    expect((await agent.call(undefined, options)).generateReason).toBe("reasoning_stop_requested");
    expect((await agent.call(undefined, options)).text).toBe("done");
    expect(seen).toEqual(["a", "b", "c"]);
  });

  it("accepts results for some external calls and keeps requesting the others", async () => {
    const call = (name: string) => ({ call: "outside", input: { path: name } });
    const { agent, store, reply } = await runScript([[call("a"), call("b")], "done"], {
      tools: [outside],
    });
    const [first, second] = reply.approvals as [Approval, Approval];
    const result: Message = {
      id: "r",
      role: "tool",
      content: [
        {
          type: "tool_result",
          id: first.call.id,
          name: "outside",
          output: [{ type: "text", text: "one" }],
          state: "success",
        },
      ],
    };
    const half = await agent.call([result], options);
    expect(half.approvals.map(({ id }) => id)).toEqual([second.id]);
    const whole = await agent.call(second.answer("two"), options);
    const { results } = await whatIsLeft(store, whole);
    expect(results.map(inShort)).toEqual(["success: one", "success: two"]);
  });
});

describe("a blank reply", () => {
  it("is requested again, costs an iteration each time, and ends", async () => {
    const { reply, model } = await runScript(() => [{ thinking: "Hm." }], { maxIters: 3 });
    expect(reply.generateReason).toBe("max_iterations");
    expect(model.calls).toHaveLength(4); // three and the summary
  });

  it("does not count as blank with a call", async () => {
    const look = tool({ name: "look", description: "Looks.", execute: () => "seen" });
    const { model, reply } = await runScript([[{ thinking: "Hm." }, { call: "look" }], "done"], {
      tools: [look],
    });
    expect(reply.text).toBe("done");
    expect(JSON.stringify(model.calls[1]?.prompt)).not.toContain("no visible text");
  });
});

describe("a summary at the limit", () => {
  const look = tool({ name: "look", description: "Looks.", input: path, execute: () => "seen" });
  const talk: Script = ({ tools, callIndex }) =>
    tools === undefined
      ? "So far."
      : [0, 1, 2].map((n) => ({ call: "look", input: { path: `${callIndex} ${n}` } }));

  it("leaves one result per call and a usable session", async () => {
    const { agent, store, results } = await runScript(talk, { tools: [look], maxIters: 1 });
    expect(results.map(({ id }) => id)).toHaveLength(new Set(results.map(({ id }) => id)).size);
    expect(results).toHaveLength(3);
    const next = await agent.call("Go on.", options);
    expect(next).toMatchObject({ text: "So far.", generateReason: "max_iterations" });
    expect((await whatIsLeft(store, next)).results).toHaveLength(6);
  });

  it("never contains a call", async () => {
    const stubborn: Script = ({ callIndex }) => [
      "I look. ",
      { call: "look", input: { path: `${callIndex}` } },
    ];
    const { reply, agent, store } = await runScript(stubborn, { tools: [look], maxIters: 1 });
    expect(reply).toMatchObject({ text: "I look. ", generateReason: "max_iterations" });
    const next = await agent.call("Go on.", options);
    expect(next.generateReason).toBe("max_iterations");
    expect((await whatIsLeft(store, next)).results).toHaveLength(2);
  });

  it("names its model, also to hooks", async () => {
    const broken = scriptedModel(() => ({ error: new Error("no") }), { modelId: "first" });
    const model = [broken, scriptedModel(talk, { modelId: "second" })];
    const seen: unknown[] = [];
    const postSummary: Hook["postSummary"] = (_, message) =>
      void seen.push(message.metadata?.model);
    await runScript([], {
      model,
      tools: [look],
      maxIters: 1,
      modelExecution: { maxAttempts: 1 },
      hooks: [{ name: "reader", postSummary }],
    });
    expect(seen).toEqual(["scripted/second"]);
  });
});

describe("sessions of one agent", () => {
  it("queue calls within a session and run in parallel across sessions", async () => {
    const order: string[] = [];
    const gate = Promise.withResolvers<void>();
    const wait = tool({
      name: "wait",
      description: "Waits.",
      async execute(_, { sessionId }) {
        order.push(`${sessionId} begins`);
        if (sessionId === "s") await gate.promise;
        order.push(`${sessionId} ends`);
        return "ok";
      },
    });
    const model = scriptedModel(({ prompt }) =>
      prompt.at(-1)?.role === "user" ? [{ call: "wait" }] : "done",
    );
    const agent = new ReActAgent({ name: "lead", model, tools: [wait] });
    const first = agent.call("One.", options);
    const second = agent.call("Two.", options);
    await agent.call("Other.", { sessionId: "other" });
    expect(order).toEqual(["s begins", "other begins", "other ends"]);
    gate.resolve();
    await Promise.all([first, second]);
    expect(order.slice(3)).toEqual(["s ends", "s begins", "s ends"]);
  });

  it("keep messages before a cancel and continue from there", async () => {
    const store = memoryStore();
    const model = scriptedModel([["Half of it", { hang: true }], "And the rest."]);
    const agent = new ReActAgent({ name: "lead", model, store });
    const run = agent.run("Go.", options);
    for await (const event of run) {
      if (event.type === "task.text.delta") void run.cancel();
    }
    expect((await run.result()).generateReason).toBe("interrupted");
    const next = await agent.call("Go on.", options);
    expect(next.text).toBe("And the rest.");
    expect(JSON.stringify(model.calls[1]?.prompt)).toContain("Half of it");
  });

  it("start with the default groups and keep the selection", async () => {
    const extra = tool({ name: "extra", description: "Is extra.", execute: () => "extra" });
    const groups = { more: { description: "More.", tools: [extra], active: true } };
    const model = scriptedModel(
      [[{ call: "reset_equipped_tools", input: { groups: [] } }], [{ call: "extra" }], "a", "b"],
      { by: "prompt" },
    );
    const store = memoryStore();
    const toolkit = new Toolkit({ groups });
    const make = () => new ReActAgent({ name: "lead", model, store, toolkit });
    const first = await make().call("Go.", options);
    expect((await whatIsLeft(store, first)).results.map(inShort)[1]).toMatch(
      /^error: The tool extra belongs to more/,
    );
    await make().call("Go on.", options);
    await make().call("Go.", { sessionId: "fresh" });
    const offered = model.calls.map(({ tools }) => tools?.some(({ name }) => name === "extra"));
    expect(offered).toEqual([true, false, false, false, true, false, false]);
  });
});

describe("a call of an external tool", () => {
  const resultOf = async (call: { call: string; input: object }, toolkit: Toolkit) => {
    const { reply, results, events } = await runScript([[call], "done"], { toolkit });
    expect(reply).toMatchObject({ text: "done", approvals: [] });
    expect(events.some(({ type }) => type === "task.suspended")).toBe(false);
    return results.map(inShort)[0];
  };

  it("is validated before it is requested", async () => {
    const wrong = { call: "outside", input: { path: 7 } };
    expect(await resultOf(wrong, new Toolkit({ tools: [outside] }))).toMatch(/^error: .*path/s);
    const groups = { more: { description: "More.", tools: [outside] } };
    const right = { call: "outside", input: { path: "a" } };
    expect(await resultOf(right, new Toolkit({ groups }))).toContain("not active");
  });
});

it("has a result when the tool returns nothing", async () => {
  const silent = tool({ name: "silent", description: "Says nothing.", execute: () => undefined });
  const { results, reply } = await runScript([[{ call: "silent" }], "done"], { tools: [silent] });
  expect(reply.text).toBe("done");
  expect(results.map(inShort)).toEqual([expect.stringMatching(/^success: ./)]);
});

describe("null arguments", () => {
  const input = z.strictObject({
    to: z.strictObject({ city: z.string(), zip: z.string().optional() }),
  });
  const send = tool({ name: "send", description: "Sends.", input, execute: (given) => given });
  const resultOf = async (to: object) => {
    const call = { call: "send", input: { to } };
    const { results } = await runScript([[call], "done"], { tools: [send] });
    return results.map(inShort)[0];
  };

  it("are accepted for optional fields at any depth", async () => {
    expect(await resultOf({ city: "Rome", zip: null })).toBe('success: {"to":{"city":"Rome"}}');
  });

  it("are rejected elsewhere, with the path", async () => {
    expect(await resultOf({ city: null })).toMatch(/^error: .*to\.city/s);
    expect(await resultOf({ city: "Rome", street: null })).toMatch(/^error: .*street/s);
  });
});

describe("a failing chunk callback", () => {
  it("breaks neither the tool nor other callbacks", async () => {
    const emitting = tool({
      name: "emitting",
      description: "Emits.",
      execute(_, { emit }) {
        emit("a");
        emit("b");
        return "returned";
      },
    });
    const fail = () => {
      throw new Error("no");
    };
    for (const failing of ["hook", "toolkit"]) {
      const heard: unknown[] = [];
      const hear = (_: unknown, ...rest: readonly unknown[]) => void heard.push(rest.at(-1));
      const { reply, results, output } = await runScript([[{ call: "emitting" }], "done"], {
        toolkit: new Toolkit({
          tools: [emitting],
          onChunk: failing === "toolkit" ? fail : hear,
        }),
        hooks: [{ name: "chunks", actingChunk: failing === "hook" ? fail : hear }],
      });
      expect(heard).toEqual(["a", "b"]);
      expect(reply.text).toBe("done");
      expect(results.map(inShort)).toEqual(["success: returned"]);
      expect(output.find(({ type }) => type === "tool_result")).toMatchObject({
        status: "completed",
        block_list: [{ text: "ab" }],
      });
    }
  });
});
