import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { Agent, Input, Run, RunOptions, StandardSchema } from "../../contract/agent.ts";
import type { Hook } from "../../contract/hook.ts";
import { assistantMessage, type Reply, textOf } from "../../contract/message.ts";
import { checkStream } from "../../protocol/check/check.ts";
import type { TaskEvent } from "../../protocol/event.ts";
import { emptyTree, reduce } from "../../protocol/reduce.ts";
import { noUsage } from "../../protocol/select.ts";
import { memoryStore } from "../../store/memory.ts";
import { scriptedModel } from "../../testing.ts";
import { ReActAgent } from "../react-agent.ts";
import { tool } from "../tool/tool.ts";

const root = { id: "t", object: "task" };
const source = {
  agentKey: "agent:below:1",
  agentId: "below",
  sessionId: "sub-1",
  parentSessionId: "own",
  taskId: "call_b",
  depth: 1,
  path: "own/below",
};

/** Fills in the envelope of an agent's events: those with a source are the events of its child `call_b`. */
function numbered(bodies: readonly object[]): readonly TaskEvent[] {
  const seqs = { t: 0, call_b: 0 };
  return bodies.map((body, sequence_number) => {
    const task_id = "source" in body ? "call_b" : "t";
    const task_seq = seqs[task_id]++;
    return { task_id, sequence_number, task_seq, created_at: 1, ...body } as TaskEvent;
  });
}

function replyOf(more: Partial<Reply<unknown>> = {}): Reply<unknown> {
  const task = { taskId: "t", rootTaskId: "t", sessionId: "own" };
  const end = { generateReason: "model_stop", structured: undefined, approvals: [] } as const;
  const usage = { usage: noUsage, totalUsage: noUsage };
  const reply = { ...assistantMessage("Hi."), text: "Hi.", ...end, task, ...usage, ...more };
  return reply as Reply<unknown>;
}

/** An agent that only has events and a reply. */
function agentOf(play: (input: Input, options: RunOptions) => [readonly object[], Reply<unknown>]) {
  const run = (input?: Input, options: RunOptions = {}) => {
    const [bodies, reply] = play(input, options);
    const events = async function* () {
      yield* numbered(bodies);
    };
    const run: Partial<Run<unknown>> = {
      events,
      result: async () => reply,
      cancel: async () => {},
    };
    return { ...run, [Symbol.asyncIterator]: events };
  };
  return { name: "other", run, approvals: async () => [] } as unknown as Agent;
}

/** A lead that runs an agent as its child, and what is left of the child. */
function leadOf(
  agent: Agent,
  { output, hooks = [] }: { output?: StandardSchema; hooks?: readonly Hook[] } = {},
) {
  const store = memoryStore();
  const delegate = tool({
    name: "delegate",
    description: "Runs the agent.",
    idempotent: true,
    async execute(_, context) {
      const options = { agentId: "other", ...(output && { output }) };
      const outcome = await context.runChild(agent, "Work.", options);
      return `${outcome.status}: ${outcome.reply?.text} ${JSON.stringify(outcome.structured)}`;
    },
  });
  const model = scriptedModel([[{ call: "delegate" }], "done"]);
  const budget = { tokens: 1_000 };
  const lead = new ReActAgent({ name: "lead", model, tools: [delegate], store, budget, hooks });
  const left = async ({ task: { rootTaskId } }: Pick<Reply, "task">, partial = false) => {
    const events = (await store.read(rootTaskId, -1, 1_000)) as TaskEvent[];
    expect(checkStream(events, { partial })).toEqual([]);
    const [, record] = await store.tasks({ rootTaskId });
    if (record === undefined) throw new Error("There is no child.");
    const { tasks } = reduce(emptyTree(), events);
    const messages = await store.session(record.sessionId);
    return { record, tasks, task: tasks[record.taskId], messages };
  };
  return { lead, left };
}

const message = { type: "message", id: "m", role: "assistant" };
const callItem = { type: "tool_call", id: "c", call_id: "call_b", name: "ask" };
const resultItem = { type: "tool_result", id: "r", call_id: "call_b" };
const opened = (output_index: number, item: object) => ({
  type: "task.output_item.added",
  output_index,
  item: { block_list: [], ...item, status: "in_progress" },
});
const closed = (output_index: number, item: object) => ({
  type: "task.output_item.done",
  output_index,
  item: { ...item, status: "completed" },
});
const said = (output_index: number, text: string) => {
  const at = { item_id: "m", output_index, block_index: 0 };
  return [
    opened(output_index, message),
    { type: "task.text.added", ...at, item: { type: "text", text: "" } },
    { type: "task.text.delta", ...at, delta: text },
    { type: "task.text.done", ...at, item: { type: "text", text } },
  ];
};
const created = { type: "task.created", task: { ...root, status: "queued" } };

describe("the items of an agent object", () => {
  const called = [
    opened(0, { type: "reasoning", id: "s", summary: [] }),
    closed(0, { type: "reasoning", id: "s", summary: [{ type: "text", text: "Hm." }] }),
    opened(1, { ...callItem, arguments: "" }),
    { type: "task.tool_call_arguments.delta", item_id: "c", output_index: 1, delta: '{"a":1}' },
    { type: "task.tool_call_arguments.done", item_id: "c", output_index: 1, arguments: '{"a":1}' },
    closed(1, { ...callItem, arguments: '{"a":1}' }),
    opened(2, resultItem),
  ];
  const block_list = [{ type: "text", text: "one" }];

  it("are in the log and in the transcript", async () => {
    const events = [
      created,
      ...called,
      closed(2, { ...resultItem, block_list }),
      ...said(3, "Hi."),
      closed(3, { ...message, block_list: [{ type: "text", text: "Hi." }] }),
    ];
    const { lead, left } = leadOf(agentOf(() => [events, replyOf()]));
    const { task, messages, record } = await left(await lead.call("Go."));
    expect(task?.output.map(({ id, type, status }) => `${id} ${type} ${status}`)).toEqual([
      "s reasoning completed",
      "c tool_call completed",
      "r tool_result completed",
      "m message completed",
    ]);
    expect(messages.slice(1).map(({ role, name, content }) => ({ role, name, content }))).toEqual([
      {
        role: "assistant",
        name: "other",
        content: [
          { type: "thinking", text: "Hm." },
          { type: "tool_use", id: "call_b", name: "ask", input: { a: 1 } },
        ],
      },
      {
        role: "tool",
        name: "other",
        content: [
          { type: "tool_result", id: "call_b", name: "ask", output: block_list, state: "success" },
        ],
      },
      { role: "assistant", name: "other", content: [{ type: "text", text: "Hi." }] },
    ]);
    expect(messages.at(-1)?.metadata).toEqual({ taskId: record.taskId, iteration: 2 });
  });

  it("are completed if a closing event leaves content out, or never comes", async () => {
    const short = agentOf(() => [[created, ...said(0, "Hi."), closed(0, message)], replyOf()]);
    const open = agentOf(() => [[created, ...said(0, "Hi.").slice(0, 3)], replyOf()]);
    for (const [agent, status] of [
      [short, "completed"],
      [open, "incomplete"],
    ] as const) {
      const { lead, left } = leadOf(agent);
      const { task, messages } = await left(await lead.call("Go."));
      const message_id = messages.at(-1)?.id;
      expect(task?.output).toEqual([
        { ...message, message_id, status, block_list: [{ type: "text", text: "Hi." }] },
      ]);
    }
  });

  it("disappear if the agent discards them", async () => {
    const discarded = { type: "task.output_item.discarded", item_id: "m", output_index: 0 };
    const events = [created, ...said(0, "Hu"), { ...discarded, reason: "provider_retry" }];
    const { lead, left } = leadOf(agentOf(() => [events, replyOf()]));
    const { task, messages } = await left(await lead.call("Go."));
    expect(task?.output).toMatchObject([{ type: "discarded" }, { type: "message" }]);
    expect(messages.map(({ content }) => textOf(content))).toEqual(["Work.", "Hi."]);
  });

  it("stay if the agent discards them after their call has begun", async () => {
    const discarded = { type: "task.output_item.discarded", item_id: "c", output_index: 1 };
    const events = [
      created,
      ...called,
      { ...discarded, reason: "recovered" },
      closed(2, { ...resultItem, block_list }),
    ];
    const { lead, left } = leadOf(agentOf(() => [events, replyOf()]));
    const { task } = await left(await lead.call("Go."));
    expect(task?.output[1]).toMatchObject({ type: "tool_call", call_id: "call_b" });
  });

  it("become one message for each model call", async () => {
    const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
    const second = { ...message, id: "m2" };
    const events = [
      created,
      ...said(0, "Well."),
      closed(0, message),
      { type: "task.usage", cumulative: true, usage },
      opened(1, second),
      closed(1, { ...second, block_list: [{ type: "text", text: "Hi." }] }),
    ];
    const { lead, left } = leadOf(agentOf(() => [events, replyOf()]));
    const { messages } = await left(await lead.call("Go."));
    expect(messages.map(({ content }) => textOf(content))).toEqual(["Work.", "Well.", "Hi."]);
  });

  it("get a result if the agent ends without one", async () => {
    const { lead, left } = leadOf(agentOf(() => [[created, ...called], replyOf()]));
    const { task, messages } = await left(await lead.call("Go."));
    expect(task?.output[2]).toMatchObject({ type: "tool_result", status: "cancelled" });
    expect(messages[2]?.content).toMatchObject([{ type: "tool_result", state: "interrupted" }]);
  });

  it("hold the agent's own children, whose parent and path are those of this tree", async () => {
    const agent = { id: "below", name: "below", key: source.agentKey };
    const child = { child_task_id: "call_b", call_id: "call_b", item_id: "r", output_index: 2 };
    const target = { task_id: "t", item_id: "r", block_index: 0 };
    const cite = { type: "reference_to_block", reference_id: 1, target };
    const annotations = [{ ...cite, start_index: 3, end_index: 7 }];
    const own = { id: "call_b", object: "task", mode: "sync" };
    const parent = { parent_task_id: "t", parent_call_id: "call_b", parent_item_id: "r" };
    const events = [
      created,
      ...called,
      { type: "task.child.started", ...child, mode: "sync", agent },
      { type: "task.created", source, task: { ...own, ...parent, status: "queued" } },
      { type: "task.in_progress", source, task: { ...own, status: "in_progress" } },
      { type: "task.completed", source, task: { ...own, status: "completed" } },
      { type: "task.child.finished", ...child, status: "completed" },
      {
        ...{ type: "task.text.done", item_id: "r", output_index: 2, block_index: 0 },
        item: { type: "text", text: "one", reference_id: 1 },
      },
      closed(2, {
        ...{ ...resultItem, child_task_id: "call_b" },
        block_list: [{ type: "text", text: "one", reference_id: 1 }],
      }),
      opened(3, message),
      closed(3, { ...message, block_list: [{ type: "text", text: "Hi.[^1]", annotations }] }),
    ];
    const { lead, left } = leadOf(agentOf(() => [events, replyOf()]));
    const { tasks, record, task } = await left(await lead.call("Go.", { sessionId: "s" }));
    const { taskId } = record;
    expect(tasks.call_b).toMatchObject({
      parentTaskId: taskId,
      parentItemId: "r",
      callId: "call_b",
    });
    expect(tasks.call_b?.source).toEqual({
      ...{ ...source, agentName: "below", parentSessionId: record.sessionId },
      ...{ depth: 2, path: "s/other/below" },
    });
    expect(task?.output[3]).toMatchObject({
      block_list: [{ annotations: [{ target: { task_id: taskId, item_id: "r" } }] }],
    });
  });
});

describe("the end of an agent object", () => {
  it.each([
    ["max_iterations", "incomplete"],
    ["interrupted", "cancelled"],
    ["failed", "failed"],
  ] as const)("with %s is a child that is %s", async (generateReason, status) => {
    const { lead, left } = leadOf(agentOf(() => [[created], replyOf({ generateReason })]));
    expect((await left(await lead.call("Go."))).record.status).toBe(status);
  });

  it("is its reply, whatever it said before", async () => {
    const events = [created, ...said(0, "Well. "), closed(0, message)];
    const { lead, left } = leadOf(agentOf(() => [events, replyOf()]));
    const { record } = await left(await lead.call("Go."));
    expect(textOf(record.result?.content ?? [])).toBe("Hi.");
  });

  it("calls no hook of the parent", async () => {
    const errors: unknown[] = [];
    const hook: Hook = { name: "note", onError: (_, error) => void errors.push(error) };
    const { lead, left } = leadOf(
      agentOf(() => {
        throw new Error("No.");
      }),
      { hooks: [hook] },
    );
    expect((await left(await lead.call("Go."))).record.status).toBe("failed");
    expect(errors).toEqual([]);
  });

  it("brings its usage, which counts for the budget of the parent", async () => {
    const usage = { input_tokens: 900, output_tokens: 100, total_tokens: 1_000 };
    const { lead, left } = leadOf(agentOf(() => [[created], replyOf({ usage })]));
    const reply = await lead.call("Go.");
    expect(reply.generateReason).toBe("budget");
    expect((await left(reply)).record.usage).toEqual(usage);
  });

  it("brings a structured value", async () => {
    const output = z.object({ n: z.number() });
    const asked: unknown[] = [];
    const agent = agentOf((_, options) => {
      asked.push(options.output);
      return [[created], replyOf({ generateReason: "structured_output", structured: { n: 1 } })];
    });
    const { lead, left } = leadOf(agent, { output });
    expect((await left(await lead.call("Go."))).record).toMatchObject({ structured: { n: 1 } });
    expect(asked).toEqual([output]);
  });

  it("fails without the structured value that was asked for, or with one that is not JSON", async () => {
    for (const structured of [undefined, { n: 1n }]) {
      const agent = agentOf(() => [[created], replyOf({ structured })]);
      const { lead, left } = leadOf(agent, { output: z.object({ n: z.number() }) });
      expect((await left(await lead.call("Go."))).record.status).toBe("failed");
    }
  });
});

describe("an agent object that waits", () => {
  it("gets the answer to its own task, also if it has no call for it", async () => {
    const approval = {
      ...{ id: "apr_1", kind: "question", taskId: "x", rootTaskId: "t", message: "Which one?" },
      call: { id: "call_q", name: "question", input: { of: 2 } },
    } as never;
    const inputs: Input[] = [];
    const agent = agentOf((input) => {
      inputs.push(input);
      if (inputs.length > 1) return [[created], replyOf()];
      return [[created], replyOf({ generateReason: "tool_suspended", approvals: [approval] })];
    });
    const { lead, left } = leadOf(agent);
    const asked = await lead.call("Go.", { sessionId: "s" });
    expect(asked.approvals).toMatchObject([
      { kind: "question", message: "Which one?", call: { name: "question", input: { of: 2 } } },
    ]);
    expect((await left(asked, true)).record.status).toBe("suspended");
    const answers = asked.approvals.map((one) => one.answer("The first."));
    const reply = await lead.call(answers, { sessionId: "s" });
    expect(inputs[1]).toEqual([
      {
        ...{ type: "answer", approvalId: "apr_1", taskId: "x", rootTaskId: "t" },
        ...{ decision: "answer", output: [{ type: "text", text: "The first." }] },
      },
    ]);
    expect((await left(reply)).record.status).toBe("completed");
  });

  it("for no approval denies a stop with text", async () => {
    const inputs: Input[] = [];
    const given: unknown[] = [];
    const agent = agentOf((input, options) => {
      inputs.push(input);
      given.push(options?.onSuspended);
      const generateReason = inputs.length > 1 ? "model_stop" : "reasoning_stop_requested";
      return [[created], replyOf({ generateReason })];
    });
    const { lead, left } = leadOf(agent);
    const { approvals } = await lead.call("Go.", { sessionId: "s" });
    expect(approvals).toMatchObject([{ kind: "stop", message: "Continue?" }]);
    const denials = approvals.map((one) => one.deny("Not now."));
    const reply = await lead.call(denials, { sessionId: "s" });
    expect(inputs[1]).toBe("The user did not accept your last step: Not now.");
    expect(given[1]).toBe("deny");
    expect((await left(reply)).record.status).toBe("completed");
  });

  it("for no approval continues with the next call at the root", async () => {
    const inputs: Input[] = [];
    const agent = agentOf((input) => {
      inputs.push(input);
      const generateReason = inputs.length > 1 ? "model_stop" : "reasoning_stop_requested";
      return [[created], replyOf({ generateReason })];
    });
    const { lead, left } = leadOf(agent);
    expect((await left(await lead.call("Go.", { sessionId: "s" }), true)).record.status).toBe(
      "suspended",
    );
    const reply = await lead.call(undefined, { sessionId: "s" });
    expect(inputs[1]).toBeUndefined();
    expect((await left(reply)).record.status).toBe("completed");
  });
});
