import { lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { rivuletChatTransport, withDecision } from "../../src/chat-transport.ts";
import { type Agent, agentTool, memoryStore, ReActAgent, tool } from "../../src/index.ts";
import type { StreamFrame } from "../../src/protocol/event.ts";
import { emptyTree, reduce, waitingApprovals } from "../../src/protocol.ts";
import { scriptedModel } from "../../src/testing.ts";
import { Chat, checkedTransport, textIn, transports } from "./support/chat.ts";
import { nested, scripted, startServer, tokens } from "./support/server.ts";

/** A picture of one pixel. */
const pixel =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

type Options = Partial<ConstructorParameters<typeof Chat>[0]>;

/** A server with one agent, and a chat of the AI SDK with it. */
async function openBy(way: keyof typeof transports, agent: Agent, options: Options = {}) {
  const adapters = way === "adapter" ? (["ai-sdk"] as const) : [];
  const server = await startServer({ agents: [agent], adapters });
  const { transport, chunks } = checkedTransport(transports[way](server.url, tokens.ann));
  const chat = new Chat({ id: "chat-1", transport, ...options });
  return { server, chat, chunks, transport };
}
const open = (agent: Agent, options?: Options) => openBy("adapter", agent, options);

describe.each(["adapter", "protocol"] as const)("a chat of the AI SDK by the %s", (way) => {
  const open = (agent: Agent, options?: Options) => openBy(way, agent, options);

  it("shows reasoning, tool calls, results and text as parts of one message", async () => {
    const { chat } = await open(
      scripted([
        [{ thinking: ["Let ", "me."] }, { call: "look", input: { at: "sky" } }],
        [{ text: ["It is ", "blue."] }],
      ]).agent,
    );
    await chat.sendMessage({ text: "What colour?" });
    expect(chat.status).toBe("ready");
    expect(chat.messages.map(({ role }) => role)).toEqual(["user", "assistant"]);
    expect(chat.lastMessage?.parts).toMatchObject([
      { type: "step-start" },
      { type: "reasoning", text: "Let me.", state: "done" },
      {
        ...{ type: "dynamic-tool", toolName: "look", state: "output-error" },
        ...{ input: { at: "sky" }, providerExecuted: true },
        errorText: 'There is no tool "look". Available tools: remove.',
      },
      { type: "step-start" },
      { type: "text", text: "It is blue.", state: "done" },
    ]);
  });

  it("shows what an answer cites as sources, and its images as files", async () => {
    const read = tool({
      name: "read",
      description: "Reads an article.",
      input: z.object({ path: z.string() }),
      execute: () => "A delta forms where a river meets standing water.",
    });
    const { agent } = scripted(
      [
        [{ call: "read", input: { path: "deltas.md" } }],
        [
          "Deltas form at standing water.[^1]",
          { file: { mediaType: "image/png", data: { type: "data", data: pixel } } },
        ],
      ],
      { tools: [read], references: true },
    );
    const { server, chat } = await open(agent);
    await chat.sendMessage({ text: "Where do deltas form? Draw one." });
    const parts = chat.lastMessage?.parts ?? [];
    expect(parts.filter(({ type }) => type === "source-document")).toMatchObject([
      { sourceId: "ref_1", title: "[1]", providerMetadata: { rivulet: { annotation: {} } } },
    ]);
    const [file] = parts.filter(({ type }) => type === "file");
    expect(file).toMatchObject({ mediaType: "image/png" });
    const url = new URL((file as { url: string }).url, server.url);
    const headers = { authorization: `Bearer ${tokens.ann}` };
    const bytes = await fetch(url, url.protocol === "data:" ? {} : { headers });
    expect(Buffer.from(await bytes.arrayBuffer()).toString("base64")).toBe(pixel);
  });

  it("continues the session with each message", async () => {
    const { chat } = await open(scripted(["One.", "Two."]).agent);
    await chat.sendMessage({ text: "First." });
    await chat.sendMessage({ text: "Second." });
    expect(chat.messages.map(textIn)).toEqual(["First.", "One.", "Second.", "Two."]);
    expect(new Set(chat.messages.map(({ id }) => id)).size).toBe(4);
  });

  it("folds nested agents live, and their cost on the wire is linear", async () => {
    let tree = emptyTree();
    const { chat, chunks } = await open(nested(memoryStore({ flushMs: 0 })), {
      onData: (part) => {
        if (part.type === "data-task-event")
          tree = reduce(tree, part.data as StreamFrame, { filtered: true });
      },
    });
    await chat.sendMessage({ text: "Go." });
    expect(textIn(chat.lastMessage)).toBe("The lead sums up what both have found.");
    expect(Object.values(tree.tasks).filter(({ status }) => status === "completed")).toHaveLength(
      4,
    );
    expect(JSON.stringify(tree)).toContain("The worker digs deep.");
    const tasks = chat.lastMessage?.parts.filter(({ type }) => type === "data-task");
    expect(tasks).toMatchObject(
      [1, 2].map(() => ({ data: { agent: "helper", status: "completed" } })),
    );
    const largest = Math.max(...chunks.map((chunk) => JSON.stringify(chunk).length));
    expect(largest).toBeLessThan(1_500);
  });

  it("asks for an approval as a part, and continues the message with the answer", async () => {
    const script = [[{ call: "remove", input: { path: "a.txt" } }], "Done."];
    const { chat } = await open(scripted(script).agent, {
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    });
    await chat.sendMessage({ text: "Remove it." });
    const [, part] = chat.lastMessage?.parts ?? [];
    expect(part).toMatchObject({ type: "dynamic-tool", state: "approval-requested" });
    const { approval } = part as { approval: { id: string } };
    await chat.addToolApprovalResponse({ id: approval.id, approved: true });
    await expect.poll(() => textIn(chat.lastMessage)).toBe("Done.");
    expect(chat.messages).toHaveLength(2);
    expect(chat.lastMessage?.parts[1]).toMatchObject({
      ...{ state: "output-available", output: "removed a.txt" },
    });
  });

  it("denies a call with the reason of the user", async () => {
    const script = [[{ call: "remove", input: { path: "a.txt" } }], "Kept."];
    const { chat } = await open(scripted(script).agent, {
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    });
    await chat.sendMessage({ text: "Remove it." });
    const [, part] = chat.lastMessage?.parts ?? [];
    const { approval } = part as unknown as { approval: { id: string } };
    await chat.addToolApprovalResponse({ id: approval.id, approved: false, reason: "Not today." });
    await expect.poll(() => textIn(chat.lastMessage)).toBe("Kept.");
    expect(chat.lastMessage?.parts[1]).toMatchObject({ state: "output-denied" });
  });

  it("runs a tool of the page and continues with its output", async () => {
    const locate = tool({ name: "locate", description: "Where the user is.", input: z.object({}) });
    const { agent } = scripted([[{ call: "locate", input: {} }], "You are in Bern."], {
      tools: [locate],
    });
    const called: string[] = [];
    const { chat } = await open(agent, {
      onToolCall: ({ toolCall }) => void called.push(toolCall.toolName),
    });
    await chat.sendMessage({ text: "Where am I?" });
    expect(called).toEqual(["locate"]);
    const [, part] = chat.lastMessage?.parts ?? [];
    const { toolCallId } = part as unknown as { toolCallId: string };
    await chat.addToolOutput({ tool: "locate", toolCallId, output: { city: "Bern" } } as never);
    await chat.sendMessage();
    expect(textIn(chat.lastMessage)).toBe("You are in Bern.");
  });

  it("shows an approval of a grandchild as data, and continues after its answer", async () => {
    const store = memoryStore({ flushMs: 0 });
    const level = (name: string, script: Parameters<typeof scripted>[0], tools: object[]) =>
      scripted(script, { name, store, ...(tools.length > 0 && { tools }) } as never)
        .agent as ReActAgent;
    const worker = level("worker", [[{ call: "remove", input: { path: "x" } }], "Removed."], []);
    const helper = level(
      "helper",
      [[{ call: "worker", input: { prompt: "Go." } }], "Helped."],
      [agentTool(worker)],
    );
    const lead = level(
      "lead",
      [[{ call: "helper", input: { prompt: "Go." } }], "All done."],
      [agentTool(helper)],
    );
    let tree = emptyTree();
    const { chat } = await open(lead, {
      onData: (part) => {
        if (part.type === "data-task-event")
          tree = reduce(tree, part.data as StreamFrame, { filtered: true });
      },
    });
    await chat.sendMessage({ text: "Go." });
    const asked = chat.lastMessage?.parts.find(({ type }) => type === "data-approval");
    expect(asked).toMatchObject({ data: { name: "remove" } });
    expect(waitingApprovals(tree)).toHaveLength(1);
    const { id } = asked as unknown as { id: string };
    chat.messages = withDecision(chat.messages, id, { decision: "approve" });
    await chat.sendMessage();
    expect(textIn(chat.lastMessage)).toBe("All done.");
    expect(chat.messages).toHaveLength(2);
    expect(waitingApprovals(tree)).toHaveLength(0);
    expect(chat.lastMessage?.parts.find(({ type }) => type === "data-approval")).toMatchObject({
      data: { name: "remove", decision: "approve" },
    });
  });

  it("takes back what a retry takes back", async () => {
    const busy = Object.assign(new Error("busy"), { statusCode: 529 });
    const { chat, chunks } = await open(
      scripted(
        [[{ thinking: "Hm." }, { text: ["Half ", "an "] }, { error: busy }], "A whole answer."],
        {
          modelExecution: { initialBackoffMs: 1, jitter: 0 },
        },
      ).agent,
    );
    await chat.sendMessage({ text: "Go." });
    expect(chunks.map(({ type }) => type)).toContain("reset-step");
    expect(chat.lastMessage?.parts).toMatchObject([
      { type: "step-start" },
      { type: "text", text: "A whole answer." },
    ]);
  });

  it("reports a failure as an error", async () => {
    const errors: string[] = [];
    const broken = scripted([[{ error: new Error("no model") }]]);
    const { chat } = await open(broken.agent, {
      onError: ({ message }) => void errors.push(message),
    });
    await chat.sendMessage({ text: "Go." });
    expect(chat.status).toBe("error");
    expect(errors).toHaveLength(1);
  });

  it("regenerates an answer without the one before", async () => {
    const asked: string[][] = [];
    const model = scriptedModel(({ prompt }) => {
      asked.push(prompt.map(({ content }) => JSON.stringify(content)));
      return `Answer ${asked.length}.`;
    });
    const agent = new ReActAgent({ name: "lead", model, store: memoryStore() });
    const { chat } = await open(agent);
    await chat.sendMessage({ text: "One?" });
    await chat.sendMessage({ text: "Two?" });
    await chat.regenerate();
    expect(chat.messages.map(textIn)).toEqual(["One?", "Answer 1.", "Two?", "Answer 3."]);
    expect(asked[2]?.join()).toContain("Answer 1.");
    expect(asked[2]?.join()).not.toContain("Answer 2.");
    await chat.sendMessage({ text: "Three?" });
    expect(asked[3]?.join()).toContain("Answer 3.");
    expect(asked[3]?.join()).not.toContain("Answer 2.");
  });

  it("adds a message to the answer that is being written", async () => {
    const model = scriptedModel([
      [{ text: "First" }, { delayMs: 300 }, { call: "look", input: {} }],
      "Then with your note.",
    ]);
    const look = tool({
      ...{ name: "look", description: "Looks." },
      input: z.object({}),
      execute: () => "seen",
    });
    const agent = new ReActAgent({ name: "lead", model, tools: [look], store: memoryStore() });
    const { chat, chunks } = await open(agent);
    const first = chat.sendMessage({ text: "Go." });
    await expect.poll(() => textIn(chat.lastMessage)).toBe("First");
    await chat.sendMessage({ text: "Mind the gap." });
    await first;
    expect(chunks).toContainEqual(
      expect.objectContaining({
        type: "steering-message",
        parts: [{ type: "text", text: "Mind the gap." }],
      }),
    );
  });
});

it("stops with the route, not with the connection", async () => {
  const { chat, server } = await open(scripted([[{ text: "Wait" }, { hang: true }]]).agent);
  const sent = chat.sendMessage({ text: "Go." });
  await expect.poll(() => textIn(chat.lastMessage)).toBe("Wait");
  await chat.stop();
  await sent;
  const ann = server.as(tokens.ann);
  const running = async () => (await ann.get("/v1/sessions/chat-1")).body.tasks[0].status;
  expect(await running()).toBe("in_progress");
  expect((await ann.post("/api/chat/chat-1/stop")).body).toEqual({ stopped: true });
  await expect.poll(running).toBe("cancelled");
  expect((await ann.post("/api/chat/chat-1/stop")).body).toEqual({ stopped: false });
});

it("resumes the message from its beginning after a cut at every chunk", async () => {
  const words = Array.from({ length: 12 }, (_, index) => [{ delayMs: 5 }, `w${index} `]).flat();
  const script = [[{ thinking: "Hm." }, ...words], [...words]];
  for (let cut = 1; cut <= 10; cut += 3) {
    const { agent } = scripted(script);
    const { transport } = await open(agent);
    let left = cut;
    const chat = new Chat({
      id: `chat-${cut}`,
      transport: {
        ...transport,
        async sendMessages(options) {
          const stream = await transport.sendMessages(options);
          const cutter = new TransformStream({
            transform(chunk, controller) {
              if (left-- > 0) controller.enqueue(chunk);
              else controller.error(new TypeError("cut"));
            },
          });
          return stream.pipeThrough(cutter);
        },
      },
    });
    await chat.sendMessage({ text: "Go." });
    expect(chat.status).toBe("error");
    await chat.resumeStream();
    const whole = words.filter((part) => typeof part === "string").join("");
    expect(textIn(chat.lastMessage)).toBe(whole);
    expect(chat.messages.filter(({ role }) => role === "assistant")).toHaveLength(1);
  }
});

it("stops a run by the protocol, and finds nothing of another user", async () => {
  const { chat, server } = await openBy("protocol", scripted([["Wait", { hang: true }]]).agent);
  const sent = chat.sendMessage({ text: "Go." });
  await expect.poll(() => textIn(chat.lastMessage)).toBe("Wait");
  const as = (token: string) => rivuletChatTransport({ url: server.url, token, agent: "lead" });
  expect(await as(tokens.bob).reconnectToStream({ chatId: "chat-1" })).toBeNull();
  await as(tokens.bob).stop("chat-1");
  expect(chat.status).toBe("streaming");
  await as(tokens.ann).stop("chat-1");
  await sent;
  expect(chat.status).toBe("ready");
});

it("refuses options that do not exist", () => {
  const options = { url: "http://127.0.0.1:1", agent: "lead", modle: "x" };
  expect(() => rivuletChatTransport(options)).toThrow("no option `modle`");
});

it("answers 204 when nothing is being written, and hides the chats of another user", async () => {
  const { chat, server } = await open(scripted([[{ text: "Secret" }, { hang: true }]]).agent);
  const bob = server.as(tokens.bob);
  expect((await server.as(tokens.ann).get("/api/chat/none/stream")).status).toBe(204);
  void chat.sendMessage({ text: "Go." });
  await expect.poll(() => textIn(chat.lastMessage)).toBe("Secret");
  expect((await bob.get("/api/chat/chat-1/stream")).status).toBe(204);
  expect((await bob.post("/api/chat/chat-1/stop")).body).toEqual({ stopped: false });
  expect((await server.as(tokens.reader).post("/api/chat", { id: "x", messages: [] })).status).toBe(
    403,
  );
  await server.as(tokens.ann).post("/api/chat/chat-1/stop");
});

it("rejects what it cannot read, with a hint", async () => {
  const { server } = await open(scripted(["Hi."]).agent);
  const ann = server.as(tokens.ann);
  const user = { id: "m", role: "user", parts: [{ type: "text", text: "Hi." }] };
  const bad = [
    {},
    { id: "c" },
    { id: "c", messages: [] },
    { id: "c", messages: [{ role: "robot", parts: [] }] },
    { id: "c", messages: [{ role: "user" }] },
    { id: "c", messages: [{ role: "user", parts: [] }] },
    { id: "c", messages: [user], agent: "nobody" },
    { id: "c", messages: [user], trigger: "explode" },
    { id: "c", messages: [{ role: "assistant", parts: [{ type: "text", text: "?" }] }] },
    { id: "c", messages: [{ role: "user", parts: [{ type: "file", url: "file:///etc/passwd" }] }] },
  ];
  for (const body of bad) {
    const { status, body: answer } = await ann.post("/api/chat", body);
    expect(status, JSON.stringify(body)).toBeGreaterThanOrEqual(400);
    expect(status, JSON.stringify(body)).toBeLessThan(500);
    expect(answer.error.hint, JSON.stringify(body)).toBeTruthy();
  }
});
