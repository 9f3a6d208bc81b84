import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { agentTool, memoryStore, ReActAgent, sqliteStore } from "../../src/index.ts";
import { serve } from "../../src/server.ts";
import { scriptedModel } from "../../src/testing.ts";
import { collect } from "../agent/support/collect.ts";
import { agentScopeClient, type RemoteEvent } from "./support/agentscope-client.ts";
import { scripted, startServer, stored, tokens } from "./support/server.ts";

const directory = mkdtempSync(join(tmpdir(), "rivulet-agentscope-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const remove = { call: "remove", input: { path: "a.txt" } };
const adapters = ["agentscope"] as const;

/** A server with one scripted agent, and clients of two users. */
async function world(...[script, options]: Parameters<typeof scripted>) {
  const { agent, store } = scripted(script, options);
  const server = await startServer({ agents: [agent], adapters });
  const ann = agentScopeClient(server.url, tokens.ann);
  const bob = agentScopeClient(server.url, tokens.bob);
  return { server, store, ann, bob };
}

/** What the events of a run say, without numbers and times. */
function said(events: readonly RemoteEvent[]) {
  return events.map(({ type, text, toolName, status }) =>
    [type, text ?? toolName ?? status].filter((part) => part !== undefined).join(" "),
  );
}

describe("a task of an AgentScope parent", () => {
  it("runs, streams its text, and returns its result", async () => {
    const { ann } = await world([
      [{ thinking: ["Let ", "me."] }, { call: "look", input: { at: "sky" } }],
      [{ text: ["It is ", "blue."] }],
    ]);
    const context = { user_id: "mallory", detail: "full", stream: true, attributes: { a: 1 } };
    const started = await ann.submit("task-1", "lead", "What colour?", context);
    expect(started).toEqual({ task_id: stored("task-1"), status: "pending" });
    const events = await collect(ann.events("task-1"));
    expect(said(events)).toEqual([
      "RUN_STARTED",
      "THINKING_DELTA Let ",
      "THINKING_DELTA me.",
      "TOOL_CALL_START look",
      "TOOL_CALL_END look",
      'TOOL_RESULT There is no tool "look". Available tools: remove.',
      "TEXT_DELTA It is ",
      "TEXT_DELTA blue.",
      "RUN_FINISHED",
      "STATUS success",
    ]);
    expect(events.find(({ type }) => type === "TOOL_CALL_END")?.toolInput).toBe('{"at":"sky"}');
    expect(events.find(({ type }) => type === "TOOL_RESULT")?.status).toBe("ERROR");
    expect(events[0]).toMatchObject({ taskId: stored("task-1"), agentId: "lead" });
    expect(await ann.status("task-1")).toMatchObject({ status: "success", result: "It is blue." });
    expect(await ann.wait("task-1", 10)).toMatchObject({
      status: "success",
      result: "It is blue.",
    });
  });

  it("has no text in its events unless the parent asks for it", async () => {
    const { ann } = await world(["Hello."]);
    await ann.submit("task-1", "lead", "Hi.");
    expect(said(await collect(ann.events("task-1")))).toEqual([
      "RUN_STARTED",
      "RUN_FINISHED",
      "STATUS success",
    ]);
  });

  it("resumes its events after any number, each event once", async () => {
    const { ann } = await world([[{ text: ["a ", "b ", "c ", "d"] }]]);
    await ann.submit("task-1", "lead", "Go.", { detail: "full" });
    const all = await collect(ann.events("task-1"));
    expect(all.map(({ seq }) => seq)).toEqual(
      all.map(({ seq }) => seq).toSorted((one, other) => one - other),
    );
    expect(all[0]?.seq).toBeGreaterThan(0);
    for (const [index, { seq }] of all.entries())
      expect(await collect(ann.events("task-1", seq))).toEqual(all.slice(index + 1));
  });

  it("asks for a confirmation and continues on the same stream", async () => {
    const { ann } = await world([remove, "Removed."]);
    await ann.submit("task-1", "lead", "Clean up.", { detail: "full" });
    const events: RemoteEvent[] = [];
    const following = (async () => {
      for await (const event of ann.events("task-1")) {
        events.push(event);
        if (event.type !== "REQUIRE_CONFIRM") continue;
        const [pending] = event.pendingConfirms ?? [];
        expect(pending).toMatchObject({ toolName: "remove", toolInputJson: '{"path":"a.txt"}' });
        expect(await ann.status("task-1")).toMatchObject({
          status: "awaiting_confirm",
          pending_confirms: [{ toolCallId: pending?.toolCallId }],
        });
        expect(await ann.wait("task-1", 5)).toMatchObject({ status: "awaiting_confirm" });
        const decision = { toolCallId: pending?.toolCallId, approved: true, reason: null };
        expect(await ann.resume("task-1", [decision])).toMatchObject({ status: "running" });
        expect((await ann.wait("task-1", 30)).result).toBe("Removed.");
      }
    })();
    await following;
    expect(said(events).slice(-5)).toEqual([
      "STATUS running",
      "TOOL_RESULT removed a.txt",
      "TEXT_DELTA Removed.",
      "RUN_FINISHED",
      "STATUS success",
    ]);
  });

  it("refuses the calls that a resume leaves out", async () => {
    const { ann } = await world([[remove, { ...remove, input: { path: "b.txt" } }], "Half done."]);
    await ann.submit("task-1", "lead", "Clean up.");
    const { pending_confirms: pending = [] } = await ann.wait("task-1", 30);
    expect(pending).toHaveLength(2);
    await ann.resume("task-1", [{ toolCallId: pending[0]?.toolCallId, approved: true }]);
    await ann.wait("task-1", 30);
    const events = await collect(ann.events("task-1"));
    const states = pending.map(
      ({ toolCallId: id }) =>
        events.find(({ type, toolCallId }) => type === "TOOL_RESULT" && toolCallId === id)?.status,
    );
    expect(states).toEqual(["SUCCESS", "DENIED"]);
  });

  it("asks for the confirmation of a grandchild's call", async () => {
    const store = memoryStore();
    const { agent: helper } = scripted([remove, "Helped."], { store, name: "helper" });
    const lead = new ReActAgent({
      name: "lead",
      store,
      model: scriptedModel([[{ call: "helper", input: { prompt: "Go." } }], "All done."]),
      tools: [agentTool(helper)],
    });
    const server = await startServer({ agents: [lead], adapters });
    const ann = agentScopeClient(server.url, tokens.ann);
    await ann.submit("task-1", "lead", "Go.");
    const { pending_confirms: [pending] = [] } = await ann.wait("task-1", 30);
    expect(pending?.toolName).toBe("remove");
    await ann.resume("task-1", [{ toolCallId: pending?.toolCallId, approved: true }]);
    expect(await ann.wait("task-1", 30)).toMatchObject({ status: "success", result: "All done." });
  });

  it("ends as cancelled when the parent cancels it", async () => {
    const { ann } = await world([[{ text: ["Slow "] }, { delayMs: 60_000 }, { text: ["end."] }]]);
    await ann.submit("task-1", "lead", "Go.", { detail: "full" });
    const events = ann.events("task-1");
    for await (const { type } of events) {
      if (type === "TEXT_DELTA") {
        expect(await ann.wait("task-1", 0)).toEqual({
          ...{ task_id: stored("task-1"), status: "running" },
        });
        await ann.cancel("task-1");
      }
    }
    expect((await ann.status("task-1")).status).toBe("cancelled");
    await ann.cancel("task-1");
    expect((await ann.status("task-1")).status).toBe("cancelled");
  });

  it("fails with the reason, and also when it runs out of iterations", async () => {
    const { ann } = await world([{ error: new Error("The model is gone.") }]);
    await ann.submit("task-1", "lead", "Go.");
    const failed = await ann.wait("task-1", 30);
    expect(failed.status).toBe("error");
    expect(failed.error).toContain("The model is gone.");
    const { ann: other } = await world(() => [{ call: "look", input: {} }], { maxIters: 1 });
    await other.submit("task-2", "lead", "Go.");
    const incomplete = await other.wait("task-2", 30);
    expect(incomplete.status).toBe("error");
    expect(incomplete.error).toContain("max_iterations");
    expect(said(await collect(other.events("task-2"))).at(-1)).toBe("RUN_ERROR error");
  });

  it("starts once, however often it is submitted, and never again after its end", async () => {
    const submitted = Promise.withResolvers<void>();
    const { ann, store } = await world(() => submitted.promise.then(() => ["Hello."]));
    await Promise.all(Array.from({ length: 5 }, () => ann.submit("task-1", "lead", "Hi.")));
    expect(await store.tasks({})).toHaveLength(1);
    submitted.resolve();
    await ann.wait("task-1", 30);
    await expect(ann.submit("task-1", "lead", "Hi.")).rejects.toThrow("HTTP 409");
  });
});

describe("sad paths", () => {
  it("rejects what cannot be submitted", async () => {
    const { server, ann } = await world(["Hello."]);
    const api = server.as(tokens.ann);
    for (const body of [{}, { task_id: "t" }, { task_id: "", agent_id: "lead" }, { task_id: 7 }])
      expect((await api.post("/tasks", body)).status).toBe(400);
    await expect(ann.submit("t", "nobody", "Hi.")).rejects.toThrow("There is no agent");
    const deny_rules = [{ tool: "shell" }];
    await expect(ann.submit("t", "lead", "Hi.", { deny_rules })).rejects.toThrow("deny_rules");
    expect((await api.send("POST", "/tasks", "{")).status).toBe(400);
    expect((await api.get("/tasks/t/wait?timeout_seconds=soon")).status).toBe(400);
    expect((await api.get("/tasks/t/events?from_seq=-1")).status).toBe(400);
  });

  it("rejects decisions for a task that does not wait, and for calls that do not exist", async () => {
    const { ann } = await world([remove, "Removed.", "Again."]);
    await ann.submit("task-1", "lead", "Go.");
    await ann.wait("task-1", 30);
    await expect(ann.resume("task-1", [{ toolCallId: "x", approved: true }])).rejects.toThrow(
      "400",
    );
    await expect(ann.resume("task-1", [{ approved: true }])).rejects.toThrow("toolCallId");
    await ann.resume("task-1", []);
    await ann.wait("task-1", 30);
    await expect(ann.resume("task-1", [])).rejects.toThrow("HTTP 409");
  });

  it("hides the tasks of another user", async () => {
    const { ann, bob, server } = await world(() => [remove]);
    await ann.submit("task-1", "lead", "Go.", { user_id: "bob" });
    await ann.wait("task-1", 30);
    expect(await bob.status("task-1")).toEqual({ status: "error", error: "task not found" });
    await expect(bob.wait("task-1", 1)).rejects.toThrow("404");
    await expect(bob.cancel("task-1")).rejects.toThrow("404");
    await expect(bob.resume("task-1", [])).rejects.toThrow("404");
    expect(await collect(bob.events("task-1"))).toEqual([]);
    const [theirs, unknown] = await Promise.all(
      ["task-1", "task-0"].map((id) => server.as(tokens.bob).get(`/tasks/${id}`)),
    );
    expect(theirs?.text.replaceAll("task-1", "task-0")).toBe(unknown?.text);
    expect(await bob.submit("task-1", "lead", "Go.")).toMatchObject({
      task_id: stored("task-1", "bob"),
    });
    await bob.cancel("task-1");
    expect((await ann.status("task-1")).status).toBe("awaiting_confirm");
  });

  it("needs a credential with the scope", async () => {
    const { server } = await world(["Hello."]);
    await expect(agentScopeClient(server.url).submit("t", "lead", "Hi.")).rejects.toThrow("401");
    const reader = agentScopeClient(server.url, tokens.reader);
    await expect(reader.submit("t", "lead", "Hi.")).rejects.toThrow("403");
  });

  it("has its routes only as an adapter, in the table of routes and in the OpenAPI document", async () => {
    const { agent } = scripted(["Hello."]);
    const plain = await startServer({ agents: [agent] });
    expect((await plain.as(tokens.ann).post("/tasks", {})).status).toBe(404);
    const server = await startServer({ agents: [agent], adapters });
    const { paths } = (await server.as(tokens.ann).get("/openapi.json")).body;
    expect(Object.keys(paths)).toEqual(expect.arrayContaining(["/tasks", "/tasks/{id}/events"]));
    await expect(serve({ agents: [agent], adapters: ["a2b" as "a2a"] })).rejects.toThrow(
      'must be "a2a" or "agentscope"',
    );
  });
});

it("goes on after the server has been restarted", async () => {
  const path = join(directory, "restart.db");
  const script: Parameters<typeof scripted>[0] = ({ assistantCount }) =>
    assistantCount === 0 ? [remove] : "Removed.";
  const open = async () => {
    const { agent } = scripted(script, { store: sqliteStore(path), leaseMs: 1_000 });
    return startServer({ agents: [agent], adapters });
  };
  const first = await open();
  const before = agentScopeClient(first.url, tokens.ann);
  await before.submit("task-1", "lead", "Go.", { detail: "full" });
  const { pending_confirms: [pending] = [] } = await before.wait("task-1", 30);
  const [last] = (await collect(take(before.events("task-1"), "REQUIRE_CONFIRM"))).slice(-1);
  await first.close();
  const second = await open();
  const after = agentScopeClient(second.url, tokens.ann);
  const events = collect(after.events("task-1", last?.seq));
  await after.resume("task-1", [{ toolCallId: pending?.toolCallId, approved: true }]);
  expect(await after.wait("task-1", 30)).toMatchObject({ status: "success", result: "Removed." });
  expect(said(await events)).toEqual([
    "STATUS running",
    "TOOL_RESULT removed a.txt",
    "TEXT_DELTA Removed.",
    "RUN_FINISHED",
    "STATUS success",
  ]);
});

/** Events up to the first of a type. */
async function* take(events: AsyncIterable<RemoteEvent>, type: string) {
  for await (const event of events) {
    yield event;
    if (event.type === type) return;
  }
}
