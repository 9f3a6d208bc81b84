import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { HarnessAgent, memoryStore, ReActAgent, sqliteStore, tool } from "../../src/index.ts";
import { createApp } from "../../src/server.ts";
import { type Script, scriptedModel } from "../../src/testing.ts";
import { eventsOf, nested, scripted, startServer, stored, tokens } from "./support/server.ts";

const directory = mkdtempSync(join(tmpdir(), "rivulet-inspect-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const search = tool({
  name: "search",
  description: "Searches.",
  input: z.object({ word: z.string() }),
  execute: ({ word }) => `found ${word}`,
});
const searching: Script = ({ prompt }) =>
  prompt.at(-1)?.role === "tool" ? "It is blue." : [{ call: "search", input: { word: "sea" } }];

async function world(options: Partial<ConstructorParameters<typeof ReActAgent>[0]> = {}) {
  const store = sqliteStore(join(directory, `${crypto.randomUUID()}.db`));
  const model = scriptedModel(searching);
  const systemPrompt = "Answer in few words.";
  const agent = new ReActAgent({
    ...{ name: "lead", model, tools: [search], store, systemPrompt, ...options },
  });
  const server = await startServer({ agents: [agent], prompts: true });
  const ann = server.as(tokens.ann);
  async function ask(input: string, session_id: string): Promise<string> {
    const { body } = await ann.post("/v1/tasks", { agent: "lead", input, session_id });
    await ann.frames(`/v1/tasks/${body.id}/events?until=idle`);
    return body.id;
  }
  return { store, model, server, ann, bob: server.as(tokens.bob), ask };
}

describe("GET /v1/tasks/{id}/prompts", () => {
  it("returns what the model received, for each call", async () => {
    const { ann, model, ask } = await world({ modelOptions: { temperature: 0.5 } });
    const id = await ask("What colour?", "s");
    const { body } = await ann.get(`/v1/tasks/${id}/prompts`);
    expect(body.prompts).toMatchObject(
      [
        { iteration: 1, purpose: "reply", model: "scripted/scripted", message_id: /^msg_/ },
        { iteration: 2, purpose: "reply" },
      ].map((one) => ({ ...one, message_id: expect.stringMatching(/^msg_/) })),
    );
    expect(model.calls).toHaveLength(2);
    for (const [index, sent] of model.calls.entries()) {
      const one = await ann.get(`/v1/tasks/${id}/prompts?iteration=${index + 1}`);
      expect(one.body.prompts).toHaveLength(1);
      const [prompt] = one.body.prompts;
      expect(prompt.messages).toEqual(JSON.parse(JSON.stringify(sent.prompt)));
      expect(prompt.system_prompt).toBe("Answer in few words.");
      expect(prompt.tools).toMatchObject([{ name: "search", input_schema: { type: "object" } }]);
      expect(prompt.options).toEqual({ temperature: 0.5 });
    }
  });

  it("returns prompts that a hook has edited, and the later ones that it has not", async () => {
    const { ann, model, ask } = await world({
      hooks: [
        {
          name: "edit",
          preReasoning: (_, call) => {
            if (call.messages.length !== 1) return;
            call.systemPrompt += " Be kind.";
            call.messages = [
              { id: "m", role: "user", content: [{ type: "text", text: "Hush." }] },
              ...call.messages,
            ];
          },
        },
      ],
    });
    const id = await ask("What colour?", "s");
    for (const [index, sent] of model.calls.entries()) {
      const { body } = await ann.get(`/v1/tasks/${id}/prompts?iteration=${index + 1}`);
      expect(body.prompts[0].messages).toEqual(JSON.parse(JSON.stringify(sent.prompt)));
    }
    expect(JSON.stringify(model.calls[0]?.prompt)).toContain("Be kind.");
    expect(JSON.stringify(model.calls[1]?.prompt)).not.toContain("Be kind.");
  });

  it("stores the parts besides the transcript once per change, without credentials, until the session is deleted", async () => {
    const headers = { authorization: "Bearer very-secret" };
    const { ann, store, ask } = await world({ modelOptions: { headers, seed: 7 } });
    const id = await ask("What colour?", "s");
    const files = await store.files.list(`blobs/${id}/`);
    expect(files.map(({ path }) => path)).toEqual([`blobs/${id}/prompt-000001`]);
    const { data } = (await store.files.get(files[0]?.path ?? "")) ?? {};
    expect(new TextDecoder().decode(data)).not.toContain("very-secret");
    expect((await ann.delete("/v1/sessions/s")).status).toBe(204);
    expect(await store.files.list("blobs/")).toEqual([]);
  });

  it("returns the prompts of children, and only to the user of their root", async () => {
    const store = memoryStore();
    const server = await startServer({ agents: [nested(store)], prompts: true });
    const ann = server.as(tokens.ann);
    const { body } = await ann.post("/v1/tasks", { agent: "lead", input: "Go." });
    const frames = await ann.frames(`/v1/tasks/${body.id}/events`);
    const ids = new Set(eventsOf(frames).map((event) => event.task_id));
    expect(ids.size).toBe(5);
    for (const id of ids) {
      const { body: list } = await ann.get(`/v1/tasks/${id}/prompts?iteration=1`);
      expect(list.prompts[0].messages.at(-1).role).toBe("user");
      const refused = await server.as(tokens.bob).get(`/v1/tasks/${id}/prompts`);
      expect(refused).toMatchObject({ status: 404, body: { error: { code: "not_found" } } });
    }
  });

  it("derives the messages without the option, and rejects an iteration that does not exist", async () => {
    const { agent } = scripted(["Hello."]);
    const ann = (await startServer({ agents: [agent] })).as(tokens.ann);
    const { body } = await ann.post("/v1/tasks", { agent: "lead", input: "Hi." });
    await ann.frames(`/v1/tasks/${body.id}/events`);
    const { prompts } = (await ann.get(`/v1/tasks/${body.id}/prompts?iteration=1`)).body;
    expect(prompts[0].messages).toEqual([
      { role: "user", content: [{ type: "text", text: "Hi." }] },
    ]);
    expect(prompts[0].system_prompt).toBeUndefined();
    expect((await ann.get(`/v1/tasks/${body.id}/prompts?iteration=2`)).status).toBe(404);
    expect((await ann.get(`/v1/tasks/${body.id}/prompts?iteration=x`)).status).toBe(400);
  });
});

describe("POST /v1/sessions/{id}/fork", () => {
  it("continues from an earlier task, and leaves the session as it is", async () => {
    const { ann, store, model, ask } = await world();
    const first = await ask("One?", "s");
    await ask("Two?", "s");
    const before = await store.session(stored("s"));
    const { status, body } = await ann.post("/v1/sessions/s/fork", { task_id: first });
    expect(status).toBe(201);
    const { session_id: fork, forked_from } = body.session;
    expect(forked_from).toEqual({ session_id: stored("s"), task_id: first });
    expect(await store.session(fork)).toEqual(before.slice(0, 4));
    await ask("Three?", fork);
    const texts = JSON.stringify(model.calls.at(-1)?.prompt);
    expect(texts).toContain("One?");
    expect(texts).toContain("Three?");
    expect(texts).not.toContain("Two?");
    expect(await store.session(stored("s"))).toEqual(before);
    const { body: shown } = await ann.get(`/v1/sessions/${fork}`);
    expect(shown.session).toMatchObject({ title: "One?", forked_from: { task_id: first } });
    expect(shown.tasks).toMatchObject([{ status: "completed" }, { status: "completed" }]);
    const [copied] = shown.tasks;
    const frames = await ann.frames(`/v1/tasks/${copied.id}/events`);
    expect(eventsOf(frames).map(({ type }) => type)).toEqual([
      ...["task.created", "task.in_progress", "task.completed"],
    ]);
    expect((await ann.delete("/v1/sessions/s")).status).toBe(204);
    expect((await ann.get(`/v1/sessions/${fork}`)).body.messages).toHaveLength(8);
  });

  it("refuses other users, other sessions, children and tasks that have not ended", async () => {
    const { agent, store } = scripted([{ call: "remove", input: { path: "a" } }]);
    const server = await startServer({ agents: [agent] });
    const [ann, bob] = [server.as(tokens.ann), server.as(tokens.bob)];
    const start = { agent: "lead", input: "Go.", session_id: "s" };
    const { id } = (await ann.post("/v1/tasks", start)).body;
    await ann.frames(`/v1/tasks/${id}/events?until=idle`);
    const fork = (api: typeof ann, session: string, task_id: unknown) =>
      api.post(`/v1/sessions/${session}/fork`, { task_id });
    expect(await fork(ann, "s", id)).toMatchObject({
      ...{ status: 409, body: { error: { code: "session_suspended" } } },
    });
    for (const refused of [
      await fork(bob, "s", id),
      await fork(ann, "s", "task_none"),
      await fork(ann, "none", id),
    ])
      expect(refused).toMatchObject({ status: 404, body: { error: { code: "not_found" } } });
    expect((await fork(ann, "s", 7)).status).toBe(400);
    expect(
      await server.as(tokens.reader).post("/v1/sessions/s/fork", { task_id: id }),
    ).toMatchObject({ status: 403 });
    expect(await store.sessions({ limit: 10 })).toHaveLength(1);
  });

  it("gives a child without a task its own session in the fork", async () => {
    const spawn = { agent_id: "general-purpose", label: "helper" };
    const send = { label: "helper", message: "Hello." };
    const agent = new HarnessAgent({
      name: "lead",
      model: scriptedModel(({ prompt }) => {
        const text = JSON.stringify(prompt.at(-1));
        if (text.includes("Spawn.")) return [{ call: "agent_spawn", input: spawn }];
        if (text.includes("Send.")) return [{ call: "agent_send", input: send }];
        return ["Done."];
      }),
      store: memoryStore(),
      workspace: join(directory, "spawn"),
    });
    const server = await startServer({ agents: [agent] });
    const ann = server.as(tokens.ann);
    const childOf = async (input: string, session_id: string) => {
      const { body } = await ann.post("/v1/tasks", { agent: "lead", input, session_id });
      const frames = await ann.frames(`/v1/tasks/${body.id}/events`);
      const child = eventsOf(frames).find((event) => event.task_id !== body.id);
      return { id: body.id, child: child && (await ann.get(`/v1/tasks/${child.task_id}`)).body };
    };
    const { id } = await childOf("Spawn.", "s");
    const forked = await ann.post("/v1/sessions/s/fork", { task_id: id });
    const [one, two] = [
      await childOf("Send.", "s"),
      await childOf("Send.", forked.body.session.session_id),
    ];
    expect(one.child).toMatchObject({ status: "completed" });
    expect(two.child).toMatchObject({ status: "completed" });
    expect(one.child.session_id).not.toBe(two.child.session_id);
  });
});

it("GET /v1/agents lists the model, the workspace, tools, subagents and skills", async () => {
  const workspace = join(directory, "agents");
  mkdirSync(join(workspace, "skills/pdf"), { recursive: true });
  const skill = "---\nname: pdf\ndescription: Reads PDF files.\n---\nGo.";
  writeFileSync(join(workspace, "skills/pdf/SKILL.md"), skill);
  const agent = new HarnessAgent({
    ...{ name: "lead", description: "Leads.", model: scriptedModel(["Hi."]), store: memoryStore() },
    ...{ workspace, tools: [search] },
    subagents: [
      { name: "reader", description: "Reads.", systemPrompt: "Read." },
      {
        ...{ name: "writer", description: "Writes.", systemPrompt: "Write." },
        ...{ tools: ["read_*", search], leaf: false },
        subagents: [{ name: "critic", description: "Checks.", systemPrompt: "Check." }],
      },
    ],
  });
  const plain = new ReActAgent({
    name: "plain",
    model: scriptedModel(["Hi."]),
    store: memoryStore(),
  });
  const one = (await startServer({ agents: [agent] })).as(tokens.reader);
  const { agents } = (await one.get("/v1/agents")).body;
  expect(agents).toMatchObject([{ name: "lead", description: "Leads." }]);
  // The name of the folder, not where it is.
  expect(agents[0]).toMatchObject({ model: "scripted:scripted", workspace: "agents" });
  expect(agents[0].skills).toEqual([{ name: "pdf", description: "Reads PDF files." }]);
  const named = (list: readonly { name: string }[]) => list.map(({ name }) => name);
  expect(named(agents[0].tools)).toEqual(expect.arrayContaining(["search", "read_file"]));
  expect(agents[0].subagents).toContainEqual({ name: "reader", description: "Reads." });
  expect(agents[0].subagents).toContainEqual({
    ...{ name: "writer", description: "Writes.", tools: ["read_*", "search"] },
    subagents: [{ name: "critic", description: "Checks." }],
  });
  const two = (await startServer({ agents: [plain] })).as(tokens.ann);
  expect((await two.get("/v1/agents")).body.agents[0]).toMatchObject({ tools: [], subagents: [] });
});

it("POST /v1/demo/kill exists only with `demo`, which excludes `auth`", async () => {
  const { agent } = scripted(["Hi."]);
  const token = "operator-0123456789";
  const headers = { authorization: `Bearer ${token}`, host: "localhost" };
  const kill = Promise.withResolvers<void>();
  const post = (app: ReturnType<typeof createApp>, more = headers) =>
    app.request("/v1/demo/kill", { method: "POST", headers: more });
  const plain = createApp({ agents: [agent], token, log: false });
  expect((await post(plain)).status).toBe(404);
  const demo = createApp({ agents: [agent], token, log: false, demo: { kill: kill.resolve } });
  expect((await post(demo, { ...headers, authorization: "Bearer wrong" })).status).toBe(401);
  expect((await post(demo, { ...headers, host: "evil.example" })).status).toBe(403);
  expect((await post(demo)).status).toBe(202);
  await kill.promise;
  const auth = { tokens: { [token]: { userId: "ann" } } };
  expect(() => createApp({ agents: [agent], auth, demo: { kill: kill.resolve } })).toThrow(
    "`demo` and `auth` are both set.",
  );
});
