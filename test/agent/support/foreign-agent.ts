import { expect } from "vitest";
import {
  type Agent,
  agentTool,
  assistantMessage,
  type Input,
  jsonSchema,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  type Reply,
  type Run,
  type RunOptions,
  type Store,
  tool,
} from "../../../src/index.ts";
import { checkStream } from "../../../src/protocol/check/check.ts";
import { emptyTree, reduce } from "../../../src/protocol/reduce.ts";
import { noUsage } from "../../../src/protocol/select.ts";
import type { TaskEvent } from "../../../src/protocol.ts";
import { taskEventSchema } from "../../../src/schema/schemas.ts";
import { type Script, scriptedModel } from "../../../src/testing.ts";
import { keepEvents } from "../../support/keep-events.ts";
import { logTranscriptProblems } from "../../support/log-matches-transcript.ts";
import { expectLawful, readLog } from "./laws.ts";

/** The run of a fake agent: yields pieces of its message, returns the text of its reply. */
export type Play = (options: RunOptions, input: Input) => AsyncGenerator<string, string>;

/** An agent that is not of this package. */
export function fakeAgent(play: Play) {
  const calls: { input: Input; options: RunOptions; cancels: unknown[] }[] = [];
  const run = (input?: Input, options: RunOptions = {}): Run => {
    const cancels: unknown[] = [];
    const taskId = `fake_${crypto.randomUUID()}`;
    const task = { taskId, rootTaskId: taskId, sessionId: options.sessionId ?? "" };
    const { promise, resolve, reject } = Promise.withResolvers<Reply>();
    calls.push({ input, options, cancels });
    const written = write(taskId, play(options, input), (text) => {
      const message = assistantMessage(text, "fake");
      const end = { generateReason: "model_stop", structured: undefined, approvals: [] } as const;
      resolve({ ...message, text, task, ...end, usage: noUsage, totalUsage: noUsage });
    });
    const events = async function* () {
      yield* written;
    };
    const failing = async function* () {
      try {
        yield* events();
      } catch (error) {
        reject(error);
        throw error;
      }
    };
    return {
      task: Promise.resolve(task),
      [Symbol.asyncIterator]: failing,
      events: failing,
      result: () => promise,
      cancel: async (reason) => void cancels.push(reason),
      steer: async () => {},
      settled: async () => {},
    };
  };
  return { name: "fake", calls, run, approvals: async () => [] } as unknown as Agent & {
    calls: typeof calls;
  };
}

/** The events of a task with one message. */
async function* write(
  task_id: string,
  pieces: AsyncGenerator<string, string>,
  onEnd: (text: string) => void,
): AsyncGenerator<TaskEvent> {
  let task_seq = 0;
  const at = { item_id: `msg_${task_id}`, output_index: 0 };
  const event = (type: string, body: object) =>
    ({ type, task_id, sequence_number: 0, task_seq: task_seq++, created_at: 1, ...body }) as never;
  const item = { type: "message", id: at.item_id, role: "assistant", block_list: [] as object[] };
  const object = { id: task_id, object: "task" };
  yield event("task.created", { task: { ...object, status: "queued" } });
  yield event("task.in_progress", { task: { ...object, status: "in_progress" } });
  let text = "";
  for (;;) {
    const { value, done } = await pieces.next();
    if (done) {
      onEnd(value);
      break;
    }
    if (text === "") {
      yield event("task.output_item.added", { ...at, item: { ...item, status: "in_progress" } });
      yield event("task.text.added", { ...at, block_index: 0, item: { type: "text", text: "" } });
    }
    text += value;
    yield event("task.text.delta", { ...at, block_index: 0, delta: value });
  }
  if (text === "") return;
  const block_list = [{ type: "text", text }];
  yield event("task.text.done", { ...at, block_index: 0, item: block_list[0] });
  yield event("task.output_item.done", {
    ...at,
    item: { ...item, block_list, status: "completed" },
  });
  const usage = { input_tokens: 3, output_tokens: 4, total_tokens: 7 };
  yield event("task.completed", { task: { ...object, status: "completed", usage } });
}

/** One of our agents, behind an object that only has the `Agent` interface. */
export function hidden(options: Partial<ReActAgentOptions> & { readonly script: Script }): Agent {
  const { script, ...more } = options;
  const agent = new ReActAgent({ name: "fake", model: scriptedModel(script), ...more });
  return {
    name: agent.name,
    run: (...given) => agent.run(...given),
    stream: (...given) => agent.stream(...given),
    call: (...given) => agent.call(...given),
    approvals: (query) => agent.approvals(query),
    attach: (...given) => agent.attach(...given),
  };
}

export const removing = (executed: string[] = []) =>
  tool({
    name: "remove",
    description: "Removes a file.",
    input: jsonSchema<{ path: string }>({
      type: "object",
      properties: { path: { type: "string" } },
    }),
    needsApproval: true,
    execute({ path }) {
      executed.push(path);
      return `removed ${path}`;
    },
  });

export const prompt = { prompt: "Work." };

/** A lead with a helper that calls the agent: the agent is at depth 2. */
export function teamAbove(agent: Agent, options: Partial<ReActAgentOptions> = {}) {
  const { store = memoryStore(keepEvents) as Store } = options;
  const helper = new ReActAgent({
    name: "helper",
    model: scriptedModel(({ prompt: asked }) =>
      asked.some(({ role }) => role === "tool") ? "helped" : [{ call: "fake", input: prompt }],
    ),
    tools: [agentTool(agent)],
    ...options,
    store,
  });
  const lead = new ReActAgent({
    name: "lead",
    model: scriptedModel(({ prompt: asked }) =>
      asked.some(({ role }) => role === "tool") ? "done" : [{ call: "helper", input: prompt }],
    ),
    tools: [agentTool(helper)],
    ...options,
    store,
  });
  return { store: store as Store, lead };
}

/** Returns the fake's task and expects that the laws hold. */
export async function left(store: Store, { task: { rootTaskId } }: Pick<Reply, "task">) {
  await expectLawful(store, rootTaskId);
  return leftUnchecked(store, rootTaskId);
}

export async function leftUnchecked(store: Store, rootTaskId: string) {
  const events = await readLog(store, rootTaskId);
  for (const event of events) expect(taskEventSchema.safeParse(event).error).toBeUndefined();
  const tree = reduce(emptyTree(), events as TaskEvent[]);
  expect(tree).toMatchObject({ ignored: 0, unknown: 0, gaps: [] });
  const record = (await store.tasks({ rootTaskId })).find(({ agentId }) => agentId === "fake");
  if (record === undefined) throw new Error("The fake has no task.");
  const messages = await store.session(record.sessionId);
  const results = (await store.session(`${record.parentSessionId}`)).flatMap(({ content }) =>
    content.flatMap((block) => (block.type === "tool_result" ? [block] : [])),
  );
  return { events, tree, record, messages, task: tree.tasks[record.taskId], results };
}

export function gate() {
  const opened = Promise.withResolvers<void>();
  return { open: opened.resolve, opened: opened.promise };
}

export async function untilSeen(run: Run, text: string): Promise<void> {
  for await (const event of run) {
    if (event.type === "task.text.delta" && event.delta === text) return;
  }
}

/** Problems of a tree in which the fake may still be suspended. */
export async function problemsOf(store: Store, rootTaskId: string): Promise<readonly unknown[]> {
  const records = await store.tasks({ rootTaskId });
  const partial = records.some(({ status }) => status === "suspended");
  const problems = checkStream(await readLog(store, rootTaskId), { partial });
  return [...problems, ...(await logTranscriptProblems(store, rootTaskId))];
}
