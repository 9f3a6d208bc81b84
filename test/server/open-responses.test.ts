// The checks of the public compliance suite of Open Responses, written anew: each posts to /responses and validates the
// response, or each event of the stream and the response at its end.
import { describe, expect, it } from "vitest";
import { ResponseEvents } from "../../src/adapters/responses/events.ts";
import type { TaskRecord } from "../../src/store.ts";
import { isDeep } from "../../src/testing/deep.ts";
import type { Script } from "../../src/testing.ts";
import { generateTree } from "../support/generate-tree.ts";
import { eventProblem, responseResource } from "../support/open-responses.ts";
import { seededRandom } from "../support/random.ts";
import { scripted, startServer, tokens } from "./support/server.ts";

type Wire = { readonly type: string; readonly [field: string]: unknown };

/** Posts a request as the suite does; `events` are those of a stream. */
async function post(script: Script, body: object, stream = false) {
  const server = await startServer({ agents: [scripted(script).agent], adapters: ["responses"] });
  const response = await fetch(`${server.url}/openai/v1/responses`, {
    method: "POST",
    headers: { authorization: `Bearer ${tokens.ann}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "lead", ...body, stream }),
  });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  const events = stream
    ? text.split("\n\n").flatMap((frame): Wire[] => {
        const [, data = "[DONE]"] = /^data: (.+)$/m.exec(frame) ?? [];
        return data === "[DONE]" ? [] : [JSON.parse(data)];
      })
    : [];
  for (const event of events) expect(eventProblem(event)).toBeUndefined();
  const last = stream ? events.at(-1)?.response : JSON.parse(text);
  return { events, resource: responseResource.parse(last) };
}

const message = (role: string, content: unknown) => ({ type: "message", role, content });
const getWeather = {
  type: "function",
  name: "get_weather",
  description: "Get the current weather.",
  parameters: {
    type: "object",
    properties: { location: { type: "string" } },
    required: ["location"],
  },
};
const asksWeather: Script = [[{ call: "get_weather", input: { location: "Bern" } }]];
const png = "data:image/png;base64,iVBORw0KGgo=";

describe("the checks of Open Responses", () => {
  it.each([
    ["a user message", [message("user", "Say hello.")]],
    ["a system message", [message("system", "Be a pirate."), message("user", "Say hello.")]],
    [
      "a history",
      [message("user", "I am Ann."), message("assistant", "Hello."), message("user", "Who am I?")],
    ],
    [
      "an image",
      [
        message("user", [
          { type: "input_text", text: "What is it?" },
          { type: "input_image", image_url: png },
        ]),
      ],
    ],
  ])("%s is answered with a message", async (_, input) => {
    const { resource } = await post(["Hello."], { input });
    expect(resource).toMatchObject({ status: "completed", output: [{ type: "message" }] });
  });

  it("a stream has known events and ends with the response", async () => {
    const script: Script = [[{ thinking: "Hm." }, { text: ["One, ", "two."] }]];
    const { events, resource } = await post(script, { input: [message("user", "Count.")] }, true);
    expect(resource.status).toBe("completed");
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual([...events.keys()]);
  });

  it("a function tool is called", async () => {
    const body = { input: [message("user", "The weather?")], tools: [getWeather] };
    const { resource } = await post(asksWeather, body);
    expect(resource.output).toMatchObject([{ type: "function_call", name: "get_weather" }]);
  });

  it("a function tool is called in a stream", async () => {
    const body = { input: [message("user", "The weather?")], tools: [getWeather] };
    const { events } = await post(asksWeather, body, true);
    const seen = events.map(({ type, item }) => {
      const { type: of } = (item ?? {}) as { type?: string };
      return of === undefined ? type : `${type} ${of}`;
    });
    for (const wanted of [
      "response.output_item.added function_call",
      "response.function_call_arguments.delta",
      "response.function_call_arguments.done",
      "response.output_item.done function_call",
    ])
      expect(seen).toContain(wanted);
  });
});

it("every response of generated trees has known events in order, and closes what it opens", () => {
  for (let seed = 0; seed < (isDeep ? 2_000 : 300); seed++) {
    const { events: log, truth } = generateTree(seededRandom(seed), { maxEvents: 80 });
    const root = log.find(({ task_id }) => task_id === truth.rootId);
    const record = {
      ...{ taskId: truth.rootId, rootTaskId: truth.rootId, agentName: "lead", sessionId: "s" },
      ...{ agentId: "lead", createdAt: root?.created_at ?? 0, depth: 0, status: "completed" },
    } as unknown as TaskRecord;
    for (let part = 0; ; part++) {
      const translator = new ResponseEvents(record, part);
      const sent = log.flatMap((event) => translator.translate(event));
      if (!translator.isReached) break;
      const place = `seed ${seed}, part ${part}`;
      expect(responseResource.safeParse(translator.resource()).error, place).toBeUndefined();
      const open = new Set<number>();
      for (const [number, event] of sent.entries()) {
        expect(eventProblem(event), place).toBeUndefined();
        expect(event.sequence_number, place).toBe(number);
        if (event.type === "response.output_item.added") open.add(event.output_index);
        if (event.type === "response.output_item.done") open.delete(event.output_index);
      }
      if (translator.isOver) expect([...open], place).toEqual([]);
    }
  }
});
