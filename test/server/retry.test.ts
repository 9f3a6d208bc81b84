import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { rootRecord } from "../../src/agent/drive/plan.ts";
import { settingsBehind } from "../../src/agent/loop/settings.ts";
import { connect } from "../../src/client.ts";
import { HarnessAgent, memoryStore, tool, userMessage } from "../../src/index.ts";
import { type Script, scriptedModel } from "../../src/testing.ts";
import { createFolder, removeFolder } from "../store/support/folder.ts";
import { nested, scripted, startServer, tokens } from "./support/server.ts";

const failure = () => Object.assign(new Error("The model is down."), { isRetryable: false });

/** Fails with the first call, and answers the second. */
function failingOnce(): Script {
  let calls = 0;
  return () => (calls++ === 0 ? [{ error: failure() }] : "All is well.");
}

async function world(script: Script, options: object = {}, serverOptions: object = {}) {
  const { agent, store } = scripted(script, options);
  const server = await startServer({ agents: [agent], ...serverOptions });
  const ann = server.as(tokens.ann);
  const start = async (body: object = {}) => {
    const started = await ann.post("/v1/tasks", { agent: "lead", input: "Go.", ...body });
    await ann.frames(`/v1/tasks/${started.body.id}/events?until=idle`);
    return started.body.id as string;
  };
  const ended = async (id: string) => {
    await ann.frames(`/v1/tasks/${id}/events`);
    return (await ann.get(`/v1/tasks/${id}`)).body;
  };
  return { store, server, ann, start, ended };
}

describe("POST /v1/tasks/{id}/retry", () => {
  it("starts a new task with everything that the failed one was started with", async () => {
    const output = {
      type: "object",
      properties: { answer: { type: "string" } },
      required: ["answer"],
    };
    let calls = 0;
    const { store, ann, start, ended } = await world(() =>
      calls++ === 0
        ? [{ error: failure() }]
        : [{ call: "structured_output", input: { answer: "42" } }],
    );
    const input = [
      { role: "user", content: "The first part." },
      { role: "user", content: "The second part.", metadata: { from: "a form" } },
    ];
    const more = { output, budget: { tokens: 9_000 }, metadata: { order: 7 } };
    const id = await start({ input, session_id: "s", ...more });
    const failed = await store.task(id);
    expect(failed).toMatchObject({ status: "failed" });
    const { status, headers, body } = await ann.post(`/v1/tasks/${id}/retry`);
    expect(status).toBe(201);
    expect(headers.get("location")).toBe(`/v1/tasks/${body.id}`);
    expect(body.id).not.toBe(id);
    await ended(body.id);
    const record = await store.task(body.id);
    for (const field of ["agentName", "sessionId", "userId", "budget", "outputSchema", "metadata"])
      expect(record?.[field as never], field).toEqual(failed?.[field as never]);
    const sent = (taskId: string, messages: readonly { metadata?: object; content: unknown }[]) =>
      messages.flatMap(({ metadata, content }) => {
        const {
          taskId: of,
          input: isInput,
          ...given
        } = (metadata ?? {}) as Record<string, unknown>;
        return of === taskId && isInput ? [{ given, content }] : [];
      });
    const messages = await store.session(record?.sessionId ?? "");
    expect(sent(id, messages)).toHaveLength(2);
    expect(sent(body.id, messages)).toEqual(sent(id, messages));
  });

  it("retries a cancelled task, also one that was cancelled in the queue", async () => {
    const { ann, ended, store } = await world(({ prompt }) =>
      JSON.stringify(prompt.at(-1)).includes("Stop.") ? [{ hang: true }] : "All is well.",
    );
    const post = async (input: string) =>
      (await ann.post("/v1/tasks", { agent: "lead", input, session_id: "s" })).body.id as string;
    const running = await post("Stop.");
    const queued = await post("Then this.");
    for (const id of [queued, running]) await ann.post(`/v1/tasks/${id}/cancel`);
    for (const id of [queued, running])
      expect(await ended(id)).toMatchObject({ status: "cancelled" });
    const { body } = await ann.post(`/v1/tasks/${queued}/retry`);
    expect(await ended(body.id)).toMatchObject({ status: "completed" });
    expect(JSON.stringify(await store.session(body.session_id))).toContain("Then this.");
    const again = await ann.post(`/v1/tasks/${running}/retry`);
    expect(again.status).toBe(201);
    await ann.post(`/v1/tasks/${again.body.id}/cancel`);
  });

  it("retries an incomplete task", async () => {
    const look = tool({ name: "look", description: "Looks.", execute: () => "seen" });
    let calls = 0;
    const { start, ended, ann } = await world(
      () => (calls++ === 0 ? [{ call: "look", input: {} }] : "All is well."),
      { maxIters: 1, tools: [look] },
    );
    const id = await start();
    expect(await ended(id)).toMatchObject({ status: "incomplete" });
    const before = calls;
    const { body } = await ann.post(`/v1/tasks/${id}/retry`);
    expect(await ended(body.id)).toMatchObject({ status: "completed" });
    expect(calls).toBe(before + 1);
  });

  it("retries a task whose beginning took five processes down", async () => {
    const { agent, store } = scripted(["All is well."]);
    const settings = settingsBehind(agent);
    if (settings === undefined) throw new Error("The agent has no settings.");
    const record = {
      ...rootRecord(settings, "s", { userId: "ann" }),
      input: [{ ...userMessage("Go."), metadata: { input: true as const } }],
    };
    await store.enqueue(record);
    for (let losses = 0; losses < 5; ) {
      if (await store.acquire("s", "a process that dies", 1)) losses += 1;
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    const server = await startServer({ agents: [agent] });
    const ann = server.as(tokens.ann);
    const { taskId } = record;
    const lost = agent.attach?.({ taskId }, { userId: "ann" }).result();
    await expect(lost).rejects.toMatchObject({ code: "poison" });
    const { body } = await ann.post(`/v1/tasks/${taskId}/retry`);
    await ann.frames(`/v1/tasks/${body.id}/events`);
    expect((await ann.get(`/v1/tasks/${body.id}`)).body).toMatchObject({ status: "completed" });
  });

  it("starts one task when a request is repeated with its task_id", async () => {
    const { ann, start, ended, store } = await world(failingOnce());
    const id = await start({ session_id: "s" });
    const first = await ann.post(`/v1/tasks/${id}/retry`, { task_id: "again" });
    const second = await ann.post(`/v1/tasks/${id}/retry`, { task_id: "again" });
    expect([first.status, second.status]).toEqual([201, 200]);
    expect(second.body.id).toBe(first.body.id);
    expect(await ended(first.body.id)).toMatchObject({ status: "completed" });
    expect(await store.tasks({ sessionId: first.body.session_id })).toHaveLength(2);
  });

  it("attaches the files of the input again, as they are now", async () => {
    const workspace = createFolder();
    const store = memoryStore();
    let calls = 0;
    const model = scriptedModel(() => (calls++ === 0 ? [{ error: failure() }] : "Read."));
    const lead = new HarnessAgent({ name: "lead", model, store, workspace });
    const server = await startServer({ agents: [lead] });
    const ann = server.as(tokens.ann);
    writeFileSync(join(workspace, "notes.md"), "the old text");
    const started = await ann.post("/v1/tasks", { agent: "lead", input: "Read @notes.md" });
    await ann.frames(`/v1/tasks/${started.body.id}/events`);
    writeFileSync(join(workspace, "notes.md"), "the new text");
    const { body } = await ann.post(`/v1/tasks/${started.body.id}/retry`);
    await ann.frames(`/v1/tasks/${body.id}/events`);
    const messages = await store.session(body.session_id);
    const own = messages.filter(({ metadata }) => metadata?.taskId === body.id && metadata?.input);
    expect(JSON.stringify(own).match(/the (old|new) text/g)).toEqual(["the new text"]);
    removeFolder(workspace);
  });

  it("refuses a task that runs, has completed, or is a child", async () => {
    const store = memoryStore();
    const waiting = scripted([{ hang: true }], { store, name: "waiting" }).agent;
    const server = await startServer({ agents: [nested(store), waiting] });
    const ann = server.as(tokens.ann);
    const { body: running } = await ann.post("/v1/tasks", { agent: "waiting", input: "Go." });
    const { body: done } = await ann.post("/v1/tasks", { agent: "lead", input: "Go." });
    await ann.frames(`/v1/tasks/${done.id}/events`);
    const [, child] = await store.tasks({ rootTaskId: done.id });
    for (const id of [running.id, done.id, child?.taskId]) {
      const { status, body } = await ann.post(`/v1/tasks/${id}/retry`);
      expect(status, id).toBe(409);
      expect(body.error).toMatchObject({
        code: "conflict",
        hint: expect.stringContaining("Retry"),
      });
    }
    expect(await store.tasks({ sessionId: done.session_id })).toHaveLength(1);
  });

  it("counts as a start within the limits of the user", async () => {
    const { ann, start } = await world(failingOnce(), {}, { limits: { startsPerMinute: 1 } });
    const id = await start();
    const { status, headers } = await ann.post(`/v1/tasks/${id}/retry`);
    expect(status).toBe(429);
    expect(headers.get("retry-after")).not.toBeNull();
  });

  it("is a run in the client", async () => {
    const { agent } = scripted(failingOnce());
    const { url } = await startServer({ agents: [agent] });
    const server = connect(url, { token: tokens.ann });
    const failed = server.agent("lead").run("Go.", { sessionId: "s" });
    await expect(failed.result()).rejects.toThrow();
    const { taskId } = await failed.task;
    const again = server.task(taskId).retry();
    expect((await again.result()).text).toBe("All is well.");
    expect((await again.task).taskId).not.toBe(taskId);
    expect((await again.task).sessionId).toBe((await failed.task).sessionId);
  });
});
