// The fields of agent events, which a reader of stream() sees without looking into blocks.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { describe, expect, it } from "vitest";
import {
  type AgentEvent,
  HarnessAgent,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  type StreamOptions,
  tool,
} from "../../src/index.ts";
import { type Script, scriptedModel } from "../../src/testing.ts";
import { collect } from "./support/collect.ts";

const unavailable = () => Object.assign(new Error("busy"), { statusCode: 503, isRetryable: true });
const instant = { modelExecution: { initialBackoffMs: 0 } };

function stream(
  script: Script,
  more: Partial<ReActAgentOptions> = {},
  options: StreamOptions = {},
) {
  const agent = new ReActAgent({ name: "lead", model: scriptedModel(script), ...instant, ...more });
  return agent.stream("Go.", { sessionId: "s", ...options });
}
/** The events of one type. */
function only<T extends AgentEvent["type"]>(events: readonly AgentEvent[], type: T) {
  const isOfType = (event: AgentEvent): event is Extract<AgentEvent, { type: T }> =>
    event.type === type;
  return events.filter(isOfType);
}

describe("stream()", () => {
  it.each([true, false])("has thinking beside text (incremental: %s)", async (incremental) => {
    const script = [
      [{ thinking: ["Let ", "me."] }, { text: ["A", "B"] }, { thinking: "So." }, "C"],
    ];
    const events = only(await collect(stream(script, {}, { incremental })), "reasoning");
    expect(events.map(({ thinking, text }) => `${thinking}|${text}`)).toEqual(
      incremental
        ? ["Let |", "me.|", "|A", "|B", "So.|", "|C", "Let me.So.|ABC"]
        : [
            "Let |",
            "Let me.|",
            "Let me.|A",
            "Let me.|AB",
            "Let me.So.|AB",
            "Let me.So.|ABC",
            "Let me.So.|ABC",
          ],
    );
  });

  it("shows a call when it starts, its input, its progress, and its result with name and state", async () => {
    const look = tool({
      name: "look",
      description: "Looks.",
      execute(_, { progress, emit }) {
        progress({ progress: 1, total: 2, message: "half" });
        emit("Seen.");
        throw new Error("blind");
      },
    });
    const call = { call: "look", deltas: ['{"at":', '"sea"}'] };
    const events = await collect(stream([[call], "Done."], { tools: [look] }));
    const [{ callId } = { callId: "" }] = only(events, "tool_call");
    const place = { name: "look", callId, message: { id: callId } };
    expect(only(events, "tool_call")).toMatchObject([
      { ...place, last: false },
      { ...place, last: true, input: { at: "sea" } },
    ]);
    const progress = { progress: 1, total: 2, message: "half" };
    expect(only(events, "progress")).toMatchObject([{ ...place, progress, text: "" }]);
    expect(only(events, "tool_result")).toMatchObject([
      { ...place, last: false, state: "running", text: "Seen." },
      { ...place, last: true, state: "error" },
    ]);
    const whole = await collect(stream([[call], "Done."], { tools: [look] }, { chunks: false }));
    expect(whole.map(({ type }) => type)).toEqual([
      "reasoning",
      "tool_call",
      "tool_result",
      "reasoning",
      "agent_result",
    ]);
  });

  it("retracts a call of a failed attempt", async () => {
    const look = tool({ name: "look", description: "Looks.", execute: () => "Seen." });
    const script = [[{ call: "look" }, { error: unavailable() }], [{ call: "look" }], "Done."];
    const calls = only(await collect(stream(script, { tools: [look] })), "tool_call");
    const [first, second] = new Set(calls.map(({ callId }) => callId));
    expect(calls.map(({ callId, last, retracted }) => ({ callId, last, retracted }))).toEqual([
      { callId: first, last: false },
      { callId: first, last: true },
      { callId: first, last: false, retracted: true },
      { callId: second, last: false },
      { callId: second, last: true },
    ]);
  });

  it("shows a background start and a promotion, and the message of a spawn is filled", async () => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const waiting = {
      name: "waiter",
      description: "Waits.",
      model: scriptedModel([() => gate.then(() => "Waited.")]),
    };
    const quick = { name: "quick", description: "Is quick.", model: scriptedModel(["Quick."]) };
    const late = { ...quick, name: "late", model: scriptedModel([() => gate.then(() => "Late.")]) };
    const spawn = (agent_id: string, timeout_seconds: number) => ({
      call: "agent_spawn",
      input: { agent_id, task: "x", timeout_seconds },
    });
    const agent = new HarnessAgent({
      name: "lead",
      model: scriptedModel([[spawn("quick", 30), spawn("late", 1), spawn("waiter", 0)], "Done."]),
      subagents: [quick, late, waiting],
      filesystem: false,
      store: memoryStore(),
    });
    const events: AgentEvent[] = [];
    for await (const event of agent.stream("Go.", { sessionId: "s", until: "tree" })) {
      events.push(event);
      if (event.type === "agent_result" && event.source === undefined) open();
    }
    const children = only(events, "child");
    expect(
      children.map(({ phase, mode, agentId }) => `${agentId} ${phase} ${mode}`).sort(),
    ).toEqual([
      "late promoted background",
      "late started sync",
      "quick started sync",
      "waiter started background",
    ]);
    for (const { taskId } of children)
      expect(events.some(({ source }) => source?.taskId === taskId)).toBe(true);
    const results = only(events, "tool_result").filter(({ last }) => last);
    expect(results.map(({ message, text }) => [text, message.content]).sort()).toMatchObject([
      ["Quick.", [{ name: "agent_spawn", output: [{ type: "text", text: "Quick." }] }]],
      ["late works in the background.", [{ output: [{ text: "late works in the background." }] }]],
      ["waiter works in the background.", [{ output: [{ type: "text" }] }]],
    ]);
  });

  it("has the error of a failed child, and of a failed root", async () => {
    const failing = {
      name: "failing",
      description: "Fails.",
      model: scriptedModel([{ error: Object.assign(new Error("no key"), { statusCode: 401 }) }]),
    };
    const agent = new HarnessAgent({
      name: "lead",
      model: scriptedModel([
        [{ call: "agent_spawn", input: { agent_id: "failing", task: "x" } }],
        "Done.",
      ]),
      subagents: [failing],
      filesystem: false,
      store: memoryStore(),
    });
    const [child] = only(await collect(agent.stream("Go.")), "agent_result");
    expect(child).toMatchObject({
      status: "failed",
      generateReason: "failed",
      error: { code: "unauthorized", message: expect.any(String) },
    });
    const seen: AgentEvent[] = [];
    const reading = async () => {
      for await (const event of stream([
        { error: Object.assign(new Error("no key"), { statusCode: 401 }) },
      ]))
        seen.push(event);
    };
    await expect(reading()).rejects.toMatchObject({ code: "unauthorized" });
    expect(seen.at(-1)).toMatchObject({
      type: "agent_result",
      status: "failed",
      error: { code: "unauthorized" },
    });
  });
});

describe("a retry", () => {
  const flaky = () =>
    tool({
      name: "flaky",
      description: "Fails once.",
      idempotent: true,
      execution: { initialBackoffMs: 0 },
      execute(_, { attempt }) {
        if (attempt === 1) throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
        return "ok";
      },
    });
  const script = () => [{ error: unavailable() }, [{ call: "flaky" }], "Done."];

  it("is an event, for models, fallbacks and tools", async () => {
    const spare = scriptedModel([[{ call: "flaky" }], "Done."], { modelId: "spare" });
    const down = scriptedModel(() => ({ error: unavailable() }));
    const events = await collect(
      stream([], {
        model: [down, spare],
        tools: [flaky()],
        modelExecution: { maxAttempts: 2, initialBackoffMs: 0 },
      }),
    );
    const error = { code: "provider_error" };
    expect(only(events, "retry").slice(0, 3)).toMatchObject([
      { name: "scripted scripted", attempt: 1, delayMs: 0, error },
      { name: "scripted scripted", attempt: 2, fallback: "scripted spare", error },
      {
        name: "flaky",
        callId: expect.any(String),
        attempt: 1,
        error: { code: "tool_failed", message: "reset" },
      },
    ]);
  });

  it("is an attribute and an event of its span", async () => {
    const exporter = new InMemorySpanExporter();
    const provider = new BasicTracerProvider({
      spanProcessors: [new SimpleSpanProcessor(exporter)],
    });
    await collect(stream(script(), { tools: [flaky()], tracer: provider.getTracer("test") }));
    const retried = exporter
      .getFinishedSpans()
      .filter(({ attributes }) => attributes["rivulet.retries"]);
    expect(
      retried.map(({ name, attributes, events }) => [
        name,
        attributes["rivulet.retries"],
        events.map((event) => event.name),
      ]),
    ).toEqual([
      ["chat scripted", 1, ["rivulet.retry"]],
      ["execute_tool flaky", 1, ["rivulet.retry"]],
    ]);
  });

  it("is in the log of NODE_DEBUG=rivulet", async () => {
    const program = `
      import { ReActAgent } from "./src/index.ts";
      import { scriptedModel } from "./src/testing/index.ts";
      const error = Object.assign(new Error("busy"), { statusCode: 503, isRetryable: true });
      const model = scriptedModel([{ error }, "Done."]);
      await new ReActAgent({ name: "lead", model, modelExecution: { initialBackoffMs: 0 } }).call("Go.");`;
    const { stderr } = await promisify(execFile)(
      process.execPath,
      ["--input-type=module", "-e", program],
      {
        env: { ...process.env, NODE_DEBUG: "rivulet" },
        cwd: new URL("../..", import.meta.url),
      },
    );
    expect(stderr).toMatch(
      /RIVULET \d+: task task_\w+: attempt 1 of scripted scripted failed \(provider_error: .*\), trying again in 0 ms/,
    );
  });
});
