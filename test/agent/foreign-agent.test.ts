import { describe, expect, it } from "vitest";
import { textOf } from "../../src/contract/message.ts";
import {
  type Agent,
  agentTool,
  memoryStore,
  ReActAgent,
  RivuletError,
  tool,
} from "../../src/index.ts";
import { ManualClock, type Script, scriptedModel } from "../../src/testing.ts";
import {
  fakeAgent,
  gate,
  hidden,
  left,
  leftUnchecked,
  problemsOf,
  prompt,
  removing,
  teamAbove,
  untilSeen,
} from "./support/foreign-agent.ts";

describe("an agent that is not of this package", () => {
  it("streams as a child at depth 2, live", async () => {
    const { open, opened } = gate();
    const fake = fakeAgent(async function* () {
      yield "Hel";
      await opened;
      yield "lo";
      return "Hello";
    });
    const { store, lead } = teamAbove(fake);
    const run = lead.run("Go.", { sessionId: "s", userId: "ann" });
    const seen: string[] = [];
    for await (const event of run) {
      if (event.type !== "task.text.delta" || event.source?.agentId !== "fake") continue;
      seen.push(`${event.source.path} ${event.delta}`);
      open(); // the second piece comes only after a reader has seen the first
    }
    expect(seen).toEqual(["s/helper/fake Hel", "s/helper/fake lo"]);
    const { record, task, messages, results } = await left(store, await run.result());
    expect(record).toMatchObject({ status: "completed", depth: 2, generateReason: "model_stop" });
    expect(textOf(record.result?.content ?? [])).toBe("Hello");
    expect(task?.usage?.total_tokens).toBe(7);
    expect(messages.map(({ role, name }) => `${role} ${name}`)).toEqual([
      "user undefined",
      "assistant fake",
    ]);
    expect(results.map(({ output }) => textOf(output))).toEqual(["Hello"]);
    expect(fake.calls).toHaveLength(1);
    expect(fake.calls[0]?.options.userId).toBe("ann");
    expect(fake.calls[0]?.input).toMatchObject([{ content: [{ type: "text", text: "Work." }] }]);
  });

  it("gets a message item from its reply if it yields none", async () => {
    // biome-ignore lint/correctness/useYield: an agent without events.
    const fake = fakeAgent(async function* () {
      return "Only a reply.";
    });
    const { store, lead } = teamAbove(fake);
    const { task, record } = await left(store, await lead.call("Go.", { sessionId: "s" }));
    expect(task?.output).toMatchObject([
      { type: "message", status: "completed", block_list: [{ text: "Only a reply." }] },
    ]);
    expect(textOf(record.result?.content ?? [])).toBe("Only a reply.");
  });

  it("fails as a child; the parent continues with a tool error", async () => {
    const fake = fakeAgent(async function* () {
      yield "So ";
      const where = { taskId: "its own" };
      throw new RivuletError("out_of_paper", "No paper.", { hint: "Buy some.", where });
    });
    const { store, lead } = teamAbove(fake);
    const reply = await lead.call("Go.", { sessionId: "s" });
    expect(reply.text).toBe("done");
    const { record, results, task } = await left(store, reply);
    expect(record).toMatchObject({ status: "failed" });
    expect(record.error).toMatchObject({
      code: "out_of_paper",
      message: "No paper.",
      hint: "Buy some.",
      where: { taskId: record.taskId, path: "s/helper/fake" },
    });
    expect(results).toMatchObject([{ state: "error" }]);
    expect(textOf(results[0]?.output ?? [])).toContain("No paper.");
    expect(task?.output).toMatchObject([{ status: "incomplete", block_list: [{ text: "So " }] }]);
  });

  it("fails as a child if `run` throws", async () => {
    const fake = fakeAgent(async function* () {
      yield "";
      return "";
    });
    fake.run = () => {
      throw new Error("Not today.");
    };
    const { store, lead } = teamAbove(fake);
    const { record } = await left(store, await lead.call("Go.", { sessionId: "s" }));
    expect(record.error).toMatchObject({ code: "internal", message: "Not today." });
  });

  it("is cancelled with its root", async () => {
    const fake = fakeAgent(async function* ({ signal }) {
      yield "Hel";
      await new Promise((resolve) => signal?.addEventListener("abort", resolve));
      return "Hel";
    });
    const { store, lead } = teamAbove(fake);
    const run = lead.run("Go.", { sessionId: "s" });
    await untilSeen(run, "Hel");
    await run.cancel("changed my mind");
    const { record, task } = await left(store, await run.result());
    expect(record).toMatchObject({ status: "cancelled", generateReason: "interrupted" });
    expect(fake.calls[0]?.cancels).toEqual(["changed my mind"]);
    expect(fake.calls[0]?.options.signal?.aborted).toBe(true);
    expect(task?.output).toMatchObject([{ block_list: [{ text: "Hel" }] }]);
    expect(task).toMatchObject({ status: "cancelled", reason: "changed my mind" });
  });

  it("has five seconds to stop; later events are dropped", async () => {
    const { open, opened } = gate();
    const fake = fakeAgent(async function* () {
      yield "Hel";
      await opened;
      yield "lo";
      return "Hello";
    });
    const clock = new ManualClock(1_000);
    const { store, lead } = teamAbove(fake, { clock });
    const run = lead.run("Go.", { sessionId: "s" });
    await untilSeen(run, "Hel");
    const ended = run.cancel("enough");
    await clock.advance(5_000);
    await ended;
    open();
    await new Promise((resolve) => setImmediate(resolve)); // the late event has arrived by then
    const { record, task } = await left(store, await run.result());
    expect(record.status).toBe("cancelled");
    expect(task?.output).toMatchObject([{ status: "cancelled", block_list: [{ text: "Hel" }] }]);
  });

  it("emits nothing after its end while its parent continues", async () => {
    const { open, opened } = gate();
    const fake = fakeAgent(async function* () {
      yield "Hel";
      await opened;
      yield "lo";
      return "Hello";
    });
    const clock = new ManualClock(1_000);
    const store = memoryStore();
    const model = scriptedModel(async ({ prompt: asked }) => {
      if (!asked.some(({ role }) => role === "tool")) return [{ call: "fake", input: prompt }];
      open();
      await new Promise((resolve) => setImmediate(resolve)); // the late event has arrived by then
      return "done";
    });
    const lead = new ReActAgent({ name: "lead", model, tools: [agentTool(fake)], store, clock });
    const run = lead.run("Go.", { sessionId: "s" });
    await untilSeen(run, "Hel");
    const [child] = await store.tasks({ parentSessionId: "s" });
    const ended = lead.attach({ taskId: child?.taskId ?? "" }).cancel("enough");
    await clock.advance(5_000);
    await ended;
    const reply = await run.result();
    expect(reply.text).toBe("done");
    expect((await left(store, reply)).task?.output).toMatchObject([
      { status: "cancelled", block_list: [{ text: "Hel" }] },
    ]);
  });

  it("runs in the background and reports its end to the parent", async () => {
    const { open, opened } = gate();
    const fake = fakeAgent(async function* () {
      yield "Working";
      await opened;
      return "Working";
    });
    const delegate = tool({
      name: "delegate",
      description: "Starts the agent.",
      async execute(_, context) {
        const options = { agentId: "fake", mode: "background" } as const;
        return (await context.runChild(fake, "Work.", options)).status;
      },
    });
    const store = memoryStore();
    const model = scriptedModel([[{ call: "delegate" }], "started", "It is done."]);
    const lead = new ReActAgent({ name: "lead", model, tools: [delegate], store });
    const run = lead.run("Go.", { sessionId: "s" });
    const reply = await run.result();
    expect(reply.text).toBe("started");
    open();
    await run.settled();
    const { record } = await left(store, reply);
    expect(record).toMatchObject({ status: "completed", mode: "background" });
    await lead.call("And?", { sessionId: "s" });
    expect(JSON.stringify(model.calls[2]?.prompt)).toContain("Working");
  });
});

describe("an approval of an agent that is not of this package", () => {
  const script: Script = [
    [{ thinking: "Hm." }, { call: "remove", input: { path: "a" } }],
    "It is gone.",
  ];

  it.each(["its own store", "the same store"])(
    "is listed at the root and answered there, with %s",
    async (which) => {
      const executed: string[] = [];
      const store = memoryStore();
      const own = which === "the same store" ? { store } : {};
      const agent = hidden({ script, tools: [removing(executed)], ...own });
      const { lead } = teamAbove(agent, { store });
      const asked = await lead.call("Go.", { sessionId: "s" });
      expect(asked.generateReason).toBe("approval_required");
      expect(asked.approvals).toMatchObject([
        { path: "s/helper/fake", call: { name: "remove", input: { path: "a" } } },
      ]);
      expect((await left(store, asked)).record.status).toBe("suspended");
      const [approval] = await lead.approvals({ sessionId: "s" });
      if (approval === undefined) throw new Error("Nothing waits.");
      const reply = await lead.call(approval.approve(), { sessionId: "s" });
      expect(reply.text).toBe("done");
      expect(executed).toEqual(["a"]);
      const { record, task, results } = await left(store, reply);
      expect(record.status).toBe("completed");
      expect(task?.output.map(({ type }) => type)).toEqual([
        "reasoning",
        "tool_call",
        "tool_result",
        "message",
      ]);
      expect(textOf(results[0]?.output ?? [])).toBe("It is gone.");
      expect(task?.approvals).toMatchObject([{ decision: "approve" }]);
    },
  );

  it.each([{ userId: "bob" }, {}])("does not exist for %o, who did not start it", async (other) => {
    const executed: string[] = [];
    const { store, lead } = teamAbove(hidden({ script, tools: [removing(executed)] }));
    const asked = await lead.call("Go.", { sessionId: "s", userId: "ann" });
    const records = await store.tasks({ rootTaskId: asked.task.rootTaskId });
    expect(records.map(({ userId }) => userId)).toEqual(records.map(() => "ann"));
    const notFound = expect.objectContaining({ code: "not_found" });
    await expect(lead.approvals({ sessionId: "s", ...other })).rejects.toEqual(notFound);
    const answers = asked.approvals.map((approval) => approval.approve());
    expect(answers).toHaveLength(1);
    await expect(lead.call(answers, { sessionId: "s", ...other })).rejects.toEqual(notFound);
    expect(executed).toEqual([]);
    const reply = await lead.call(answers, { sessionId: "s", userId: "ann" });
    expect([reply.text, executed]).toEqual(["done", ["a"]]);
  });

  it("is denied", async () => {
    const executed: string[] = [];
    const { store, lead } = teamAbove(hidden({ script, tools: [removing(executed)] }));
    const { approvals } = await lead.call("Go.", { sessionId: "s" });
    const denials = approvals.map((approval) => approval.deny("Not that one."));
    const reply = await lead.call(denials, { sessionId: "s" });
    const { task } = await left(store, reply);
    expect(executed).toEqual([]);
    expect(task?.output[2]).toMatchObject({ status: "failed", error: { code: "denied" } });
  });

  it.each(["its own store", "the same store"])(
    "may come from a descendant of it, with %s",
    async (which) => {
      const executed: string[] = [];
      const store = memoryStore();
      const own = which === "the same store" ? { store } : {};
      const below = new ReActAgent({
        name: "below",
        model: scriptedModel([
          [
            { call: "remove", input: { path: "a" } },
            { call: "remove", input: { path: "b" } },
          ],
          "Both gone.",
        ]),
        tools: [removing(executed)],
      });
      const agent = hidden({
        script: [[{ call: "below", input: prompt }], "All gone."],
        tools: [agentTool(below)],
        ...own,
      });
      const { lead } = teamAbove(agent, { store });
      let reply = await lead.call("Go.", { sessionId: "s" });
      for (const paths of [["a", "b"], ["b"]]) {
        expect(reply.approvals).toMatchObject(
          paths.map((path) => ({
            ...{ path: "s/helper/fake/below", call: { name: "remove", input: { path } } },
          })),
        );
        expect(await problemsOf(store, reply.task.rootTaskId)).toEqual([]);
        const [first] = reply.approvals.map((approval) => approval.approve());
        reply = await lead.call(first, { sessionId: "s" });
      }
      expect(reply.text).toBe("done");
      expect(executed).toEqual(["a", "b"]);
      const { tree, record } = await left(store, reply);
      const child = Object.values(tree.tasks).find(({ agentId }) => agentId === "below");
      expect(child).toMatchObject({ status: "completed", parentTaskId: record.taskId });
      expect(child?.source).toMatchObject({ depth: 3, path: "s/helper/fake/below" });
    },
  );

  it("ends with a cancel of the root, in the agent as well", async () => {
    const agent = hidden({ script, tools: [removing()] });
    const { store, lead } = teamAbove(agent);
    const run = lead.run("Go.", { sessionId: "s" });
    const reply = await run.result();
    const { record } = await left(store, reply);
    expect(await agent.approvals({ sessionId: `relay-${record.sessionId}` })).toHaveLength(1);
    await lead.attach({ sessionId: "s" }).cancel("enough");
    expect((await left(store, reply)).record.status).toBe("cancelled");
    expect(await agent.approvals({ sessionId: `relay-${record.sessionId}` })).toEqual([]);
  });
});

describe("a descendant of an agent that is not of this package", () => {
  it("in the background streams to its end", async () => {
    const { open, opened } = gate();
    const model = scriptedModel(async () => {
      await opened;
      return { text: ["La", "te."] };
    });
    const below = new ReActAgent({ name: "below", model });
    const start = tool({
      name: "start",
      description: "Starts the agent.",
      async execute(_, context) {
        const options = { agentId: "below", mode: "background" } as const;
        return (await context.runChild(below, "Work.", options)).status;
      },
    });
    const agent = hidden({ script: [[{ call: "start" }], "Started."], tools: [start] });
    const { store, lead } = teamAbove(agent);
    const run = lead.run("Go.", { sessionId: "s" });
    const seen: string[] = [];
    for await (const event of run) {
      if (event.type !== "task.text.delta") continue;
      seen.push(`${event.source?.path ?? "s"}: ${event.delta}`);
      open();
    }
    expect(seen).toEqual([
      "s/helper/fake: Started.",
      "s/helper/fake/below: La",
      "s/helper/fake/below: te.",
      "s/helper: helped",
      "s: done",
    ]);
    expect(await problemsOf(store, (await run.result()).task.rootTaskId)).toEqual([]);
  });

  it("ends with a cancel that the agent ignores", async () => {
    const below = new ReActAgent({
      name: "below",
      model: scriptedModel([[{ call: "ask", input: prompt }], "."]),
      tools: [
        agentTool(new ReActAgent({ name: "ask", model: scriptedModel([["Hel", { hang: true }]]) })),
      ],
    });
    const agent = hidden({
      script: [[{ call: "below", input: prompt }]],
      tools: [agentTool(below)],
    });
    const deaf: Agent = {
      ...agent,
      run: (input, { signal: _, ...options } = {}) => {
        const run = agent.run(input, options);
        const events = () => run[Symbol.asyncIterator]();
        return {
          ...run,
          result: () => run.result(),
          cancel: async () => {},
          [Symbol.asyncIterator]: events,
        } as never;
      },
    };
    const clock = new ManualClock(1_000);
    const { store, lead } = teamAbove(deaf, { clock });
    const run = lead.run("Go.", { sessionId: "s" });
    await untilSeen(run, "Hel");
    const ended = run.cancel("enough");
    await clock.advance(5_000);
    await ended;
    const { task } = await run.result();
    expect(await problemsOf(store, task.rootTaskId)).toEqual([]);
    const { tree } = await leftUnchecked(store, task.rootTaskId);
    expect(Object.values(tree.tasks).map(({ status }) => status)).toEqual(
      Array.from({ length: 5 }, () => "cancelled"),
    );
  });
});
