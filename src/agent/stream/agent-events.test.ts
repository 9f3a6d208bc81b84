import { describe, expect, it } from "vitest";
import { collect } from "../../../test/agent/support/collect.ts";
import { expectLawful, readLog } from "../../../test/agent/support/laws.ts";
import type { AgentEvent, StreamOptions } from "../../contract/agent.ts";
import { AgentEventView } from "../../contract/agent-events.ts";
import type { LogEvent, TaskEvent, TaskSnapshot } from "../../protocol/event.ts";
import { emptyTree, reduce } from "../../protocol/reduce.ts";
import { rootTask } from "../../protocol/select.ts";
import type { Item, SnapshotTask } from "../../protocol/task.ts";
import { memoryStore } from "../../store/memory.ts";
import { scriptedModel } from "../../testing.ts";
import { agentTool } from "../agent-tool.ts";
import { ReActAgent } from "../react-agent.ts";
import { tool } from "../tool/tool.ts";

const echo = tool({
  name: "echo",
  description: "Repeats its input.",
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
/** The texts that a reader of chunks alone has at the end, one for each message. */
function textsFromChunks(events: readonly AgentEvent[], incremental: boolean): readonly string[] {
  const texts = new Map<string, string>();
  for (const { last, text, message, retracted } of events) {
    if (last) continue;
    if (retracted) texts.delete(message.id);
    else texts.set(message.id, incremental ? (texts.get(message.id) ?? "") + text : text);
  }
  return [...texts.values()];
}
function inShort(event: AgentEvent): string {
  const { type, last, text, source } = event;
  const call =
    type === "tool_call" ? [event.name, ...(last ? [JSON.stringify(event.input)] : [])] : [];
  const child = type === "child" ? [event.phase, event.mode, event.agentId] : [];
  return `${source?.path ?? "-"} ${type}${last ? "." : ""} ${[...call, ...child].join(" ") || text}`;
}

describe("stream()", () => {
  it("yields chunks, then each whole message, then each agent's result", async () => {
    expect((await streamed()).map(inShort)).toEqual([
      "- reasoning ", // thinking is not text
      "- reasoning Wait. ",
      "- tool_call echo",
      "- tool_call. echo {}",
      "- tool_call helper",
      '- tool_call. helper {"prompt":"x"}',
      "- reasoning. Wait. ",
      "- tool_result one ",
      "- tool_result two",
      "- tool_result. one two",
      "- child. started sync helper",
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

  it("yields chunks that join to the message, or with incremental: false the text so far", async () => {
    for (const incremental of [true, false]) {
      const events = await streamed({ incremental, types: ["reasoning"] });
      const own = events.filter(({ source }) => source === undefined).slice(3);
      const chunks = own.slice(0, -1).map(({ text }) => text);
      expect(incremental ? chunks.join("") : chunks.at(-1)).toBe(own.at(-1)?.text);
    }
  });

  it("omits chunks and types that the options exclude", async () => {
    const events = await streamed({ chunks: false, types: ["tool_result", "agent_result"] });
    expect(events.map(inShort)).toEqual([
      "- tool_result. one two",
      "s/helper agent_result. Helped.",
      "- tool_result. Helped.",
      "- agent_result. The end.",
    ]);
  });

  it("yields whole messages with name, content, calls and results", async () => {
    const events = await streamed({ chunks: false });
    const [first, , , result] = events;
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

  it("joins the chunks of a tool that also runs a child to its result", async () => {
    const child = new ReActAgent({ name: "helper", model: scriptedModel(["Helped."]) });
    const delegate = tool({
      name: "delegate",
      description: "Asks the helper.",
      async execute(_, { emit, runChild }) {
        emit("Asking. ");
        await runChild(child, "x", { agentId: "helper" });
        return "for the model";
      },
    });
    const model = scriptedModel([[{ call: "delegate" }], "done"]);
    const agent = new ReActAgent({ name: "lead", model, tools: [delegate] });
    const events = await collect(agent.stream("Go.", { types: ["tool_result"] }));
    expect(events.map(inShort)).toEqual(["- tool_result Asking. ", "- tool_result. Asking. "]);
  });

  it("throws the run's error after the events before it", async () => {
    const error = Object.assign(new Error("no"), { statusCode: 401 });
    const script = [[{ call: "echo" }], { error }];
    const agent = new ReActAgent({ name: "lead", model: scriptedModel(script), tools: [echo] });
    const seen: string[] = [];
    const reading = (async () => {
      for await (const { type } of agent.stream("Go.", { chunks: false })) seen.push(type);
    })();
    await expect(reading).rejects.toMatchObject({ code: "unauthorized" });
    expect(seen.slice(0, 3)).toEqual(["reasoning", "tool_call", "tool_result"]);
  });

  it("continues in the middle of a resumed task", async () => {
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
    const answers = approvals.map((approval) => approval.approve());
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
    "retracts the chunks of a failed model attempt (incremental: %s)",
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
      expect(textsFromChunks(events, incremental)).toEqual(["whole"]); // thinking is not text
    },
  );

  it("retracts chunks when the last attempt fails, and nothing without chunks", async () => {
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
    expect(textsFromChunks(events, true)).toEqual([]);
    events.length = 0;
    await expect(reading({ chunks: false })).rejects.toMatchObject({ code: "provider_error" });
    expect(events.map(({ type }) => type)).toEqual(["agent_result"]);
  });

  it("retracts chunks that a hook replaces", async () => {
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
    expect(textsFromChunks(events, true)).toEqual(["***"]);
    expect(events.filter(({ last }) => last).map(({ text }) => text)).toEqual(["***", "***"]);
  });

  it("retracts the chunks of a failed tool attempt, in the stream and in the log", async () => {
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

  it("answers concurrent next() calls in order", async () => {
    const agent = () => new ReActAgent({ name: "lead", model: scriptedModel([["a", "b", "c"]]) });
    const iterator = agent().stream("Go.", { sessionId: "s" })[Symbol.asyncIterator]();
    const results = await Promise.all(Array.from({ length: 60 }, () => iterator.next()));
    const events = results.flatMap(({ value, done }) => (done ? [] : [value as AgentEvent]));
    const expected = await collect(agent().stream("Go.", { sessionId: "s" }));
    expect(events.map(inShort)).toEqual(expected.map(inShort));
    expect(results.findIndex(({ done }) => done)).toBe(events.length);
  });

  it("yields the same run to every iteration, during the run and after it", async () => {
    const model = scriptedModel([{ text: ["The ", "end."] }]);
    const stream = new ReActAgent({ name: "lead", model }).stream("Go.");
    const [first, second] = await Promise.all([collect(stream), collect(stream)]);
    expect(first.map(inShort)).toEqual([
      "- reasoning The ",
      "- reasoning end.",
      "- reasoning. The end.",
      "- agent_result. The end.",
    ]);
    expect(second).toEqual(first);
    expect(await collect(stream)).toEqual(first);
    expect(model.calls).toHaveLength(1);
  });

  it("ends a pending next() on return()", async () => {
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

  it("lets the caller break out at any time", async () => {
    const agent = new ReActAgent({
      name: "lead",
      model: scriptedModel([{ text: ["a", "b"] }, "c"]),
    });
    for await (const _ of agent.stream("Go.", { sessionId: "s" })) break;
    expect((await agent.call("Next.", { sessionId: "s" })).text).toBe("c");
  });
});

describe("snapshots in a stream", () => {
  const textBlock = (text: string) => ({ type: "text", text }) as const;
  const message = (text: string, status: Item["status"]): Item => {
    const block_list = [textBlock(text)];
    return { type: "message", id: text, status, role: "assistant", block_list };
  };
  const call = (callId: string): Item => {
    const item = { type: "tool_call", id: `fc_${callId}`, status: "completed" } as const;
    return { ...item, call_id: callId, name: "x", arguments: "{}" };
  };
  const result = (callId: string, status: Item["status"], more: object = {}): Item => {
    const block_list = [textBlock(`of ${callId}`)];
    const item = { type: "tool_result", id: `fco_${callId}`, status, call_id: callId } as const;
    return { ...item, block_list, ...more };
  };
  function snapshot(id: string, output: readonly Item[], more: Partial<SnapshotTask> = {}) {
    const task = { id, object: "task", status: "in_progress", output, ...more } as SnapshotTask;
    const through = { through_sequence_number: 9, through_task_seq: 9, created_at: 0 };
    const source = id !== "t" && { source: { agentId: id, depth: 1, path: id } };
    return { type: "task.snapshot", task_id: id, ...through, task, ...source } as TaskSnapshot;
  }
  function eventsOf(...frames: readonly TaskEvent[]): readonly AgentEvent[] {
    const view = new AgentEventView("t", "lead", {});
    const events: AgentEvent[] = [];
    for (const frame of frames) view.apply(frame, events);
    view.flush(events);
    return events;
  }
  const shortOf = (...frames: readonly TaskEvent[]) => eventsOf(...frames).map(inShort);

  it("add each item, and a message for each turn without an open item", () => {
    const discarded: Item = { type: "discarded", id: "d", reason: "edited" };
    const output = [message("a", "completed"), call("c"), result("c", "completed"), discarded];
    const finished = [
      "- reasoning a",
      "- tool_call. x {}",
      "- reasoning. a",
      "- tool_result. of c",
    ];
    expect(shortOf(snapshot("t", output))).toEqual(finished);
    expect(shortOf(snapshot("t", [...output, message("b", "completed")]))).toEqual([
      ...finished,
      "- reasoning b",
      "- reasoning. b",
    ]);
    const open = snapshot("t", [...output, message("b", "in_progress")]);
    expect(shortOf(open)).toEqual([...finished, "- reasoning b"]);
    const usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };
    const log = { task_id: "t", sequence_number: 10, task_seq: 10, created_at: 0 };
    const turnEnd: LogEvent = { ...log, type: "task.usage", cumulative: true, usage };
    expect(shortOf(open, turnEnd)).toEqual([...finished, "- reasoning b", "- reasoning. b"]);
  });

  it("continue in texts that grow at the same time, whose whole messages contain every delta", () => {
    const numbers = new Map<string, number>();
    let sequence_number = 10;
    const log = (task_id: string) => {
      const task_seq = (numbers.get(task_id) ?? 9) + 1;
      numbers.set(task_id, task_seq);
      const source = task_id !== "t" && { source: { agentId: task_id, depth: 1, path: task_id } };
      return { task_id, task_seq, sequence_number: sequence_number++, created_at: 0, ...source };
    };
    const add = (task: string, delta: string, block_index: number): LogEvent => {
      const place = { item_id: "m", output_index: 0, block_index };
      return { type: "task.text.delta", ...log(task), ...place, delta };
    };
    const usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };
    const end = (task: string): LogEvent => {
      return { type: "task.usage", ...log(task), cumulative: true, usage };
    };
    const open = ["t", "c"].map((task) => snapshot(task, [message("m", "in_progress")]));
    const deltas = [
      ...[add("t", "a", 1), add("c", "x", 1), add("t", "b", 1), add("c", "y", 1), add("t", "c", 1)],
      ...[add("t", "1", 2), add("t", "d", 1), add("t", "2", 2), add("t", "3", 2)],
    ];
    const repeated = [deltas[4] as LogEvent];
    expect(shortOf(...open, ...deltas, ...repeated, end("t"), end("c"))).toEqual([
      ...["- reasoning m", "c reasoning m"],
      ...["- reasoning a", "c reasoning x", "- reasoning b", "c reasoning y", "- reasoning c"],
      ...["- reasoning 1", "- reasoning d", "- reasoning 2", "- reasoning 3", "- reasoning c"],
      ...["- reasoning. mabcd123", "c reasoning. mxy"],
    ]);
  });

  it("add the message of each turn with its calls", () => {
    const output = [message("a", "completed"), call("c"), result("c", "completed")];
    const [, , turn, toolResult] = eventsOf(snapshot("t", output));
    expect(turn?.message.content).toMatchObject([{ type: "text" }, { type: "tool_use", id: "c" }]);
    expect(toolResult?.message.content).toMatchObject([{ type: "tool_result", name: "x" }]);
  });

  it("add a tool's text as a chunk only while the tool runs", () => {
    const output = [call("c"), result("c", "in_progress")];
    expect(shortOf(snapshot("t", output)).slice(-1)).toEqual(["- tool_result of c"]);
  });

  it("add a child inside its call, and a child without a call last", () => {
    const output = [call("c"), result("c", "completed", { child_task_id: "c" })];
    const ended = { status: "completed" } as const;
    const child = snapshot("c", [message("b", "completed")], ended);
    const other = snapshot("other", [message("o", "in_progress")]);
    expect(shortOf(snapshot("t", output, ended), child, other)).toEqual([
      "- tool_call. x {}",
      "- reasoning. ",
      "- child. started sync c",
      "c reasoning b",
      "c reasoning. b",
      "c agent_result. b",
      "- tool_result. of c",
      "other reasoning o",
    ]);
  });

  it("add the approvals that have no decision", () => {
    const approvals = [
      { approval_id: "one", kind: "tool_call", call_id: "c", name: "x", decision: "approve" },
      { approval_id: "two", kind: "tool_call", call_id: "d", name: "y", arguments: '{"n":1}' },
    ] as const;
    const suspension = { reason: "approval", approval_ids: ["two"] } as const;
    const generate_reason = "approval_required" as const;
    const task = { status: "suspended", approvals, suspension, generate_reason } as const;
    const approval = { id: "two", kind: "tool_call", taskId: "c", rootTaskId: "t", path: "c" };
    const asked = { ...approval, call: { id: "d", name: "y", input: { n: 1 } } };
    expect(eventsOf(snapshot("c", [], task))).toMatchObject([
      { type: "approval", approval: asked },
      { type: "agent_result", status: "suspended", approvals: [asked] },
    ]);
  });
});
