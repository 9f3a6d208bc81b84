import { describe, expect, it, vi } from "vitest";
import { openApp } from "../../src/app/app.ts";
import { memoryStore, ReActAgent, sqliteStore } from "../../src/index.ts";
import { limitsOf, UserLimits } from "../../src/server/limits.ts";
import type { ServerLimits } from "../../src/server.ts";
import { ManualClock, type Script, scriptedModel } from "../../src/testing.ts";
import { workspaceWith } from "../harness/agent/support/workspace.ts";
import { agentScopeClient } from "./support/agentscope-client.ts";
import { client, scripted, startServer, stored, tokens } from "./support/server.ts";

const start = { agent: "lead", input: "Go." };
const remove = { call: "remove", input: { path: "a.txt" } };
const hanging: Script = () => [{ text: "x" }, { hang: true }];

async function world(script: Script, limits: ServerLimits, clock = new ManualClock()) {
  const { agent, store } = scripted(script);
  const server = await startServer({ agents: [agent], limits, clock, adapters: ["agentscope"] });
  return {
    ...{ agent, store, server, clock },
    ...{ ann: server.as(tokens.ann), bob: server.as(tokens.bob) },
  };
}
const refused = (code: string) => ({ status: 429, body: { error: { code, retryable: true } } });

describe("live runs", () => {
  it("are limited for each user, in every protocol; a run that ends makes place", async () => {
    const { ann, bob, server, store } = await world(hanging, { runs: 2 });
    const [first, second] = [
      await ann.post("/v1/tasks", start),
      await ann.post("/v1/tasks", start),
    ];
    const third = await ann.post("/v1/tasks", start);
    expect(third).toMatchObject(refused("too_many_runs"));
    expect(third.headers.get("retry-after")).toBe("1");
    const scope = agentScopeClient(server.url, tokens.ann);
    await expect(scope.submit("task-1", "lead", "Go.")).rejects.toThrow("HTTP 429");
    expect(await store.tasks({})).toHaveLength(2);
    expect((await bob.post("/v1/tasks", start)).status).toBe(201);
    await ann.post(`/v1/tasks/${first.body.id}/cancel`);
    await ann.frames(`/v1/tasks/${first.body.id}/events`);
    expect((await ann.post("/v1/tasks", start)).status).toBe(201);
    // A repeated start, a steer and a cancel are no new runs.
    const again = { ...start, task_id: second.body.id };
    expect((await ann.post("/v1/tasks", again)).status).toBe(200);
    expect((await ann.post(`/v1/tasks/${second.body.id}/cancel`)).status).toBe(202);
  });

  it("wait for a place, as many as `queuedStarts` says", async () => {
    const { ann, store } = await world(hanging, { runs: 1, queuedStarts: 2 });
    const { body } = await ann.post("/v1/tasks", start);
    const answers: { readonly name: string; readonly status: number }[] = [];
    const sent = ["a", "b", "c"].map(async (name) => {
      const { status } = await ann.post("/v1/tasks", { ...start, task_id: name });
      answers.push({ name, status });
    });
    await Promise.race(sent);
    expect(answers).toMatchObject([{ status: 429 }]); // the other two wait
    expect(await store.tasks({})).toHaveLength(1);
    const cancel = async (id: string) => {
      await ann.post(`/v1/tasks/${id}/cancel`);
      await ann.frames(`/v1/tasks/${id}/events`);
    };
    await cancel(body.id);
    const [, begun] = await vi.waitUntil(() => (answers.length === 2 ? answers : undefined));
    expect(begun?.status).toBe(201);
    await cancel(stored(begun?.name ?? ""));
    await Promise.all(sent);
    expect(answers.map(({ status }) => status)).toEqual([429, 201, 201]);
  });

  it("that wait for a place leave the queue with their client, and when the server closes", async () => {
    const { agent, store } = scripted(hanging);
    const opened = openApp({
      agents: [agent],
      token: tokens.ann,
      log: false,
      limits: { runs: 1, queuedStarts: 5 },
    });
    const post = (signal?: AbortSignal) =>
      opened.app.request("http://localhost/v1/tasks", {
        method: "POST",
        headers: { authorization: `Bearer ${tokens.ann}`, "content-type": "application/json" },
        body: JSON.stringify(start),
        ...(signal && { signal }),
      });
    expect((await post()).status).toBe(201);
    const leaving = new AbortController();
    const left = post(leaving.signal);
    const waiting = post();
    await new Promise((resolve) => setImmediate(resolve));
    leaving.abort();
    expect((await left).status).toBe(409);
    await opened.close();
    expect((await waiting).status).toBe(503);
    expect(await store.tasks({})).toHaveLength(1);
  });
});

describe("runs that wait for approvals", () => {
  it("are limited for each user; an answer makes place", async () => {
    const { ann, bob } = await world(
      ({ assistantCount }) => (assistantCount % 2 ? "Done." : remove),
      {
        waitingRuns: 2,
      },
    );
    const suspended = async (session_id: string) => {
      const { body, status } = await ann.post("/v1/tasks", { ...start, session_id });
      if (status === 201) await ann.frames(`/v1/tasks/${body.id}/events?until=idle`);
      return { body, status };
    };
    const { body } = await suspended("a");
    await suspended("b");
    const third = await ann.post("/v1/tasks", { ...start, session_id: "c" });
    expect(third).toMatchObject(refused("too_many_waiting"));
    expect(Number(third.headers.get("retry-after"))).toBe(60);
    expect((await bob.post("/v1/tasks", start)).status).toBe(201);
    const [approval] = (await ann.get("/v1/sessions/a/approvals")).body.approvals;
    await ann.post(`/v1/tasks/${body.id}/approvals/${approval.approval_id}`, { decision: "deny" });
    await ann.frames(`/v1/tasks/${body.id}/events`);
    expect((await suspended("c")).status).toBe(201);
  });

  it("count after a restart, and not when another process has answered them", async () => {
    const store = sqliteStore(`${workspaceWith()}/a.db`);
    const { agent } = scripted(({ assistantCount }) => (assistantCount % 2 ? "Done." : remove), {
      store,
    });
    const reply = await agent.call("Go.", { userId: "ann", sessionId: "s" });
    const server = await startServer({ agents: [agent], limits: { waitingRuns: 1 } });
    const ann = server.as(tokens.ann);
    expect(await ann.post("/v1/tasks", start)).toMatchObject(refused("too_many_waiting"));
    const approve = reply.approvals.map((approval) => approval.approve());
    await agent.call(approve, { userId: "ann", sessionId: "s" });
    expect((await ann.post("/v1/tasks", start)).status).toBe(201);
  });
});

it("limits how many runs a user starts per minute, and says when to come back", async () => {
  const { ann, bob, clock } = await world(() => "Hello.", { startsPerMinute: 3 });
  for (let n = 0; n < 3; n++) expect((await ann.post("/v1/tasks", start)).status).toBe(201);
  const fourth = await ann.post("/v1/tasks", start);
  expect(fourth).toMatchObject(refused("rate_limited"));
  expect(fourth.headers.get("retry-after")).toBe("20");
  expect((await bob.post("/v1/tasks", start)).status).toBe(201);
  expect((await ann.get("/v1/sessions")).status).toBe(200);
  await clock.advance(20_000);
  expect((await ann.post("/v1/tasks", start)).status).toBe(201);
});

describe("wrong tokens of an address", () => {
  it("are limited; credentials that were accepted before still work", async () => {
    const { ann, bob, server, clock } = await world(() => "Hello.", { wrongTokensPerMinute: 5 });
    expect((await ann.get("/v1/agents")).status).toBe(200);
    const wrong = (n: number) => server.as(`wrong-${n}-0123456789abcdef`).get("/v1/agents");
    const statuses: number[] = [];
    for (let n = 0; n < 7; n++) statuses.push((await wrong(n)).status);
    expect(statuses).toEqual([401, 401, 401, 401, 401, 429, 429]);
    expect((await wrong(8)).headers.get("retry-after")).toBe("12");
    expect((await ann.get("/v1/agents")).status).toBe(200);
    // A valid token that was never seen tells nothing either.
    expect(await bob.get("/v1/agents")).toMatchObject(refused("rate_limited"));
    expect((await client(server.url).get("/healthz")).status).toBe(200);
    expect((await client(server.url).get("/v1/agents")).status).toBe(401);
    await clock.advance(12_000);
    expect((await bob.get("/v1/agents")).status).toBe(200);
  });
});

it("keeps a bounded number of users and addresses", () => {
  const limits = new UserLimits(
    limitsOf({ wrongTokensPerMinute: 1 }),
    new ManualClock(),
    memoryStore(),
  );
  for (let n = 0; n < 10_001; n++) limits.judge(`10.0.0.${n}`, `${n}`, false);
  expect(() => limits.checkAddress("10.0.0.0", "x")).not.toThrow(); // the oldest was dropped
  expect(() => limits.checkAddress("10.0.0.10000", "x")).toThrow("wrong credentials");
});

it("bounds ids, names and labels", async () => {
  const { agent, ann } = await world(() => "Hello.", {});
  const long = "x".repeat(257);
  const calls: readonly (() => Promise<unknown>)[] = [
    () => agent.call("Go.", { userId: long }),
    () => agent.call("Go.", { userId: "a\u0000" }),
    () => agent.call("Go.", { sessionId: "x".repeat(129) }),
    () => agent.call({ role: "user", name: long, content: "x" }),
    () => agent.approvals({ sessionId: "s", userId: long }),
  ];
  for (const call of calls)
    await expect(Promise.resolve().then(call)).rejects.toThrow(/characters/);
  const model = scriptedModel(["Hello."]);
  for (const name of ["x".repeat(129), "a\nb"])
    expect(() => new ReActAgent({ name, model })).toThrow("1 to 128 characters");
  const message = { role: "user", name: long, content: "x" };
  expect((await ann.post("/v1/tasks", { ...start, input: message })).status).toBe(400);
});
