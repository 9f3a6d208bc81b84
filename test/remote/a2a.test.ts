import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TaskState } from "@a2a-js/sdk";
import { afterAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { HarnessAgent, memoryStore, sqliteStore, tool } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import { collect } from "../agent/support/collect.ts";
import { serveAgents } from "../client/support/serving.ts";
import { type Agent, a2aServer } from "./support/a2a-server.ts";
import { childOf } from "./support/foreign.ts";
import { leadOf, spawn } from "./support/foreign-lead.ts";

const directory = mkdtempSync(join(tmpdir(), "rivulet-a2a-child-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const working: Agent = function* () {
  yield { note: "Searching." };
  yield { artifact: "a", text: "It is " };
  yield { artifact: "a", text: "blue. ", append: true };
  yield { artifact: "b", text: "So there." };
};
const shownItems = ["reasoning: Searching.", "message: It is blue. So there."];

describe("a child on an A2A server", () => {
  it.each([
    ["1.0", {}],
    ["0.3", { versions: ["0.3"] }],
    ["1.0 without streams", { noStreams: true }],
  ])("streams its artifacts and reports them (%s)", async (_, options) => {
    await using server = await a2aServer(working, options);
    const { lead, store } = leadOf({ a2a: server.card });
    const run = lead.run("Go.", { sessionId: "s" });
    const events = await collect(run);
    const { text, task } = await run.result();
    expect(text).toBe("Done.");
    const { child, items } = await childOf(store, task.taskId);
    expect(items.filter((item) => item.startsWith("message"))).toEqual(shownItems.slice(1));
    expect(child).toMatchObject({ status: "completed", remote: true });
    const sources = events.flatMap((event) =>
      event.type === "task.text.delta" && event.source ? [event.source.path] : [],
    );
    expect(new Set(sources)).toEqual(new Set(["s/helper"]));
    const transcript = JSON.stringify(await store.session("s"));
    for (const part of ["It is blue. ", "So there."]) expect(transcript).toContain(part);
    expect(server.received[0]).toMatchObject({ messageId: child.id, contextId: child.sessionId });
    const secrets = server.headers().map(({ authorization }) => authorization);
    expect(new Set(secrets)).toEqual(new Set(["Bearer s3cret-0123456789"]));
  });

  it("keeps the context of a child that gets another message", async () => {
    await using server = await a2aServer(() => [{ artifact: "a", text: "Fine." }]);
    const { lead, store } = leadOf({ a2a: server.card }, ({ assistantCount, prompt }) => {
      if (assistantCount === 0) return [spawn()];
      if (assistantCount > 1) return "Done.";
      const agent_key = /agent:helper:[\w-]+/.exec(JSON.stringify(prompt))?.[0];
      return [{ call: "agent_send", input: { agent_key, message: "More.", timeout_seconds: 60 } }];
    });
    const { task } = await lead.call("Go.");
    await childOf(store, task.taskId);
    expect(server.received).toHaveLength(2);
    const [first, second] = server.received;
    expect(second?.contextId).toBe(first?.contextId);
    expect(second?.messageId).not.toBe(first?.messageId);
  });

  it("takes an answer without a task as the result", async () => {
    await using server = await a2aServer(() => [{ message: "Just this." }]);
    const { lead, store } = leadOf({ a2a: server.card });
    const { task } = await lead.call("Go.");
    const { items, child } = await childOf(store, task.taskId);
    expect(items).toEqual(["message: Just this."]);
    expect(child.status).toBe("completed");
  });

  it("subscribes again after cuts, without a gap or a repetition", async () => {
    const words = Array.from({ length: 9 }, (_, n) => `word${n}.`);
    const agent: Agent = async function* () {
      for (const [index, text] of words.entries()) {
        yield { artifact: "a", text, append: index > 0 };
        if (index % 3 !== 2) continue;
        yield { delayMs: 30 };
        server.cut();
        yield { delayMs: 300 };
      }
    };
    await using server = await a2aServer(agent);
    const { lead, store } = leadOf({ a2a: server.card });
    const { task } = await lead.call("Go.");
    const { items } = await childOf(store, task.taskId);
    expect(items).toEqual([`message: ${words.join("")}`]);
    expect(server.received).toHaveLength(1);
  });

  it("shows an artifact again when the server replaces it", async () => {
    await using server = await a2aServer(() => [
      { artifact: "a", text: "Draft." },
      { artifact: "b", text: "Kept." },
      { artifact: "a", text: "Final." },
    ]);
    const { lead, store } = leadOf({ a2a: server.card });
    const { task } = await lead.call("Go.");
    const { items } = await childOf(store, task.taskId);
    expect(items).toEqual(["discarded:", "message: Kept.Final."]);
  });

  it("returns a data artifact as the value of a child with an output schema", async () => {
    await using server = await a2aServer(() => [{ artifact: "v", data: { city: "Paris" } }]);
    const output = z.object({ city: z.string() });
    const { lead, store } = leadOf({ a2a: server.card, output } as never);
    const { task } = await lead.call("Go.");
    const { child } = await childOf(store, task.taskId);
    expect(child).toMatchObject({ status: "completed", structured: { city: "Paris" } });
  });

  it.each([
    ["FAILED", { end: TaskState.TASK_STATE_FAILED, text: "Out of tea." }, "failed", "Out of tea."],
    ["REJECTED", { end: TaskState.TASK_STATE_REJECTED }, "failed", "rejected"],
    ["CANCELED", { end: TaskState.TASK_STATE_CANCELED, text: "Stopped." }, "cancelled", "Stopped."],
  ] as const)("ends as the server says: %s", async (_, step, status, reason) => {
    await using server = await a2aServer(() => [step]);
    const { lead, store } = leadOf({ a2a: server.card });
    const { task } = await lead.call("Go.");
    const { child } = await childOf(store, task.taskId);
    expect(child.status).toBe(status);
    expect(child.error?.message ?? child.reason).toContain(reason);
  });

  it("is cancelled on the server when its root is", async () => {
    await using server = await a2aServer(async function* () {
      yield { artifact: "a", text: "Slow " };
      yield { delayMs: 60_000 };
    });
    const { lead, store } = leadOf({ a2a: server.card });
    const run = lead.run("Go.");
    for await (const event of run)
      if (event.type === "task.text.delta" && event.source) void run.cancel("enough");
    const { taskId } = await run.task;
    const { child } = await childOf(store, taskId);
    expect(child.status).toBe("cancelled");
    expect(server.cancelled.size).toBe(1);
  });

  it("retries errors that pass, and sends its message once", async () => {
    await using server = await a2aServer(working);
    server.failures.push(503, 500);
    const { lead, store } = leadOf({ a2a: server.card });
    const { task } = await lead.call("Go.");
    expect((await childOf(store, task.taskId)).child.status).toBe("completed");
    expect(server.received).toHaveLength(1);
  });
});

describe("a question", () => {
  const asking: Agent = (texts) =>
    texts.length === 1
      ? [{ artifact: "a", text: "Let me ask." }, { ask: "Which colour?" }]
      : [{ artifact: "b", text: `Painted ${texts.at(-1)}.` }];

  it("is asked at the root, and any answer is sent as a message", async () => {
    await using server = await a2aServer(asking);
    const { lead, store } = leadOf({ a2a: server.card });
    let reply = await lead.call("Go.", { sessionId: "s" });
    const [approval] = reply.approvals;
    expect(approval).toMatchObject({ kind: "question", message: "Which colour?" });
    reply = await lead.call([approval?.answer("blue") as never], { sessionId: "s" });
    expect(reply.text).toBe("Done.");
    const { items, child } = await childOf(store, reply.task.taskId);
    expect(items).toEqual([
      "message: Let me ask.",
      'tool_call: input_required {"message":"Which colour?"}',
      "tool_result: blue",
      "message: Painted blue.",
    ]);
    expect(child.approvals).toMatchObject([{ decision: "answer" }]);
    expect(server.received).toHaveLength(2);
  });

  it("is answered after this process was replaced by another one", async () => {
    await using server = await a2aServer(asking);
    const path = join(directory, "takeover.db");
    const script: Parameters<typeof leadOf>[1] = ({ assistantCount }) =>
      assistantCount === 0 ? [spawn()] : "Done.";
    const before = sqliteStore(path);
    const place = { a2a: server.card };
    await leadOf(place, script, { store: before }).lead.call("Go.", { sessionId: "s" });
    await before.close();
    const store = sqliteStore(path);
    const { lead } = leadOf(place, script, { store });
    const approvals = await lead.approvals({ sessionId: "s" });
    const answers = approvals.map((one) => one.answer("red"));
    const reply = await lead.call(answers, { sessionId: "s" });
    const { items } = await childOf(store, reply.task.taskId);
    expect(items.at(-1)).toBe("message: Painted red.");
    await store.close();
  });
});

describe("a server that is gone", () => {
  const slow: Agent = async function* () {
    yield { artifact: "a", text: "Half " };
    yield { delayMs: 60_000 };
  };

  it("fails the child with the reason, within the limit of the declaration", async () => {
    const server = await a2aServer(slow);
    const { lead, store } = leadOf({ a2a: server.card, limits: { lostAfterMs: 300 } });
    const run = lead.run("Go.");
    for await (const event of run)
      if (event.type === "task.text.delta" && event.source) void server.close();
    const { task } = await run.result();
    const { child } = await childOf(store, task.taskId);
    expect(child).toMatchObject({ status: "failed", error: { code: "remote_lost" } });
  });

  it.each([
    ["a page", async () => new Response("<html>")],
    ["a card of another shape", async () => Response.json({ name: "x" })],
  ])("fails the child when the address has %s instead of a card", async (_, respond) => {
    const { createServer } = await import("node:http");
    const page = createServer(async (__, response) => response.end(await (await respond()).text()));
    await new Promise<void>((resolve) => page.listen(0, "127.0.0.1", resolve));
    const { port } = page.address() as { port: number };
    const { lead, store } = leadOf({ a2a: `http://127.0.0.1:${port}/card.json` });
    const { task } = await lead.call("Go.");
    const { child } = await childOf(store, task.taskId);
    expect(child).toMatchObject({ status: "failed", error: { code: "invalid_response" } });
    page.close();
  });

  it("refuses a card whose endpoint is on another origin", async () => {
    await using server = await a2aServer(working);
    const { lead, store } = leadOf({ a2a: server.card.replace("127.0.0.1", "localhost") });
    const { task } = await lead.call("Go.");
    const { child } = await childOf(store, task.taskId);
    expect(child).toMatchObject({ status: "failed", error: { code: "other_origin" } });
    expect(server.received).toEqual([]);
  });
});

it("runs a child on a Rivulet server with the adapter, approvals included", async () => {
  const remove = tool({
    name: "remove",
    description: "Removes a file.",
    input: z.object({ path: z.string() }),
    needsApproval: true,
    execute: ({ path }) => `removed ${path}`,
  });
  const far = memoryStore();
  const helper = new HarnessAgent({
    name: "helper",
    filesystem: false,
    store: far,
    tools: [remove],
    model: scriptedModel([
      [{ call: "remove", input: { path: "a.txt" } }],
      [{ text: ["It is ", "gone."] }],
    ]),
  });
  await using served = await serveAgents([helper], { adapters: ["a2a"] });
  const { url, token } = served.server;
  const a2a = `${url}/.well-known/agent-card.json`;
  const { lead, store } = leadOf({ a2a }, undefined, { secret: `Bearer ${token}` });
  let reply = await lead.call("Go.", { sessionId: "s" });
  const [approval] = reply.approvals;
  expect(approval).toMatchObject({
    kind: "tool_call",
    call: { name: "remove", input: { path: "a.txt" } },
  });
  reply = await lead.call([approval?.edit({ path: "b.txt" }) as never], { sessionId: "s" });
  expect(reply.text).toBe("Done.");
  const { child, items } = await childOf(store, reply.task.taskId);
  expect(items.at(-1)).toBe("message: It is gone.");
  expect(child.approvals).toMatchObject([{ decision: "edit" }]);
  const transcript = JSON.stringify(await far.session(child.sessionId ?? ""));
  expect(transcript).toContain("removed b.txt");
  expect(child.usage?.total_tokens).toBeGreaterThan(0);
});
