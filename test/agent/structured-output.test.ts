import { type } from "arktype";
import * as v from "valibot";
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import {
  type Hook,
  type Input,
  jsonSchema,
  type Message,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  type StandardSchema,
  tool,
  userMessage,
} from "../../src/index.ts";
import { type Script, type ScriptedPart, scriptedModel } from "../../src/testing.ts";
import { Part } from "../support/part-schema.ts";
import { whatIsLeft } from "./support/run-script.ts";

const options = { sessionId: "s" };
const city = z.object({ name: z.string(), people: z.number().int().positive() });
const rome = { name: "Rome", people: 2_800_000 };
const hand = (input: unknown): ScriptedPart => ({ call: "generate_response", input });

/** Sends the first reply back with what is made of it. */
function sentBack(more: (reply: Message) => readonly Message[]): Hook {
  let isFirst = true;
  return {
    name: "sent back",
    postReasoning(_, reply) {
      if (!isFirst) return undefined;
      isFirst = false;
      return { gotoReasoning: more(reply) };
    },
  };
}

async function ask<S extends StandardSchema>(
  script: Script,
  output: S,
  more: Partial<ReActAgentOptions> = {},
) {
  const store = memoryStore();
  const model = scriptedModel(script);
  const agent = new ReActAgent({ name: "lead", model, store, ...more });
  const reply = await agent.call("Which city?", { ...options, output });
  return { reply, model, agent, store, ...(await whatIsLeft(store, reply)) };
}

describe("structured output through a tool", () => {
  it("is validated, typed, and its JSON is the text", async () => {
    const { reply, model, tree } = await ask([[hand(rome)]], city);
    expect(reply.structured).toEqual(rome);
    expectTypeOf(reply.structured).toEqualTypeOf<{ name: string; people: number } | undefined>();
    if (reply.generateReason !== "structured_output") throw new Error("no answer");
    expectTypeOf(reply.structured).toEqualTypeOf<{ name: string; people: number }>();
    expect(JSON.parse(reply.text)).toEqual(rome);
    expect(reply.generateReason).toBe("structured_output");
    expect(tree.tasks[reply.task.taskId]?.structured).toEqual(rome);
    expect(model.calls).toHaveLength(1);
    expect(model.calls[0]?.tools).toMatchObject([{ name: "generate_response" }]);
  });

  it.each([
    ["arktype", type({ name: "string", people: "number" })],
    ["zod", city],
  ])("accepts a schema of %s", async (_, schema) => {
    expect((await ask([[hand(rome)]], schema as StandardSchema)).reply.structured).toEqual(rome);
  });

  it("explains how to use a schema that cannot be converted", async () => {
    const schema = v.object({ name: v.string(), people: v.number() });
    await expect(ask([[hand(rome)]], schema)).rejects.toMatchObject({
      code: "schema_not_convertible",
      hint: expect.stringContaining("toStandardJsonSchema"),
    });
  });

  it("accepts schemas that are not objects", async () => {
    const { reply } = await ask([[hand({ response: ["a", "b"] })]], z.array(z.string()));
    expect(reply.structured).toEqual(["a", "b"]);
    expect(reply.text).toBe('["a","b"]');
  });

  const part = { name: "a", parts: [{ name: "b", parts: [] }] };

  it.each<[string, StandardSchema, unknown, unknown]>([
    ["a list", z.array(Part), [part], [{ name: 7, parts: [] }]],
    ["something or nothing", Part.nullable(), part, { name: "a", parts: [{}] }],
    ["lists of themselves", jsonSchema({ type: "array", items: { $ref: "#" } }), [[], [[]]], [7]],
  ])("takes %s that names itself, in every process", async (_, output, right, wrong) => {
    const wait = tool({
      name: "wait",
      description: "Waits.",
      needsApproval: true,
      execute: () => "ok",
    });
    const script = [
      [{ call: "wait" }],
      [hand({})],
      [hand({ response: wrong })],
      [hand({ response: right })],
    ];
    for (const again of [{ output }, {}]) {
      const { reply, agent, model, store } = await ask(script, output, { tools: [wait] });
      const answers = reply.approvals.map((one) => one.approve());
      const last = await agent.call(answers, { ...options, ...again });
      expect(last.structured).toEqual(right);
      expect(model.calls).toHaveLength(4);
      const { results } = await whatIsLeft(store, last);
      expect(results.map(({ state }) => state)).toEqual(["success", "error", "error", "success"]);
    }
  });

  it("accepts null for an optional field", async () => {
    const schema = z.object({ name: z.string(), river: z.string().optional() });
    const { reply, model } = await ask([[hand({ name: "Rome", river: null })]], schema);
    expect(reply.structured).toEqual({ name: "Rome" });
    expect(model.calls).toHaveLength(1);
  });

  it("returns the schema's output", async () => {
    const schema = z.object({ name: z.string().transform((name) => name.toUpperCase()) });
    expect((await ask([[hand({ name: "Rome" })]], schema)).reply.structured).toEqual({
      name: "ROME",
    });
  });

  it.each([1, 2])("returns validation errors to the model: %i wrong, then right", async (wrong) => {
    const bad = [hand({ name: "Rome", people: "many" })];
    const { reply, model, results } = await ask([...Array(wrong).fill(bad), [hand(rome)]], city);
    expect(reply.structured).toEqual(rome);
    expect(model.calls).toHaveLength(wrong + 1);
    expect(results.map(({ state }) => state)).toEqual([...Array(wrong).fill("error"), "success"]);
    expect(JSON.stringify(model.calls[1]?.prompt)).toContain("people");
  });

  it("returns errors that only the schema's own validation finds", async () => {
    const schema = z
      .object({ from: z.number(), to: z.number() })
      .refine(({ from, to }) => from < to, {
        message: "from must come before to",
      });
    const { reply, model } = await ask(
      [[hand({ from: 2, to: 1 })], [hand({ from: 1, to: 2 })]],
      schema,
    );
    expect(reply.structured).toEqual({ from: 1, to: 2 });
    expect(JSON.stringify(model.calls[1]?.prompt)).toContain("from must come before to");
  });

  it("requests the tool when the model replies with text", async () => {
    const { reply, model } = await ask(["It is Rome.", [hand(rome)]], city);
    expect(reply.structured).toEqual(rome);
    expect(JSON.stringify(model.calls[1]?.prompt)).toContain("generate_response");
  });

  it.each([
    ["wrong", [hand({ name: 7 })]],
    ["talk", "It is Rome."],
  ])("fails after three tries (%s)", async (_, turn) => {
    const store = memoryStore();
    const model = scriptedModel(() => turn);
    const agent = new ReActAgent({ name: "lead", model, store, maxIters: 20 });
    const error = await agent.call("Which?", { ...options, output: city }).catch((e: unknown) => e);
    expect(error).toMatchObject({ code: "structured_output_invalid" });
    expect(model.calls).toHaveLength(3);
    const [task] = await store.tasks({ sessionId: "s" });
    expect(task?.status).toBe("failed");
    await whatIsLeft(store, { task: task as never });
  });

  it("works with other tools, also in one reply", async () => {
    const look = tool({
      name: "look",
      description: "Looks.",
      execute: () => "Rome has 2,800,000.",
    });
    const script = [[{ call: "look" }], [{ call: "look" }, hand(rome)]];
    const { reply, results } = await ask(script, city, { tools: [look] });
    expect(reply.structured).toEqual(rome);
    expect(results.map(({ name }) => name)).toEqual(["look", "look", "generate_response"]);
  });

  it("survives an approval and a restart, with the schema from the record", async () => {
    const buy = tool({
      name: "buy",
      description: "Buys.",
      needsApproval: true,
      execute: () => "ok",
    });
    const store = memoryStore();
    const script = [[{ call: "buy" }], [hand({ name: 7 })], [hand(rome)]];
    const model = scriptedModel(script);
    const make = () => new ReActAgent({ name: "lead", model, tools: [buy], store });
    const first = await make().call("Go.", { ...options, output: city });
    const second = await make().call(
      first.approvals.map((one) => one.approve()),
      options,
    );
    expect(second.generateReason).toBe("structured_output");
    expect(second.structured).toEqual(rome);
    await whatIsLeft(store, second);
  });

  it("ignores an answer that a hook sent back and takes the next", async () => {
    const hook = sentBack(({ content }) => {
      const results = content.flatMap((block) =>
        block.type === "tool_use"
          ? [{ ...block, type: "tool_result" as const, output: [], state: "success" as const }]
          : [],
      );
      return [{ id: "m", role: "tool", content: results }];
    });
    const script = [[hand({ name: "Room", people: 1 })], [hand(rome)]];
    const { reply, model } = await ask(script, city, { hooks: [hook] });
    expect(reply.structured).toEqual(rome);
    expect(model.calls).toHaveLength(2);
  });

  it("uses the call as a hook edited it, also after a restart", async () => {
    const hook: Hook = {
      name: "larger",
      preActing: (_, call) =>
        call.name === "generate_response" ? { ...call, input: { ...rome, people: 3 } } : undefined,
      postActing: (_, call) => (call.name === "generate_response" ? { stop: true } : undefined),
    };
    const { reply, agent } = await ask([[hand(rome)]], city, { hooks: [hook] });
    expect(reply.generateReason).toBe("acting_stop_requested");
    const last = await agent.call(undefined, options);
    expect(last.structured).toEqual({ ...rome, people: 3 });
    expect(JSON.parse(last.text)).toEqual(last.structured);
  });

  it("ignores a call that a hook blocked or turned into another call", async () => {
    const note = tool({ name: "note", description: "Takes notes.", execute: () => "noted" });
    let calls = 0;
    const hook: Hook = {
      name: "in between",
      preActing(_, call) {
        calls += 1;
        if (calls === 1) return { result: "Not yet." };
        return calls === 2 ? { ...call, name: "note", input: {} } : undefined;
      },
    };
    const script = [[hand({ ...rome, people: 1 })], [hand({ ...rome, people: 2 })], [hand(rome)]];
    const { reply, model } = await ask(script, city, { tools: [note], hooks: [hook] });
    expect(reply.structured).toEqual(rome);
    expect(model.calls).toHaveLength(3);
  });

  it("avoids the names of the user's tools", async () => {
    const ran: string[] = [];
    const make = (name: string) =>
      tool({ name, description: "The user's own.", execute: () => void ran.push(name) });
    const tools = [make("generate_response"), make("generate_response_2")];
    const script = [
      [{ call: "generate_response" }],
      [{ call: "generate_response_3", input: rome }],
    ];
    const { reply, model } = await ask(script, city, { tools });
    expect(reply.structured).toEqual(rome);
    expect(ran).toEqual(["generate_response"]);
    const offered = model.calls[0]?.tools?.map(({ name }) => name);
    expect(offered).toEqual(["generate_response", "generate_response_2", "generate_response_3"]);
  });

  it("overrides a tool of the same name from a tool source", async () => {
    const mine = tool({ name: "generate_response", description: "The user's.", execute: () => "" });
    const source = { refresh: () => Promise.resolve(), tools: () => [mine] };
    const { reply, model } = await ask([[hand(rome)]], city, { toolSources: [source] });
    expect(reply.structured).toEqual(rome);
    expect(model.calls[0]?.tools).toHaveLength(1);
  });

  it.each(["ask", "deny"] as const)("ignores permission rules: %s", async (list) => {
    const { reply } = await ask([[hand(rome)]], city, { permissions: { [list]: ["*"] } });
    expect(reply.structured).toEqual(rome);
    const mine = tool({ name: "generate_response", description: "The user's.", execute: () => "" });
    const script = [[hand({}), { call: "generate_response_2", input: rome }]];
    const more = { tools: [mine], permissions: { deny: ["generate_response*"] } };
    const { results } = await ask(script, city, more);
    expect(results.map(({ state }) => state)).toEqual(["denied", "success"]);
  });

  it("is not offered in the next task", async () => {
    const { agent, model } = await ask([[hand(rome)], "Just talk."], city);
    expect((await agent.call("And?", options)).text).toBe("Just talk.");
    expect(model.calls[1]?.tools).toBeUndefined();
  });

  it("is the same through all doors", async () => {
    const make = () => new ReActAgent({ name: "lead", model: scriptedModel([[hand(rome)]]) });
    const run = make().run("Go.", { output: city });
    for await (const event of run) {
      if (event.type === "task.completed") expect(event.task.structured).toEqual(rome);
    }
    expect((await run.result()).structured).toEqual(rome);
    for await (const event of make().stream("Go.", { output: city, types: ["agent_result"] })) {
      expect(event).toMatchObject({
        text: JSON.stringify(rome),
        generateReason: "structured_output",
      });
    }
  });
});

const native = (script: Script) => ({ ...scriptedModel(script), provider: "openai.responses" });

describe("a resumed task", () => {
  const buy = tool({
    name: "buy",
    description: "Buys.",
    needsApproval: true,
    execute: () => "ok",
  });
  const river = z.object({ length: z.number() });
  const sameAgain = z.object({ name: z.string(), people: z.number().int().positive() });

  it.each([
    ["another", city, river],
    ["one where there was none", undefined, city],
  ])("rejects %s and changes nothing", async (_, output, other) => {
    const store = memoryStore();
    const model = scriptedModel([[{ call: "buy" }], output ? [hand(rome)] : "Rome."]);
    const agent = new ReActAgent({ name: "lead", model, store, tools: [buy] });
    const first = await agent.call("Go.", { ...options, ...(output && { output }) });
    const state = async () => [
      await store.session("s"),
      await store.tasks({ sessionId: "s" }),
      await store.posts({ sessionId: "s" }),
      await store.last(first.task.rootTaskId),
    ];
    const before = await state();
    const answers = first.approvals.map((one) => one.approve());
    const both = [...answers, userMessage("And hurry.")] as unknown as Input;
    for (const input of [answers, both, "Hurry.", undefined]) {
      const call = agent.call(input, { ...options, onSuspended: "deny", output: other });
      await expect(call).rejects.toMatchObject({ code: "other_output" });
      expect(await state()).toEqual(before);
    }
    const last = await agent.call(answers, output ? { ...options, output: sameAgain } : options);
    expect(last).toMatchObject(output ? { structured: rome } : { text: "Rome." });
  });
});

describe("an output schema that fails", () => {
  const throwing = {
    "~standard": {
      ...city["~standard"],
      validate() {
        throw new Error("no connection");
      },
    },
  } as StandardSchema;

  it.each([
    ["handed in", "no connection", throwing, scriptedModel(() => [hand(rome)])],
    ["said", "no connection", throwing, native(() => JSON.stringify(rome))],
  ])("is reported to the caller, not to the model: %s, %s", async (_, why, schema, model) => {
    await expect(ask([], schema, { model: model as never })).rejects.toMatchObject({
      code: "output_schema_failed",
      message: expect.stringContaining(why),
    });
    expect(model.calls).toHaveLength(1);
  });
});

describe("native structured output", () => {
  it("is the reply's text, requested with the schema", async () => {
    const model = native([JSON.stringify(rome)]);
    const { reply } = await ask([], city, { model: model as never });
    expect(reply).toMatchObject({ structured: rome, text: JSON.stringify(rome) });
    expect(model.calls[0]?.responseFormat).toMatchObject({
      type: "json",
      schema: { type: "object", required: ["name", "people"] },
    });
    expect(model.calls[0]?.tools).toBeUndefined();
  });

  it("returns text that is not JSON or does not match to the model", async () => {
    const model = native(["Rome!", '{"name": "Rome"}', JSON.stringify(rome)]);
    const { reply } = await ask([], city, { model: model as never });
    expect(reply.structured).toEqual(rome);
    expect(JSON.stringify(model.calls[1]?.prompt)).toContain("not JSON");
    expect(JSON.stringify(model.calls[2]?.prompt)).toContain("people");
  });

  it("ignores an answer that a hook sent back and takes the next", async () => {
    const model = native(['{"name": "Room", "people": 1}', JSON.stringify(rome)]);
    const hooks = [sentBack(() => [userMessage("Really?")])];
    const { reply } = await ask([], city, { model: model as never, hooks });
    expect(reply.structured).toEqual(rome);
    expect(model.calls).toHaveLength(2);
    expect(JSON.stringify(model.calls[1]?.prompt)).toContain("Really?");
  });

  it("ignores an answer when text was added at a stop", async () => {
    const model = native(['{"name": "Room", "people": 1}', JSON.stringify(rome)]);
    let replies = 0;
    const stop = () => (replies++ === 0 ? { stop: true as const } : undefined);
    const hooks = [{ name: "stop", postReasoning: stop }];
    const { agent } = await ask([], city, { model: model as never, hooks });
    const reply = await agent.call("No, the city.", { ...options, onSuspended: "deny" });
    expect(reply.structured).toEqual(rome);
  });

  it("fails after three tries", async () => {
    const model = native(() => "Rome!");
    await expect(ask([], city, { model: model as never })).rejects.toMatchObject({
      code: "structured_output_invalid",
    });
    expect(model.calls).toHaveLength(3);
  });
});
