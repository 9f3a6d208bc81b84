import { describe, expect, it } from "vitest";
import { openApp } from "../../src/app/app.ts";
import { connect } from "../../src/client.ts";
import type { TaskRecord } from "../../src/contract/store.ts";
import { memoryStore } from "../../src/index.ts";
import { commitOnce, message, record } from "../../src/testing/store-contract/samples.ts";
import { unlimited } from "../support/unlimited.ts";
import { scripted, tokens } from "./support/server.ts";

const operator = "the-token-of-the-operator";

function open() {
  const store = memoryStore();
  const { agent } = scripted(() => "Done.", { store, name: "lead" });
  const users = {
    [tokens.ann]: { userId: "ann" },
    [operator]: { userId: "op", scopes: ["read", "operator"] as const },
  };
  const { app, close } = openApp({
    ...{ agents: [agent], store, log: false, limits: unlimited, auth: { tokens: users } },
  });
  const send = async (token: string, method: string, path: string, body?: object) => {
    const response = await app.request(`http://localhost${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body && { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const queue = (n: number, changes: Partial<TaskRecord>) =>
    store.enqueue(
      record({
        ...{ taskId: `task_${n}`, sessionId: `s${n}`, status: "queued", userId: "ann" },
        ...{ agentId: "lead", agentName: "lead", ...changes },
      }),
    );
  return { store, app, send, queue, close };
}

describe("the operator's routes", () => {
  it("are announced with the scopes of the caller", async () => {
    const { send, close } = open();
    const scopes = async (token: string) => (await send(token, "GET", "/v1/agents")).body.scopes;
    expect(await scopes(operator)).toEqual(["read", "operator"]);
    expect(await scopes(tokens.ann)).toEqual(["read", "write"]);
    await close();
  });

  it("list the processes, what waits for one, and what was judged poison", async () => {
    const { store, send, queue, close } = open();
    const agents = [{ agentId: "lead", version: "2" }];
    const node = { nodeId: "n", name: "host:1", startedAt: 5, places: ["disk"], agents };
    await store.heartbeat?.({ ...node, conversations: ["s9"] }, 60_000);
    await queue(1, {});
    await queue(2, { agentVersion: "1" });
    await queue(3, { place: "another", priority: 1 });
    await queue(4, { agentId: "other", agentName: "other" });
    const error = { code: "poison", message: "It took down 5 processes.", retryable: false };
    const failed = { ...{ taskId: "bad", sessionId: "s5" }, status: "failed" } as const;
    await commitOnce(store, { log: "bad", tasks: [record({ ...failed, error })] }, "s5");
    const { status, body } = await send(operator, "GET", "/v1/nodes");
    expect(status).toBe(200);
    expect(body).toEqual({
      nodes: [
        {
          ...{ id: "n", name: "host:1", started_at: 5, is_live: true, places: ["disk"] },
          ...{ silent_ms: expect.any(Number), sessions: ["s9"] },
          agents: [{ agent_id: "lead", version: "2" }],
        },
      ],
      waiting: [
        { session_id: "s1", task_id: "task_1", agent: "lead", created_at: 1 },
        {
          ...{ session_id: "s2", task_id: "task_2", agent: "lead", created_at: 1 },
          ...{ version: "1", reason: "unknown_version" },
        },
        {
          ...{ session_id: "s3", task_id: "task_3", agent: "lead", created_at: 1 },
          ...{ place: "another", priority: 1, reason: "unknown_place" },
        },
        {
          ...{ session_id: "s4", task_id: "task_4", agent: "other", created_at: 1 },
          reason: "unknown_agent",
        },
      ],
      poisoned: [
        {
          ...{ session_id: "s5", task_id: "bad", agent: "assistant", created_at: 1 },
          message: error.message,
        },
      ],
    });
    await close();
  });

  it("say that a session waits for the others of its user", async () => {
    const { store, send, queue, close } = open();
    const agents = [{ agentId: "lead" }];
    const node = { name: "host:1", startedAt: 5, places: [], agents, maxPerUser: 2 };
    const beat = (...conversations: readonly string[]) =>
      store.heartbeat?.({ ...node, nodeId: "n", conversations }, 60_000);
    for (const n of [1, 2, 3]) await queue(n, {});
    await queue(4, { userId: "bob" });
    for (const id of ["s1", "s2", "s4"]) await store.acquire(id, "n", 60_000);
    const reasons = async () => {
      const { waits } = (await send(tokens.ann, "GET", "/v1/tasks/task_3")).body;
      const { waiting, nodes } = (await send(operator, "GET", "/v1/nodes")).body;
      expect(nodes).toMatchObject([{ max_per_user: 2 }]);
      return [waits, waiting];
    };
    await beat("s1", "s2", "s4");
    const shown = { session_id: "s3", reason: "user_limit" };
    expect(await reasons()).toMatchObject([{ reason: "user_limit" }, [shown]]);
    await beat("s1", "s4");
    const [waits, [other]] = (await reasons()) as [object, [object]];
    expect(waits).not.toEqual({ reason: "user_limit" });
    expect(other).not.toHaveProperty("reason");
    await close();
  });

  it("move a session that waits, and no other", async () => {
    const { store, send, queue, close } = open();
    await queue(1, { place: "lost", agentVersion: "1" });
    const move = (id: string, body: object) =>
      send(operator, "POST", `/v1/sessions/${id}/move`, body);
    expect(await move("s1", { place: "disk" })).toEqual({ status: 200, body: { moved: true } });
    expect(await store.task("task_1")).toMatchObject({ place: "disk", agentVersion: "1" });
    expect((await move("s1", { place: "", version: "" })).status).toBe(200);
    expect(await store.task("task_1")).toMatchObject({ place: "", agentVersion: "" });
    expect((await move("none", { place: "" })).status).toBe(404);
    expect((await move("s1", {})).status).toBe(400);
    const lease = await store.acquire("s1", "worker", 60_000);
    expect((await move("s1", { place: "" })).body).toMatchObject({ error: { code: "conflict" } });
    if (lease) await store.release(lease);
    await close();
  });

  it("are for credentials that name the scope", async () => {
    const { send, queue, close } = open();
    await queue(1, { place: "lost" });
    for (const [method, path, body] of [
      ["GET", "/v1/nodes", undefined],
      ["POST", "/v1/sessions/s1/move", { place: "" }],
    ] as const) {
      expect(await send(tokens.ann, method, path, body)).toMatchObject({
        status: 403,
        body: { error: { code: "forbidden" } },
      });
    }
    await close();
  });
});

it("a start takes a priority, which a retry keeps", async () => {
  const { store, send, app, close } = open();
  const start = { agent: "lead", input: "Go." };
  expect((await send(tokens.ann, "POST", "/v1/tasks", { ...start, priority: 2 })).status).toBe(400);
  const started = await send(tokens.ann, "POST", "/v1/tasks", { ...start, priority: 1 });
  expect(await store.task(String(started.body.id))).toMatchObject({ priority: 1 });
  const server = connect("http://localhost", {
    token: tokens.ann,
    fetch: async (url, init) => app.request(url as string, init),
  });
  const run = server.agent("lead").run("Go.", { priority: -1 });
  const { taskId } = await run.task;
  await run.result();
  expect(await store.task(taskId)).toMatchObject({ priority: -1 });
  const failed = record({
    ...{ taskId: "bad", sessionId: "s1", status: "failed", userId: "ann", priority: 1 },
    ...{ agentId: "lead", agentName: "lead", input: [message("Go.")] },
  });
  await commitOnce(store, { log: "bad", tasks: [failed] }, "s1");
  const retried = await send(tokens.ann, "POST", "/v1/tasks/bad/retry", {});
  expect(await store.task(String(retried.body.id))).toMatchObject({ priority: 1 });
  await close();
});
