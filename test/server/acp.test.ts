import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { type AcpOptions, serveAcp } from "../../src/adapters/acp/editor.ts";
import { AcpUpdates } from "../../src/adapters/acp/updates.ts";
import {
  type Agent,
  agentTool,
  HarnessAgent,
  memoryStore,
  ReActAgent,
  type Store,
  tool,
} from "../../src/index.ts";
import { emptyTree, reduce } from "../../src/protocol/reduce.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { scriptedModel } from "../../src/testing.ts";
import {
  type AcpClientOptions,
  acpClient,
  acpProblem,
  type Shown,
  shownBy,
} from "../support/acp-client.ts";
import { generateTree } from "../support/generate-tree.ts";
import { seededRandom } from "../support/random.ts";
import { seed } from "../support/seed.ts";
import { nested, scripted, startServer } from "./support/server.ts";

const cwd = mkdtempSync(join(tmpdir(), "rivulet-acp-"));
afterAll(() => rmSync(cwd, { recursive: true, force: true }));

/** An editor that is connected to agents in this process. Each message is checked at the end of the test. */
async function open(agent: Agent, options: AcpClientOptions & Partial<AcpOptions> = {}) {
  const { store = memoryStore(), decide, fill, ...others } = options;
  const [up, down] = [new TransformStream(), new TransformStream()];
  const notes: string[] = [];
  const served = serveAcp(
    {
      ...{ agents: [agent], store, cwd, version: "1.0.0", note: (line) => notes.push(line) },
      ...others,
    },
    { input: up.readable, output: down.writable },
  );
  const editor = await acpClient(
    { input: down.readable, output: up.writable },
    { ...(decide && { decide }), ...(fill && { fill }) },
  );
  onTestFinished(async () => {
    await editor.close();
    await served;
    expect(editor.problems).toEqual([]);
  });
  return { ...editor, notes, shown: () => shownBy(editor.updates) };
}

const said = ({ messages }: Shown) => Object.values(messages);
const callsOf = ({ calls }: Shown) => Object.values(calls);
const remove = { call: "remove", input: { path: "a.txt" } };

/** An agent whose grandchild removes a file. */
function threeLevels(store: Store): Agent {
  const level = (
    name: string,
    script: Parameters<typeof scripted>[0],
    tools?: readonly ReturnType<typeof agentTool>[],
  ) => scripted(script, { name, store, ...(tools && { tools }) }).agent as ReActAgent;
  const worker = level("worker", [[remove], "Removed."]);
  const go = (call: string) => [{ call, input: { prompt: "Go." } }];
  const helper = level("helper", [go("worker"), "Helped."], [agentTool(worker)]);
  return level("lead", [go("helper"), "All done."], [agentTool(helper)]);
}

describe("an editor", () => {
  it("gets the text of the agent, its thoughts, its calls and the usage", async () => {
    const { agent, store } = scripted([
      [{ thinking: ["Let ", "me."] }, { call: "look", input: { path: "sky" } }],
      [{ text: ["It is ", "blue."] }],
    ]);
    const editor = await open(agent, { store });
    const session = await editor.session(cwd);
    expect(await session.say("What colour?")).toBe("end_turn");
    const shown = editor.shown();
    expect(said(shown)).toEqual(["It is blue."]);
    expect(shown.thoughts).toBe("Let me.");
    expect(callsOf(shown)).toMatchObject([{ title: "look: sky", status: "failed" }]);
    expect(editor.updates).toContainEqual(
      expect.objectContaining({ sessionUpdate: "usage_update", size: 128_000 }),
    );
  });

  it("gets one tool call for each descendant, with its text", async () => {
    const store = memoryStore({ flushMs: 0 });
    const editor = await open(nested(store), { store });
    const session = await editor.session(cwd);
    await session.say("Go.");
    const shown = editor.shown();
    expect(said(shown)).toEqual(["The lead sums up what both have found."]);
    const calls = callsOf(shown);
    expect(calls.map(({ text }) => text).toSorted()).toEqual([
      ...["The helper reports.", "The helper reports."],
      ...["The worker digs deep.", "The worker digs deep."],
    ]);
    expect(calls.map(({ status }) => status)).toEqual(Array(4).fill("completed"));
    expect(calls.map(({ title }) => title)).toContain("helper › worker: Dig.");
  });

  it.each([
    ["approve", "completed", "removed a.txt"],
    ["deny", "failed", "The user denied this."],
    ["cancelled", "failed", "The user closed the request."],
  ] as const)("is asked about a call of a grandchild: %s", async (answer, status, text) => {
    const store = memoryStore({ flushMs: 0 });
    const editor = await open(threeLevels(store), { store, decide: () => answer });
    const session = await editor.session(cwd);
    expect(await session.say("Go.")).toBe("end_turn");
    const [asked] = editor.permissions;
    const { toolCallId = "" } = asked?.toolCall ?? {};
    expect(editor.permissions).toHaveLength(1);
    expect(asked?.toolCall).toMatchObject({
      title: "helper › worker › remove: a.txt",
      rawInput: { path: "a.txt" },
    });
    const at = editor.updates.findIndex(
      (update) => update.sessionUpdate === "tool_call" && update.toolCallId === toolCallId,
    );
    expect(editor.updates[at]).toMatchObject({ title: "helper › worker › remove: a.txt" });
    expect(editor.shown().calls[toolCallId]).toMatchObject({ status, text });
    expect(said(editor.shown())).toContain("All done.");
  });

  it("is asked about a call of a child that outlives the answer", async () => {
    const store = memoryStore({ flushMs: 0 });
    const asks = tool({
      name: "remove",
      description: "Removes a file.",
      input: z.object({ path: z.string() }),
      needsApproval: true,
      execute: ({ path }) => `removed ${path}`,
    });
    const isAnswered = Promise.withResolvers<void>();
    const lead = new HarnessAgent({
      ...{ name: "lead", store, workspace: cwd, tools: [asks] },
      subagents: [{ name: "helper", description: "Helps." }],
      model: scriptedModel(async ({ prompt, tools }) => {
        const hasResult = prompt.some(({ role }) => role === "tool");
        const spawn = { agent_id: "helper", task: "Go.", timeout_seconds: 0 };
        if (tools?.some(({ name }) => name === "agent_spawn"))
          return hasResult ? "It works." : [{ call: "agent_spawn", input: spawn }];
        await isAnswered.promise;
        return hasResult ? "Removed." : [remove];
      }),
    });
    const editor = await open(lead, { store });
    const session = await editor.session(cwd);
    expect(await session.say("Go.")).toBe("end_turn");
    expect(editor.permissions).toEqual([]);
    isAnswered.resolve();
    const texts = () => callsOf(editor.shown()).map(({ status, text }) => `${status}: ${text}`);
    await expect.poll(texts).toEqual(["completed: Removed.", "completed: removed a.txt"]);
    expect(editor.permissions).toHaveLength(1);
  });

  it("allows a tool for the session once", async () => {
    const { agent, store } = scripted([[remove], [remove], "Done."]);
    const editor = await open(agent, { store, decide: () => "always" });
    const session = await editor.session(cwd);
    await session.say("Go.");
    expect(editor.permissions).toHaveLength(1);
  });

  it("cancels a turn with everything below it, and can go on", async () => {
    const { agent, store } = scripted([["Wait", { hang: true }], "Back."]);
    const editor = await open(agent, { store });
    const session = await editor.session(cwd);
    const turn = session.say("Go.");
    await expect.poll(() => said(editor.shown())).toEqual(["Wait"]);
    const { sessionId } = session;
    await expect(
      editor.agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text: "x" }] }),
    ).rejects.toMatchObject({ code: -32_600 });
    await editor.agent.notify("session/cancel", { sessionId });
    expect(await session.say("Again.")).toBe("end_turn");
    expect(await turn).toBe("cancelled");
    expect(said(editor.shown())).toContain("Back.");
  });

  it("cancels a turn that waits for a permission", async () => {
    const store = memoryStore({ flushMs: 0 });
    const asked = Promise.withResolvers<void>();
    const editor = await open(threeLevels(store), {
      store,
      decide: () => {
        asked.resolve();
        return new Promise<never>(() => {});
      },
    });
    const session = await editor.session(cwd);
    const turn = session.say("Go.");
    await asked.promise;
    await editor.agent.notify("session/cancel", { sessionId: session.sessionId });
    expect(await turn).toBe("cancelled");
    expect(callsOf(editor.shown()).map(({ status }) => status)).not.toContain("completed");
  });

  it("gets the error of a run that fails, and a hint", async () => {
    const { agent, store } = scripted([[{ error: new Error("no model") }]]);
    const editor = await open(agent, { store });
    const session = await editor.session(cwd);
    await expect(session.say("Go.")).rejects.toMatchObject({
      code: -32_603,
      message: expect.stringContaining("no model"),
      data: { code: "provider_error" },
    });
  });

  it("shows the todo list as a plan", async () => {
    const store = memoryStore({ flushMs: 0 });
    const todos = [
      { content: "Read.", status: "completed" },
      { content: "Write.", status: "in_progress" },
    ];
    const lead = new HarnessAgent({
      ...{ name: "lead", store, workspace: cwd, todos: true },
      model: scriptedModel([[{ call: "todo_write", input: { todos } }], "Started."]),
    });
    const editor = await open(lead, { store });
    const session = await editor.session(cwd);
    await session.say("Go.");
    const plan = ["Read.: completed", "Write.: in_progress"];
    expect(editor.shown().plan).toEqual(plan);
    const again = await open(lead, { store });
    await again.agent.request("session/load", { ...session, cwd, mcpServers: [] });
    expect(again.shown().plan).toEqual(plan);
  });

  describe("with a tool that asks", () => {
    const asking = () => {
      const ask = tool({
        name: "ask",
        description: "Asks.",
        input: z.object({}),
        execute: (_, { suspend }) => suspend("Which colour?"),
      });
      const store = memoryStore({ flushMs: 0 });
      const model = scriptedModel([[{ call: "ask", input: {} }], "Fine."]);
      return { agent: new ReActAgent({ name: "lead", model, tools: [ask], store }), store };
    };

    it("gets a form, if it has forms", async () => {
      const { agent, store } = asking();
      const editor = await open(agent, { store, fill: (message) => `${message} Red.` });
      const session = await editor.session(cwd);
      expect(await session.say("Go.")).toBe("end_turn");
      expect(callsOf(editor.shown())).toMatchObject([{ text: "Which colour? Red." }]);
    });

    it("answers with its next prompt, if it has no forms", async () => {
      const { agent, store } = asking();
      const editor = await open(agent, { store });
      const session = await editor.session(cwd);
      expect(await session.say("Go.")).toBe("end_turn");
      expect(said(editor.shown())).toEqual(["Which colour?"]);
      expect(await session.say("Blue.")).toBe("end_turn");
      expect(callsOf(editor.shown())).toMatchObject([{ status: "completed", text: "Blue." }]);
      expect(said(editor.shown())).toContain("Fine.");
    });
  });

  it("lists and loads the sessions that the page has, and the page those of the editor", async () => {
    const { agent, store } = scripted(["From the page.", "From the editor."]);
    const server = await startServer({ agents: [agent], auth: undefined } as never);
    const page = server.as(server.token);
    await page.post("/v1/tasks", { agent: "lead", input: "One.", session_id: "s1" });
    const editor = await open(agent, { store });
    await expect
      .poll(async () => (await page.get("/v1/sessions/s1")).body.tasks[0].status)
      .toBe("completed");
    const listed = await editor.agent.request("session/list", { cwd });
    expect(listed.sessions).toMatchObject([{ sessionId: "s1", cwd, title: "One." }]);
    await editor.agent.request("session/load", { sessionId: "s1", cwd, mcpServers: [] });
    expect(editor.shown()).toMatchObject({ user: "One." });
    expect(said(editor.shown())).toEqual(["From the page."]);
    const prompt = [{ type: "text" as const, text: "Two." }];
    await editor.agent.request("session/prompt", { sessionId: "s1", prompt });
    expect((await page.get("/v1/sessions/s1")).body.tasks).toHaveLength(2);
    expect(await editor.agent.request("session/list", { cwd: "/" })).toEqual({ sessions: [] });
  });

  it("sees the sessions of its user only", async () => {
    const { agent, store } = scripted(["Hello.", "Hello."]);
    await agent.call("Hi.", { sessionId: "of-ann", userId: "ann" });
    await agent.call("Hi.", { sessionId: "of-bob", userId: "bob" });
    const editor = await open(agent, { store, userId: "ann" });
    const { sessions } = await editor.agent.request("session/list", {});
    expect(sessions.map(({ sessionId }) => sessionId)).toEqual(["of-ann"]);
    const load = (sessionId: string) =>
      editor.agent.request("session/load", { sessionId, cwd, mcpServers: [] });
    expect(await load("of-ann")).toEqual({});
    await expect(load("of-bob")).rejects.toMatchObject({ code: -32_002 });
  });

  it("asks again about a permission that is open when a session is loaded", async () => {
    const store = memoryStore({ flushMs: 0 });
    const lead = threeLevels(store);
    await lead.call("Go.", { sessionId: "s1" });
    const editor = await open(lead, { store });
    await editor.agent.request("session/load", { sessionId: "s1", cwd, mcpServers: [] });
    await expect.poll(() => said(editor.shown())).toContain("All done.");
    expect(editor.permissions).toHaveLength(1);
  });

  it("resumes a session without its messages", async () => {
    const { agent, store } = scripted(["One.", "Two."]);
    await agent.call("Hi.", { sessionId: "s1" });
    const editor = await open(agent, { store });
    await editor.agent.request("session/resume", { sessionId: "s1", cwd });
    expect(editor.updates).toEqual([]);
    const prompt = [{ type: "text" as const, text: "Two." }];
    await editor.agent.request("session/prompt", { sessionId: "s1", prompt });
    expect(said(editor.shown())).toEqual(["Two."]);
  });

  it("loads and resumes a session that it has made and not used; another connection does not find it", async () => {
    const { agent, store } = scripted(["Hello."]);
    const editor = await open(agent, { store });
    const session = await editor.session(cwd);
    const { sessionId } = session;
    const load = { sessionId, cwd, mcpServers: [] };
    expect(await editor.agent.request("session/load", load)).toEqual({});
    expect(await editor.agent.request("session/resume", { sessionId, cwd })).toEqual({});
    expect(editor.updates).toEqual([]);
    const other = await open(agent, { store });
    const notFound = { code: -32_002 }; // clients start a new session then
    await expect(other.agent.request("session/load", load)).rejects.toMatchObject(notFound);
    expect(await session.say("Hi.")).toBe("end_turn");
    expect(await other.agent.request("session/load", load)).toEqual({});
    expect(said(other.shown())).toEqual(["Hello."]);
  });

  it("closes a session, which cancels its turn", async () => {
    const { agent, store } = scripted([["Wait", { hang: true }]]);
    const editor = await open(agent, { store });
    const session = await editor.session(cwd);
    const turn = session.say("Go.");
    await expect.poll(() => said(editor.shown())).toEqual(["Wait"]);
    expect(await editor.agent.request("session/close", session)).toEqual({});
    expect(await turn).toBe("cancelled");
    await expect(session.say("Again.")).rejects.toMatchObject({ code: -32_002 });
  });

  it("sends files with a prompt", async () => {
    const { agent, store } = scripted(["Seen."]);
    const editor = await open(agent, { store });
    const { sessionId } = await editor.session(cwd);
    await editor.agent.request("session/prompt", {
      sessionId,
      prompt: [
        { type: "text", text: "Look." },
        { type: "image", mimeType: "image/png", data: "iVBORw0KGgo=" },
        { type: "resource", resource: { uri: "file:///a.ts", text: "let a;" } },
        { type: "resource_link", uri: "file:///b.ts", name: "b.ts" },
      ],
    });
    const [message] = await store.session(sessionId);
    expect(message?.content).toMatchObject([
      { text: "Look." },
      { type: "image", source: { data: "iVBORw0KGgo=", mimeType: "image/png" } },
      { text: '<file uri="file:///a.ts">\nlet a;\n</file>' },
      { text: "[b.ts](file:///b.ts)" },
    ]);
  });

  it.each([
    ["a relative path", "here", "must be an absolute path"],
    ["a path that does not exist", join(cwd, "nowhere"), "is not a folder"],
    ["another folder", tmpdir(), "Start `rivulet acp` in the folder"],
  ])("is refused with %s as cwd", async (_, place, message) => {
    const { agent, store } = scripted([]);
    const editor = await open(agent, { store });
    const refusal = { code: -32_602, message: expect.stringContaining(message) };
    await expect(editor.session(place)).rejects.toMatchObject(refusal);
  });

  it("is refused with other folders, and reads that its MCP servers are not used", async () => {
    const { agent, store } = scripted([]);
    const editor = await open(agent, { store });
    const place = { cwd, mcpServers: [], additionalDirectories: [tmpdir()] };
    await expect(editor.agent.request("session/new", place)).rejects.toMatchObject({
      code: -32_602,
    });
    const server = { name: "db", command: "db", args: [], env: [] };
    await editor.agent.request("session/new", { cwd, mcpServers: [server] });
    expect(editor.notes).toEqual([
      'The MCP server "db" of the editor is not used; add it to the agent.',
    ]);
  });

  it("gets -32601 for a method that there is not", async () => {
    const { agent, store } = scripted([]);
    const editor = await open(agent, { store });
    for (const method of ["session/set_mode", "session/fork", "nothing"])
      await expect(editor.agent.request(method, {})).rejects.toMatchObject({ code: -32_601 });
  });
});

/** Sends lines to an agent, and resolves to its messages up to the answer of the request `last`. */
async function exchange(lines: readonly string[]): Promise<readonly Record<string, unknown>[]> {
  const { agent, store } = scripted(() => "Hello.");
  const [up, down] = [new TransformStream(), new TransformStream()];
  const options = { agents: [agent], store, cwd, version: "1.0.0", note: () => {} };
  const served = serveAcp(options, { input: up.readable, output: down.writable });
  const writer = up.writable.getWriter();
  const sending = (async () => {
    for (const line of lines) await writer.write(new TextEncoder().encode(`${line}\n`));
  })();
  const messages: Record<string, unknown>[] = [];
  let rest = "";
  const decoder = new TextDecoder();
  for await (const bytes of down.readable as ReadableStream<Uint8Array>) {
    const [...whole] = `${rest}${decoder.decode(bytes, { stream: true })}`.split("\n");
    rest = whole.pop() ?? "";
    messages.push(...whole.filter((line) => line !== "").map((line) => JSON.parse(line)));
    if (messages.some(({ id }) => id === "last")) break;
  }
  await sending;
  await writer.close();
  await served;
  return messages;
}

describe("a forged or damaged request of an editor", () => {
  const names = [
    ...["initialize", "session/new", "session/load", "session/resume", "session/list"],
    ...["session/prompt", "session/close", "session/set_mode", "nothing", "__proto__"],
  ];
  const initialize = { jsonrpc: "2.0", id: "first", method: "initialize" };
  const first = JSON.stringify({ ...initialize, params: { protocolVersion: 1 } });
  const request = fc.record({
    ...{ jsonrpc: fc.constant("2.0"), id: fc.nat(), method: fc.constantFrom(...names) },
    params: fc.oneof(
      fc.jsonValue({ maxDepth: 3 }),
      fc.record(
        {
          sessionId: fc.oneof(fc.string(), fc.constantFrom("../x", "a".repeat(5_000)), fc.nat()),
          cwd: fc.oneof(fc.constantFrom(cwd, "/", "."), fc.string(), fc.nat()),
          mcpServers: fc.oneof(fc.constant([]), fc.jsonValue()),
          prompt: fc.jsonValue(),
          cursor: fc.string(),
        },
        { requiredKeys: [] },
      ),
    ),
  });
  const line = fc.oneof(
    request.map((message) => JSON.stringify(message)),
    fc.string({ maxLength: 100 }).map((text) => text.replaceAll("\n", " ")),
  );

  it("gets an error of the client, and the connection goes on", async () => {
    const property = fc.asyncProperty(fc.array(line, { maxLength: 8 }), async (sent) => {
      const last = JSON.stringify({ ...initialize, id: "last", params: { protocolVersion: 1 } });
      const answers = await exchange([first, ...sent, last]);
      const end = answers.find(({ id }) => id === "last");
      expect(end).toMatchObject({ result: { protocolVersion: 1 } });
      for (const { jsonrpc, error } of answers) {
        expect(jsonrpc).toBe("2.0");
        const { code } = (error ?? { code: -32_600 }) as { code: number };
        expect([-32_700, -32_600, -32_601, -32_602, -32_002], JSON.stringify(error)).toContain(
          code,
        );
      }
    });
    await fc.assert(property, { seed, numRuns: isDeep ? 5_000 : 100 });
  });
});

describe("the updates of generated trees", () => {
  it("fit the schema, and a stored run shows the same as a live one", () => {
    const imageCutOffByItsMessage = 1_048;
    for (const number of [...Array(isDeep ? 2_000 : 150).keys(), imageCutOffByItsMessage]) {
      const { events, truth } = generateTree(seededRandom(number), { maxEvents: 80 });
      const live = new AcpUpdates(128_000);
      const updates = events.flatMap((event) => live.translate(event));
      for (const update of updates)
        expect(acpProblem("SessionUpdate", update), JSON.stringify(update)).toBeUndefined();
      const tree = reduce(emptyTree(), events);
      const replayed = new AcpUpdates(128_000).replay(tree, truth.rootId);
      for (const update of replayed)
        expect(acpProblem("SessionUpdate", update), JSON.stringify(update)).toBeUndefined();
      const [one, other] = [shownBy(updates), shownBy(replayed)];
      // A live reader has seen what was discarded later.
      const kept = Object.keys(other.messages);
      for (const id of kept) expect(one.messages[id], `seed ${number}`).toBe(other.messages[id]);
      const ids = tree.tasks[truth.rootId]?.output.map(({ id }) => id) ?? [];
      expect(kept.every((id) => ids.includes(id))).toBe(true);
      for (const [id, call] of Object.entries(other.calls))
        expect(one.calls[id]?.status, `seed ${number}, ${id}`).toBe(call.status);
    }
  });

  it("cost a bounded number of bytes for each token of a child", () => {
    const cost = (tokens: number) => {
      const updates = new AcpUpdates(128_000);
      const at = (task_id: string, n: number) => ({
        ...{ task_id, sequence_number: n, task_seq: n, created_at: 0 },
      });
      const child = "call_1";
      const parent = { parent_task_id: "task_1", parent_call_id: child, parent_item_id: "i1" };
      const item = { type: "message", id: "m1", role: "assistant", block_list: [] } as const;
      const place = { item_id: "m1", output_index: 0, block_index: 0 };
      const task = (id: string) => ({ id, object: "task", status: "queued" }) as const;
      const sent = [
        updates.translate({ ...at("task_1", 0), type: "task.created", task: task("task_1") }),
        updates.translate({
          ...{ ...at(child, 0), type: "task.created" },
          task: { ...task(child), ...parent },
        } as never),
        updates.translate({
          ...{ ...at(child, 1), type: "task.output_item.added", output_index: 0, item },
        } as never),
        ...Array.from({ length: tokens }, (_, n) =>
          updates.translate({
            ...{ ...at(child, 2 + n), type: "task.text.delta", ...place, delta: "word " },
          }),
        ),
      ].flat();
      return JSON.stringify(sent).length / tokens;
    };
    expect(cost(20_000)).toBeLessThan(2 * cost(2_000));
    expect(cost(20_000)).toBeLessThan(100);
  });
});
