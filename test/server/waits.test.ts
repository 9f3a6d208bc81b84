import { expect, it } from "vitest";
import { rootRecord } from "../../src/agent/drive/lifecycle.ts";
import { settingsBehind } from "../../src/agent/loop/settings.ts";
import { memoryStore, userMessage } from "../../src/index.ts";
import { scripted, startServer, tokens } from "./support/server.ts";

it("says that a queued task waits for the task before it", async () => {
  const { agent } = scripted([{ hang: true }]);
  const server = await startServer({ agents: [agent] });
  const ann = server.as(tokens.ann);
  const start = { agent: "lead", input: "Go.", session_id: "s" };
  const { body: first } = await ann.post("/v1/tasks", start);
  const { body: second } = await ann.post("/v1/tasks", start);
  expect(second).toMatchObject({ status: "queued", waits: { reason: "busy" } });
  const read = await ann.get(`/v1/tasks/${second.id}`);
  expect(read.body.waits).toEqual({ reason: "busy" });
  await expect
    .poll(async () => (await ann.get(`/v1/tasks/${first.id}`)).body.status)
    .toBe("in_progress");
  expect((await ann.get(`/v1/tasks/${first.id}`)).body.waits).toBeUndefined();
  for (const { id } of [second, first]) await ann.post(`/v1/tasks/${id}/cancel`);
});

it("says that a queued task waits for an owner that is silent, or for an agent that no process has", async () => {
  const store = memoryStore();
  const { agent } = scripted(["Hello."], { store });
  const gone = scripted(["Hello."], { store, name: "gone" }).agent;
  const server = await startServer({ agents: [agent] });
  const ann = server.as(tokens.ann);
  const queue = async (queued: typeof agent, sessionId: string) => {
    const settings = settingsBehind(queued);
    if (settings === undefined) throw new Error("The agent has no settings.");
    // A process that takes no part has the lease, for less than half of the time that an owner renews it for.
    await store.acquire(sessionId, "a process that hangs", settings.leaseMs / 2 - 1);
    const record = rootRecord(settings, sessionId, { userId: "ann" });
    await store.enqueue({ ...record, input: [userMessage("Go.")] });
    return (await ann.get(`/v1/tasks/${record.taskId}`)).body.waits;
  };
  expect(await queue(agent, "s")).toEqual({
    reason: "owner_silent",
    left_ms: expect.any(Number),
  });
  expect(await queue(gone, "t")).toEqual({ reason: "unknown_agent" });
});
