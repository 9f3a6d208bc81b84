import { describe, expect, it } from "vitest";
import { z } from "zod";
import {
  type Hook,
  type Input,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  type Store,
  tool,
  userMessage,
} from "../../src/index.ts";
import { type Script, scriptedModel } from "../../src/testing.ts";
import { collect } from "./support/collect.ts";
import { inShort, runScript, whatIsLeft } from "./support/run-script.ts";

const options = { sessionId: "s" };
const echo = tool({
  name: "echo",
  description: "Says it again.",
  input: z.object({ text: z.string() }),
  execute: ({ text }) => text,
});
const say = (text: string) => ({ call: "echo", input: { text } });

/** Plays a script that has to fail, and expects that all who look agree about it. */
async function failure(more: Partial<ReActAgentOptions>, script: Script = [[say("a")], "done"]) {
  const told: Error[] = [];
  const store = (more.store as Store | undefined) ?? memoryStore();
  const listening: Hook = { name: "listening", onError: (_, error) => void told.push(error) };
  const agent = new ReActAgent({
    name: "lead",
    model: scriptedModel(script),
    tools: [echo],
    maxIters: 1,
    ...more,
    hooks: [...(more.hooks ?? []), listening],
    store,
  });
  const run = agent.run("Go.", options);
  const error = await run.result().then(
    ({ generateReason }) => expect.fail(`It ended with ${generateReason}.`),
    (reason: unknown) => reason,
  );
  expect(error).toMatchObject({ name: "RivuletError" });
  expect(told).toEqual([error]);
  const [task] = await store.tasks(options);
  expect(task).toMatchObject({
    status: "failed",
    error: { code: (error as { code: string }).code },
  });
  const { events } = await whatIsLeft(store, { task: task as never });
  expect(events.at(-1)).toMatchObject({ type: "task.failed" });
  await expect(collect(run)).rejects.toBe(error);
  return error as Error & { code: string };
}

const h = (hook: object): Partial<ReActAgentOptions> => ({
  hooks: [{ name: "rude", ...hook } as Hook],
});

describe("the task fails, without a cancel, when", () => {
  it("the store fails during a call", async () => {
    const inner = memoryStore();
    let isBroken = false;
    const store: Store = {
      ...inner,
      async posts(query) {
        if (isBroken) throw new TypeError("out of order");
        return inner.posts(query);
      },
    };
    const breaking = tool({
      name: "echo",
      description: "Breaks the store until it is stopped.",
      async execute(_, { signal, sessionId }) {
        const stopped = new Promise((resolve) => signal.addEventListener("abort", resolve));
        isBroken = true;
        await store.post([{ id: "p", kind: "input", sessionId, message: userMessage("Hurry.") }]);
        await stopped;
        isBroken = false;
      },
    });
    const error = await failure({ store, tools: [breaking] });
    expect(error).toMatchObject({ code: "internal", message: "out of order" });
  });

  it("a tool source throws", async () => {
    let asked = 0;
    const source = {
      refresh: () => Promise.resolve(),
      tools() {
        if (++asked > 1) throw new Error("The line is dead.");
        return [];
      },
    };
    const error = await failure({ toolSources: [source] });
    expect(error).toMatchObject({
      code: "tool_source_failed",
      message: "A tool source failed: The line is dead.",
    });
  });

  it("a tool source cannot be refreshed or returns an invalid tool", async () => {
    const refresh = () => Promise.reject(new Error("The line is dead."));
    const failing = { refresh, tools: () => [] };
    expect((await failure({ toolSources: [failing] })).code).toBe("tool_source_failed");
    const junk = { refresh: () => Promise.resolve(), tools: () => [{ ...echo, name: "copy" }] };
    expect((await failure({ toolSources: [junk] })).code).toBe("invalid_tool");
  });

  it("a hook of one call throws; the other calls stop and get results", async () => {
    const polite = tool({
      name: "polite",
      description: "Waits for its signal.",
      execute: (_, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason), { once: true });
        }),
    });
    const postActing: Hook["postActing"] = (_, { name }) => {
      if (name === "echo") throw new Error("I will not.");
    };
    const error = await failure({ ...h({ postActing }), tools: [echo, polite] }, [
      [{ call: "polite" }, say("a")],
    ]);
    expect(error.message).toBe("Hook rude failed in postActing: I will not.");
  });
});

describe("an invalid return value fails the run and names the hook:", () => {
  const text = (content: unknown) => ({ role: "assistant", content });
  const wrong: Readonly<Record<string, readonly unknown[]>> = {
    preReasoning: [
      5,
      {},
      { messages: [] },
      { messages: [null], systemPrompt: "", tools: [], options: {} },
    ],
    postReasoning: [
      "stop",
      {},
      [],
      { stop: "yes" },
      { gotoReasoning: "x" },
      { gotoReasoning: [{}] },
      text([{ type: "text" }]),
      text([null]),
      text([{ type: "tool_use", id: "c", input: {} }]),
      text([
        { type: "tool_use", id: "c", name: "echo", input: {} },
        { type: "tool_use", id: "c", name: "echo", input: {} },
      ]),
    ],
    preActing: [5, {}, { name: "" }, { result: 5 }, { result: [null] }, { result: undefined }],
    postActing: [true, {}, { state: "fine", output: [] }, { state: "success", output: "x" }],
    preSummary: [7],
    postSummary: [{ stop: true }, {}],
  };

  it("preReasoning with a field that a model call does not have", async () => {
    const preReasoning = (_: unknown, call: object) => ({ ...call, sysPrompt: "Be brief." });
    const error = await failure(h({ preReasoning }));
    expect(error).toMatchObject({
      code: "hook_failed",
      message:
        "Hook rude failed in preReasoning: it returned `sysPrompt`, which a model call does not have. Did you mean `systemPrompt`?",
    });
  });

  it.each(Object.entries(wrong))("%s", async (point, values) => {
    for (const value of values) {
      const error = await failure(h({ [point]: () => value }));
      expect(error).toMatchObject({
        code: "hook_failed",
        message: expect.stringMatching(
          new RegExp(`^Hook rude failed in ${point}: it must return `),
        ),
      });
    }
  });

  it.each<[string, object]>([
    ["a message", { messages: [null] }],
    ["the content of a message", { messages: [{ role: "user", content: "x" }] }],
    ["the list of messages", { messages: null }],
    ["the system prompt", { systemPrompt: 5 }],
    ["tools", { tools: ["echo"] }],
    ["options", { options: null }],
  ])("or leaves it behind in place: %s", async (_, edit) => {
    const preReasoning: Hook["preReasoning"] = (_context, call) => void Object.assign(call, edit);
    const error = await failure(h({ preReasoning }));
    expect(error).toMatchObject({
      code: "hook_failed",
      message: "The model call is invalid after preReasoning of rude.",
    });
  });

  it("null and undefined change nothing, at every hook point", async () => {
    for (const nothing of [null, undefined]) {
      const answer = () => nothing as never;
      const hook: Hook = {
        name: "quiet",
        preCall: answer,
        preReasoning: answer,
        postReasoning: answer,
        preActing: answer,
        postActing: answer,
        preSummary: answer,
        postSummary: answer,
        postCall: answer,
      };
      const more = { tools: [echo], hooks: [hook], maxIters: 1 };
      const { reply, results } = await runScript([[say("a")], "summed up"], more);
      expect(reply.text).toBe("summed up");
      expect(results.map(inShort)).toEqual(["success: a"]);
    }
  });

  it("stops only for `true`", async () => {
    const goOn = () => ({ stop: false }) as never;
    const hook: Hook = { name: "undecided", postReasoning: goOn, postActing: goOn };
    const { reply } = await runScript([[say("a")], "done"], { tools: [echo], hooks: [hook] });
    expect(reply).toMatchObject({ generateReason: "model_stop", text: "done" });
  });
});

describe("rejects invalid data at the boundary:", () => {
  it("an answer whose output is not an array of blocks", async () => {
    const store = memoryStore();
    const outside = tool({ name: "outside", description: "Runs elsewhere." });
    const model = scriptedModel([[{ call: "outside" }], "done"]);
    const agent = new ReActAgent({ name: "lead", model, tools: [outside], store });
    const { approvals, task } = await agent.call("Go.", options);
    const state = async () => [
      await store.session("s"),
      await store.posts({}),
      await store.last(task.taskId),
    ];
    const before = JSON.stringify(await state());
    const [approval] = approvals;
    for (const output of [[null], [5], [{ type: "text" }], [{ type: "image" }], [{}]]) {
      const answer = { ...approval?.answer(""), output } as unknown as Input;
      await expect(agent.call(answer, options)).rejects.toMatchObject({ code: "invalid_input" });
    }
    expect(JSON.stringify(await state())).toBe(before);
    const reply = await agent.call(approval?.answer("42") as Input, options);
    expect(reply.text).toBe("done");
  });

  it("treats a model's call without a name as an unknown tool", async () => {
    for (const call of ["", undefined as never]) {
      const { reply, results } = await runScript([[{ call, input: {} }], "done"], {
        tools: [echo],
      });
      expect(reply.text).toBe("done");
      expect(results.map(inShort)).toEqual([expect.stringMatching(/^error: There is no tool/)]);
    }
  });
});
