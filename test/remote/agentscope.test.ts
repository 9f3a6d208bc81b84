import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { HarnessAgent, sqliteStore } from "../../src/index.ts";
import type { TaskEvent } from "../../src/protocol.ts";
import { scriptedModel } from "../../src/testing.ts";
import { collect } from "../agent/support/collect.ts";
import { serveAgents } from "../client/support/serving.ts";
import { type Agent, agentScopeServer } from "./support/agentscope-server.ts";
import { childOf } from "./support/foreign.ts";
import { leadOf, spawn } from "./support/foreign-lead.ts";

const directory = mkdtempSync(join(tmpdir(), "rivulet-agentscope-child-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const placeOf = ({ url }: { readonly url: string }) => ({ url, protocol: "agentscope" }) as const;
const call = { id: "t1", name: "remove", input: { path: "a.txt" } };

const busy: Agent = function* () {
  yield { readers: 1 };
  yield { thinking: "Let me " };
  yield { thinking: "see." };
  yield { text: "I look." };
  yield { call: "look", id: "t1", input: { at: "sky" } };
  yield { result: "blue", id: "t1" };
  yield { text: "It is " };
  yield { text: "blue." };
};
const items = [
  "reasoning: Let me see.",
  "message: I look.",
  'tool_call: look {"at":"sky"}',
  "tool_result: blue",
  "message: It is blue.",
];

describe("a child on an AgentScope server", () => {
  it("streams its text and its calls, and reports its result", async () => {
    await using server = await agentScopeServer({ helper: busy });
    const { lead, store } = leadOf(placeOf(server));
    const run = lead.run("Go.", { sessionId: "s" });
    const events = await collect(run);
    const { text, task } = await run.result();
    expect(text).toBe("Done.");
    const { child, items: shown } = await childOf(store, task.taskId);
    expect(shown).toEqual(items);
    expect(child).toMatchObject({ status: "completed", remote: true });
    const isText = (event: TaskEvent) => event.type === "task.text.delta" && event.source;
    const sources = events.filter(isText).map((event) => event.source?.path);
    expect(new Set(sources)).toEqual(new Set(["s/helper"]));
    expect(JSON.stringify(await store.session("s"))).toContain("It is blue.");
    expect(server.submitted).toMatchObject([
      { task_id: child.id, agent_id: "helper", input: "Help.", context: { detail: "full" } },
    ]);
    const secrets = server.requests.map(({ headers }) => headers.authorization);
    expect(new Set(secrets)).toEqual(new Set(["Bearer s3cret-0123456789"]));
  });

  it("finds the agent by its address, and runs the newest task of a child with a new session", async () => {
    await using server = await agentScopeServer({ reviewer: () => [{ text: "Fine." }] });
    const key = ({ prompt }: { prompt: unknown }) =>
      /agent:helper:[\w-]+/.exec(JSON.stringify(prompt))?.[0];
    const { lead, store } = leadOf(
      { url: `${server.url}/agents/reviewer`, protocol: "agentscope" },
      ({ assistantCount, prompt }) => {
        if (assistantCount === 0) return [spawn()];
        if (assistantCount > 1) return "Done.";
        const input = { agent_key: key({ prompt }), message: "Again.", timeout_seconds: 60 };
        return [{ call: "agent_send", input }];
      },
    );
    const { task } = await lead.call("Go.");
    await childOf(store, task.taskId);
    expect(server.submitted.map(({ input, agent_id }) => [agent_id, input])).toEqual([
      ["reviewer", "Help."],
      ["reviewer", "Again."],
    ]);
  });

  it("returns the result of a server that does not stream, and of one that streams no text", async () => {
    for (const quirks of [{ noStreams: true }, { detail: "status" }] as const) {
      const agent: Agent = function* () {
        yield { delayMs: 300 };
        yield { text: "It is blue." };
      };
      await using server = await agentScopeServer({ helper: agent }, quirks);
      const { lead, store } = leadOf(placeOf(server));
      const { task } = await lead.call("Go.");
      expect((await childOf(store, task.taskId)).items).toEqual(["message: It is blue."]);
    }
  });

  it("survives cuts of its stream, without a gap or a repetition", async () => {
    const words = Array.from({ length: 12 }, (_, n) => `word${n}, `);
    const agent: Agent = async function* () {
      yield { readers: 1 };
      for (const [index, text] of words.entries()) {
        yield { text };
        if (index % 3 !== 2) continue;
        server.cut();
        yield { readers: 2 + Math.floor(index / 3) };
      }
    };
    await using server = await agentScopeServer({ helper: agent });
    const { lead, store } = leadOf(placeOf(server));
    const { task } = await lead.call("Go.");
    const { items: shown, log } = await childOf(store, task.taskId);
    expect(shown).toEqual([`message: ${words.join("").trimEnd()}`]);
    expect(log.filter(({ type }) => type === "task.output_item.discarded")).toEqual([]);
  });

  it("shows the whole result when the server has dropped events of a cut", async () => {
    const agent: Agent = async function* () {
      yield { readers: 1 };
      yield { text: "One two " };
      yield { delayMs: 50 };
      server.cut();
      for (const text of ["three ", "four ", "five ", "six."]) yield { text };
      yield { readers: 2 };
      yield { delayMs: 50 };
    };
    await using server = await agentScopeServer({ helper: agent }, { buffer: 2 });
    const { lead, store } = leadOf(placeOf(server));
    const { task } = await lead.call("Go.");
    const { items: shown } = await childOf(store, task.taskId);
    expect(shown.at(-1)).toBe("message: One two three four five six.");
  });

  it("retries errors that pass, and starts once", async () => {
    await using server = await agentScopeServer({ helper: () => [{ text: "Fine." }] });
    server.failures.push(503, 500, 502);
    const { lead, store } = leadOf(placeOf(server));
    const { task } = await lead.call("Go.");
    const { child } = await childOf(store, task.taskId);
    expect(child.status).toBe("completed");
    expect(server.submitted).toHaveLength(1);
  });

  it("is cancelled on the server when its root is", async () => {
    const agent: Agent = function* () {
      yield { readers: 1 };
      yield { text: "Slow " };
      yield { delayMs: 60_000 };
    };
    await using server = await agentScopeServer({ helper: agent });
    const { lead, store } = leadOf(placeOf(server));
    const run = lead.run("Go.");
    for await (const event of run)
      if (event.type === "task.text.delta" && event.source) void run.cancel("enough");
    const { taskId } = await run.task;
    const { child } = await childOf(store, taskId);
    expect(child.status).toBe("cancelled");
    expect([...server.tasks.values()].map(({ status }) => status)).toEqual(["cancelled"]);
  });

  it("runs in the background, and its result is delivered", async () => {
    const agent: Agent = function* () {
      yield { readers: 1 };
      yield { text: "Late " };
      yield { text: "news." };
    };
    await using server = await agentScopeServer({ helper: agent });
    const { lead, store } = leadOf(placeOf(server), ({ assistantCount }) =>
      assistantCount === 0 ? [spawn({ timeout_seconds: 0 })] : "Started.",
    );
    const run = lead.run("Go.", { until: "tree" });
    await collect(run);
    await run.settled();
    const { taskId } = await run.task;
    const { child, items: shown } = await childOf(store, taskId);
    expect(child).toMatchObject({ status: "completed", mode: "background" });
    expect(shown).toEqual(["message: Late news."]);
  });

  it.each([
    ["fails with the reason", [{ fail: "Out of tea." }], "failed", "Out of tea."],
    ["fails when the agent does not exist", undefined, "failed", "400"],
  ] as const)("%s", async (_, steps, status, reason) => {
    await using server = await agentScopeServer(steps ? { helper: () => [...steps] } : {});
    const { lead, store } = leadOf(placeOf(server));
    const { task } = await lead.call("Go.");
    const { child } = await childOf(store, task.taskId);
    expect(child.status).toBe(status);
    expect(child.error?.message).toContain(reason);
  });
});

describe("a confirmation", () => {
  const asking: Agent = function* (_, approved) {
    yield { readers: 1 };
    yield { text: "May I?" };
    yield { call: "remove", id: "t1" };
    yield { confirm: [call] };
    yield { readers: 2 };
    const { approved: isApproved, reason = "" } = approved.get("t1") ?? {};
    yield isApproved
      ? { result: "removed a.txt", id: "t1" }
      : { result: `refused: ${reason}`, id: "t1", state: "DENIED" };
    yield { text: isApproved ? "It is gone." : "It stays." };
  };

  it.each([
    ["approved", "completed", "It is gone."],
    ["denied", "failed", "It stays."],
  ])("is asked at the root and %s there", async (decision, status, text) => {
    await using server = await agentScopeServer({ helper: asking });
    const { lead, store } = leadOf(placeOf(server));
    let reply = await lead.call("Go.", { sessionId: "s" });
    expect(reply.generateReason).toBe("approval_required");
    const [approval] = reply.approvals;
    expect(approval).toMatchObject({
      kind: "tool_call",
      path: "s/helper",
      call: { name: "remove", input: { path: "a.txt" } },
    });
    const answers = reply.approvals.map((one) =>
      decision === "approved" ? one.approve() : one.deny("Not that one."),
    );
    reply = await lead.call(answers, { sessionId: "s" });
    expect(reply.text).toBe("Done.");
    const { child, items: shown } = await childOf(store, reply.task.taskId);
    expect(shown.at(-1)).toBe(`message: ${text}`);
    const result = child.output.find((item) => item.type === "tool_result");
    expect(result?.status).toBe(status);
    const isApproved = decision === "approved";
    expect(server.resumed).toEqual([
      [{ toolCallId: "t1", approved: isApproved, ...(!isApproved && { reason: "Not that one." }) }],
    ]);
    expect(child.approvals.map((one) => one.decision)).toEqual([isApproved ? "approve" : "deny"]);
  });

  it("of several calls is sent when all of them have an answer", async () => {
    const calls = ["t1", "t2"].map((id) => ({ ...call, id }));
    const agent: Agent = function* (_, approved) {
      yield { confirm: calls };
      yield { readers: 1 };
      for (const { id } of calls) yield { result: String(approved.get(id)?.approved), id };
      yield { text: "Over." };
    };
    await using server = await agentScopeServer({ helper: agent });
    const { lead, store } = leadOf(placeOf(server));
    let reply = await lead.call("Go.", { sessionId: "s" });
    expect(reply.approvals).toHaveLength(2);
    const [first, second] = reply.approvals;
    if (!first || !second) throw new Error("Two approvals wait.");
    reply = await lead.call([first.approve()], { sessionId: "s" });
    expect(reply.approvals.map(({ id }) => id)).toEqual([second.id]);
    expect(server.resumed).toEqual([]);
    reply = await lead.call([second.deny()], { sessionId: "s" });
    expect(reply.text).toBe("Done.");
    expect(server.resumed[0]).toMatchObject([{ approved: true }, { approved: false }]);
    await childOf(store, reply.task.taskId);
  });

  it("is answered after this process was replaced by another one", async () => {
    await using server = await agentScopeServer({ helper: asking });
    const path = join(directory, "takeover.db");
    const script: Parameters<typeof leadOf>[1] = ({ assistantCount }) =>
      assistantCount === 0 ? [spawn()] : "Done.";
    const before = sqliteStore(path);
    await leadOf(placeOf(server), script, { store: before }).lead.call("Go.", { sessionId: "s" });
    await before.close();
    const store = sqliteStore(path);
    const { lead } = leadOf(placeOf(server), script, { store });
    const approvals = await lead.approvals({ sessionId: "s" });
    const reply = await lead.call(
      approvals.map((one) => one.approve()),
      { sessionId: "s" },
    );
    expect(reply.text).toBe("Done.");
    expect((await childOf(store, reply.task.taskId)).items).toEqual([
      "message: May I?",
      "tool_call: remove {}",
      "tool_result: removed a.txt",
      "message: It is gone.",
    ]);
    expect(server.submitted).toHaveLength(1);
    await store.close();
  });
});

describe("a server that is gone", () => {
  it("fails a child that waits for a confirmation, once it is answered", async () => {
    const server = await agentScopeServer({ helper: () => [{ confirm: [call] }] });
    const { lead, store } = leadOf({ ...placeOf(server), limits: { lostAfterMs: 300 } });
    const { approvals } = await lead.call("Go.", { sessionId: "s" });
    await server.close();
    const answers = approvals.map((one) => one.approve());
    const { task } = await lead.call(answers, { sessionId: "s" });
    const { child } = await childOf(store, task.taskId);
    expect(child).toMatchObject({ status: "failed", error: { code: "remote_lost" } });
  });

  it("fails the child with the reason, within the limit of the declaration", async () => {
    const agent: Agent = function* () {
      yield { readers: 1 };
      yield { text: "Half " };
      yield { delayMs: 60_000 };
    };
    const server = await agentScopeServer({ helper: agent });
    const { lead, store } = leadOf({ ...placeOf(server), limits: { lostAfterMs: 300 } });
    const run = lead.run("Go.");
    for await (const event of run)
      if (event.type === "task.text.delta" && event.source) void server.close();
    const { task } = await run.result();
    const { child } = await childOf(store, task.taskId);
    expect(child.status).toBe("failed");
    expect(child.error?.code).toBe("remote_lost");
  });

  it("fails the child when it has lost the task in a restart", async () => {
    const agent: Agent = function* () {
      yield { readers: 1 };
      yield { text: "Half " };
      yield { delayMs: 60_000 };
    };
    await using server = await agentScopeServer({ helper: agent });
    const { lead, store } = leadOf(placeOf(server));
    const run = lead.run("Go.");
    for await (const event of run) {
      if (event.type !== "task.text.delta" || !event.source) continue;
      server.cut();
      server.tasks.clear();
    }
    const { task } = await run.result();
    const { child } = await childOf(store, task.taskId);
    expect(child).toMatchObject({ status: "failed", error: { code: "remote_lost" } });
  });
});

it("runs a child on a Rivulet server with the adapter", async () => {
  const helper = new HarnessAgent({
    name: "helper",
    filesystem: false,
    model: scriptedModel([[{ thinking: "Hm." }, { text: ["It is ", "blue."] }]]),
  });
  await using served = await serveAgents([helper], { adapters: ["agentscope"] });
  const { url, token } = served.server;
  const { lead, store } = leadOf(placeOf({ url }), undefined, { secret: `Bearer ${token}` });
  const { task } = await lead.call("Go.");
  const { items: shown } = await childOf(store, task.taskId);
  expect(shown.at(-1)).toBe("message: It is blue.");
});

it("rejects declarations that the protocol cannot carry", () => {
  const output = { "~standard": { version: 1, vendor: "x", validate: () => ({ value: 1 }) } };
  const declare = (more: object) => () =>
    leadOf({ url: "https://agents.example", protocol: "agentscope", ...more } as never);
  expect(declare({ output })).toThrow("has both output and protocol agentscope");
  expect(declare({ protocol: "agentscop" })).toThrow("agentscope");
  expect(declare({ a2a: "https://agents.example/card.json" })).toThrow("both url and a2a");
});
