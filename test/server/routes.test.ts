import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { HarnessAgent, memoryStore, ReActAgent, tool } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import {
  eventsOf,
  nested,
  scripted,
  startServer,
  stored,
  tokens,
  treeOf,
} from "./support/server.ts";

const directory = mkdtempSync(join(tmpdir(), "rivulet-server-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** A server with one scripted agent, and a client of ann. */
async function world(...[script, options]: Parameters<typeof scripted>) {
  const { agent, store } = scripted(script, options);
  const server = await startServer({ agents: [agent] });
  return { server, store, agent, ann: server.as(tokens.ann), bob: server.as(tokens.bob) };
}

const remove = { call: "remove", input: { path: "a.txt" } };
const start = { agent: "lead", input: "Go." };
type Api = Awaited<ReturnType<typeof world>>["ann"];

/** Follows a task to its end, or until it waits. */
async function settle(api: Api, id: string) {
  await api.frames(`/v1/tasks/${id}/events?until=idle`);
  return (await api.get(`/v1/tasks/${id}`)).body;
}

describe("POST /v1/tasks", () => {
  it("starts a task, which the other routes show until its end", async () => {
    const { ann } = await world(["Hello."]);
    const started = await ann.post("/v1/tasks", { ...start, session_id: "s", metadata: { a: 1 } });
    expect(started.status).toBe(201);
    expect(started.headers.get("location")).toBe(`/v1/tasks/${started.body.id}`);
    expect(started.body).toMatchObject({
      object: "task",
      agent_id: "lead",
      session_id: stored("s"),
    });
    const ended = await settle(ann, started.body.id);
    expect(ended).toMatchObject({ status: "completed", metadata: { a: 1 } });
    expect(ended.output).toMatchObject([{ type: "message", block_list: [{ text: "Hello." }] }]);
    const document = await ann.get(`/v1/tasks/${started.body.id}/document`);
    expect(document.body).toMatchObject({
      task_id: started.body.id,
      output: [{ type: "message" }],
    });
  });

  it("answers with all events when `stream` is true", async () => {
    const { ann } = await world([{ text: ["Hel", "lo."] }]);
    const response = await ann.send("POST", "/v1/tasks", { ...start, stream: true });
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(response.headers.get("cache-control")).toBe("no-cache, no-transform");
    expect(response.headers.get("x-accel-buffering")).toBe("no");
    const text = await response.text();
    expect(text).toMatch(/^retry: 1500\n: stream-open\n\nevent: stream\.opened\ndata: \{/);
    expect(text).toMatch(/\nid: 0\nevent: task\.created\ndata: /);
    expect(text).toMatch(/"reason":"terminal","final":true/);
    expect(text).not.toContain("\r");
  });

  it("starts one task for one key, however often and however parallel", async () => {
    const { ann, bob, store } = await world(() => "Hello.");
    const body = { ...start, idempotency_key: "order 7" };
    const first = await Promise.all(Array.from({ length: 8 }, () => ann.post("/v1/tasks", body)));
    const again = await ann.post("/v1/tasks", body);
    expect(again.status).toBe(200);
    expect(new Set([...first, again].map((one) => one.body.id)).size).toBe(1);
    await settle(ann, again.body.id);
    expect((await ann.post("/v1/tasks", body)).body.id).toBe(again.body.id);
    expect(await store.tasks({})).toHaveLength(1);
    const other = await bob.post("/v1/tasks", body);
    expect(other.status).toBe(201);
    expect(other.body.id).not.toBe(again.body.id);
  });

  it("takes the id of the task from the caller, and keeps it from other users", async () => {
    const { ann, bob } = await world(() => "Hello.");
    const mine = await ann.post("/v1/tasks", { ...start, task_id: "task_mine" });
    expect(mine.body.id).toBe(stored("task_mine"));
    for (const task_id of ["task_mine", stored("task_mine")]) {
      const own = await bob.post("/v1/tasks", { ...start, task_id });
      expect(own).toMatchObject({ status: 201, body: { id: stored(task_id, "bob") } });
    }
  });

  it("returns a structured answer, and stops at a budget", async () => {
    const { ann } = await world(() => [{ call: "generate_response", input: { city: "Paris" } }]);
    const output = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
    const { body } = await ann.post("/v1/tasks", { ...start, output });
    expect(await settle(ann, body.id)).toMatchObject({ structured: { city: "Paris" } });
    const poor = await ann.post("/v1/tasks", { ...start, budget: { iterations: 0 } });
    const ended = poor.status === 201 ? await settle(ann, poor.body.id) : poor.body;
    expect(JSON.stringify(ended)).toMatch(/budget/);
  });

  it("lowers the budget of the agent, and does not raise it", async () => {
    const script = ({ callIndex }: { callIndex: number }) => [
      { call: "look", input: { callIndex } },
    ];
    const { ann, store } = await world(script, { budget: { iterations: 3 } });
    for (const [iterations, calls] of [
      [2, 2],
      [9, 3],
    ] as const) {
      const { body } = await ann.post("/v1/tasks", { ...start, budget: { iterations } });
      await settle(ann, body.id);
      const record = (await store.tasks({})).find(({ taskId }) => taskId === body.id);
      expect(record).toMatchObject({ generateReason: "budget", budget: { iterations: calls } });
    }
  });

  it("answers approvals with `answers`, denies them with `on_suspended`, and resumes without input", async () => {
    const { ann } = await world(({ assistantCount }) =>
      assistantCount % 2 === 0 ? remove : "Done.",
    );
    const { body } = await ann.post("/v1/tasks", { ...start, session_id: "s" });
    expect(body.starting_after).toBe(-1);
    const waiting = await settle(ann, body.id);
    expect(waiting.status).toBe("suspended");
    expect(await ann.post("/v1/tasks", { ...start, session_id: "s" })).toMatchObject({
      status: 409,
      body: { error: { code: "session_suspended" } },
    });
    const { approvals } = (await ann.get("/v1/sessions/s/approvals")).body;
    const [{ approval_id: approvalId, task_id: taskId, root_task_id: rootTaskId }] = approvals;
    const answer = { type: "answer", approvalId, taskId, rootTaskId, decision: "approve" };
    const continued = await ann.post("/v1/tasks", {
      agent: "lead",
      session_id: "s",
      answers: [answer],
    });
    expect(continued.body.id).toBe(body.id);
    // However much the task has done since, the reader knows where its request begins.
    expect(continued.body.starting_after).toBe(waiting.last_sequence_number);
    expect((await settle(ann, body.id)).status).toBe("completed");

    const second = await ann.post("/v1/tasks", { ...start, session_id: "s" });
    await settle(ann, second.body.id);
    const denied = { ...start, input: "Never mind.", session_id: "s", on_suspended: "deny" };
    expect((await ann.post("/v1/tasks", denied)).body.id).toBe(second.body.id);
    await settle(ann, second.body.id);
    expect(await ann.post("/v1/tasks", { agent: "lead", session_id: "s" })).toMatchObject({
      status: 409,
      body: { error: { code: "nothing_to_resume" } },
    });
  });

  it("queues behind a running task, or refuses with `on_busy`", async () => {
    const { ann } = await world(() => [{ text: "Working" }, { hang: true }]);
    const body = { ...start, session_id: "s" };
    const { body: first } = await ann.post("/v1/tasks", body);
    const busy = await ann.post("/v1/tasks", { ...body, on_busy: "fail" });
    expect(busy).toMatchObject({ status: 409, body: { error: { code: "agent_busy" } } });
    const queued = await ann.post("/v1/tasks", body);
    expect(queued).toMatchObject({ status: 201, body: { status: "queued" } });
    for (const { id } of [queued.body, first]) await ann.post(`/v1/tasks/${id}/cancel`);
    expect((await settle(ann, first.id)).status).toBe("cancelled");
    expect((await settle(ann, queued.body.id)).status).toBe("cancelled");
  });

  it("cancels with the connection only when it was asked to", async () => {
    const { ann } = await world(() => [{ text: "Working" }, { hang: true }]);
    const ids = await Promise.all(
      [true, false].map(async (cancel_on_disconnect) => {
        const task_id = `task_${cancel_on_disconnect}`;
        const body = { ...start, task_id, stream: true, cancel_on_disconnect };
        const response = await ann.send("POST", "/v1/tasks", body);
        const reader = response.body?.getReader();
        await reader?.read();
        await reader?.cancel();
        return task_id;
      }),
    );
    const [stopped = "", kept = ""] = ids;
    expect((await settle(ann, stopped)).status).toBe("cancelled");
    expect((await ann.get(`/v1/tasks/${kept}`)).body.status).toBe("in_progress");
    await ann.post(`/v1/tasks/${kept}/cancel`);
  });

  it.each([
    [{}, "`agent` must be a non-empty string"],
    [{ agent: "lead", inptu: "x" }, "no option `inptu`"],
    [{ agent: "lead", input: 7 }, "input"],
    [{ agent: "lead", input: "x", stream: "yes" }, "`stream` must be a boolean"],
    [{ agent: "lead", input: "x", session_id: "a/b" }, "session id"],
    [{ agent: "lead", input: "x", task_id: "../x" }, "`task_id` must be"],
    [{ agent: "lead", input: "x", on_busy: "wait" }, "`on_busy` must be"],
    [{ agent: "lead", input: "x", budget: { tokens: "many" } }, "budget"],
    [{ agent: "lead", input: "x", output: [] }, "`output` must be"],
    [{ agent: "lead", input: "x", answers: [{ type: "answer" }] }, "approvalId"],
    [{ agent: "lead", input: "x", cancel_on_disconnect: true }, "needs `stream`"],
    [{ agent: "lead", input: "x", metadata: "m" }, "`metadata` must be"],
    [{ agent: "lead", input: "x", userId: "bob" }, "no option `userId`"],
  ])("refuses %j", async (body, message) => {
    const { ann, store } = await world(["Hello."]);
    const answer = await ann.post("/v1/tasks", body);
    expect(answer.status).toBe(400);
    expect(answer.body.error.message).toContain(message);
    expect(answer.body.error.hint).not.toBe("");
    expect(await store.tasks({})).toEqual([]);
  });

  it("names a similar agent when there is none of that name", async () => {
    const { ann } = await world(["Hello."]);
    expect(await ann.post("/v1/tasks", { agent: "laed", input: "x" })).toMatchObject({
      status: 404,
      body: { error: { code: "not_found", hint: "Did you mean lead?" } },
    });
  });
});

describe("tasks", () => {
  it("steers a running task, and refuses to steer one that has ended", async () => {
    const steered: string[] = [];
    const wait = tool({
      name: "wait",
      description: "Waits until the task is steered.",
      execute: async (_, { signal }) => {
        while (steered.length === 0 && !signal.aborted)
          await new Promise((resolve) => setTimeout(resolve, 5));
        return "waited";
      },
    });
    const script = ({ prompt, assistantCount }: { prompt: unknown; assistantCount: number }) =>
      assistantCount === 0
        ? { call: "wait" }
        : JSON.stringify(prompt).includes("Be brief")
          ? "Ok."
          : "Long.";
    const { ann } = await world(script, { tools: [wait] });
    const { body } = await ann.post("/v1/tasks", start);
    expect((await ann.post(`/v1/tasks/${body.id}/input`, { input: "Be brief." })).status).toBe(202);
    steered.push("yes");
    const ended = await settle(ann, body.id);
    expect(JSON.stringify(ended.output)).toContain("Ok.");
    expect(await ann.post(`/v1/tasks/${body.id}/input`, { input: "More." })).toMatchObject({
      status: 409,
      body: { error: { code: "task_ended" } },
    });
    expect((await ann.post(`/v1/tasks/${body.id}/input`, {})).status).toBe(400);
  });

  it("cancels a task with its descendants, as often as it is asked", async () => {
    const store = memoryStore();
    const server = await startServer({ agents: [nested(store, 60_000)] });
    const ann = server.as(tokens.ann);
    const { body } = await ann.post("/v1/tasks", start);
    for (;;) {
      const { length } = await store.tasks({ rootTaskId: body.id });
      if (length >= 5) break;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    for (const reason of ["enough", "enough", "again"]) {
      expect((await ann.post(`/v1/tasks/${body.id}/cancel`, { reason })).status).toBe(202);
    }
    await ann.frames(`/v1/tasks/${body.id}/events`);
    const statuses = (await store.tasks({ rootTaskId: body.id })).map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set(["cancelled"]));
    expect((await ann.post(`/v1/tasks/${body.id}/cancel`)).status).toBe(202);
  });

  it("shows a task with a tag, and 304 while it does not change", async () => {
    const { ann } = await world(["Hello."]);
    const { body } = await ann.post("/v1/tasks", start);
    await settle(ann, body.id);
    const shown = await ann.get(`/v1/tasks/${body.id}`);
    const etag = shown.headers.get("etag") ?? "";
    expect((await ann.get(`/v1/tasks/${body.id}`, { "if-none-match": etag })).status).toBe(304);
    expect((await ann.get(`/v1/tasks/${body.id}`, { "if-none-match": '"x"' })).status).toBe(200);
  });

  it("shows a child under its own id, with its subtree as document and stream", async () => {
    const store = memoryStore();
    const server = await startServer({ agents: [nested(store)] });
    const ann = server.as(tokens.ann);
    const { body } = await ann.post("/v1/tasks", start);
    const frames = await ann.frames(`/v1/tasks/${body.id}/events`);
    const tree = treeOf(frames);
    const [child = ""] = tree.tasks[body.id]?.children ?? [];
    const shown = await ann.get(`/v1/tasks/${child}`);
    expect(shown.body).toMatchObject({ id: child, root_task_id: body.id, parent_task_id: body.id });
    const below = eventsOf(await ann.frames(`/v1/tasks/${child}/events`));
    const ids = new Set(below.map((event) => (event as { task_id: string }).task_id));
    expect(ids).toEqual(new Set([child, ...(tree.tasks[child]?.children ?? [])]));
    expect(JSON.stringify((await ann.get(`/v1/tasks/${child}/document`)).body)).toContain(
      "digs deep",
    );
  });
});

describe("POST /v1/tasks/{id}/approvals/{approval_id}", () => {
  it("answers once; the same answer again is fine, another one is 409", async () => {
    const { ann } = await world([remove, "Done."]);
    const { body } = await ann.post("/v1/tasks", { ...start, session_id: "s" });
    await settle(ann, body.id);
    const { approvals } = (await ann.get("/v1/sessions/s/approvals")).body;
    expect(approvals).toMatchObject([
      { kind: "tool_call", task_id: body.id, call: { name: "remove", input: { path: "a.txt" } } },
    ]);
    const path = `/v1/tasks/${body.id}/approvals/${approvals[0].approval_id}`;
    expect((await ann.post(path, { decision: "perhaps" })).status).toBe(400);
    expect((await ann.post(path, { decision: "approve", taskId: "other" })).status).toBe(400);
    expect((await ann.post(path, { decision: "approve" })).status).toBe(202);
    expect((await settle(ann, body.id)).status).toBe("completed");
    expect((await ann.post(path, { decision: "approve" })).status).toBe(202);
    expect(await ann.post(path, { decision: "deny" })).toMatchObject({
      status: 409,
      body: { error: { code: "already_answered" } },
    });
    const edit = { decision: "edit", input: { path: "b.txt" } };
    expect((await ann.post(path, edit)).status).toBe(409);
    const unknown = `/v1/tasks/${body.id}/approvals/apr_unknown`;
    expect((await ann.post(unknown, { decision: "deny" })).status).toBe(404);
    expect((await ann.get("/v1/sessions/s/approvals")).body).toEqual({ approvals: [] });
  });

  it("takes an edit again only with the same input", async () => {
    const { ann } = await world([remove, "Done."]);
    const { body } = await ann.post("/v1/tasks", { ...start, session_id: "s" });
    await settle(ann, body.id);
    const { approvals } = (await ann.get("/v1/sessions/s/approvals")).body;
    const path = `/v1/tasks/${body.id}/approvals/${approvals[0].approval_id}`;
    const edit = (file: string) => ann.post(path, { decision: "edit", input: { path: file } });
    expect((await edit("b.txt")).status).toBe(202);
    await settle(ann, body.id);
    expect((await edit("b.txt")).status).toBe(202);
    expect((await edit("c.txt")).status).toBe(409);
  });
});

describe("sessions", () => {
  it("lists, reads, searches, exports and deletes them", async () => {
    const { ann, store } = await world(() => "A river.");
    for (const session_id of ["one", "two"]) {
      const { body } = await ann.post("/v1/tasks", { ...start, session_id });
      await settle(ann, body.id);
    }
    const { sessions } = (await ann.get("/v1/sessions")).body;
    expect(sessions.map((one: { session_id: string }) => one.session_id)).toEqual([
      stored("two"),
      stored("one"),
    ]);
    expect(sessions).toMatchObject([{ name: "two" }, { name: "one" }]);
    const page = (await ann.get("/v1/sessions?limit=1&before=two")).body;
    expect(page.sessions).toMatchObject([
      { session_id: stored("one"), agent_id: "lead", messages: 2 },
    ]);
    const read = (await ann.get("/v1/sessions/one?from=1&limit=1")).body;
    expect(read.messages).toMatchObject([{ role: "assistant" }]);
    expect(read.tasks).toMatchObject([{ status: "completed" }]);
    const { matches } = (await ann.get("/v1/search?q=river")).body;
    expect(matches).toHaveLength(2);
    const lines = (await ann.get("/v1/sessions/one/export")).text.trim().split("\n");
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { session: { sessionId: stored("one"), name: "one", userId: "ann" } },
      { role: "user" },
      { role: "assistant" },
    ]);
    expect((await ann.delete("/v1/sessions/one")).status).toBe(204);
    expect((await ann.delete("/v1/sessions/one")).status).toBe(404);
    expect((await ann.get("/v1/sessions/one")).status).toBe(404);
    expect((await ann.get("/v1/sessions?before=one")).status).toBe(400);
    expect((await ann.get("/v1/search")).status).toBe(400);
    expect(await store.tasks({ sessionId: stored("one") })).toEqual([]);
  });

  it("refuses to delete a session that runs", async () => {
    const { ann } = await world(() => [{ hang: true }]);
    const { body } = await ann.post("/v1/tasks", { ...start, session_id: "s" });
    expect((await ann.delete("/v1/sessions/s")).status).toBe(409);
    await ann.post(`/v1/tasks/${body.id}/cancel`);
  });

  it("ends the stream of a session that is deleted", async () => {
    const { ann, store } = await world([remove]);
    const { body } = await ann.post("/v1/tasks", { ...start, session_id: "s" });
    await settle(ann, body.id);
    const response = await ann.send("GET", `/v1/tasks/${body.id}/events`);
    while (await store.owner(stored("s"))) await new Promise((resolve) => setTimeout(resolve, 5));
    expect((await ann.delete("/v1/sessions/s")).status).toBe(204);
    expect(await response.text()).toContain('"code":"not_found"');
    expect((await ann.get(`/v1/tasks/${body.id}/events`)).status).toBe(404);
  });
});

it("lists and reads the files of a session's workspace, and nothing outside", async () => {
  const model = () =>
    scriptedModel(({ assistantCount }) =>
      assistantCount === 0
        ? { call: "write_file", input: { path: "notes/a b.md", content: "a river" } }
        : "Done.",
    );
  const agent = new HarnessAgent({
    name: "lead",
    model: model(),
    workspace: join(directory, "workspace"),
    store: memoryStore(),
  });
  const server = await startServer({ agents: [agent] });
  const ann = server.as(tokens.ann);
  const { body } = await ann.post("/v1/tasks", { ...start, session_id: "s" });
  await settle(ann, body.id);
  const files = "/v1/sessions/s/files";
  expect((await ann.get(files)).body.entries).toMatchObject([{ path: "notes", type: "directory" }]);
  expect((await ann.get(`${files}?path=notes`)).body.entries).toMatchObject([
    { path: "notes/a b.md", type: "file", size: 7 },
  ]);
  const read = await ann.get(`${files}/notes/a%20b.md`);
  expect(read.text).toBe("a river");
  expect(read.headers.get("content-type")).toBe("text/plain; charset=utf-8");
  expect(read.headers.get("content-disposition")).toBe("attachment; filename*=UTF-8''a%20b.md");
  const part = await ann.get(`${files}/notes/a%20b.md`, { range: "bytes=2-" });
  expect([part.status, part.text]).toEqual([206, "river"]);
  for (const path of ["..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "notes/none", "%00", "%E0%A4"]) {
    const { status, text } = await ann.get(`${files}/${path}`);
    expect([400, 404], `${path}: ${text}`).toContain(status);
  }
  const bob = server.as(tokens.bob);
  expect((await bob.get(`${files}/notes/a%20b.md`)).status).toBe(404);
});

it("serves a blob with its type, tag and ranges, and forgets it with its session", async () => {
  const bytes = Buffer.alloc(100_000, "abcdefghij");
  const picture = tool({
    name: "picture",
    description: "Draws.",
    execute: () => [
      { type: "image", source: { data: bytes.toString("base64"), mimeType: "image/png" } } as const,
    ],
  });
  const { agent, store } = scripted([{ call: "picture" }, "Done."], { tools: [picture] });
  const server = await startServer({ agents: [agent] });
  const ann = server.as(tokens.ann);
  const { body } = await ann.post("/v1/tasks", { ...start, session_id: "s" });
  const ended = await settle(ann, body.id);
  const [, name] = /task:\/\/[\w-]+\/blobs\/([\w-]+)/.exec(JSON.stringify(ended)) ?? [];
  const path = `/v1/tasks/${body.id}/blobs/${name}`;
  const whole = await ann.send("GET", path);
  expect(Buffer.from(await whole.arrayBuffer()).equals(bytes)).toBe(true);
  expect(whole.headers.get("content-type")).toBe("image/png");
  expect(whole.headers.get("content-length")).toBe("100000");
  expect(whole.headers.get("x-content-type-options")).toBe("nosniff");
  const etag = whole.headers.get("etag") ?? "";
  expect((await ann.get(path, { "if-none-match": etag })).status).toBe(304);
  const range = async (header: string, more = {}) => {
    const { status, text, headers } = await ann.get(path, { range: header, ...more });
    return [status, text.slice(0, 20), headers.get("content-range")];
  };
  expect(await range("bytes=0-4")).toEqual([206, "abcde", "bytes 0-4/100000"]);
  expect(await range("bytes=-5")).toEqual([206, "fghij", "bytes 99995-99999/100000"]);
  expect(await range("bytes=99998-")).toEqual([206, "ij", "bytes 99998-99999/100000"]);
  expect((await range("bytes=100000-"))[0]).toBe(416);
  expect((await range("bytes=0-1,5-6"))[0]).toBe(200);
  expect((await range("bytes=0-4", { "if-range": '"other"' }))[0]).toBe(200);
  expect((await server.as(tokens.bob).get(path)).status).toBe(404);
  expect((await ann.get(`/v1/tasks/${body.id}/blobs/..%2f..%2fx`)).status).toBe(404);
  while (await store.owner(stored("s"))) await new Promise((resolve) => setTimeout(resolve, 5));
  await ann.delete("/v1/sessions/s");
  expect((await ann.get(path)).status).toBe(404);
  expect(await store.files.list("blobs/")).toEqual([]);
});

it("lists its agents, and describes itself in OpenAPI 3.1", async () => {
  const store = memoryStore();
  const model = scriptedModel(["Hello."]);
  const agents = [
    new ReActAgent({ name: "one", description: "The first.", model, store }),
    new ReActAgent({ name: "two", model, store }),
  ];
  const { as } = await startServer({ agents });
  const offer = { model: "scripted:scripted", tools: [], subagents: [], skills: [] };
  expect((await as(tokens.ann).get("/v1/agents")).body).toEqual({
    agents: [
      { name: "one", description: "The first.", ...offer },
      { name: "two", ...offer },
    ],
    scopes: ["read", "write"],
  });
  expect((await as("").get("/healthz")).body).toEqual({ status: "ok" });
  const { body } = await as("").get("/openapi.json");
  expect(body.openapi).toBe("3.1.0");
  const startBody = body.paths["/v1/tasks"].post.requestBody.content["application/json"].schema;
  expect(startBody).toMatchObject({ required: ["agent"], additionalProperties: false });
  expect(startBody.properties.on_busy).toMatchObject({ enum: ["queue", "fail"] });
  expect(body.paths["/v1/sessions/{id}/files/{path}"].get.parameters).toHaveLength(2);
});

it("answers 404 for an unknown address, 405 for another method, and takes HEAD", async () => {
  const { ann } = await world(["Hello."]);
  expect((await ann.get("/v2/tasks")).status).toBe(404);
  expect((await ann.delete("/v1/tasks")).status).toBe(405);
  const { body } = await ann.post("/v1/tasks", start);
  await settle(ann, body.id);
  expect((await ann.send("HEAD", `/v1/tasks/${body.id}`)).status).toBe(200);
  expect((await ann.send("HEAD", `/v1/tasks/${body.id}/events`)).status).toBe(405);
});
