import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { connect } from "../../src/client.ts";
import { memoryStore, sqliteStore } from "../../src/index.ts";
import { storeIdOf } from "../../src/store/store-id.ts";
import { workspaceWith } from "../harness/agent/support/workspace.ts";
import { scripted, startServer, stored, tokens } from "./support/server.ts";

const start = { agent: "lead", input: "Go." };
const remove = { call: "remove", input: { path: "a.txt" } };

async function world(script: Parameters<typeof scripted>[0] = () => "Hello.") {
  const { agent, store } = scripted(script);
  const server = await startServer({ agents: [agent] });
  return {
    ...{ agent, store, server },
    ...{ ann: server.as(tokens.ann), bob: server.as(tokens.bob) },
  };
}
type Api = Awaited<ReturnType<typeof world>>["ann"];

async function run(api: Api, body: object) {
  const started = await api.post("/v1/tasks", { ...start, ...body });
  if (started.status < 300) await api.frames(`/v1/tasks/${started.body.id}/events?until=idle`);
  return started;
}

describe("an id that a caller chooses", () => {
  it("is a name within its user: two users have a session `default`", async () => {
    const { ann, bob } = await world(() => "Hello.");
    const sessions = await Promise.all(
      [ann, bob].map((api) => run(api, { session_id: "default" })),
    );
    expect(sessions.map(({ body }) => body.session_id)).toEqual([
      stored("default"),
      stored("default", "bob"),
    ]);
    await run(bob, { session_id: "default" });
    expect((await ann.get("/v1/sessions/default")).body.session).toMatchObject({ messages: 2 });
    expect((await bob.get("/v1/sessions/default")).body.session).toMatchObject({ messages: 4 });
    await bob.delete("/v1/sessions/default");
    expect((await ann.get("/v1/sessions/default")).status).toBe(200);
  });

  it("is taken as it was given and as it is stored, in paths, queries and bodies", async () => {
    const { ann } = await world(() => [remove]);
    const { body } = await run(ann, { session_id: "s", task_id: "t" });
    expect(body).toMatchObject({ id: stored("t"), session_id: stored("s") });
    const [first] = (await ann.get("/v1/sessions/s/approvals")).body.approvals;
    for (const [task, session] of [
      ["t", "s"],
      [stored("t"), stored("s")],
    ] as const) {
      expect((await ann.get(`/v1/tasks/${task}`)).body.id).toBe(stored("t"));
      expect((await ann.get(`/v1/sessions/${session}`)).body.session).toMatchObject({
        session_id: stored("s"),
        name: "s",
      });
      expect((await ann.get(`/v1/sessions?before=${session}`)).status).toBe(200);
      const frames = await ann.frames(`/v1/tasks/${task}/events?until=idle&path=${session}`);
      expect(frames.some(({ type }) => type === "task.approval.requested")).toBe(true);
      const again = await ann.post("/v1/tasks", { ...start, task_id: task });
      expect(again).toMatchObject({ status: 200, body: { id: stored("t") } });
    }
    const answer = {
      type: "answer",
      approvalId: first.approval_id,
      ...{ taskId: "t", rootTaskId: stored("t"), decision: "deny" },
    };
    const answered = await ann.post("/v1/tasks", { ...start, input: null, answers: [answer] });
    expect(answered).toMatchObject({ status: 201, body: { id: stored("t") } });
  });

  it("never reaches what another user has, even if it is computed", async () => {
    const { ann, bob, store } = await world(() => "Hello.");
    const key = { idempotency_key: "order 7" };
    // What the key of ann becomes, which bob can compute before ann sends it.
    const digest = createHash("sha256").update(JSON.stringify(["ann", "lead", "order 7"]));
    const plain = `task_${digest.digest("base64url").slice(0, 40)}`;
    for (const task_id of [plain, stored(plain)]) {
      const taken = await run(bob, { task_id });
      expect(taken).toMatchObject({ status: 201, body: { id: stored(task_id, "bob") } });
    }
    const mine = await run(ann, key);
    expect(mine).toMatchObject({ status: 201, body: { id: stored(plain) } });
    const before = await store.task(stored(plain));
    for (const task_id of [plain, stored(plain)]) {
      expect((await bob.get(`/v1/tasks/${task_id}`)).body.id).toBe(stored(task_id, "bob"));
      await bob.post(`/v1/tasks/${task_id}/cancel`);
    }
    expect(await store.task(stored(plain))).toEqual(before);
  });

  it("finds the ids of a program on the same store, and leaves minted ids as they are", async () => {
    const { agent, ann, bob, server } = await world(() => "Hello.");
    const reply = await agent.call("Go.", {
      userId: "ann",
      sessionId: "mine",
      taskId: "task_mine",
    });
    expect((await ann.get("/v1/sessions/mine")).body.session.session_id).toBe("mine");
    expect((await ann.get("/v1/tasks/task_mine")).body.id).toBe("task_mine");
    expect((await bob.get("/v1/sessions/mine")).status).toBe(404);
    expect((await run(ann, { session_id: "mine" })).body.session_id).toBe("mine");
    const minted = await run(ann, {});
    expect(minted.body.id).toMatch(/^task_\w+$/);
    expect(minted.body.session_id).toMatch(/^sess_\w+$/);
    const fork = await ann.post("/v1/sessions/mine/fork", { task_id: reply.task.taskId });
    expect(fork.body.session.session_id).toMatch(/^sess_\w+$/);
    const operator = await startServer({ agents: [agent], auth: undefined } as never);
    const started = await run(operator.as(operator.token), { session_id: "s", task_id: "t" });
    expect(started.body).toMatchObject({ id: "t", session_id: "s" });
    expect(server.lines.every(({ status }) => status < 500)).toBe(true);
  });

  it("has at most 111 characters, so that the stored id has at most 128", async () => {
    const { ann } = await world(() => "Hello.");
    const [fits, long] = ["x".repeat(111), "x".repeat(112)];
    expect((await run(ann, { session_id: fits, task_id: fits })).status).toBe(201);
    expect((await ann.get(`/v1/sessions/${stored(fits)}`)).status).toBe(200);
    for (const body of [{ session_id: long }, { task_id: long }])
      expect(await run(ann, body)).toMatchObject({
        status: 400,
        body: { error: { code: "invalid_id" } },
      });
  });

  it("comes back from the client as the server stores it", async () => {
    const { server } = await world(() => "Hello.");
    const remote = connect(server.url, { token: tokens.ann });
    const agent = remote.agent("lead");
    const reply = await agent.call("Go.", { sessionId: "s", taskId: "t" });
    const { task } = reply;
    expect(task).toMatchObject({ taskId: stored("t"), sessionId: stored("s") });
    expect((await agent.call("Again.", { sessionId: task.sessionId })).task.sessionId).toBe(
      task.sessionId,
    );
    expect(await remote.sessions.list()).toMatchObject([{ sessionId: stored("s"), name: "s" }]);
    expect(await remote.sessions.read("s")).toHaveLength(4);
    expect((await agent.attach({ taskId: "t" }).result()).task.taskId).toBe(stored("t"));
  });
});

describe("an idempotency key", () => {
  it("with another body is a conflict, and with the same body however written is the same task", async () => {
    const { ann, bob, store } = await world(() => "Hello.");
    const body = { ...start, idempotency_key: "k", metadata: { a: 1, b: { c: 2, d: 3 } } };
    const first = await ann.post("/v1/tasks", body);
    const written = { metadata: { b: { d: 3, c: 2 }, a: 1 }, idempotency_key: "k", ...start };
    for (const same of [body, written, { ...body, via: { stores: ["x"], depth: 1 } }])
      expect(await ann.post("/v1/tasks", same)).toMatchObject({
        status: 200,
        body: { id: first.body.id },
      });
    const others = [
      { ...body, input: "Stop." },
      { ...body, session_id: "other" },
      { ...body, metadata: { a: 2 } },
      { ...body, budget: { tokens: 1 } },
      { ...body, output: { type: "object" } },
    ];
    for (const other of others)
      expect(await ann.post("/v1/tasks", other)).toMatchObject({
        status: 409,
        body: { error: { code: "conflict" } },
      });
    expect(await store.tasks({})).toHaveLength(1);
    expect((await bob.post("/v1/tasks", { ...body, input: "Stop." })).status).toBe(201);
  });
});

describe("the id of a store", () => {
  it("is random, and the same for all that share the store", async () => {
    const folder = workspaceWith();
    const [one, two] = [sqliteStore(`${folder}/a.db`), sqliteStore(`${folder}/a.db`)];
    const ids = await Promise.all([storeIdOf(one), storeIdOf(two), storeIdOf(one)]);
    expect(new Set(ids).size).toBe(1);
    expect(await storeIdOf(memoryStore())).not.toBe(ids[0]);
    await Promise.all([one.close(), two.close()]);
  });

  it("in `via` finds a cycle, and tells nothing about tasks", async () => {
    const { ann, bob, store } = await world(() => "Hello.");
    const { body } = await run(ann, { task_id: "t" });
    const statusOf = async (stores: unknown, depth: unknown = 1) =>
      (await bob.post("/v1/tasks", { ...start, via: { stores, depth } })).status;
    const ids = [body.id, "t", stored("t"), "none", crypto.randomUUID()];
    // Only the id of the store matters, which is random.
    for (const id of ids) expect([201, 400], id).toContain(await statusOf([id]));
    expect(await statusOf([body.id])).toBe(await statusOf([`${body.id.slice(0, -1)}X`]));
    expect(await statusOf([await storeIdOf(store)])).toBe(409);
    for (const bad of [["a b"], "x", Array.from({ length: 17 }, () => "x"), [1], ["x".repeat(65)]])
      expect(await statusOf(bad)).toBe(400);
    for (const depth of [-1, 1.5, "1", 1_001, null]) expect(await statusOf([], depth)).toBe(400);
  });
});
