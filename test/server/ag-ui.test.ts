import { type BaseEvent, enforceEvents, HttpAgent, verifyEvents } from "@ag-ui/client";
import type { Message } from "@ag-ui/core";
import { EventSchema } from "@ag-ui/core/schemas";
import { from, lastValueFrom, toArray } from "rxjs";
import { describe, expect, it } from "vitest";
import { AguiEvents } from "../../src/adapters/ag-ui/events.ts";
import { type Agent, agentTool, memoryStore, type ReActAgent, tool } from "../../src/index.ts";
import { emptyTree, reduce } from "../../src/protocol/reduce.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { generateTree } from "../support/generate-tree.ts";
import { seededRandom } from "../support/random.ts";
import { nested, scripted, startServer, tokens } from "./support/server.ts";

const adapters = ["ag-ui"] as const;

/** A server with one agent, and a client of AG-UI that checks each event. */
async function open(agent: Agent, threadId = "thread-1") {
  const server = await startServer({ agents: [agent], adapters });
  const as = (token: string, messages: Message[] = []) =>
    new HttpAgent({
      url: `${server.url}/agui/lead`,
      headers: { authorization: `Bearer ${token}` },
      threadId,
      initialMessages: messages,
    });
  const events: BaseEvent[] = [];
  const subscriber = {
    onEvent: ({ event }: { event: BaseEvent }) => {
      expect(EventSchema.safeParse(event).success, JSON.stringify(event)).toBe(true);
      events.push(event);
    },
  };
  const client = as(tokens.ann);
  const say = (content: string) => {
    client.addMessage({ id: crypto.randomUUID(), role: "user", content });
    return client.runAgent({}, subscriber);
  };
  return { server, client, as, say, events, subscriber };
}
const texts = (messages: readonly Message[]) =>
  messages.flatMap(({ role, content }) =>
    role === "assistant" && typeof content === "string" ? [content] : [],
  );
const remove = { call: "remove", input: { path: "a.txt" } };

describe("a client of AG-UI", () => {
  it("keeps the messages, calls and results of a run", async () => {
    const { client, say } = await open(
      scripted([
        [{ thinking: ["Let ", "me."] }, { call: "look", input: { at: "sky" } }],
        [{ text: ["It is ", "blue."] }],
      ]).agent,
    );
    await say("What colour?");
    expect(texts(client.messages)).toEqual(["It is blue."]);
    expect(client.messages.map(({ role }) => role)).toEqual([
      "user",
      "reasoning",
      "assistant",
      "tool",
      "assistant",
    ]);
    expect(client.messages[2]).toMatchObject({
      toolCalls: [{ function: { name: "look", arguments: '{"at":"sky"}' } }],
    });
  });

  it("shows the progress of a tool and an image of the answer as activities", async () => {
    const look = tool({
      name: "look",
      description: "Looks.",
      execute: (_, { progress }) => {
        progress({ progress: 1, total: 2, message: "half" });
        return "Seen.";
      },
    });
    const image = { mediaType: "image/png", data: { type: "data" as const, data: "AA==" } };
    const script = [[{ call: "look", input: {} }], ["Here.", { file: image }]];
    const { client, say } = await open(scripted(script, { tools: [look] }).agent);
    await say("Draw it.");
    const activities = client.messages.filter(({ role }) => role === "activity");
    expect(activities).toMatchObject([
      { activityType: "rivulet.progress", content: { progress: 1, total: 2, message: "half" } },
      {
        activityType: "rivulet.file",
        content: { type: "image", url: "data:image/png;base64,AA==" },
      },
    ]);
  });

  it("attributes what nested agents say", async () => {
    const { client, say, events } = await open(nested(memoryStore({ flushMs: 0 })));
    await say("Go.");
    expect(texts(client.messages)).toContain("The lead sums up what both have found.");
    const deep = client.messages.filter(({ content }) => content === "The worker digs deep.");
    expect(deep).toHaveLength(2);
    for (const message of deep) expect(message.subagentRunId).toMatch(/^call_/);
    const started = events.filter(({ type }) => type === "SUBAGENT_STARTED");
    expect(started.filter((event) => "parentSubagentRunId" in event)).toHaveLength(2);
  });

  it("interrupts for an approval of a grandchild, and resumes with the decision", async () => {
    const store = memoryStore({ flushMs: 0 });
    const level = (name: string, script: Parameters<typeof scripted>[0], tools?: object[]) =>
      scripted(script, { name, store, ...(tools && { tools }) } as never).agent as ReActAgent;
    const worker = level("worker", [[remove], "Removed."]);
    const go = (call: string) => [{ call, input: { prompt: "Go." } }];
    const helper = level("helper", [go("worker"), "Helped."], [agentTool(worker)]);
    const lead = level("lead", [go("helper"), "All done."], [agentTool(helper)]);
    const { client, say, subscriber } = await open(lead);
    await say("Go.");
    const [interrupt] = client.pendingInterrupts;
    expect(interrupt).toMatchObject({ reason: "tool_call", metadata: { name: "remove" } });
    expect(interrupt?.subagentRunId).toMatch(/^call_/);
    const resume = [
      {
        interruptId: interrupt?.id ?? "",
        status: "resolved" as const,
        payload: { approved: true },
      },
    ];
    await client.runAgent({ resume }, subscriber);
    expect(texts(client.messages)).toContain("All done.");
    expect(client.pendingInterrupts).toEqual([]);
  });

  it("runs a tool of the client and continues with its result", async () => {
    const { client, subscriber, events } = await open(
      scripted([[{ call: "locate", input: {} }], "You are in Bern."]).agent,
    );
    const tools = [{ name: "locate", description: "Where.", parameters: { type: "object" } }];
    client.addMessage({ id: "m1", role: "user", content: "Where am I?" });
    await client.runAgent({ tools }, subscriber);
    const finished = events.at(-1) as BaseEvent & { outcome: { pendingToolCallIds: string[] } };
    const [toolCallId = ""] = finished.outcome.pendingToolCallIds;
    client.addMessage({ id: "m2", role: "tool", toolCallId, content: "Bern" });
    await client.runAgent({ tools }, subscriber);
    expect(texts(client.messages)).toContain("You are in Bern.");
  });

  it("ends a cancelled run with its outcome, and a failed one with an error", async () => {
    const { server, say, events } = await open(scripted([["Wait", { hang: true }]]).agent);
    const running = say("Go.");
    await expect.poll(() => events.some(({ type }) => type === "TEXT_MESSAGE_CONTENT")).toBe(true);
    const ann = server.as(tokens.ann);
    const { body } = await ann.get("/v1/sessions/thread-1");
    await ann.post(`/v1/tasks/${body.tasks[0].id}/cancel`);
    await running;
    expect(events.at(-1)).toMatchObject({ type: "RUN_FINISHED", outcome: { type: "cancelled" } });
    const broken = await open(scripted([[{ error: new Error("no model") }]]).agent, "thread-2");
    await broken.say("Go.").catch(() => {});
    expect(broken.events.at(-1)).toMatchObject({ type: "RUN_ERROR" });
  });

  it("stops the run of a thread, and of no other user", async () => {
    const { server, say, events } = await open(scripted([["Wait", { hang: true }]]).agent);
    const running = say("Go.");
    await expect.poll(() => events.some(({ type }) => type === "TEXT_MESSAGE_CONTENT")).toBe(true);
    const stop = async (token: string) =>
      (await server.as(token).post("/agui/lead/stop", { threadId: "thread-1" })).body;
    expect(await stop(tokens.bob)).toEqual({ stopped: false });
    expect(await stop(tokens.ann)).toEqual({ stopped: true });
    await running;
    expect(events.at(-1)).toMatchObject({ type: "RUN_FINISHED", outcome: { type: "cancelled" } });
    expect(await stop(tokens.ann)).toEqual({ stopped: false });
  });

  it("gets an interrupt again after a cut, and joins an answered run once", async () => {
    const { agent } = scripted([[remove], "All done."]);
    const { server } = await open(agent);
    const send = async (body: object) => {
      const response = await server.as(tokens.ann).send("POST", "/agui/lead", {
        ...{ threadId: "thread-1", state: {}, tools: [], context: [] },
        ...{ messages: [{ id: "m1", role: "user", content: "Go." }], ...body },
      });
      const frames = (await response.text()).split("\n\n");
      const events = frames.flatMap((frame) =>
        frame.startsWith("data: ") ? [JSON.parse(frame.slice(6))] : [],
      );
      return events.at(-1);
    };
    const interrupted = await send({ runId: "run-1" });
    expect(interrupted).toMatchObject({ type: "RUN_FINISHED", outcome: { type: "interrupt" } });
    expect((await send({ runId: "run-1" })).outcome).toEqual(interrupted.outcome);
    const [interrupt] = interrupted.outcome.interrupts;
    const resume = [{ interruptId: interrupt.id, status: "resolved", payload: true }];
    for (const runId of ["run-2", "run-2"])
      expect(await send({ runId, resume })).toMatchObject({
        ...{ type: "RUN_FINISHED", runId, outcome: { type: "success" } },
      });
    expect((await server.as(tokens.ann).get("/v1/sessions/thread-1")).body.tasks).toHaveLength(1);
  });

  it("joins a run that is sent again, and has each message once", async () => {
    const words = Array.from({ length: 10 }, (_, n) => [{ delayMs: 20 }, `w${n} `]).flat();
    const { server } = await open(scripted([words]).agent);
    const input = {
      ...{ threadId: "thread-1", runId: "run-1", state: {}, tools: [], context: [] },
      messages: [{ id: "m1", role: "user", content: "Go." }],
    };
    const headers = {
      authorization: `Bearer ${tokens.ann}`,
      "content-type": "application/json",
    };
    const send = () =>
      fetch(`${server.url}/agui/lead`, { method: "POST", headers, body: JSON.stringify(input) });
    const cut = await send();
    await cut.body?.getReader().read();
    const whole = await (await send()).text();
    const events = whole
      .split("\n\n")
      .flatMap((frame) => (frame.startsWith("data: ") ? [JSON.parse(frame.slice(6))] : []));
    expect(events[1]).toMatchObject({ type: "MESSAGES_SNAPSHOT", messages: input.messages });
    const deltas = events.filter(({ type }) => type === "TEXT_MESSAGE_CONTENT");
    expect(deltas.map(({ delta }) => delta).join("")).toBe(
      words.filter((word) => typeof word === "string").join(""),
    );
    const { body } = await server.as(tokens.ann).get("/v1/sessions/thread-1");
    expect(body.tasks).toHaveLength(1);
  });
});

/** What a client shows of a run: texts, results and ends of subagents. */
function shownBy(events: readonly BaseEvent[]) {
  const texts: Record<string, string> = {};
  const results: Record<string, unknown> = {};
  const subagents: Record<string, unknown> = {};
  for (const event of events as readonly (BaseEvent & Record<string, string>)[]) {
    const { type, messageId = "", subagentRunId = "" } = event;
    if (type === "TEXT_MESSAGE_CONTENT")
      texts[messageId] = `${texts[messageId] ?? ""}${event.delta}`;
    if (type === "TOOL_CALL_RESULT") results[event.toolCallId ?? ""] = event.content;
    if (type === "SUBAGENT_FINISHED" || type === "SUBAGENT_ERROR") subagents[subagentRunId] = type;
  }
  return { texts, results, subagents };
}

it("a client that joins at any event sees what an uncut one sees", async () => {
  for (let seed = 0; seed < (isDeep ? 500 : 40); seed++) {
    const { events: log, truth } = generateTree(seededRandom(seed), { maxEvents: 60 });
    const end = log.findIndex(({ task_id, type }) => {
      const ends = /^task\.(suspended|completed|incomplete|failed|cancelled)$/;
      return task_id === truth.rootId && ends.test(type);
    });
    const ids = { threadId: "t", runId: "r" };
    const create = () => new AguiEvents(truth.rootId, ids, (url) => url);
    const uncut = create();
    const whole = [...uncut.begin(), ...log.flatMap((event) => uncut.translate(event))];
    const expected = shownBy(whole as unknown as BaseEvent[]);
    const discarded = new Set(
      log.flatMap((event) => (event.type === "task.output_item.discarded" ? event.item_id : [])),
    );
    for (let cut = 1; cut <= end; cut += isDeep ? 1 : 7) {
      const joined = create();
      const tree = reduce(emptyTree(), log.slice(0, cut));
      const run = [
        ...joined.join(tree, []),
        ...log.slice(cut, end + 1).flatMap((event) => joined.translate(event)),
      ] as unknown as BaseEvent[];
      const check = lastValueFrom(from(run).pipe(verifyEvents(), enforceEvents(), toArray()));
      await expect(check, `seed ${seed}, cut ${cut}`).resolves.toHaveLength(run.length);
      const { texts, results, subagents } = shownBy(run);
      const kept = Object.entries(expected.texts).filter(
        ([id]) => !discarded.has(id.split("#", 1)[0] ?? ""),
      );
      for (const [id, text] of kept) expect(texts[id], `seed ${seed}, cut ${cut}`).toBe(text);
      expect({ results, subagents }, `seed ${seed}, cut ${cut}`).toMatchObject({
        ...{ results: expected.results, subagents: expected.subagents },
      });
    }
  }
});

it("verifyEvents and enforceEvents accept every run of generated trees", async () => {
  for (let seed = 0; seed < (isDeep ? 5_000 : 2_000); seed++) {
    const { events: log, truth } = generateTree(seededRandom(seed), { maxEvents: 60 });
    let translator = new AguiEvents(truth.rootId, { threadId: "t", runId: "r0" }, (url) => url);
    let run = [...translator.begin()];
    const runs = [run];
    for (const [index, event] of log.entries()) {
      if (translator.isOver) {
        if (!("task_id" in event) || event.type !== "task.resumed") continue;
        if (event.task_id !== truth.rootId) continue;
        const ids = { threadId: "t", runId: `r${runs.length}` };
        translator = new AguiEvents(truth.rootId, ids, (url) => url);
        for (const earlier of log.slice(0, index)) translator.translate(earlier);
        run = [...translator.begin()];
        runs.push(run);
      }
      run.push(...translator.translate(event));
    }
    for (const one of runs) {
      const source = from(one as unknown as BaseEvent[]);
      const check = lastValueFrom(source.pipe(verifyEvents(), enforceEvents(), toArray()));
      await expect(check, `seed ${seed}: ${JSON.stringify(one)}`).resolves.toHaveLength(one.length);
    }
  }
});

it("rejects bad requests and hides the threads of another user", async () => {
  const { server } = await open(scripted(["Hi.", "Ho."]).agent);
  const ann = server.as(tokens.ann);
  const good = { threadId: "t", runId: "r", messages: [{ role: "user", content: "Hi." }] };
  for (const body of [
    {},
    { ...good, messages: [] },
    { ...good, messages: [7] },
    { ...good, messages: [{ role: "robot", content: "x" }] },
    { ...good, tools: [{}] },
    { ...good, threadId: "" },
  ]) {
    const { status, body: answer } = await ann.post("/agui/lead", body);
    expect(status, JSON.stringify(body)).toBe(400);
    expect(answer.error.hint).toBeTruthy();
  }
  expect((await ann.post("/agui/nobody", good)).status).toBe(404);
  expect((await ann.post("/agui/lead", good)).text).toContain("Hi.");
  const bob = await server.as(tokens.bob).post("/agui/lead", good);
  expect(bob.text).toContain("Ho.");
  expect(bob.text).not.toContain("Hi.");
});
