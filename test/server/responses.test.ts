import OpenAI from "openai";
import type { ResponseStreamEvent } from "openai/resources/responses/responses";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { type Agent, agentTool, memoryStore, ReActAgent, tool } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import { collect } from "../agent/support/collect.ts";
import { nested, scripted, startServer, tokens } from "./support/server.ts";

async function open(...agents: readonly Agent[]) {
  const server = await startServer({ agents, adapters: ["responses"] });
  const as = (token: string) =>
    new OpenAI({ baseURL: `${server.url}/openai/v1`, apiKey: token, maxRetries: 0 });
  return { server, ann: as(tokens.ann), bob: as(tokens.bob) };
}
const model = "lead";
const locate = {
  type: "function" as const,
  name: "locate",
  description: "Where the user is.",
  parameters: { type: "object", properties: { exact: { type: "boolean" } } },
  strict: false,
};
const remove = { call: "remove", input: { path: "a.txt" } };

describe("a client of OpenAI", () => {
  it("creates a response, with the reasoning and the calls of the agent", async () => {
    const { ann } = await open(
      scripted([[{ thinking: ["Let ", "me."] }, { call: "look" }], "It is blue."]).agent,
    );
    const response = await ann.responses.create({ model, input: "What colour?" });
    expect(response).toMatchObject({ status: "completed", output_text: "It is blue.", model });
    expect(response.output).toMatchObject([
      { type: "reasoning", summary: [{ type: "summary_text", text: "Let me." }] },
      { type: "mcp_call", name: "look", server_label: "rivulet", status: "failed" },
      { type: "message", status: "completed", content: [{ type: "output_text" }] },
    ]);
    expect(response.usage?.total_tokens).toBeGreaterThan(0);
  });

  it("streams, and the accumulated response is the final one", async () => {
    const { ann } = await open(
      scripted([[{ thinking: "Hm." }, { call: "look" }], [{ text: ["It ", "is ", "blue."] }]])
        .agent,
    );
    const stream = ann.responses.stream({ model, input: "What colour?" });
    const deltas: string[] = [];
    stream.on("response.output_text.delta", ({ delta }) => void deltas.push(delta));
    const final = await stream.finalResponse();
    expect(deltas).toEqual(["It ", "is ", "blue."]);
    expect(final.output_text).toBe("It is blue.");
    const { output_parsed: _, ...rest } = final as typeof final & { output_parsed?: unknown };
    expect(rest.output.map(({ type }) => type)).toEqual(["reasoning", "mcp_call", "message"]);
    const stored = await ann.responses.retrieve(final.id);
    expect(stored.output_text).toBe(final.output_text);
    expect(stored.output.map(({ type }) => type)).toEqual(["reasoning", "mcp_call", "message"]);
  });

  it("resumes after every number with the same events", async () => {
    const { ann } = await open(
      scripted([[{ thinking: "Hm." }, { call: "look" }], [{ text: ["It ", "is ", "blue."] }]])
        .agent,
    );
    const all = await collect(await ann.responses.create({ model, input: "Hi.", stream: true }));
    expect(all.map(({ sequence_number }) => sequence_number)).toEqual([...all.keys()]);
    const created = all[0] as Extract<ResponseStreamEvent, { type: "response.created" }>;
    for (const starting_after of all.keys()) {
      const query = { stream: true as const, starting_after };
      const rest = await collect(await ann.responses.retrieve(created.response.id, query));
      expect(rest).toEqual(all.slice(starting_after + 1));
    }
  });

  it("runs the tools that the client sends, and continues with their outputs", async () => {
    const { ann } = await open(
      scripted([[{ call: "locate", input: { exact: true } }], "You are in Bern."]).agent,
    );
    const asked = await ann.responses.create({ model, input: "Where am I?", tools: [locate] });
    expect(asked).toMatchObject({ status: "completed", tools: [{ name: "locate" }] });
    const [call] = asked.output;
    expect(call).toMatchObject({
      type: "function_call",
      name: "locate",
      arguments: '{"exact":true}',
    });
    const { call_id } = call as { call_id: string };
    const answered = await ann.responses.create({
      ...{ model, previous_response_id: asked.id, tools: [locate] },
      input: [{ type: "function_call_output", call_id, output: '{"city":"Bern"}' }],
    });
    expect(answered.output_text).toBe("You are in Bern.");
    expect(answered.id).not.toBe(asked.id);
    expect(answered.previous_response_id).toBe(asked.id);
    expect((await ann.responses.retrieve(asked.id)).output).toEqual(asked.output);
    expect((await ann.responses.retrieve(answered.id)).output_text).toBe("You are in Bern.");
  });

  it("streams the arguments of a client's tool", async () => {
    const { ann } = await open(
      scripted([[{ call: "locate", deltas: ['{"ex', 'act":true}'] }], "Here."]).agent,
    );
    const events = await collect(
      await ann.responses.create({ model, input: "Where?", tools: [locate], stream: true }),
    );
    expect(events.map(({ type }) => type)).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.function_call_arguments.delta",
      "response.function_call_arguments.delta",
      "response.function_call_arguments.done",
      "response.output_item.done",
      "response.completed",
    ]);
  });

  it("continues a conversation without server state, from the items of the client", async () => {
    const model = scriptedModel(({ prompt }) => `${prompt.length} messages`);
    const { ann } = await open(new ReActAgent({ name: "lead", model, store: memoryStore() }));
    const response = await ann.responses.create({
      model: "lead",
      instructions: "Be brief.",
      input: [
        { role: "developer", content: "You count." },
        { role: "user", content: "One." },
        { role: "assistant", content: "1" },
        { type: "function_call", call_id: "c1", name: "locate", arguments: "{}" },
        { type: "function_call_output", call_id: "c1", output: "Bern" },
        { role: "user", content: [{ type: "input_text", text: "Two." }] },
      ],
    });
    expect(response.output_text).toMatch(/messages/);
    expect(JSON.stringify(model.calls[0]?.prompt)).toContain("Bern");
    expect(response.instructions).toBe("Be brief.");
  });

  it("keeps the session behind a previous response, and forks at an older one", async () => {
    const asked: string[] = [];
    const scriptedAnswers = scriptedModel(({ prompt }) => {
      asked.push(JSON.stringify(prompt));
      return `Answer ${asked.length}.`;
    });
    const { ann } = await open(
      new ReActAgent({ name: "lead", model: scriptedAnswers, store: memoryStore() }),
    );
    const first = await ann.responses.create({ model, input: "One?" });
    const second = await ann.responses.create({
      model,
      input: "Two?",
      previous_response_id: first.id,
    });
    expect(asked[1]).toContain("Answer 1.");
    expect(second.conversation?.id).toBe(first.conversation?.id);
    const other = await ann.responses.create({
      model,
      input: "Three?",
      previous_response_id: first.id,
    });
    expect(asked[2]).toContain("Answer 1.");
    expect(asked[2]).not.toContain("Answer 2.");
    expect(other.conversation?.id).not.toBe(first.conversation?.id);
  });

  it("maps a conversation to a session", async () => {
    const { ann, server } = await open(scripted(["One.", "Two."]).agent);
    await ann.responses.create({ model, input: "A.", conversation: "talk" });
    const second = await ann.responses.create({ model, input: "B.", conversation: "talk" });
    const { body } = await server.as(tokens.ann).get("/v1/sessions/talk");
    expect(body.tasks).toHaveLength(2);
    expect(second.output_text).toBe("Two.");
  });

  it("asks for approvals at any depth, and continues with the decision", async () => {
    const store = memoryStore({ flushMs: 0 });
    const child = scripted([[remove], "Removed."], { name: "child", store }).agent;
    const lead = scripted([[{ call: "child", input: { prompt: "Go." } }], "All done."], {
      store,
      tools: [agentTool(child as ReActAgent)],
    }).agent;
    const { ann } = await open(lead);
    const asked = await ann.responses.create({ model, input: "Go." });
    const request = asked.output.find(({ type }) => type === "mcp_approval_request");
    expect(request).toMatchObject({ name: "remove", arguments: '{"path":"a.txt"}' });
    const done = await ann.responses.create({
      ...{ model, previous_response_id: asked.id },
      input: [
        {
          type: "mcp_approval_response",
          approval_request_id: (request as { id: string }).id,
          approve: true,
        },
      ],
    });
    expect(done.output_text).toBe("All done.");
  });

  it("reports nested agents as calls of this server", async () => {
    const { ann } = await open(nested(memoryStore({ flushMs: 0 })));
    const response = await ann.responses.create({ model, input: "Go." });
    expect(response.output_text).toBe("The lead sums up what both have found.");
    const calls = response.output.filter(({ type }) => type === "mcp_call");
    expect(calls).toMatchObject([1, 2].map(() => ({ name: "helper", status: "completed" })));
  });

  it("returns structured output as the text that a client parses", async () => {
    const answer = { city: "Bern", people: 134_000 };
    const { ann } = await open(
      scripted([[{ text: "Thinking aloud." }, { call: "generate_response", input: answer }]]).agent,
    );
    const schema = {
      type: "object",
      properties: { city: { type: "string" }, people: { type: "number" } },
      required: ["city", "people"],
      additionalProperties: false,
    };
    const response = await ann.responses.create({
      ...{ model, input: "Which city?" },
      text: { format: { type: "json_schema", name: "city", schema, strict: true } },
    });
    expect(JSON.parse(response.output_text)).toEqual(answer);
  });

  it("takes images", async () => {
    const seeing = scriptedModel(() => "A pixel.");
    const { ann } = await open(
      new ReActAgent({ name: "lead", model: seeing, store: memoryStore() }),
    );
    const image_url = "data:image/png;base64,iVBORw0KGgo=";
    const response = await ann.responses.create({
      model,
      input: [
        {
          role: "user",
          content: [
            { type: "input_text", text: "What is it?" },
            { type: "input_image", image_url, detail: "auto" },
          ],
        },
      ],
    });
    expect(response.output_text).toBe("A pixel.");
    expect(JSON.stringify(seeing.calls[0]?.prompt)).toContain("image/png");
  });

  it("runs in the background, and cancels", async () => {
    const { ann } = await open(scripted([[{ text: "Wait" }, { hang: true }]]).agent);
    const started = await ann.responses.create({ model, input: "Go.", background: true });
    expect(["queued", "in_progress"]).toContain(started.status);
    expect(started.background).toBe(true);
    const cancelled = await ann.responses.cancel(started.id);
    expect(cancelled.status).toBe("cancelled");
    expect((await ann.responses.retrieve(started.id)).status).toBe("cancelled");
  });

  it("reports a failure as a failed response", async () => {
    const { ann } = await open(scripted([[{ error: new Error("no model") }]]).agent);
    const response = await ann.responses.create({ model, input: "Go." });
    expect(response).toMatchObject({ status: "failed", error: { code: "server_error" } });
  });

  it("takes back what a retry takes back in the final response", async () => {
    const busy = Object.assign(new Error("busy"), { statusCode: 529 });
    const { ann } = await open(
      scripted([[{ text: "Half a sen" }, { error: busy }], "A whole one."], {
        modelExecution: { initialBackoffMs: 1, jitter: 0 },
      }).agent,
    );
    const final = await ann.responses.stream({ model, input: "Go." }).finalResponse();
    expect(final.output_text).toBe("A whole one.");
    expect(final.output).toHaveLength(1);
  });

  it("lists agents, input items, and deletes a response", async () => {
    const { ann } = await open(scripted(["Hi."]).agent);
    expect((await ann.models.list()).data.map(({ id }) => id)).toEqual(["lead"]);
    const { id } = await ann.responses.create({ model, input: "Hello." });
    const items = await ann.responses.inputItems.list(id);
    expect(items.data).toMatchObject([{ role: "user", content: [{ text: "Hello." }] }]);
    await ann.responses.delete(id);
    await expect(ann.responses.retrieve(id)).rejects.toMatchObject({ status: 404 });
  });
});

it("hides the responses of another user", async () => {
  const { ann, bob } = await open(scripted(["Secret.", "Another."]).agent);
  const { id } = await ann.responses.create({ model, input: "Go." });
  const found = [
    bob.responses.retrieve(id),
    bob.responses.cancel(id),
    bob.responses.inputItems.list(id),
    bob.responses.delete(id),
    bob.responses.create({ model, input: "More?", previous_response_id: id }),
  ];
  for (const one of await Promise.allSettled(found))
    expect(one).toMatchObject({ status: "rejected", reason: { status: 404, code: "not_found" } });
});

it("rejects bad requests in the form of OpenAI", async () => {
  const own = tool({ name: "own", description: "Own.", input: z.object({}), execute: () => "x" });
  const { server } = await open(scripted(["Hi."], { tools: [own] }).agent);
  const ann = server.as(tokens.ann);
  const bad = [
    {},
    { model: "nobody", input: "Hi." },
    { model },
    { model, input: [] },
    { model, input: [7] },
    { model, input: [{ role: "robot", content: "x" }] },
    { model, input: [{ role: "user", content: 7 }] },
    { model, input: "x", tools: [{ type: "web_search" }] },
    { model, input: "x", tools: [{ type: "function", name: "own" }] },
    { model, input: "x", tools: [{ type: "function", name: "f", parameters: { $ref: "#/no" } }] },
    { model, input: "x", text: { format: { type: "json_object" } } },
    { model, input: "x", previous_response_id: "resp_none" },
    { model, input: "x", previous_response_id: "nonsense" },
    { model, input: "x", previous_response_id: "resp_a", conversation: "b" },
    { model, input: "x", conversation: {} },
    {
      model,
      input: [
        { type: "message", role: "user", content: [{ type: "input_image", image_url: "ftp://x" }] },
      ],
    },
  ];
  for (const body of bad) {
    const { status, body: answer } = await ann.post("/openai/v1/responses", body);
    expect(status, JSON.stringify(body)).toBeGreaterThanOrEqual(400);
    expect(status, JSON.stringify(body)).toBeLessThan(500);
    expect(answer.error, JSON.stringify(body)).toMatchObject({
      type: expect.stringMatching(/_error$/),
      message: expect.stringMatching(/./),
    });
  }
});
