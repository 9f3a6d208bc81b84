import { expect, it } from "vitest";
import { connect } from "../../src/client.ts";
import { memoryStore, ReActAgent } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import { startServer, tokens } from "./support/server.ts";

const [fast, careful] = ["scripted:fast", "scripted:careful"];

/** A server whose agent has two models; the second one fails when it is asked for the first time. */
async function world() {
  const store = memoryStore();
  let calls = 0;
  const failing = () => {
    if (calls++ > 0) return "I am careful.";
    return { error: Object.assign(new Error("The model is down."), { isRetryable: false }) };
  };
  const agent = new ReActAgent({
    ...{ name: "lead", store },
    model: scriptedModel(() => "I am fast.", { modelId: "fast" }),
    models: [scriptedModel(failing, { modelId: "careful" })],
  });
  const other = new ReActAgent({ name: "other", store, model: scriptedModel(["Hello."]) });
  const server = await startServer({ agents: [agent, other] });
  const ann = server.as(tokens.ann);
  const ended = async (id: string) => {
    await ann.frames(`/v1/tasks/${id}/events`);
    return (await ann.get(`/v1/tasks/${id}`)).body;
  };
  return { server, ann, ended };
}

it("starts, shows and retries a task with the chosen model", async () => {
  const { ann, ended } = await world();
  const { body: agents } = await ann.get("/v1/agents");
  expect(agents.agents).toMatchObject([
    { name: "lead", model: fast, models: [fast, careful] },
    { name: "other", model: "scripted:scripted" },
  ]);
  expect(agents.agents[1].models).toBeUndefined();
  const start = { agent: "lead", input: "Go.", session_id: "s" };
  const { status, body } = await ann.post("/v1/tasks", { ...start, model: careful });
  expect([status, body.model]).toEqual([201, careful]);
  expect(await ended(body.id)).toMatchObject({ status: "failed", model: careful });
  const { body: again } = await ann.post(`/v1/tasks/${body.id}/retry`);
  const retried = await ended(again.id);
  expect(retried).toMatchObject({ status: "completed", model: careful });
  expect(JSON.stringify(retried.output)).toContain("I am careful.");
  const { body: plain } = await ann.post("/v1/tasks", start);
  expect((await ended(plain.id)).model).toBeUndefined();
  const { tasks } = (await ann.get(`/v1/sessions/${body.session_id}`)).body;
  expect(tasks.map(({ model }: { model?: string }) => model)).toEqual([
    careful,
    careful,
    undefined,
  ]);
});

it("refuses a model that the agent does not allow, and another model for the same key", async () => {
  const { ann } = await world();
  const start = { agent: "lead", input: "Go.", session_id: "s" };
  const refused = await ann.post("/v1/tasks", { ...start, model: "openai:gpt-5" });
  expect(refused.status).toBe(400);
  expect(refused.body.error).toMatchObject({
    code: "model_not_allowed",
    hint: expect.stringContaining(`${fast}, ${careful}`),
  });
  expect((await ann.get("/v1/sessions/s")).status).toBe(404);
  expect((await ann.post("/v1/tasks", { ...start, model: 7 })).status).toBe(400);
  const keyed = { ...start, idempotency_key: "k", model: fast };
  expect((await ann.post("/v1/tasks", keyed)).status).toBe(201);
  expect((await ann.post("/v1/tasks", keyed)).status).toBe(200);
  expect((await ann.post("/v1/tasks", { ...keyed, model: careful })).status).toBe(409);
});

it("takes the model from the client, which lists it with the task", async () => {
  const { server } = await world();
  const remote = connect(server.url, { token: tokens.ann });
  const agent = remote.agent("lead");
  const session = { sessionId: "s" };
  await expect(agent.call("Go.", { ...session, model: careful })).rejects.toThrow("down");
  expect((await agent.call("Go.", { ...session, model: careful })).text).toBe("I am careful.");
  expect((await agent.call("Go.", session)).text).toBe("I am fast.");
  const refused = agent.call("Go.", { ...session, model: "openai:gpt-5" });
  await expect(refused).rejects.toMatchObject({ code: "model_not_allowed" });
  const tasks = await remote.sessions.tasks("s");
  expect(tasks.map(({ model }) => model)).toEqual([careful, careful, undefined]);
});
