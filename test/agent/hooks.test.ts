import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { ToolResultBlock } from "../../src/contract/message.ts";
import {
  agentTool,
  assistantMessage,
  type Hook,
  type Message,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  Toolkit,
  tool,
  userMessage,
} from "../../src/index.ts";
import { type Script, scriptedModel } from "../../src/testing.ts";
import { collect } from "./support/collect.ts";
import { inShort, runScript, whatIsLeft } from "./support/run-script.ts";
import { turns } from "./support/tools.ts";

const options = { sessionId: "s" };
const echo = tool({
  name: "echo",
  description: "Says it again.",
  input: z.object({ text: z.string() }),
  execute({ text }, { emit }) {
    emit(`${text}!`);
    return text;
  },
});
const say = (text: string) => ({ call: "echo", input: { text } });

/** A hook that only notes where it is called. */
function noting(name: string, seen: string[], priority?: number): Hook {
  const note = (point: string) => (): undefined => void seen.push(`${name} ${point}`);
  return {
    name,
    ...(priority !== undefined && { priority }),
    preCall: note("preCall"),
    preReasoning: note("preReasoning"),
    reasoningChunk: note("reasoningChunk"),
    postReasoning: note("postReasoning"),
    preActing: note("preActing"),
    actingChunk: note("actingChunk"),
    postActing: note("postActing"),
    preSummary: note("preSummary"),
    postSummary: note("postSummary"),
    postCall: note("postCall"),
    onError: note("onError"),
  };
}

describe("hooks are called", () => {
  it("at every point, in the order of the run", async () => {
    const seen: string[] = [];
    await runScript([[say("a")], { text: ["b", "c"] }], {
      tools: [echo],
      hooks: [noting("h", seen)],
    });
    expect(seen.map((entry) => entry.slice(2))).toEqual([
      "preCall",
      "preReasoning",
      "postReasoning",
      "preActing",
      "actingChunk",
      "postActing",
      "preReasoning",
      "reasoningChunk",
      "reasoningChunk",
      "postReasoning",
      "postCall",
    ]);
    seen.length = 0;
    await runScript([[say("a")], "summed up"], {
      tools: [echo],
      hooks: [noting("h", seen)],
      maxIters: 1,
    });
    expect(seen.slice(-4)).toEqual([
      "h preSummary",
      "h reasoningChunk",
      "h postSummary",
      "h postCall",
    ]);
  });

  it("by priority, and in the order of registration where that is the same", async () => {
    const seen: string[] = [];
    const hooks = [
      noting("default", seen),
      noting("late", seen, 900),
      noting("same", seen, 100),
      noting("early", seen, 5),
    ];
    await runScript(["hi"], { hooks });
    const order = (point: string) =>
      seen.filter((entry) => entry.endsWith(` ${point}`)).map((entry) => entry.split(" ")[0]);
    for (const point of [
      "preCall",
      "preReasoning",
      "reasoningChunk",
      "postReasoning",
      "postCall",
    ]) {
      expect(order(point)).toEqual(["early", "default", "same", "late"]);
    }
  });

  it("with the run's context and a separate state per run", async () => {
    const states: unknown[] = [];
    const hook: Hook = {
      name: "state",
      preCall({ agent, task, messages, state, source }, input) {
        expect(agent).toBe("lead");
        expect(task.sessionId).toBe("s");
        expect(source).toBeUndefined();
        expect(messages.at(-1)?.content).toEqual(input.at(-1)?.content);
        states.push(state.get("seen"));
        state.set("seen", true);
      },
      postCall({ state }) {
        states.push(state.get("seen"));
      },
    };
    const model = scriptedModel(["one", "two"]);
    const agent = new ReActAgent({ name: "lead", model, hooks: [hook] });
    await agent.call("a", options);
    await agent.call("b", options);
    expect(states).toEqual([undefined, true, undefined, true]);
  });

  it("in children, with their source", async () => {
    const seen: string[] = [];
    const hook: Hook = {
      name: "where",
      preCall: ({ source }) => void seen.push(`preCall ${source?.path}`),
      preReasoning: ({ source }) => void seen.push(`preReasoning ${source?.path}`),
      postCall: ({ source }, { text }) => void seen.push(`postCall ${source?.path} ${text}`),
    };
    const helper = new ReActAgent({ name: "helper", model: scriptedModel(["h"]), hooks: [hook] });
    const calls = [{ call: "helper", input: { prompt: "x" } }];
    await runScript([calls, "l"], { tools: [agentTool(helper)] });
    expect(seen).toEqual(["preCall s/helper", "preReasoning s/helper", "postCall s/helper h"]);
  });

  it("and add their tools", async () => {
    const hook = { name: "bringer", tools: [echo] };
    const { results } = await runScript([[say("a")], "done"], { hooks: [hook] });
    expect(results.map(inShort)).toEqual(["success: a"]);
    expect(
      () => new ReActAgent({ name: "a", model: scriptedModel([]), hooks: [hook], tools: [echo] }),
    ).toThrow(/echo/);
  });
});

describe("a hook edits", () => {
  it("messages and options of one model call", async () => {
    const hook: Hook = {
      name: "editor",
      preReasoning(_, call) {
        call.messages.push(userMessage("Psst."));
        return { ...call, systemPrompt: "Be brief.", tools: [], options: { temperature: 0 } };
      },
    };
    const { model, messages } = await runScript(["ok"], { hooks: [hook], tools: [echo] });
    const [request] = model.calls;
    expect(request).toMatchObject({ temperature: 0 });
    expect(request?.tools).toBeUndefined();
    expect(request?.prompt[0]).toEqual({ role: "system", content: "Be brief." });
    expect(JSON.stringify(request?.prompt)).toContain("Psst.");
    expect(JSON.stringify(messages)).not.toContain("Psst.");
  });

  it("the reply; streamed chunks are discarded", async () => {
    const hook: Hook = {
      name: "editor",
      postReasoning: (_, message) => ({
        ...message,
        id: "mine",
        name: "somebody else",
        content: message.content.map((block) =>
          block.type === "text" ? { ...block, text: block.text.replace("secret", "***") } : block,
        ),
      }),
    };
    const script = [["A secret. ", say("a")], "The secret is out."];
    const { reply, output, events, messages, results } = await runScript(script, {
      hooks: [hook],
      tools: [echo],
    });
    expect(reply.text).toBe("The *** is out.");
    expect(results.map(inShort)).toEqual(["success: a"]);
    expect(messages.filter(({ role }) => role === "assistant").map(({ name }) => name)).toEqual([
      "lead",
      "lead",
    ]);
    const kept = output.filter(({ type }) => type !== "discarded").map(({ type }) => type);
    expect(kept).toEqual(["message", "tool_call", "tool_result", "message"]);
    expect(JSON.stringify(output)).not.toContain("secret");
    const reasons = events.flatMap((event) =>
      event.type === "task.output_item.discarded" ? [event.reason] : [],
    );
    expect(new Set(reasons)).toEqual(new Set(["edited"]));
  });

  it("a call before it runs, in hook order", async () => {
    const add = (letter: string): Hook => ({
      name: letter,
      preActing(_, call) {
        const { text } = call.input as { text: string };
        return { ...call, id: "another", input: { text: text + letter } };
      },
    });
    const { results, messages } = await runScript([[say("a")], "done"], {
      tools: [echo],
      hooks: [add("b"), add("c")],
    });
    expect(results.map(inShort)).toEqual(["success: abc"]);
    const calls = messages.flatMap(({ content }) => content.filter((b) => b.type === "tool_use"));
    expect(calls).toMatchObject([{ id: results[0]?.id, input: { text: "a" } }]);
  });

  it("a call into another tool, or into invalid input", async () => {
    const into = (name: string, input: unknown): Hook => ({
      name: "into",
      preActing: (_, call) => ({ ...call, name, input }),
    });
    const to = async (name: string, input: unknown) =>
      (
        await runScript([[say("a")], "done"], { tools: [echo], hooks: [into(name, input)] })
      ).results.map(inShort);
    expect(await to("nobody", {})).toEqual([expect.stringMatching(/^error: There is no tool/)]);
    expect(await to("echo", { text: 1 })).toEqual([expect.stringMatching(/^error: .*invalid/s)]);
  });

  it("a call into a result, without running the tool", async () => {
    let ran = 0;
    const counted = tool({ name: "counted", description: "Counts.", execute: () => ++ran });
    const later: string[] = [];
    const hooks: Hook[] = [
      { name: "cache", preActing: () => ({ result: "from the cache" }) },
      { name: "later", preActing: () => void later.push("called") },
    ];
    const { results } = await runScript([[{ call: "counted" }], "done"], {
      tools: [counted],
      hooks,
    });
    expect(results.map(inShort)).toEqual(["success: from the cache"]);
    expect({ ran, later }).toEqual({ ran: 0, later: [] });
  });

  it("a result before it is stored", async () => {
    const hook: Hook = {
      name: "editor",
      postActing: (_, call, { output }) => ({
        state: "error",
        output: [...output, { type: "text", text: ` (${call.name})` }],
      }),
    };
    const { results, output } = await runScript([[say("a")], "done"], {
      tools: [echo],
      hooks: [hook],
    });
    expect(results.map(inShort)).toEqual(["error: a (echo)"]);
    expect(output.find(({ type }) => type === "tool_result")).toMatchObject({ status: "failed" });
  });

  it("the summary and its request", async () => {
    const hook: Hook = {
      name: "editor",
      preSummary: (_, call) => ({ ...call, systemPrompt: "Sum up." }),
      postSummary: (_, message) => ({ ...message, content: [{ type: "text", text: "In short." }] }),
    };
    const { reply, model, output } = await runScript([[say("a")], "At length."], {
      tools: [echo],
      hooks: [hook],
      maxIters: 1,
    });
    expect(reply).toMatchObject({ text: "In short.", generateReason: "max_iterations" });
    expect(model.calls[1]?.prompt[0]).toEqual({ role: "system", content: "Sum up." });
    expect(output.at(-1)).toMatchObject({
      purpose: "summary",
      block_list: [{ text: "In short." }],
    });
  });
});

describe("a hook stops the run", () => {
  const stopOnce = (point: "postReasoning" | "postActing", which = 0): Hook => {
    let count = 0;
    return { name: "stop", [point]: () => (count++ === which ? { stop: true } : undefined) };
  };
  const world = (script: Script, more: Partial<ReActAgentOptions>) => {
    const store = memoryStore();
    const model = scriptedModel(script);
    return { store, agent: new ReActAgent({ name: "lead", model, tools: [echo], store, ...more }) };
  };

  it("after reasoning, before any tool runs; a call without input continues", async () => {
    const { agent, store } = world([["I will. ", say("a")], "done"], {
      hooks: [stopOnce("postReasoning")],
    });
    const first = await agent.call("Go.", options);
    expect(first).toMatchObject({ text: "I will. ", generateReason: "reasoning_stop_requested" });
    expect(first.content.map(({ type }) => type)).toEqual(["text", "tool_use"]);
    expect(first.approvals).toMatchObject([
      {
        kind: "stop",
        call: { name: "echo", input: { text: "a" } },
        message: "Continue with echo?",
      },
    ]);
    const waiting = await agent.approvals(options);
    expect(waiting.map(({ id }) => id)).toEqual(first.approvals.map(({ id }) => id));
    const { results, events } = await whatIsLeft(store, first);
    expect(results).toEqual([]);
    expect(events.at(-1)).toMatchObject({
      type: "task.suspended",
      reason: "stop_requested",
      approval_ids: waiting.map(({ id }) => id),
    });
    const second = await agent.call(undefined, options);
    expect(second).toMatchObject({ text: "done", task: first.task });
    expect((await whatIsLeft(store, second)).results.map(inShort)).toEqual(["success: a"]);
  });

  it("after a final reply, which the next call completes", async () => {
    const { agent } = world(["the answer"], { hooks: [stopOnce("postReasoning")] });
    expect((await agent.call("Go.", options)).generateReason).toBe("reasoning_stop_requested");
    expect(await agent.call(undefined, options)).toMatchObject({
      text: "the answer",
      generateReason: "model_stop",
    });
  });

  it("rejects text to the stopped session", async () => {
    const { agent, store } = world([[say("a")], "done"], { hooks: [stopOnce("postReasoning")] });
    const first = await agent.call("Go.", options);
    await expect(agent.call("But quickly.", options)).rejects.toMatchObject({
      code: "session_suspended",
    });
    expect((await whatIsLeft(store, first)).results).toEqual([]);
    expect(await agent.call(undefined, options)).toMatchObject({ text: "done", task: first.task });
  });

  it("after acting, with the result, before later calls start", async () => {
    const calls = [say("a"), say("b"), say("c")];
    const { agent, store } = world([calls, "done"], {
      hooks: [stopOnce("postActing", 1)],
      parallel: false,
    });
    const first = await agent.call("Go.", options);
    expect(first.generateReason).toBe("acting_stop_requested");
    expect(first.role).toBe("tool");
    expect(inShort(first.content[0] as ToolResultBlock)).toBe("success: b");
    expect((await whatIsLeft(store, first)).results.map(inShort)).toEqual([
      "success: a",
      "success: b",
    ]);
    const second = await agent.call(undefined, options);
    expect(second.text).toBe("done");
    expect((await whatIsLeft(store, second)).results.map(inShort)).toEqual([
      "success: a",
      "success: b",
      "success: c",
    ]);
  });

  it("after any call of a batch, also while another call is suspended", async () => {
    const ask = tool({
      name: "ask",
      description: "Asks.",
      needsApproval: true,
      execute: () => "asked",
    });
    const { agent } = world([[{ call: "ask" }, say("a"), say("b")], "done"], {
      hooks: [stopOnce("postActing", 0)],
      tools: [echo, ask],
    });
    const first = await agent.call("Go.", options);
    expect(first.generateReason).toBe("acting_stop_requested");
    const second = await agent.call(undefined, options);
    expect(second.generateReason).toBe("approval_required");
    const third = await agent.call(
      second.approvals.map((one) => one.approve()),
      options,
    );
    expect(third.text).toBe("done");
  });

  it("in a child, which the root's next call continues", async () => {
    const helper = new ReActAgent({
      name: "helper",
      model: scriptedModel([[say("a")], "helped"]),
      tools: [echo],
      hooks: [stopOnce("postReasoning")],
    });
    const calls = [{ call: "helper", input: { prompt: "x" } }];
    const { agent, store } = world([calls, "done"], { tools: [agentTool(helper)] });
    const first = await agent.call("Go.", options);
    expect((await store.task(first.task.taskId))?.status).toBe("suspended");
    const second = await agent.call(undefined, options);
    expect(second.text).toBe("done");
    await whatIsLeft(store, second);
  });
});

describe("a hook sends the model back", () => {
  it("with more messages, also past maxIters, marked in the message", async () => {
    let count = 0;
    const hook: Hook = {
      name: "again",
      postReasoning: () =>
        count++ < 2 ? { gotoReasoning: [userMessage(`Really? ${count}`)] } : undefined,
    };
    const { reply, model, messages } = await runScript(["one", "two", "three"], {
      hooks: [hook],
      maxIters: 2,
    });
    expect(reply).toMatchObject({ text: "three", generateReason: "model_stop" });
    expect(JSON.stringify(model.calls[2]?.prompt)).toContain("Really? 2");
    const marked = messages.filter(({ metadata }) => metadata?.goto === true);
    expect(marked).toHaveLength(2);
    expect(messages.findLast(({ role }) => role === "assistant")?.metadata?.iteration).toBe(3);
  });

  it("at most maxIters times past maxIters", async () => {
    const hook: Hook = {
      name: "always",
      postReasoning: () => ({ gotoReasoning: [userMessage("Again.")] }),
    };
    const model = scriptedModel(() => "no");
    const agent = new ReActAgent({ name: "lead", model, hooks: [hook], maxIters: 3 });
    const reply = await agent.call("Go.");
    expect(reply.generateReason).toBe("max_iterations");
    expect(model.calls).toHaveLength(2 * 3 + 1); // the last one is the summary
  });

  it("without messages", async () => {
    let count = 0;
    const hook: Hook = {
      name: "again",
      postReasoning: () => (count++ === 0 ? { gotoReasoning: [] } : undefined),
    };
    const { reply, model } = await runScript(["one", "two"], { hooks: [hook] });
    expect(reply.text).toBe("two");
    expect(JSON.stringify(model.calls[1]?.prompt)).toContain("Reason again, and then reply.");
  });

  it("with results for all calls, which are stored and shown but never run", async () => {
    let ran = 0;
    const counted = tool({ name: "counted", description: "Counts.", execute: () => ++ran });
    const hook: Hook = {
      name: "instead",
      postReasoning(_, message) {
        const calls = message.content.filter((block) => block.type === "tool_use");
        if (calls.length === 0) return undefined;
        const content = calls.map(({ id, name }) => ({
          type: "tool_result" as const,
          id,
          name,
          output: [{ type: "text" as const, text: "from the hook" }],
          state: "success" as const,
        }));
        return { gotoReasoning: [{ id: "m", role: "tool", content }] };
      },
    };
    const { results, reply, output } = await runScript(
      [[{ call: "counted" }, { call: "counted" }], "done"],
      {
        tools: [counted],
        hooks: [hook],
      },
    );
    expect(reply.text).toBe("done");
    expect(ran).toBe(0);
    expect(results.map(inShort)).toEqual(Array(2).fill("success: from the hook"));
    const shown = output.filter(({ type }) => type === "tool_result");
    expect(shown).toMatchObject(Array(2).fill({ status: "completed" }));
  });

  it("is rejected if a call would have no result", async () => {
    const store = memoryStore();
    const hook: Hook = {
      name: "careless",
      postReasoning: () => ({ gotoReasoning: [userMessage("Again.")] }),
    };
    const model = scriptedModel([[say("a")], "never"]);
    const agent = new ReActAgent({ name: "lead", model, tools: [echo], hooks: [hook], store });
    await expect(agent.call("Go.", options)).rejects.toMatchObject({
      code: "pending_calls",
      message: expect.stringContaining("echo"),
    });
    const [task] = await store.tasks({ sessionId: "s" });
    await whatIsLeft(store, { task: task as never });
  });
});

describe("a hook that throws", () => {
  const points = [
    "preCall",
    "preReasoning",
    "postReasoning",
    "preActing",
    "postActing",
    "preSummary",
    "postSummary",
    "postCall",
  ] as const;

  it.each(points)("in %s fails the run with its name and leaves nothing open", async (point) => {
    const errors: string[] = [];
    const store = memoryStore();
    const hook: Hook = {
      name: "rude",
      [point]() {
        throw new Error("I will not.");
      },
      onError: (_, error) => void errors.push(error.message),
    };
    const model = scriptedModel([[say("a"), say("b")], "summed up"]);
    const more = { maxIters: 1, tools: [echo], hooks: [hook], store };
    const agent = new ReActAgent({ name: "lead", model, ...more });
    const run = agent.run("Go.", options);
    const message = `Hook rude failed in ${point}: I will not.`;
    await expect(run.result()).rejects.toMatchObject({ code: "hook_failed", message });
    expect(errors).toEqual([message]);
    const [task] = await store.tasks({ sessionId: "s" });
    expect(task).toMatchObject({ status: "failed", error: { code: "hook_failed", message } });
    const { events } = await whatIsLeft(store, { task: task as never });
    expect(events.at(-1)).toMatchObject({ type: "task.failed" });
    // The session goes on as if nothing had been.
    const next = new ReActAgent({ name: "lead", model: scriptedModel(["ok"]), store });
    expect((await next.call("Go.", options)).text).toBe("ok");
  });

  it.each([
    ["has its answer", "model_stop", ["hi"]],
    ["waits for somebody", "approval_required", [[{ call: "ask" }]]],
  ] satisfies [string, string, Script][])(
    "in postCall fails a task that %s: the log, the result and the stream say the same",
    async (_, reason, script) => {
      const replies: string[] = [];
      const store = memoryStore();
      const hook: Hook = {
        name: "rude",
        async postCall(_, { generateReason }) {
          replies.push(generateReason);
          throw new Error("I will not.");
        },
      };
      const ask = tool({ name: "ask", description: "Asks.", needsApproval: true, execute() {} });
      const model = scriptedModel(script);
      const agent = new ReActAgent({ name: "lead", model, hooks: [hook], tools: [ask], store });
      const failure = {
        code: "hook_failed",
        message: "Hook rude failed in postCall: I will not.",
      };
      await expect(collect(agent.stream("Go.", options))).rejects.toMatchObject(failure);
      expect(replies).toEqual([reason]);
      const [task] = await store.tasks({ sessionId: "s" });
      expect(task).toMatchObject({ status: "failed", error: failure });
      const { events } = await whatIsLeft(store, { task: task as never });
      expect(events.at(-1)).toMatchObject({ type: "task.failed" });
      expect(await agent.approvals(options)).toEqual([]);
    },
  );

  it("in onError does not hide the original error", async () => {
    const hook: Hook = {
      name: "rude",
      onError() {
        throw new Error("Worse.");
      },
    };
    const refusal = Object.assign(new Error("no"), { statusCode: 401 });
    const model = scriptedModel([{ error: refusal }]);
    const agent = new ReActAgent({ name: "lead", model, hooks: [hook] });
    await expect(agent.call("Go.")).rejects.toMatchObject({ code: "unauthorized" });
  });

  it("in a chunk hook affects no other hook, tool or process", async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => unhandled.push(reason);
    process.on("unhandledRejection", note);
    const seen: string[] = [];
    const throwing = () => {
      throw new Error("no");
    };
    const rejecting = async () => {
      throw new Error("no");
    };
    const hooks: Hook[] = [
      { name: "throws", reasoningChunk: throwing, actingChunk: throwing },
      { name: "rejects", reasoningChunk: rejecting, actingChunk: rejecting },
      {
        name: "works",
        reasoningChunk: (_, chunk) => void seen.push(chunk.type === "text" ? chunk.text : "?"),
        actingChunk: (_, call, chunk) => void seen.push(`${call.name}: ${chunk}`),
      },
    ];
    const run = (onChunk: () => unknown) =>
      runScript([[say("a")], { text: ["b", "c"] }], {
        toolkit: new Toolkit({ tools: [echo], onChunk: onChunk as () => void }),
        hooks,
      });
    for (const onChunk of [throwing, rejecting]) {
      const { reply } = await run(onChunk);
      expect(reply.text).toBe("bc");
    }
    expect(seen).toEqual(["echo: a!", "b", "c", "echo: a!", "b", "c"]);
    await turns(3);
    process.off("unhandledRejection", note);
    expect(unhandled).toEqual([]);
  });
});

describe("a hook cannot", () => {
  it("change the transcript through what it is given", async () => {
    const hook: Hook = {
      name: "sneaky",
      preReasoning(_, call) {
        call.messages.length = 0;
        call.messages.push(assistantMessage("Nothing happened.", "lead") as Message);
      },
    };
    const { messages } = await runScript(["ok"], { hooks: [hook] });
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant"]);
  });

  it("delay chunks: chunk hooks are not awaited", async () => {
    const hook: Hook = { name: "slow", reasoningChunk: () => new Promise(() => {}) as never };
    const model = scriptedModel([{ text: ["a", "b"] }]);
    const agent = new ReActAgent({ name: "lead", model, hooks: [hook] });
    expect(await collect(agent.run("Go."))).not.toEqual([]);
  });
});
