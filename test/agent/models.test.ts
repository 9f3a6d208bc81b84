import { spawn } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { agentTool, HarnessAgent, memoryStore, ReActAgent, tool } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import { createFolder, removeFolder } from "../store/support/folder.ts";
import { modelsAgent } from "./support/models-agent.ts";

const named = (modelId: string) => scriptedModel(() => `I am ${modelId}.`, { modelId });
const [fast, careful] = ["scripted:fast", "scripted:careful"];

function agentWith(models = [named("careful")], store = memoryStore()) {
  return new ReActAgent({ name: "lead", model: named("fast"), models, store });
}

describe("the model of a task", () => {
  it("is the agent's own, or the one that the call names", async () => {
    const store = memoryStore();
    const agent = agentWith(undefined, store);
    const reply = async (model?: string) => {
      const { text, task } = await agent.call("Hi.", model === undefined ? {} : { model });
      return [text, (await store.task(task.taskId))?.model];
    };
    expect(await reply()).toEqual(["I am fast.", undefined]);
    expect(await reply(careful)).toEqual(["I am careful.", careful]);
    expect(await reply(fast)).toEqual(["I am fast.", fast]);
    expect(await reply()).toEqual(["I am fast.", undefined]);
  });

  it("must be allowed, and the error lists the models that are", async () => {
    const store = memoryStore();
    const agent = agentWith(undefined, store);
    await expect(
      agent.call("Hi.", { sessionId: "s", model: "openai:gpt-5" }),
    ).rejects.toMatchObject({
      code: "model_not_allowed",
      message: 'Agent lead does not allow the model "openai:gpt-5".',
      hint: expect.stringContaining(`${fast}, ${careful}`),
    });
    expect(await store.tasks({ sessionId: "s" })).toEqual([]);
    const plain = new ReActAgent({ name: "plain", model: named("fast") });
    expect((await plain.call("Hi.", { model: fast })).text).toBe("I am fast.");
    await expect(plain.call("Hi.", { model: careful })).rejects.toMatchObject({
      code: "model_not_allowed",
    });
  });

  it("has the fallbacks of its list", async () => {
    const broken = scriptedModel(() => ({ error: new Error("out") }), { modelId: "broken" });
    const modelExecution = { maxAttempts: 1 };
    const models = [[broken, named("spare")]];
    const agent = new ReActAgent({ name: "lead", model: named("fast"), models, modelExecution });
    expect((await agent.call("Hi.", { model: "scripted:broken" })).text).toBe("I am spare.");
  });

  it("is named once in `models`, which may include the agent's own", async () => {
    expect(() => agentWith([named("careful"), named("careful")])).toThrow(
      '`models` names the model "scripted:careful" twice.',
    );
    const agent = agentWith([named("fast"), named("careful")]);
    expect((await agent.call("Hi.", { model: fast })).text).toBe("I am fast.");
    expect(() => agentWith(["nonsense"] as never)).toThrow(
      expect.objectContaining({ code: "invalid_model" }),
    );
  });

  it("stays that of the task: a call that continues it cannot name another", async () => {
    const remove = tool({
      name: "remove",
      description: "Removes.",
      needsApproval: true,
      execute: () => "ok",
    });
    const asking = (modelId: string) =>
      scriptedModel(
        ({ assistantCount }) => (assistantCount === 0 ? { call: "remove" } : `I am ${modelId}.`),
        { modelId },
      );
    const options = { model: asking("fast"), models: [asking("careful")], tools: [remove] };
    const agent = new ReActAgent({ name: "lead", ...options });
    const { approvals } = await agent.call("Go.", { sessionId: "s", model: careful });
    const answers = approvals.map((approval) => approval.approve());
    await expect(agent.call(answers, { model: fast })).rejects.toMatchObject({
      code: "other_model",
      message: expect.stringContaining(`was started with the model ${careful}`),
    });
    expect((await agent.call(answers, { model: careful })).text).toBe("I am careful.");
  });

  it("stays that of the task when its process is killed and another one continues it", async () => {
    const folder = createFolder();
    onTestFinished(() => removeFolder(folder));
    const path = join(folder, "store.db");
    const program = resolve("test/agent/support/models-agent.ts");
    const child = spawn(process.execPath, [program, path], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(child.stdout, "data");
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
    const { agent, fast: own, careful: chosen } = modelsAgent(path);
    const reply = await agent.call(undefined, { sessionId: "s" });
    expect(reply.text).toBe("I am careful.");
    expect([own.calls.length, chosen.calls.length]).toEqual([0, 1]);
  });

  it("fails a task that continues where its agent does not allow it any more", async () => {
    const store = memoryStore();
    const first = agentWith(undefined, store);
    await first.call("Hi.", { sessionId: "s", taskId: "task_1", model: careful });
    const record = await store.task("task_1");
    if (record === undefined) throw new Error("The task is not stored.");
    const { result: _, ...queued } = record;
    await store.enqueue({
      ...{ ...queued, taskId: "task_2", rootTaskId: "task_2", status: "queued", input: [] },
    });
    const next = new ReActAgent({ name: "lead", model: named("fast"), store });
    await expect(next.attach({ taskId: "task_2" }).result()).rejects.toMatchObject({
      code: "model_not_allowed",
    });
  });
});

describe("the model of a child", () => {
  /** A model that calls a tool once, then says who it is and what the tool has said. */
  const calling = (modelId: string, call: string, input: unknown) =>
    scriptedModel(
      ({ prompt, assistantCount }) =>
        assistantCount === 0
          ? { call, input }
          : `I am ${modelId}, my child said: ${/I am \w+/.exec(JSON.stringify(prompt.at(-1)))?.[0]}.`,
      { modelId },
    );

  it("is its own, even if it allows the chosen one", async () => {
    const child = new ReActAgent({
      name: "child",
      model: named("slow"),
      models: [named("careful")],
    });
    const models = ["fast", "careful"].map((id) => calling(id, "child", { prompt: "Go." }));
    const [model, ...others] = models as [(typeof models)[0]];
    const lead = new ReActAgent({ name: "lead", model, models: others, tools: [agentTool(child)] });
    const { text } = await lead.call("Go.", { model: careful });
    expect(text).toBe("I am careful, my child said: I am slow.");
  });

  it("is the chosen one for a subagent without a model of its own", async () => {
    const own = named("own");
    const both = (modelId: string) =>
      scriptedModel(
        ({ prompt, assistantCount }) => {
          const text = JSON.stringify(prompt);
          const delegate = (agent_id: string) => ({
            call: "agent_spawn",
            input: { agent_id, task: `You are ${agent_id}.` },
          });
          if (assistantCount > 0) return `I am ${modelId}.`;
          return text.includes("You are helper.") || text.includes("You are expert.")
            ? `I am ${modelId}.`
            : [delegate("helper"), delegate("expert")];
        },
        { modelId },
      );
    const [model, other] = [both("fast"), both("careful")];
    const agent = new HarnessAgent({
      ...{ name: "lead", model, models: [other], filesystem: false, store: memoryStore() },
      subagents: [
        { name: "helper", description: "Helps." },
        { name: "expert", description: "Knows.", model: own },
      ],
    });
    const { text } = await agent.call("Go.", { model: careful });
    expect(text).toBe("I am careful.");
    expect([model, other, own].map(({ calls }) => calls.length)).toEqual([0, 3, 1]);
  });
});
