import { describe, expect, it } from "vitest";
import { collect } from "../../test/agent/support/collect.ts";
import { expectLawful, readLog } from "../../test/agent/support/laws.ts";
import type { AgentEvent, StreamOptions } from "../protocol/agent.ts";
import type { TaskEvent } from "../protocol/event.ts";
import { emptyTree, reduce } from "../protocol/reduce.ts";
import { rootTask } from "../protocol/select.ts";
import { memoryStore } from "../store/memory.ts";
import { scriptedModel } from "../testing/index.ts";
import { agentTool } from "./agent-tool.ts";
import { ReActAgent } from "./react-agent.ts";
import { tool } from "./tool/tool.ts";

const echo = tool({
  name: "echo",
  description: "Says it again.",
  execute(_, { emit }) {
    emit("one ");
    emit("two");
    return "for the model";
  },
});
const helper = () =>
  agentTool(new ReActAgent({ name: "helper", model: scriptedModel([["Hel", "ped."]]) }));

async function streamed(options: StreamOptions = {}): Promise<readonly AgentEvent[]> {
  const calls = [{ call: "echo" }, { call: "helper", input: { prompt: "x" } }];
  const script = [[{ thinking: "Hm." }, "Wait. ", ...calls], { text: ["The ", "end."] }];
  const agent = new ReActAgent({
    name: "lead",
    model: scriptedModel(script),
    tools: [echo, helper()],
    parallel: false,
  });
  const events: AgentEvent[] = [];
  for await (const event of agent.stream("Go.", { sessionId: "s", ...options })) events.push(event);
  return events;
}
const unavailable = Object.assign(new Error("busy"), { statusCode: 503, isRetryable: true });
/** What somebody shows who keeps one text for each message, by its chunks alone. */
function shownBy(events: readonly AgentEvent[], incremental: boolean): readonly string[] {
  const texts = new Map<string, string>();
  for (const { last, text, message, retracted } of events) {
    if (last) continue;
    if (retracted) texts.delete(message.id);
    else texts.set(message.id, incremental ? (texts.get(message.id) ?? "") + text : text);
  }
  return [...texts.values()];
}
const inShort = ({ type, last, text, source }: AgentEvent) =>
  `${source?.path ?? "-"} ${type}${last ? "." : ""} ${text}`;

describe("a run as agent events", () => {
  it("chunks come first, then each message whole, then how each agent ended", async () => {
    expect((await streamed()).map(inShort)).toEqual([
      "- reasoning ", // thinking is no text
      "- reasoning Wait. ",
      "- reasoning. Wait. ",
      "- tool_result one ",
      "- tool_result two",
      "- tool_result. one two",
      "s/helper reasoning Hel",
      "s/helper reasoning ped.",
      "s/helper reasoning. Helped.",
      "s/helper agent_result. Helped.",
      "- tool_result. Helped.",
      "- reasoning The ",
      "- reasoning end.",
      "- reasoning. The end.",
      "- agent_result. The end.",
    ]);
  });

  it("chunks put together are the message; accumulated ones are the text so far", async () => {
    for (const incremental of [true, false]) {
      const events = await streamed({ incremental, types: ["reasoning"] });
      const own = events.filter(({ source }) => source === undefined).slice(3);
      const chunks = own.slice(0, -1).map(({ text }) => text);
      expect(incremental ? chunks.join("") : chunks.at(-1)).toBe(own.at(-1)?.text);
    }
  });

  it("leaves chunks out when asked to, and other types", async () => {
    const events = await streamed({ chunks: false, types: ["tool_result", "agent_result"] });
    expect(events.map(inShort)).toEqual([
      "- tool_result. one two",
      "s/helper agent_result. Helped.",
      "- tool_result. Helped.",
      "- agent_result. The end.",
    ]);
  });

  it("carries whole messages: who, what, and each call with its result", async () => {
    const events = await streamed({ chunks: false });
    const [first, result] = events;
    expect(first?.message).toMatchObject({ role: "assistant", name: "lead" });
    expect(first?.message.content.map(({ type }) => type)).toEqual([
      "thinking",
      "text",
      "tool_use",
      "tool_use",
    ]);
    const [block] = result?.message.content ?? [];
    expect(block).toMatchObject({ type: "tool_result", name: "echo", state: "success" });
    const child = events.find(({ source }) => source !== undefined);
    expect(child?.source).toMatchObject({ depth: 1, agentId: "helper", parentSessionId: "s" });
    expect(child?.message.name).toBe("helper");
  });

  it("throws what the run fails with, after what it has shown", async () => {
    const error = Object.assign(new Error("no"), { statusCode: 401 });
    const script = [[{ call: "echo" }], { error }];
    const agent = new ReActAgent({ name: "lead", model: scriptedModel(script), tools: [echo] });
    const seen: string[] = [];
    const reading = (async () => {
      for await (const { type } of agent.stream("Go.", { chunks: false })) seen.push(type);
    })();
    await expect(reading).rejects.toMatchObject({ code: "unauthorized" });
    expect(seen.slice(0, 2)).toEqual(["reasoning", "tool_result"]);
  });

  it("goes on in the middle when a task is resumed", async () => {
    const ask = tool({
      name: "ask",
      description: "Asks.",
      needsApproval: true,
      execute: () => "yes",
    });
    const model = scriptedModel([[{ call: "ask" }], "done"]);
    const agent = new ReActAgent({ name: "lead", model, tools: [ask] });
    const { approvals } = await agent.call("Go.", { sessionId: "s" });
    const events: AgentEvent[] = [];
    const answers = approvals.map((one) => one.approve());
    for await (const event of agent.stream(answers, { sessionId: "s", chunks: false }))
      events.push(event);
    expect(events.map(inShort)).toEqual([
      "- tool_result. yes",
      "- reasoning. done",
      "- agent_result. done",
    ]);
    expect(events[0]?.message.content).toMatchObject([{ name: "ask" }]);
  });

  it.each([true, false])(
    "takes text back that does not count (incremental: %s)",
    async (incremental) => {
      const script = [
        [{ text: ["ha", "lf"] }, { error: unavailable }],
        [{ thinking: "Hm." }, { text: ["who", "le"] }],
      ];
      const agent = new ReActAgent({
        name: "lead",
        model: scriptedModel(script),
        modelExecution: { initialBackoffMs: 0 },
      });
      const events = await collect(agent.stream("Go.", { incremental, types: ["reasoning"] }));
      expect(events.map((event) => (event.retracted ? "back" : event.text))).toEqual(
        incremental
          ? ["ha", "lf", "back", "", "who", "le", "whole"]
          : ["ha", "half", "back", "", "who", "whole", "whole"],
      );
      expect(events[2]?.message).toMatchObject({ id: events[1]?.message.id, text: "" });
      expect(shownBy(events, incremental)).toEqual(["", "whole"]); // thinking is no text
    },
  );

  it("takes text back when nobody is asked again, and says nothing of it without chunks", async () => {
    const make = () =>
      new ReActAgent({
        name: "lead",
        model: scriptedModel([["half", { error: unavailable }]]),
        modelExecution: { maxAttempts: 1 },
      });
    const events: AgentEvent[] = [];
    const reading = async (options: StreamOptions) => {
      for await (const event of make().stream("Go.", options)) events.push(event);
    };
    await expect(reading({})).rejects.toMatchObject({ code: "provider_error" });
    expect(shownBy(events, true)).toEqual([]);
    events.length = 0;
    await expect(reading({ chunks: false })).rejects.toMatchObject({ code: "provider_error" });
    expect(events.map(({ type }) => type)).toEqual(["agent_result"]);
  });

  it("takes back what a hook has put other words in the place of", async () => {
    const agent = new ReActAgent({
      name: "lead",
      model: scriptedModel([{ text: ["se", "cret"] }]),
      hooks: [
        {
          name: "censor",
          postReasoning: (_, message) => ({ ...message, content: [{ type: "text", text: "***" }] }),
        },
      ],
    });
    const events = await collect(agent.stream("Go."));
    expect(shownBy(events, true)).toEqual(["***"]);
    expect(events.filter(({ last }) => last).map(({ text }) => text)).toEqual(["***", "***"]);
  });

  it("takes back what a failed attempt of a tool has emitted, also from the wire", async () => {
    const flaky = tool({
      name: "flaky",
      description: "Works the third time.",
      citable: true,
      idempotent: true,
      execution: { initialBackoffMs: 0, retryOn: () => true },
      async execute(_, { emit, attempt }) {
        emit(`part ${attempt}.`);
        if (attempt < 3) {
          setImmediate(() => emit("too late"));
          await Promise.reject(new Error("no"));
        }
        await new Promise((resolve) => setImmediate(resolve));
        return "for the model";
      },
    });
    const store = memoryStore();
    const model = scriptedModel([[{ call: "flaky" }], "done"]);
    const agent = new ReActAgent({ name: "lead", model, tools: [flaky], store });
    const events = await collect(agent.stream("Go.", { sessionId: "s", types: ["tool_result"] }));
    expect(events.map((event) => (event.retracted ? "back" : event.text))).toEqual([
      "part 1.",
      "back",
      "part 2.",
      "back",
      "part 3.",
      "part 3.",
    ]);
    expect(new Set(events.map(({ message }) => message.id)).size).toBe(1);
    const [root] = await store.tasks({ sessionId: "s" });
    await expectLawful(store, root?.taskId ?? "");
    const tree = reduce(emptyTree(), (await readLog(store, root?.taskId ?? "")) as TaskEvent[]);
    const results = rootTask(tree)?.output.slice(1, -1);
    expect(results).toMatchObject([
      { type: "discarded", reason: "tool_retry" },
      { type: "discarded", reason: "tool_retry" },
      { type: "tool_result", block_list: [{ text: "part 3.", reference_id: 1 }] },
    ]);
  });

  it("gives everyone who asks at once the next event, in order", async () => {
    const agent = () => new ReActAgent({ name: "lead", model: scriptedModel([["a", "b", "c"]]) });
    const asked = agent().stream("Go.", { sessionId: "s" })[Symbol.asyncIterator]();
    const answers = await Promise.all(Array.from({ length: 60 }, () => asked.next()));
    const events = answers.flatMap(({ value, done }) => (done ? [] : [value as AgentEvent]));
    const inTurn = await collect(agent().stream("Go.", { sessionId: "s" }));
    expect(events.map(inShort)).toEqual(inTurn.map(inShort));
    expect(answers.findIndex(({ done }) => done)).toBe(events.length);
  });

  it("is the same run for everyone who iterates it, whenever that is", async () => {
    const model = scriptedModel([{ text: ["The ", "end."] }]);
    const stream = new ReActAgent({ name: "lead", model }).stream("Go.");
    const [one, other] = await Promise.all([collect(stream), collect(stream)]);
    expect(one.map(inShort)).toEqual([
      "- reasoning The ",
      "- reasoning end.",
      "- reasoning. The end.",
      "- agent_result. The end.",
    ]);
    expect(other).toEqual(one);
    expect(await collect(stream)).toEqual(one);
    expect(model.calls).toHaveLength(1);
  });

  it("lets whoever waits go when it is left", async () => {
    const stop = new AbortController();
    const model = scriptedModel([["a", { hang: true }]]);
    const stream = new ReActAgent({ name: "lead", model }).stream("Go.", { signal: stop.signal });
    const reading = stream[Symbol.asyncIterator]();
    await reading.next();
    const waiting = reading.next();
    await reading.return?.();
    expect(await waiting).toEqual({ value: undefined, done: true });
    stop.abort();
  });

  it("can be left at any time", async () => {
    const agent = new ReActAgent({
      name: "lead",
      model: scriptedModel([{ text: ["a", "b"] }, "c"]),
    });
    for await (const _ of agent.stream("Go.", { sessionId: "s" })) break;
    expect((await agent.call("Next.", { sessionId: "s" })).text).toBe("c");
  });
});
