import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ReActAgent, tool } from "../../src/agent/index.ts";
import { connect } from "../../src/client.ts";
import { textOf } from "../../src/contract/message.ts";
import { sessionsOf } from "../../src/harness/index.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { scriptedModel } from "../../src/testing.ts";
import { collect } from "../agent/support/collect.ts";
import { hastyClock, type Served, serveAgents } from "./support/serving.ts";

const store = memoryStore();
const remove = tool({
  name: "remove",
  description: "Deletes.",
  needsApproval: true,
  execute: () => "ok",
});
const lead = new ReActAgent({
  name: "lead",
  store,
  model: scriptedModel(({ prompt, assistantCount }) =>
    JSON.stringify(prompt).includes("Delete") && assistantCount === 0
      ? { call: "remove" }
      : "Hello.",
  ),
  tools: [remove],
});
let served: Served;
beforeAll(async () => {
  served = await serveAgents([lead]);
});
afterAll(() => served[Symbol.asyncDispose]());

describe("connect", () => {
  it.each([
    ["localhost", "must be an http or https address"],
    ["ftp://localhost", 'an http or https address, got "ftp://localhost/"'],
    ["localhost:8090", 'an http or https address, got "localhost:8090/"'],
    ["127.0.0.1:8090/ai", 'an http or https address, got "127.0.0.1:8090/ai"'],
    ["http://ann:secret@localhost", "must not contain credentials"],
    ["http://localhost?token=secret", "must not contain credentials"],
    ["ann:secret@localhost:8090", 'an http or https address, got "localhost:8090/"'],
  ])("rejects the address %s", (url, message) => {
    const error = expect.objectContaining({ code: "invalid_argument" });
    expect(() => connect(url)).toThrow(message);
    expect(() => connect(url)).toThrow(error);
    expect(() => connect(url)).not.toThrow("secret");
  });

  it.each(["localhost:8090", "example.com", "127.0.0.1:8090/ai"])(
    "suggests a scheme for %s",
    (url) => {
      const [host] = url.split("/");
      const hint = expect.stringContaining(`"http://${host}"`);
      expect(() => connect(url)).toThrow(expect.objectContaining({ hint }));
    },
  );

  it("rejects a misspelled option", () => {
    const misspelled = { tokn: "x" } as object;
    expect(() => connect("http://localhost", misspelled)).toThrow(
      "connect() has no option `tokn`.",
    );
  });

  it("asks for a token before each request", async () => {
    let asked = 0;
    const token = () => {
      asked += 1;
      return served.server.token;
    };
    const reply = await connect(`${served.server.url}/`, { token }).agent("lead").call("Hi.");
    expect(reply.text).toBe("Hello.");
    expect(asked).toBeGreaterThan(1);
  });

  it("throws the error of the server for a wrong token and an unknown agent", async () => {
    const wrong = connect(served.server.url, { token: "wrong" });
    await expect(wrong.agent("lead").call("Hi.")).rejects.toMatchObject({ code: "unauthorized" });
    const unknown = served.remote.agent("laed").call("Hi.");
    await expect(unknown).rejects.toMatchObject({ code: "not_found", hint: "Did you mean lead?" });
  });

  it("does not follow redirects, which could take the token elsewhere", async () => {
    const seen: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      seen.push(request.url);
      response.writeHead(307, { location: served.server.url }).end();
    });
    await new Promise<void>((resolve) => server.listen(0, resolve));
    const { port } = server.address() as AddressInfo;
    const remote = connect(`http://localhost:${port}`, { token: served.server.token });
    await expect(remote.agent("lead").call("Hi.")).rejects.toMatchObject({ code: "redirected" });
    expect(seen).toEqual(["/v1/tasks"]);
    server.close();
  });
});

describe("what cannot cross", () => {
  const agent = () => served.remote.agent("lead");
  it.each([
    ["context", { context: { db: {} } }],
    ["hooks", { hooks: [] }],
    ["userId", { userId: "ann" }],
  ])("throws for %s before a request", async (_, options) => {
    expect(() => agent().run("Hi.", options)).toThrow(
      expect.objectContaining({ code: "cannot_cross" }),
    );
    await expect(agent().call("Hi.", options)).rejects.toMatchObject({ code: "cannot_cross" });
  });

  it.each([
    ["a function", { role: "user", content: [{ type: "text", text: "x", on: () => {} }] }],
    ["a bigint", { role: "user", content: "x", metadata: { size: 1n } }],
    ["an instance of a class", [{ role: "user", content: "x", metadata: { at: new Date() } }]],
  ])("throws for %s in the input", async (kind, input) => {
    const error = { code: "invalid_input", message: expect.stringContaining(`got ${kind}`) };
    await expect(agent().call(input as never)).rejects.toMatchObject(error);
  });

  it("throws for a schema without JSON Schema, and for an aborted signal", async () => {
    const output = { "~standard": { version: 1, vendor: "own", validate: () => ({ value: 1 }) } };
    const call = agent().call("Hi.", { output: output as never });
    await expect(call).rejects.toMatchObject({ code: "schema_unsupported" });
    const aborted = agent().call("Hi.", { signal: AbortSignal.abort() });
    await expect(aborted).rejects.toMatchObject({ code: "cancelled" });
  });

  it("sends a reply of another agent as a message", async () => {
    const reply = await agent().call("Hi.");
    expect((await agent().call(reply)).text).toBe("Hello.");
  });
});

it("starts one task when the response to the start is lost", async () => {
  let lost = 0;
  const remote = connect(served.server.url, {
    token: served.server.token,
    clock: hastyClock,
    async fetch(url, init) {
      const response = await fetch(url, init);
      if (init?.method !== "POST" || lost++ > 0) return response;
      await response.text();
      throw new TypeError("connection reset");
    },
  });
  const sessionId = "lost-response";
  const reply = await remote.agent("lead").call("Hi.", { sessionId });
  expect(lost).toBe(2);
  const tasks = await store.tasks({ sessionId });
  expect(tasks.map(({ taskId }) => taskId)).toEqual([reply.task.taskId]);
});

describe("sessions", () => {
  it("lists, reads, searches, exports and deletes as in process", async () => {
    const local = sessionsOf(store);
    const { sessions } = served.remote;
    const sessionId = "café 1";
    await served.remote.agent("lead").call("Where is the zebra?", { sessionId });
    expect(await sessions.list({ limit: 3 })).toEqual(await local.list({ limit: 3 }));
    const [newest] = await sessions.list({ limit: 1 });
    expect(newest?.sessionId).toBe(sessionId);
    expect(await sessions.read(sessionId)).toEqual(await local.read(sessionId));
    const part = { from: 1, limit: 1 };
    expect(await sessions.read(sessionId, part)).toEqual(await local.read(sessionId, part));
    expect(await sessions.search("zebra")).toEqual(await local.search("zebra"));
    expect(await sessions.search("zebra")).toHaveLength(1);
    const lines = await collect(local.export(sessionId));
    expect(await collect(sessions.export(sessionId))).toEqual(lines);
    expect(await sessions.delete(sessionId)).toBe(true);
    expect(await sessions.delete(sessionId)).toBe(false);
    const gone = { code: "not_found" };
    await expect(sessions.read(sessionId)).rejects.toMatchObject(gone);
    await expect(collect(sessions.export(sessionId))).rejects.toMatchObject(gone);
  });

  it("returns the root tasks of a session, and those that a fork continues", async () => {
    const { sessions } = served.remote;
    const lead = served.remote.agent("lead");
    const sessionId = "turns";
    const { task } = await lead.call("One.", { sessionId });
    await lead.call("Two.", { sessionId });
    const asked = async (id: string) =>
      (await sessions.tasks(id)).map(({ input, ...turn }) => [
        ...[turn.sessionId, turn.agentName, turn.status],
        ...input.map(({ content }) => textOf(content)),
      ]);
    const turn = ["lead", "completed"];
    expect(await asked(sessionId)).toEqual([
      [sessionId, ...turn, "One."],
      [sessionId, ...turn, "Two."],
    ]);
    const fork = await sessionsOf(store).fork(sessionId, { taskId: task.taskId });
    await lead.call("Three.", { sessionId: fork.sessionId });
    expect(await asked(fork.sessionId)).toEqual([
      [sessionId, ...turn, "One."],
      [fork.sessionId, ...turn, "Three."],
    ]);
    const origin = { sessionId, taskId: task.taskId };
    const listed = (await sessions.list()).find((info) => info.sessionId === fork.sessionId);
    expect(listed?.forkedFrom).toEqual(origin);
    await sessions.delete(sessionId);
    expect(await asked(fork.sessionId)).toEqual([[fork.sessionId, ...turn, "Three."]]);
    await expect(sessions.tasks(sessionId)).rejects.toMatchObject({ code: "not_found" });
  });

  it("rejects a misspelled option", async () => {
    const page = { limt: 1 } as object;
    await expect(served.remote.sessions.list(page)).rejects.toThrow("no option `limt`");
  });
});

describe("a run by its id", () => {
  it("answers, twice alike, and not twice differently", async () => {
    const asked = await served.remote.agent("lead").call("Delete it.");
    const [approval] = asked.approvals;
    if (approval === undefined) throw new Error("no approval");
    const run = served.remote.task(asked.task.taskId);
    await run.answer(approval.approve());
    await run.answer(approval.approve());
    const other = run.answer(approval.deny());
    await expect(other).rejects.toMatchObject({ code: "already_answered" });
    await run.settled();
    const reply = await served.remote.task(asked.task.taskId).result();
    expect(reply.generateReason).toBe("model_stop");
  });

  it("rejects with not_found for a task that does not exist", async () => {
    const run = served.remote.task("task_none");
    await expect(run.result()).rejects.toMatchObject({ code: "not_found" });
    await expect(collect(run)).rejects.toMatchObject({ code: "not_found" });
    await expect(run.steer("Hi.")).rejects.toMatchObject({ code: "not_found" });
    await run.settled();
  });
});

it("survives a network in which every third request fails", async () => {
  let requests = 0;
  const remote = connect(served.server.url, {
    token: served.server.token,
    clock: hastyClock,
    async fetch(url, init) {
      requests += 1;
      if (requests % 3 === 0) throw new TypeError("network changed");
      return fetch(url, init);
    },
  });
  for (let round = 0; round < 10; round++)
    expect((await remote.agent("lead").call("Hi.")).text).toBe("Hello.");
  expect(requests).toBeGreaterThan(24);
});
