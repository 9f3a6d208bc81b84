import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { rootRecord } from "../../src/agent/drive/plan.ts";
import { settingsBehind } from "../../src/agent/loop/settings.ts";
import { memoryStore, type Store, sqliteStore, userMessage } from "../../src/index.ts";
import { createApp } from "../../src/server.ts";
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

it("says that a running task waits for an owner that is silent, from another app on the same store", async () => {
  const folder = mkdtempSync(join(tmpdir(), "rivulet-waits-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const [first, second] = [0, 1].map(() => sqliteStore(join(folder, "store.db"))) as [Store, Store];
  onTestFinished(async () => {
    for (const store of [first, second]) await store.close();
  });
  let isSilent = false;
  // A process that hangs renews nothing.
  const renew: Store["renew"] = (leases, ttlMs) =>
    isSilent ? Promise.reject(new Error("silent")) : first.renew(leases, ttlMs);
  const leaseMs = 1_200;
  const { agent: owner } = scripted([{ hang: true }], { store: { ...first, renew }, leaseMs });
  const { agent: other } = scripted(["Hello."], { store: second, leaseMs });
  const [token, log] = [tokens.ann, false as const];
  const apps = [owner, other].map((agent) => createApp({ agents: [agent], token, log }));
  const send = async (app: number, path: string, init = {}) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const request = new Request(`http://localhost${path}`, { headers, ...init });
    return (await apps[app]?.fetch(request))?.json();
  };
  const body = JSON.stringify({ agent: "lead", input: "Go." });
  const { id } = await send(0, "/v1/tasks", { method: "POST", body });
  const read = () => send(1, `/v1/tasks/${id}`);
  expect(await read()).toMatchObject({ status: "in_progress" });
  expect((await read()).waits).toBeUndefined();
  isSilent = true;
  await expect.poll(async () => (await read()).waits?.reason).toBe("owner_silent");
  expect(await read()).toMatchObject({ status: "in_progress" });
  // No process follows the task, so none takes it over.
  await expect
    .poll(async () => (await read()).waits, { timeout: 10_000 })
    .toEqual({ reason: "owner_silent", left_ms: 0 });
  expect((await other.attach?.({ taskId: id }).result())?.text).toBe("Hello.");
  expect((await read()).waits).toBeUndefined();
});
