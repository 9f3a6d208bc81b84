import { describe, expect, it } from "vitest";
import { z } from "zod";
import { agentTool, memoryStore, ReActAgent, tool } from "../../src/index.ts";
import { ManualClock, type Script, scriptedModel } from "../../src/testing.ts";
import { expiringStore, losingStore } from "./support/losing-store.ts";
import { inShort, runScript, whatIsLeft } from "./support/run-script.ts";

const options = { sessionId: "s" };
const number = z.object({ n: z.number() });
const count = tool({ name: "count", description: "Counts.", input: number, execute: ({ n }) => n });
const same = tool({ name: "same", description: "Is the same.", execute: () => "the same" });
/** Calls the tool for ever, with another number each time. */
const forEver: Script = ({ tools, callIndex }) =>
  tools === undefined ? "That is all." : [{ call: "count", input: { n: callIndex } }];

describe("maxIters", () => {
  it("ends with a summary requested without tools", async () => {
    const { reply, model, output, tree, messages } = await runScript(forEver, {
      tools: [count],
      maxIters: 3,
    });
    expect(reply).toMatchObject({ text: "That is all.", generateReason: "max_iterations" });
    expect(model.calls).toHaveLength(4);
    expect(model.calls[3]?.tools).toBeUndefined();
    expect(JSON.stringify(model.calls[3]?.prompt)).toContain(
      "You have failed to generate response within the maximum iterations. Now respond directly by summarizing the current situation.",
    );
    expect(JSON.stringify(messages)).not.toContain("You have failed");
    expect(output.at(-1)).toMatchObject({ type: "message", purpose: "summary" });
    expect(tree.tasks[reply.task.taskId]).toMatchObject({
      status: "incomplete",
      incompleteReason: "max_iterations",
      generateReason: "max_iterations",
    });
  });

  it("streams the summary with type summary", async () => {
    const model = scriptedModel(forEver);
    const agent = new ReActAgent({ name: "lead", model, tools: [count], maxIters: 1 });
    const seen: unknown[] = [];
    for await (const { type, last, text } of agent.stream("Go.")) {
      if (type === "summary") seen.push([last, text]);
    }
    expect(seen).toEqual([
      [false, "That is all."],
      [true, "That is all."],
    ]);
  });

  it("counts per task", async () => {
    const { agent } = await runScript(forEver, { tools: [count], maxIters: 2 });
    const next = await agent.call("And now?", options);
    expect(next.generateReason).toBe("max_iterations");
  });

  it("requests one summary, also when a crash follows a summary without visible text", async () => {
    const blank = () => [{ thinking: "Hm." }];
    for (let at = 1; at < 8; at++) {
      const { store, expire } = expiringStore();
      const options = { name: "lead", maxIters: 1, model: scriptedModel(blank) };
      const lost = new ReActAgent({ ...options, store: losingStore(store, at, "after") });
      const isLost = await lost.call("Go.", { sessionId: "s" }).then(
        () => false,
        () => true,
      );
      if (!isLost) break;
      expire();
      const [task] = await store.tasks({ sessionId: "s" });
      const agent = new ReActAgent({ ...options, store });
      if (task?.status === "in_progress") await agent.call(undefined, { sessionId: "s" });
      const replies = (await store.session("s")).filter(({ role }) => role === "assistant");
      expect({ at, replies: replies.length }).toEqual({ at, replies: 2 });
      expect(replies[1]?.metadata?.summary).toBe(true);
    }
  });

  it("counts replies without visible content and sends a reminder for each", async () => {
    const blank = [{ thinking: "Hm." }];
    const { reply, model } = await runScript([blank, " ", [], "At last."], { maxIters: 10 });
    expect(reply).toMatchObject({ text: "At last.", generateReason: "model_stop" });
    const reminders = JSON.stringify(model.calls[3]?.prompt).match(/no visible text/g);
    expect(reminders).toHaveLength(3);
    const never = await runScript(
      ({ tools, prompt }) =>
        JSON.stringify(prompt).includes("You have failed") ? "Sorry." : tools ? " " : " ",
      { maxIters: 2 },
    );
    expect(never.reply).toMatchObject({ text: "Sorry.", generateReason: "max_iterations" });
    expect(never.model.calls).toHaveLength(3);
  });

  it.each(["image/png", "application/pdf", "audio/wav"])(
    "accepts a file of type %s as an answer",
    async (mediaType) => {
      const { reply, model } = await runScript(
        [[{ file: { mediaType, data: { type: "data", data: "AAAA" } } }]],
        {
          maxIters: 5,
        },
      );
      expect([reply.generateReason, model.calls.length]).toEqual(["model_stop", 1]);
      expect(reply.content).toMatchObject([{ source: { mimeType: mediaType } }]);
    },
  );

  it("does not treat a reply with calls as blank", async () => {
    const { model } = await runScript([[{ call: "same" }], "done"], { tools: [same] });
    expect(JSON.stringify(model.calls[1]?.prompt)).not.toContain("no visible text");
  });

  it("rejects an invalid number of iterations", () => {
    for (const maxIters of [0, -1, 1.5, Number.NaN]) {
      expect(() => new ReActAgent({ name: "a", model: scriptedModel([]), maxIters })).toThrow(
        expect.objectContaining({ code: "invalid_settings" }),
      );
    }
  });
});

describe("a budget", () => {
  it.each([
    ["tokens", { tokens: 25 }, 3],
    ["iterations", { iterations: 2 }, 2],
  ])("of %s ends the task before the next model call", async (_, budget, calls) => {
    const script: Script = ({ callIndex }) => [
      { call: "count", input: { n: callIndex } },
      { usage: { inputTokens: 5, outputTokens: 5 } },
    ];
    const { reply, model, tree } = await runScript(script, { tools: [count], budget });
    expect(reply.generateReason).toBe("budget");
    expect(model.calls).toHaveLength(calls);
    expect(tree.tasks[reply.task.taskId]).toMatchObject({
      status: "incomplete",
      incompleteReason: "budget",
    });
  });

  it("of time uses the agent's clock", async () => {
    const clock = new ManualClock();
    const wait = tool({
      name: "wait",
      description: "Waits.",
      input: number,
      execute: () => clock.advance(400).then(() => "waited"),
    });
    const script: Script = ({ callIndex }) => [{ call: "wait", input: { n: callIndex } }];
    const { reply, model } = await runScript(script, {
      tools: [wait],
      budget: { wallMs: 1_000 },
      clock,
    });
    expect(reply.generateReason).toBe("budget");
    expect(model.calls).toHaveLength(3);
  });

  it("is shared by the whole subtree; the call's overrides the agent's", async () => {
    const script: Script = ({ callIndex }) =>
      callIndex < 3 ? [{ call: "count", input: { n: callIndex } }] : "helped";
    const helper = new ReActAgent({ name: "helper", model: scriptedModel(script), tools: [count] });
    const store = memoryStore();
    const model = scriptedModel([[{ call: "helper", input: { prompt: "x" } }], "done"]);
    const agent = new ReActAgent({
      name: "lead",
      model,
      tools: [agentTool(helper)],
      store,
      budget: { iterations: 100 },
    });
    const reply = await agent.call("Go.", { ...options, budget: { iterations: 3 } });
    expect(reply.generateReason).toBe("budget");
    const records = await store.tasks({ rootTaskId: reply.task.rootTaskId });
    expect(records.map(({ status }) => status)).toEqual(["incomplete", "incomplete"]);
    const { results } = await whatIsLeft(store, reply);
    expect(results.map(inShort)).toEqual([expect.stringContaining("status: incomplete")]);
  });

  it("is not renewed by an approval", async () => {
    const ask = tool({
      name: "ask",
      description: "Asks.",
      input: number,
      needsApproval: true,
      execute: ({ n }) => n,
    });
    const script: Script = ({ callIndex }) => [{ call: "ask", input: { n: callIndex } }];
    const { agent, reply, model } = await runScript(script, {
      tools: [ask],
      budget: { iterations: 2 },
    });
    let next = reply;
    for (let round = 0; round < 5 && next.approvals.length > 0; round++) {
      next = await agent.call(
        next.approvals.map((one) => one.approve()),
        options,
      );
    }
    expect(next.generateReason).toBe("budget");
    expect(model.calls).toHaveLength(2);
  });
});

describe("the repetition breaker", () => {
  it("warns the model at the third repetition and ends the task at the fourth", async () => {
    const { reply, results, model, tree } = await runScript(() => [{ call: "same" }], {
      tools: [same],
    });
    expect(results.map(inShort)).toEqual([
      "success: the same",
      "success: the same",
      expect.stringContaining("three times"),
      "success: the same",
    ]);
    expect(model.calls).toHaveLength(4);
    expect(reply.generateReason).toBe("no_progress");
    expect(tree.tasks[reply.task.taskId]).toMatchObject({
      status: "incomplete",
      incompleteReason: "no_progress",
    });
  });

  it("counts consecutive repetitions only", async () => {
    const call = [{ call: "same" }];
    const other = [{ call: "count", input: { n: 1 } }];
    const script = [call, call, other, call, call, other, call, call, "done"];
    const { reply } = await runScript(script, { tools: [same, count] });
    expect(reply.generateReason).toBe("model_stop");
    let n = 0;
    const growing = tool({ name: "growing", description: "Grows.", execute: () => ++n });
    const grows = Array(6).fill([{ call: "growing" }]);
    expect((await runScript([...grows, "done"], { tools: [growing] })).reply.text).toBe("done");
  });

  it("counts within one task", async () => {
    const script: Script = ({ callIndex }) => (callIndex % 2 === 0 ? [{ call: "same" }] : "fine");
    const { agent, store } = await runScript(script, { tools: [same] });
    for (let round = 0; round < 6; round++) {
      expect((await agent.call("Still?", options)).generateReason).toBe("model_stop");
    }
    const results = (await store.session("s")).flatMap(({ content }) =>
      content.filter((block) => block.type === "tool_result"),
    );
    expect(results.map(inShort)).toEqual(Array(7).fill("success: the same"));
  });
});

describe("steer", () => {
  it("delivers a message once, at the next reasoning", async () => {
    const store = memoryStore();
    const model = scriptedModel([[{ call: "wait" }], [{ call: "same" }], "done"]);
    const entered = Promise.withResolvers<void>();
    const leave = Promise.withResolvers<void>();
    const wait = tool({
      name: "wait",
      description: "Waits.",
      async execute() {
        entered.resolve();
        await leave.promise;
        return "waited";
      },
    });
    const agent = new ReActAgent({ name: "lead", model, tools: [wait, same], store });
    const run = agent.run("Go.", options);
    await entered.promise;
    await run.steer("In French, please.");
    leave.resolve();
    const reply = await run.result();
    expect(reply.text).toBe("done");
    const prompts = model.calls.map(({ prompt }) => JSON.stringify(prompt));
    expect(prompts.map((prompt) => prompt.split("In French").length - 1)).toEqual([0, 1, 1]);
    const { events } = await whatIsLeft(store, reply);
    expect(events.filter((event) => event.type === "task.hint.added")).toMatchObject([
      { hint: { text: "In French, please." } },
    ]);
  });

  it("appears as a hint in the stream", async () => {
    const model = scriptedModel([[{ call: "steer" }], "done"]);
    const store = memoryStore();
    const steer = tool({
      name: "steer",
      description: "Steers its own run.",
      execute: async (_, { sessionId }) => {
        const message = {
          id: "m",
          role: "user",
          content: [{ type: "text", text: "Left." }],
        } as const;
        await store.post([{ id: "p", kind: "input", sessionId, message }]);
        return "ok";
      },
    });
    const agent = new ReActAgent({ name: "lead", model, tools: [steer], store });
    const hints: string[] = [];
    for await (const event of agent.stream("Go."))
      if (event.type === "hint") hints.push(event.text);
    expect(hints).toEqual(["Left."]);
  });

  it("after the last reasoning reaches the next task", async () => {
    const model = scriptedModel(["one", "two"]);
    const agent = new ReActAgent({ name: "lead", model });
    const run = agent.run("Go.", options);
    await run.result();
    await run.steer("By the way.");
    await agent.call("Next.", options);
    expect(JSON.stringify(model.calls[1]?.prompt)).toContain("By the way.");
  });
});
