import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type Message,
  type Part,
  Role,
  type StreamResponse,
  type Task,
  TaskState,
} from "@a2a-js/sdk";
import {
  type Client,
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
} from "@a2a-js/sdk/client";
import { afterAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { agentTool, memoryStore, ReActAgent, sqliteStore, tool } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import { collect } from "../agent/support/collect.ts";
import { scripted, startServer, stored, tokens } from "./support/server.ts";

const directory = mkdtempSync(join(tmpdir(), "rivulet-a2a-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const adapters = ["a2a"] as const;
const remove = { call: "remove", input: { path: "a.txt" } };
const {
  TASK_STATE_COMPLETED: completed,
  TASK_STATE_FAILED: failed,
  TASK_STATE_CANCELED: canceled,
  TASK_STATE_INPUT_REQUIRED: inputRequired,
  TASK_STATE_WORKING: working,
} = TaskState;

/** The official client, with the token of a user. */
async function official(url: string, token: string, legacy = false): Promise<Client> {
  const fetchImpl: typeof fetch = (input, init) => {
    const headers = new Headers(init?.headers);
    headers.set("authorization", `Bearer ${token}`);
    if (legacy) headers.delete("a2a-version");
    return fetch(input, { ...init, headers });
  };
  const legacyCompat = { enabled: true };
  const resolver = new DefaultAgentCardResolver({ fetchImpl, legacyCompat });
  const factory = new ClientFactory({
    transports: [new JsonRpcTransportFactory({ fetchImpl, legacyCompat })],
    cardResolver: resolver,
  });
  if (!legacy) return factory.createFromUrl(url, "");
  const card = await resolver.resolve(url, "");
  const old = card.supportedInterfaces.filter(({ protocolVersion }) => protocolVersion === "0.3");
  return factory.createFromAgentCard({ ...card, supportedInterfaces: old });
}

async function world(...[script, options]: Parameters<typeof scripted>) {
  const { agent, store } = scripted(script, options);
  const server = await startServer({ agents: [agent], adapters });
  const card = `${server.url}/a2a/lead/.well-known/agent-card.json`;
  const ann = await official(card, tokens.ann);
  return { server, store, agent, card, ann };
}

let messages = 0;
function message(content: string | object, more: Partial<Message> = {}): Message {
  messages += 1;
  const value: Part["content"] =
    typeof content === "string"
      ? { $case: "text", value: content }
      : { $case: "data", value: content };
  return {
    messageId: `m-${messages}`,
    contextId: "",
    taskId: "",
    role: Role.ROLE_USER,
    parts: [{ content: value, metadata: undefined, filename: "", mediaType: "" }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
    ...more,
  };
}
const request = (one: Message, returnImmediately = false) => ({
  tenant: "",
  message: one,
  configuration: {
    acceptedOutputModes: [],
    taskPushNotificationConfig: undefined,
    returnImmediately,
  },
  metadata: undefined,
});
const named = (id: string) => ({ tenant: "", id });
const cancelOf = (id: string) => ({ ...named(id), metadata: undefined });

async function send(client: Client, one: Message, returnImmediately = false): Promise<Task> {
  const result = await client.sendMessage(request(one, returnImmediately));
  if ("messageId" in result) throw new Error("The server answered with a message.");
  return result;
}

/** The text of each artifact of a task. */
function textsOf({ artifacts }: Pick<Task, "artifacts">): readonly string[] {
  return artifacts.map(({ parts }) =>
    parts.map(({ content }) => (content?.$case === "text" ? content.value : "")).join(""),
  );
}
function dataOf(one: Message | undefined) {
  return (one?.parts ?? []).flatMap(({ content }) =>
    content?.$case === "data" ? [content.value] : [],
  );
}

/** A task as a client knows it from a stream: a snapshot and what was appended to it. */
function fold(events: readonly StreamResponse[], before?: Task): Task {
  let task = before;
  for (const { payload } of events) {
    if (payload?.$case === "task") task = payload.value;
    if (task === undefined) throw new Error("The first event is not a task.");
    if (payload?.$case === "statusUpdate") task = { ...task, status: payload.value.status };
    if (payload?.$case !== "artifactUpdate") continue;
    const { artifact, append } = payload.value;
    if (artifact === undefined) throw new Error("An update has no artifact.");
    const known = task.artifacts.find(({ artifactId }) => artifactId === artifact.artifactId);
    if (append !== (known !== undefined)) throw new Error("append without a first part");
    const rest = task.artifacts.filter((one) => one !== known);
    const parts = [...(known?.parts ?? []), ...artifact.parts];
    task = { ...task, artifacts: [...rest, { ...artifact, parts }] };
  }
  return task as Task;
}

describe("cards", () => {
  it("names the endpoint of each agent; the first agent has the card of the server", async () => {
    const store = memoryStore();
    const agents = ["lead", "helper"].map(
      (name) => scripted(["Hi."], { store, name, description: `I am ${name}.` }).agent,
    );
    const server = await startServer({ agents, adapters });
    const read = async (path: string, headers = {}) =>
      (await fetch(`${server.url}${path}`, { headers })).json();
    const helper = await read("/a2a/helper/.well-known/agent-card.json", { "a2a-version": "1.0" });
    expect(helper).toMatchObject({
      name: "helper",
      description: "I am helper.",
      capabilities: { streaming: true },
      supportedInterfaces: [
        { url: `${server.url}/a2a/helper`, protocolBinding: "JSONRPC", protocolVersion: "1.0" },
        { url: `${server.url}/a2a/helper`, protocolBinding: "JSONRPC", protocolVersion: "0.3" },
      ],
      securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: "Bearer" } } },
    });
    const old = await read("/.well-known/agent-card.json");
    expect(old).toMatchObject({
      name: "lead",
      url: `${server.url}/a2a/lead`,
      preferredTransport: "JSONRPC",
      protocolVersion: "0.3",
      securitySchemes: { bearer: { type: "http", scheme: "Bearer" } },
    });
    expect(old.supportedInterfaces).toHaveLength(2);
    expect((await fetch(`${server.url}/a2a/none/.well-known/agent-card.json`)).status).toBe(404);
  });

  it("names the public address", async () => {
    const { agent } = scripted(["Hi."]);
    const publicUrl = "https://agents.example/team/";
    const server = await startServer({ agents: [agent], adapters, publicUrl });
    const card = await (await fetch(`${server.url}/.well-known/agent-card.json`)).json();
    expect(card.url).toBe("https://agents.example/team/a2a/lead");
  });
});

describe("a message", () => {
  it("starts a task whose messages are artifacts", async () => {
    const { ann } = await world([
      [{ thinking: "Hm." }, { text: ["Let me ", "look."] }, { call: "look", input: {} }],
      [{ text: ["It is ", "blue."] }],
    ]);
    const task = await send(ann, message("What colour?"));
    expect(task.status?.state).toBe(completed);
    expect(textsOf(task)).toEqual(["Let me look.", "It is blue."]);
    expect(task.history.map(({ role }) => role)).toEqual([Role.ROLE_USER]);
    expect(task.metadata?.rivulet).toMatchObject({ status: "completed", usage: {} });
    expect(await ann.getTask(named(task.id))).toEqual(task);
    expect((await ann.getTask({ ...named(task.id), historyLength: 0 })).history).toEqual([]);
  });

  it("streams the text, and says what the agent does", async () => {
    const { ann } = await world([
      [{ thinking: ["H", "m."] }, { call: "look", input: { at: "sky" } }],
      [{ text: ["It ", "is ", "blue."] }],
    ]);
    const events = await collect(ann.sendMessageStream(request(message("What colour?"))));
    expect(events[0]?.payload?.$case).toBe("task");
    const task = fold(events);
    expect(textsOf(task)).toEqual(["It is blue."]);
    expect(task.status?.state).toBe(completed);
    const deltas = events.filter(({ payload }) => payload?.$case === "artifactUpdate");
    expect(deltas).toHaveLength(4); // three texts and the last chunk
    const notes = events.flatMap(({ payload }) =>
      payload?.$case === "statusUpdate" ? dataOf(payload.value.status?.message) : [],
    );
    expect(notes).toMatchObject([
      { type: "tool_call", name: "look", input: { at: "sky" } },
      { type: "tool_result", name: "look", status: "failed" },
    ]);
    expect(await ann.getTask(named(task.id))).toMatchObject({ artifacts: [{}] });
  });

  it("continues a context with its memory", async () => {
    const { ann } = await world(({ assistantCount }) => `Answer ${assistantCount}.`);
    const first = await send(ann, message("One.", { contextId: "ctx" }));
    expect(first.contextId).toBe(stored("ctx"));
    const second = await send(ann, message("Two.", { contextId: "ctx" }));
    expect(second.id).not.toBe(first.id);
    expect([first, second].flatMap(textsOf)).toEqual(["Answer 0.", "Answer 1."]);
    const page = { ...named(""), contextId: "ctx", pageToken: "", status: 0 };
    const { tasks } = await ann.listTasks({ ...page, statusTimestampAfter: undefined });
    expect(tasks.map(({ id }) => id)).toEqual([second.id, first.id]);
  });

  it("starts one task when it is sent twice", async () => {
    const { ann, store } = await world(() => [{ delayMs: 20 }, "Hello."]);
    const one = message("Hi.");
    const [first, again] = await Promise.all([send(ann, one), send(ann, one)]);
    expect(first?.id).toBe(again?.id);
    expect((await send(ann, one)).id).toBe(first?.id);
    expect(await store.tasks({})).toHaveLength(1);
  });

  it("returns at once when asked to, and steers a task that runs", async () => {
    const { ann } = await world(({ assistantCount, prompt }) => {
      if (assistantCount === 0) return [{ call: "look", input: {} }, { delayMs: 100 }];
      return JSON.stringify(prompt).includes("Be brief.") ? "Brief." : "Long.";
    });
    const task = await send(ann, message("Tell me."), true);
    expect([TaskState.TASK_STATE_SUBMITTED, working]).toContain(task.status?.state);
    const steered = await send(ann, message("Be brief.", { taskId: task.id }));
    expect(steered.id).toBe(task.id);
    expect(textsOf(steered)).toEqual(["Brief."]);
  });

  it("shows the structured result of a task", async () => {
    const { ann, server } = await world(() => [
      { call: "generate_response", input: { city: "Paris" } },
    ]);
    const output = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
    const native = server.as(tokens.ann);
    const { body } = await native.post("/v1/tasks", { agent: "lead", input: "Where?", output });
    await native.frames(`/v1/tasks/${body.id}/events`);
    const { artifacts } = await ann.getTask(named(body.id));
    expect(artifacts.at(-1)).toMatchObject({
      name: "structured",
      parts: [{ content: { $case: "data", value: { city: "Paris" } } }],
    });
  });

  it("fails with the reason, and also when the agent runs out of iterations", async () => {
    const { ann } = await world([{ error: new Error("The model is gone.") }]);
    const broken = await send(ann, message("Hi."));
    expect(broken.status?.state).toBe(failed);
    const [text] = broken.status?.message?.parts ?? [];
    expect(text?.content?.value).toContain("The model is gone.");
    const { ann: other } = await world(() => [{ call: "look", input: {} }], { maxIters: 1 });
    const incomplete = await send(other, message("Hi."));
    expect(incomplete.status?.state).toBe(failed);
    expect(incomplete.metadata?.rivulet).toMatchObject({
      status: "incomplete",
      reason: "max_iterations",
    });
  });

  it("empties an artifact that the agent discards", async () => {
    const { ann } = await world(
      [
        [{ text: ["Wro", "ng"] }, { error: Object.assign(new Error("cut"), { statusCode: 503 }) }],
        "Right.",
      ],
      { modelExecution: { maxAttempts: 2, initialBackoffMs: 1 } },
    );
    const events = await collect(ann.sendMessageStream(request(message("Hi."))));
    const updates = events.flatMap(({ payload }) =>
      payload?.$case === "artifactUpdate" ? [payload.value] : [],
    );
    const emptied = updates.find(({ artifact }) => artifact?.metadata?.rivulet);
    expect(emptied).toMatchObject({
      append: false,
      artifact: { parts: [{ content: { value: "" } }] },
    });
    const last = events.findLast(({ payload }) => payload?.$case === "statusUpdate");
    const task = await ann.getTask(named(emptied?.taskId ?? ""));
    expect(textsOf(task)).toEqual(["Right."]);
    expect(last?.payload?.$case === "statusUpdate" && last.payload.value.status?.state).toBe(
      completed,
    );
  });
});

describe("a stream", () => {
  it("continues with SubscribeToTask after a cut, without a gap or a repetition", async () => {
    const words = Array.from({ length: 15 }, (_, n) => `word${n} `);
    const slow = words.flatMap((text) => [{ delayMs: 5 }, { text }]);
    const { ann } = await world(() => slow);
    for (const cut of [0, 1, 2, 5, 12]) {
      const stop = new AbortController();
      const seen: StreamResponse[] = [];
      const reading = async () => {
        const options = { signal: stop.signal };
        for await (const event of ann.sendMessageStream(request(message("Go.")), options)) {
          seen.push(event);
          if (seen.length > cut) break;
        }
      };
      await reading();
      stop.abort();
      const { id } = fold(seen);
      const rest = await collect(ann.resubscribeTask(named(id)));
      expect(rest[0]?.payload?.$case).toBe("task");
      const task = fold(rest);
      expect(textsOf(task)).toEqual([words.join("")]);
      expect(task.status?.state).toBe(completed);
    }
  });

  it("is the same for every subscriber", async () => {
    const { ann } = await world([[{ delayMs: 50 }, { text: ["a ", "b ", "c"] }, { delayMs: 20 }]]);
    const { id } = await send(ann, message("Go."), true);
    const folded = await Promise.all(
      [1, 2, 3].map(async () => fold(await collect(ann.resubscribeTask(named(id))))),
    );
    for (const task of folded) expect(textsOf(task)).toEqual(["a b c"]);
  });

  it("ends when the task is cancelled", async () => {
    const { ann } = await world([[{ text: ["Slow "] }, { delayMs: 60_000 }, { text: ["end."] }]]);
    const events: StreamResponse[] = [];
    for await (const event of ann.sendMessageStream(request(message("Go.")))) {
      events.push(event);
      if (event.payload?.$case !== "artifactUpdate" || event.payload.value.append) continue;
      const task = await ann.cancelTask(cancelOf(event.payload.value.taskId));
      expect(task.status?.state).toBe(canceled);
    }
    expect(fold(events).status?.state).toBe(canceled);
    await expect(ann.cancelTask(cancelOf(fold(events).id))).rejects.toThrow("has ended");
  });
});

describe("an approval", () => {
  const script = () => world([remove, "Removed."]);

  it("is input that a data part gives", async () => {
    const { ann } = await script();
    const events = await collect(ann.sendMessageStream(request(message("Clean up."))));
    const waiting = fold(events);
    expect(waiting.status?.state).toBe(inputRequired);
    const [approval] = dataOf(waiting.status?.message);
    expect(approval).toMatchObject({ type: "approval", name: "remove", input: { path: "a.txt" } });
    const answer = { approval_id: approval.approval_id, decision: "approve" };
    const again = message(answer, { taskId: waiting.id });
    const rest = await collect(ann.sendMessageStream(request(again)));
    const done = fold(rest);
    expect(done.status?.state).toBe(completed);
    expect(textsOf(done)).toEqual(["Removed."]);
    const late = ann.sendMessage(request(message(answer, { taskId: waiting.id })));
    await expect(late).rejects.toThrow("has ended");
  });

  it.each([
    ["approve", "completed", "removed a.txt"],
    ["Yes.", "completed", "removed a.txt"],
    ["deny", "failed", "denied"],
    ["Not that one, please", "failed", "Not that one, please"],
  ])("is decided by the text %j", async (text, status, result) => {
    const { ann } = await script();
    const { id, status: before } = await send(ann, message("Clean up."));
    expect(before?.state).toBe(inputRequired);
    const events = await collect(ann.sendMessageStream(request(message(text, { taskId: id }))));
    const notes = events.flatMap(({ payload }) =>
      payload?.$case === "statusUpdate" ? dataOf(payload.value.status?.message) : [],
    );
    const found = notes.find((note) => note.type === "tool_result");
    expect(found).toMatchObject({ status, text: expect.stringContaining(result) });
  });

  it("of a grandchild is asked for at the root, with an edit as the answer", async () => {
    const store = memoryStore();
    const { agent: helper } = scripted([remove, "Helped."], { store, name: "helper" });
    const lead = new ReActAgent({
      name: "lead",
      store,
      model: scriptedModel([[{ call: "helper", input: { prompt: "Go." } }], "All done."]),
      tools: [agentTool(helper)],
    });
    const server = await startServer({ agents: [lead], adapters });
    const ann = await official(`${server.url}/.well-known/agent-card.json`, tokens.ann);
    const { id } = await send(ann, message("Go."));
    const edit = message({ decision: "edit", input: { path: "b.txt" } }, { taskId: id });
    expect(textsOf(await send(ann, edit))).toEqual(["All done."]);
    const document = await server.as(tokens.ann).get(`/v1/tasks/${id}/document`);
    expect(document.text).toContain("removed b.txt");
  });

  it("stays open when a message answers one of two, and rejects answers that fit none", async () => {
    const { ann } = await world([[remove, { ...remove, input: { path: "b.txt" } }], "Done."]);
    const { id, status } = await send(ann, message("Clean up."));
    const [first, second] = dataOf(status?.message);
    const answer = (content: object) => send(ann, message(content, { taskId: id }));
    await expect(answer({ decision: "approve" })).rejects.toThrow("approval_id must be one of");
    await expect(answer({ approval_id: first.approval_id, decision: "maybe" })).rejects.toThrow(
      "decision must be one of",
    );
    const half = await answer({ approval_id: first.approval_id, decision: "approve" });
    expect(half.status?.state).toBe(inputRequired);
    expect(dataOf(half.status?.message)).toMatchObject([{ approval_id: second.approval_id }]);
    const events = await collect(
      ann.sendMessageStream(
        request(message({ approval_id: second.approval_id, decision: "deny" }, { taskId: id })),
      ),
    );
    expect(fold(events).status?.state).toBe(completed);
  });

  it("is a call without a result, which any text answers", async () => {
    const ask = tool({
      name: "ask_user",
      description: "Asks the user.",
      input: z.object({ question: z.string() }),
    });
    const { ann } = await world(
      ({ assistantCount, prompt }) =>
        assistantCount === 0
          ? [{ call: "ask_user", input: { question: "Which colour?" } }]
          : `It is ${JSON.stringify(prompt).includes("Dark blue") ? "dark blue" : "unknown"}.`,
      { tools: [ask] },
    );
    const { id, status } = await send(ann, message("Paint it."));
    expect(dataOf(status?.message)).toMatchObject([{ kind: "external", name: "ask_user" }]);
    const done = await send(ann, message("Dark blue", { taskId: id }));
    expect(textsOf(done)).toEqual(["It is dark blue."]);
  });

  it("is answered after the server has been restarted", async () => {
    const path = join(directory, "restart.db");
    const open = async () => {
      const { agent } = scripted(
        ({ assistantCount }) => (assistantCount === 0 ? [remove] : "Removed."),
        { store: sqliteStore(path), leaseMs: 1_000 },
      );
      const server = await startServer({ agents: [agent], adapters });
      const card = `${server.url}/.well-known/agent-card.json`;
      return { server, ann: await official(card, tokens.ann) };
    };
    const first = await open();
    const { id } = await send(first.ann, message("Clean up."));
    await first.server.close();
    const second = await open();
    expect((await second.ann.getTask(named(id))).status?.state).toBe(inputRequired);
    expect(textsOf(await send(second.ann, message("approve", { taskId: id })))).toEqual([
      "Removed.",
    ]);
  });
});

it("speaks the method names of 0.3", async () => {
  const { card, server } = await world(({ assistantCount }) =>
    assistantCount === 0 ? [remove] : [{ text: ["Remo", "ved."] }],
  );
  const ann = await official(card, tokens.ann, true);
  expect(ann.protocolVersion).toBe("0.3");
  const waiting = await send(ann, message("Clean up."));
  expect(waiting.status?.state).toBe(inputRequired);
  const events = await collect(
    ann.sendMessageStream(request(message("yes", { taskId: waiting.id }))),
  );
  expect(textsOf(fold(events))).toEqual(["Removed."]);
  expect(textsOf(await ann.getTask(named(waiting.id)))).toEqual(["Removed."]);
  const raw = await server.as(tokens.ann).post("/a2a/lead", {
    jsonrpc: "2.0",
    id: 1,
    method: "tasks/get",
    params: { id: waiting.id },
  });
  expect(raw.body.result).toMatchObject({ kind: "task", status: { state: "completed" } });
});

describe("sad paths", () => {
  const rpc = (method: string, params: unknown, id: unknown = 1) => ({
    jsonrpc: "2.0",
    ...{ id, method, params },
  });

  it("answers malformed requests in the form of JSON-RPC", async () => {
    const { server } = await world(["Hello."]);
    const api = server.as(tokens.ann);
    const post = (body: unknown, headers = {}) => api.post("/a2a/lead", body, headers);
    expect(await post("{")).toMatchObject({ status: 400, body: { error: { code: -32_700 } } });
    expect(await post("[]")).toMatchObject({ status: 400, body: { error: { code: -32_600 } } });
    const cases: readonly (readonly [unknown, number])[] = [
      [{}, -32_600],
      [{ jsonrpc: "1.0", method: "GetTask" }, -32_602],
      [rpc("GetTask", []), -32_602],
      [rpc("GetTask", { id: "none" }), -32_001],
      [rpc("GetTask", { id: " " }), -32_602],
      [rpc("SubscribeToTask", { id: "none" }), -32_001],
      [rpc("CancelTask", { id: "none" }), -32_001],
      [rpc("SendMessage", {}), -32_602],
      [rpc("SendMessage", { message: { messageId: "x", parts: [] } }), -32_602],
      [rpc("SendStreamingMessage", { message: { parts: [{ text: "Hi" }] } }), -32_602],
      [rpc("SendMessage", { message: { messageId: "x", parts: [{ url: "file:///x" }] } }), -32_602],
      [
        rpc("SendMessage", { message: { messageId: "x", taskId: "none", parts: [{ text: "" }] } }),
        -32_001,
      ],
      [
        rpc("SendMessage", {
          message: { messageId: "x", contextId: "a/b".repeat(99), parts: [{ text: "Hi" }] },
        }),
        -32_602,
      ],
      [rpc("GetTaskPushNotificationConfig", { taskId: "t" }), -32_003],
      [rpc("tasks/fly", {}), -32_601],
      [rpc("tasks/get", { id: "none" }), -32_001],
      [rpc("message/send", {}), -32_602],
    ];
    for (const [body, code] of cases) {
      const answer = await post(body);
      expect(answer.body, JSON.stringify(body)).toMatchObject({ jsonrpc: "2.0", error: {} });
      expect(answer.body.error.code, JSON.stringify(body)).toBe(code);
      expect(answer.status).toBe(200);
    }
    const version = await post(rpc("GetTask", { id: "x" }), { "a2a-version": "9.0" });
    expect(version.body.error.code).toBe(-32_009);
    const type = await post(JSON.stringify(rpc("GetTask", {})), { "content-type": "text/plain" });
    expect(type.status).toBe(415);
  });

  it("hides the tasks of another user and of another agent", async () => {
    const store = memoryStore();
    const agents = ["lead", "helper"].map(
      (name) => scripted(() => [remove], { store, name }).agent,
    );
    const server = await startServer({ agents, adapters });
    const card = (name: string) => `${server.url}/a2a/${name}/.well-known/agent-card.json`;
    const ann = await official(card("lead"), tokens.ann);
    const bob = await official(card("lead"), tokens.bob);
    const other = await official(card("helper"), tokens.ann);
    const { id } = await send(ann, message("Go.", { contextId: "mine" }));
    for (const client of [bob, other]) {
      for (const call of [
        () => client.getTask(named(id)),
        () => client.cancelTask(cancelOf(id)),
        () => collect(client.resubscribeTask(named(id))),
        () => send(client, message("approve", { taskId: id })),
      ])
        await expect(call()).rejects.toThrow("There is no task");
    }
    for (const contextId of ["mine", stored("mine")]) {
      const page = { ...named(""), contextId, pageToken: "", status: 0 };
      const { tasks } = await bob.listTasks({ ...page, statusTimestampAfter: undefined });
      expect(tasks).toEqual([]);
    }
    const own = await send(bob, message("Go.", { contextId: "mine" }));
    expect(own.contextId).toBe(stored("mine", "bob"));
    expect((await ann.getTask(named(id))).status?.state).toBe(inputRequired);
  });

  it("needs a credential; one that may only read cannot change anything", async () => {
    const { server, ann, card } = await world(["Hello."]);
    const { id } = await send(ann, message("Hi."));
    const nobody = await fetch(`${server.url}/a2a/lead`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(rpc("GetTask", { id })),
    });
    expect(nobody.status).toBe(401);
    const reader = await official(card, tokens.reader);
    expect((await reader.getTask(named(id))).id).toBe(id);
    await expect(send(reader, message("Hi."))).rejects.toThrow("scope write");
    await expect(reader.cancelTask(cancelOf(id))).rejects.toThrow("scope write");
  });

  it("rejects what the state of a task does not allow", async () => {
    const { ann } = await world(({ assistantCount }) => (assistantCount === 0 ? "Hi." : [remove]));
    const { id } = await send(ann, message("Hi.", { contextId: "ctx" }));
    await expect(collect(ann.resubscribeTask(named(id)))).rejects.toThrow("has ended");
    await expect(send(ann, message("Hi.", { taskId: id }))).rejects.toThrow("has ended");
    const waiting = await send(ann, message("Clean up.", { contextId: "ctx" }));
    const wrong = message("approve", { taskId: waiting.id, contextId: "other" });
    await expect(send(ann, wrong)).rejects.toThrow("contextId");
    await expect(send(ann, message("More.", { contextId: "ctx" }))).rejects.toThrow(
      "waits for remove",
    );
  });

  it("limits the streams of a user", async () => {
    const { agent } = scripted(() => [{ delayMs: 60_000 }, "Late."]);
    const server = await startServer({ agents: [agent], adapters, limits: { streams: 1 } });
    const ann = await official(`${server.url}/.well-known/agent-card.json`, tokens.ann);
    const stream = ann.sendMessageStream(request(message("Go.")));
    const first = (await stream.next()).value;
    const second = ann.sendMessageStream(request(message("Go.")));
    await expect(second.next()).rejects.toThrow("streams open");
    const id = first?.payload?.$case === "task" ? first.payload.value.id : "";
    await server.as(tokens.ann).post(`/v1/tasks/${id}/cancel`);
    await collect(stream);
  });
});
