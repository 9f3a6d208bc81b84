import { describe, expect, it } from "vitest";
import { textOf } from "../../src/contract/message.ts";
import {
  type Agent,
  type ChildOptions,
  jsonSchema,
  memoryStore,
  ReActAgent,
  type Store,
  type Tool,
  taskRunner,
  tool,
} from "../../src/index.ts";
import { checkStream } from "../../src/protocol/check/check.ts";
import type { TaskEvent } from "../../src/protocol.ts";
import { type ScriptedTurn, scriptedModel } from "../../src/testing.ts";
import { logTranscriptProblems } from "../support/log-matches-transcript.ts";

/** A tool that runs an agent as its call says. */
function delegate(agent: Agent, options: Partial<ChildOptions> = {}): Tool {
  return tool({
    name: "delegate",
    description: "Runs the agent.",
    input: jsonSchema<{ prompt: string }>({
      type: "object",
      properties: { prompt: { type: "string" } },
      required: ["prompt"],
    }),
    execution: { timeoutMs: null },
    async execute({ prompt }, context) {
      const outcome = await context.runChild(agent, prompt, { agentId: agent.name, ...options });
      return `${outcome.status} ${outcome.mode} ${outcome.reply?.text ?? ""}`.trim();
    },
  });
}

/** A model that waits for somebody to let it go on. */
function gate() {
  const opened = Promise.withResolvers<void>();
  return { open: opened.resolve, opened: opened.promise };
}

/** An agent that says this as soon as it may. */
function workerBehind(opened: Promise<void>, turn: ScriptedTurn): ReActAgent {
  const model = scriptedModel(async () => {
    await opened;
    return turn;
  });
  return new ReActAgent({ name: "worker", model });
}

const ask = tool({
  name: "ask",
  description: "Asks first.",
  needsApproval: true,
  execute: () => "done as asked",
});

async function logOf(store: Store, rootTaskId: string): Promise<readonly TaskEvent[]> {
  return store.read(rootTaskId, -1, 100_000);
}

async function expectLawful(store: Store, rootTaskId: string): Promise<void> {
  expect(checkStream(await logOf(store, rootTaskId))).toEqual([]);
  expect(await logTranscriptProblems(store, rootTaskId)).toEqual([]);
}

describe("a background child", () => {
  it("outlives its parent's task, streams in the same log and is delivered once", async () => {
    const store = memoryStore();
    const { open, opened } = gate();
    const worker = workerBehind(opened, { text: ["The answer ", "is 42."] });
    const model = scriptedModel([
      [{ call: "delegate", input: { prompt: "go" } }],
      "It works on it.",
      "It says 42.",
      "Nothing new.",
    ]);
    const lead = new ReActAgent({
      name: "lead",
      model,
      store,
      tools: [delegate(worker, { mode: "background" })],
    });
    const run = lead.run("Start.", { sessionId: "s" });
    const reply = await run.result();
    expect(reply.text).toBe("It works on it.");
    const [child] = await store.tasks({ parentSessionId: "s" });
    expect(child).toMatchObject({ status: "in_progress", mode: "background", depth: 1 });
    open();
    await run.settled();
    const events = await logOf(store, reply.task.rootTaskId);
    const rootEnd = events.findIndex(
      (event) => event.type === "task.completed" && event.task_id === reply.task.taskId,
    );
    const childEnd = events.findIndex(
      (event) => event.type === "task.completed" && event.task_id === child?.taskId,
    );
    expect(rootEnd).toBeGreaterThan(0);
    expect(childEnd).toBeGreaterThan(rootEnd);
    await expectLawful(store, reply.task.rootTaskId);

    const next = await lead.call("And?", { sessionId: "s" });
    expect(next.text).toBe("It says 42.");
    const asked = JSON.stringify(model.calls[2]?.prompt);
    expect(asked.match(/The answer is 42\./g)).toHaveLength(1);
    expect(asked).toContain(`task_id: ${child?.taskId}`);
    await lead.call("And now?", { sessionId: "s" });
    expect(JSON.stringify(model.calls[3]?.prompt).match(/A background task/g)).toHaveLength(1);
    expect(await store.posts({ sessionId: "s" })).toEqual([]);
  });

  it('streams to its end with until: "tree"', async () => {
    const { open, opened } = gate();
    const worker = workerBehind(opened, "Late.");
    const lead = new ReActAgent({
      name: "lead",
      model: scriptedModel([[{ call: "delegate", input: { prompt: "go" } }], "Early."]),
      tools: [delegate(worker, { mode: "background" })],
    });
    const said: string[] = [];
    for await (const event of lead.stream("Start.", { sessionId: "s", until: "tree" })) {
      if (event.type === "reasoning" && event.last) {
        said.push(`${event.source?.path ?? "lead"}: ${event.text}`);
        if (event.text === "Early.") open();
      }
    }
    expect(said).toEqual(["lead: ", "lead: Early.", "s/worker: Late."]);
  });

  it("requests approval after its parent ended and resumes alone", async () => {
    const store = memoryStore();
    const worker = new ReActAgent({
      name: "worker",
      model: scriptedModel([[{ call: "ask" }], "It is done."]),
      tools: [ask],
    });
    const model = scriptedModel([
      [{ call: "delegate", input: { prompt: "go" } }],
      "Started.",
      "I have heard.",
    ]);
    const tools = [delegate(worker, { mode: "background" })];
    const lead = new ReActAgent({ name: "lead", model, store, tools });
    const run = lead.run("Start.", { sessionId: "s" });
    const { task } = await run.result();
    await run.settled();
    const [approval] = await lead.approvals({ sessionId: "s" });
    expect(approval).toMatchObject({ path: "s/worker", call: { name: "ask" } });
    const answer = approval?.approve();
    const output = jsonSchema({ type: "object" });
    await expect(lead.call(answer, { sessionId: "s", output })).rejects.toMatchObject({
      code: "other_output",
    });
    const answered = await lead.call(answer, { sessionId: "s" });
    expect(answered.text).toBe("It is done.");
    expect(answered.task.rootTaskId).toBe(task.rootTaskId);
    await expectLawful(store, task.rootTaskId);
    await expect(lead.call(answer, { sessionId: "s" })).rejects.toMatchObject({
      code: "unknown_approval",
    });
    expect((await lead.call("And?", { sessionId: "s" })).text).toBe("I have heard.");
    expect(JSON.stringify(model.calls[2]?.prompt)).toContain("It is done.");
  });

  it("is cancelled with its root, running or suspended, also after the root ended", async () => {
    const store = memoryStore();
    const stuck = tool({
      name: "stuck",
      description: "Hangs.",
      execute: (_, { signal }) =>
        new Promise((_, reject) =>
          signal.addEventListener("abort", () => reject(signal.reason as Error)),
        ),
    });
    const hangs = new ReActAgent({
      name: "hangs",
      model: scriptedModel([[{ call: "stuck" }]]),
      tools: [stuck],
    });
    const asks = new ReActAgent({
      name: "asks",
      model: scriptedModel([[{ call: "ask" }]]),
      tools: [ask],
    });
    const spawn = (name: string, agent: Agent) =>
      tool({
        name,
        description: "Runs it.",
        execute: async (_, context) =>
          (await context.runChild(agent, "go", { agentId: name, mode: "background" })).status,
      });
    const lead = new ReActAgent({
      name: "lead",
      model: scriptedModel([[{ call: "hang" }, { call: "wait" }], "Both run."]),
      store,
      tools: [spawn("hang", hangs), spawn("wait", asks)],
    });
    const run = lead.run("Start.", { sessionId: "s" });
    const { task } = await run.result();
    const running = async () =>
      (await store.tasks({ rootTaskId: task.rootTaskId })).map(({ status }) => status);
    await expect.poll(running).toEqual(["completed", "in_progress", "suspended"]);
    await run.cancel("enough");
    expect(await running()).toEqual(["completed", "cancelled", "cancelled"]);
    expect(await lead.approvals({ sessionId: "s" })).toEqual([]);
    await expectLawful(store, task.rootTaskId);
  });

  it("wakes an idle parent with wakeOnCompletion", async () => {
    const store = memoryStore();
    const { open, opened } = gate();
    const worker = workerBehind(opened, "Found it.");
    const model = scriptedModel([
      [{ call: "delegate", input: { prompt: "go" } }],
      "Started.",
      "It has found it.",
    ]);
    const lead = new ReActAgent({
      name: "lead",
      model,
      store,
      tools: [delegate(worker, { mode: "background" })],
      wakeOnCompletion: true,
    });
    await lead.call("Start.", { sessionId: "s" });
    open();
    await expect
      .poll(async () => textOf((await store.session("s")).at(-1)?.content ?? []))
      .toBe("It has found it.");
    await expect
      .poll(async () => (await store.tasks({ sessionId: "s" })).map(({ status }) => status))
      .toEqual(["completed", "completed"]);
  });

  it("wakes its parent after another process took it over", async () => {
    const memory = memoryStore();
    const start = (store: Store, isStuck: boolean) => {
      const begun = Promise.withResolvers<void>();
      const worker = new ReActAgent({
        name: "worker",
        model: scriptedModel(() => {
          begun.resolve();
          return isStuck ? [{ hang: true }] : "Found it.";
        }),
      });
      const lead = new ReActAgent({
        name: "lead",
        model: scriptedModel(
          [[{ call: "delegate", input: { prompt: "go" } }], "Started.", "It has found it."],
          { by: "prompt" },
        ),
        store,
        tools: [delegate(worker, { mode: "background" })],
        resolveChild: () => worker,
        wakeOnCompletion: true,
      });
      return { lead, runner: taskRunner({ agents: [lead] }), begun: begun.promise };
    };
    const first = start({ ...memory }, true);
    await first.lead.call("Start.", { sessionId: "s" });
    await first.begun;
    await first.runner.shutDown();
    await start({ ...memory }, false).runner.sweep();
    await expect
      .poll(async () => textOf((await memory.session("s")).at(-1)?.content ?? []))
      .toBe("It has found it.");
  });
});

describe("a call with a synchronous child", () => {
  it("promotes the child to the background at the timeout", async () => {
    const store = memoryStore();
    const { open, opened } = gate();
    const worker = workerBehind(opened, "At last.");
    const model = scriptedModel([
      [{ call: "delegate", input: { prompt: "go" } }],
      "It takes long.",
      "Now I know.",
    ]);
    const lead = new ReActAgent({
      name: "lead",
      model,
      store,
      tools: [delegate(worker, { timeoutMs: 5 })],
    });
    const run = lead.run("Start.", { sessionId: "s" });
    const { task } = await run.result();
    open();
    await run.settled();
    const events = await logOf(store, task.rootTaskId);
    expect(events.filter(({ type }) => type.startsWith("task.child."))).toMatchObject([
      { type: "task.child.started", mode: "sync" },
      { type: "task.child.promoted", mode: "background", reason: "sync_timeout" },
    ]);
    await expectLawful(store, task.rootTaskId);
    expect((await lead.call("And?", { sessionId: "s" })).text).toBe("Now I know.");
    expect(JSON.stringify(model.calls[2]?.prompt)).toContain("At last.");
  });

  it("does not time out while the child waits for approval", async () => {
    const store = memoryStore();
    const worker = new ReActAgent({
      name: "worker",
      model: scriptedModel([[{ call: "ask" }], "Done."]),
      tools: [ask],
    });
    const lead = new ReActAgent({
      name: "lead",
      model: scriptedModel([[{ call: "delegate", input: { prompt: "go" } }], "Good."]),
      store,
      tools: [delegate(worker, { timeoutMs: 5_000 })],
    });
    const asked = await lead.call("Start.", { sessionId: "s" });
    expect(asked.generateReason).toBe("approval_required");
    const [approval] = asked.approvals;
    const reply = await lead.call(approval?.approve(), { sessionId: "s" });
    expect(reply.text).toBe("Good.");
    const [child] = await store.tasks({ parentSessionId: "s" });
    expect(child).toMatchObject({ mode: "sync", status: "completed" });
    await expectLawful(store, reply.task.rootTaskId);
  });
});
