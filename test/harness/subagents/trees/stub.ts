import { isDeepStrictEqual } from "node:util";
import { ToolFailure } from "../../../../src/agent/tool/tool.ts";
import { type Block, type Message, textOf } from "../../../../src/contract/message.ts";
import type { TaskRecord } from "../../../../src/contract/store.ts";
import { subagentToolNames } from "../../../../src/harness/subagents/roster.ts";
import {
  jsonSchema,
  memoryStore,
  ReActAgent,
  type Store,
  type Tool,
  tool,
} from "../../../../src/index.ts";
import type { LogEvent } from "../../../../src/protocol/event.ts";
import { ManualClock } from "../../../../src/testing.ts";
import { readLog } from "../../../agent/support/laws.ts";
import { keepEvents } from "../../../support/keep-events.ts";
import { castModel, castTools, inputFor, maxItersOf, toldTaskId } from "./cast.ts";
import { callsOf, marksIn, type TaskPlan } from "./plan.ts";
import { answerTo } from "./play.ts";
import { blocksOf, resultOf, type TrueTask, type Truth } from "./truth.ts";

/**
 * Plays every parent again that was not stopped, alone and with recorded results of its subagents: its events and messages
 * must be the same.
 */
export async function stubProblems(
  truth: Truth,
  tasks: ReadonlyMap<string, TaskPlan>,
): Promise<readonly string[]> {
  const events = truth.logs.flat() as readonly LogEvent[];
  const problems: string[] = [];
  for (const parent of truth.byTaskId.values()) {
    const { plan, record, messages } = parent;
    const speaks = callsOf(plan).some(({ type }) => type !== "work" && type !== "ask");
    if (!speaks || record.status === "cancelled") continue;
    // The earlier tasks of its session are in its transcript.
    const recall = (key: string) => {
      const earlier = [...truth.byTaskId.values()].filter(
        (other) => other.record.sessionId === record.sessionId && other !== parent,
      );
      const results = earlier.flatMap((other) => resultOf(other, key) ?? []);
      return results[0] && toldTaskId(textOf(results[0].output));
    };
    const alone = await playAlone(parent, events, tasks, recall);
    const own = events.filter((event) => event.task_id === record.taskId);
    const names = new Map([...namesOf(messages), ...namesOf(alone.messages)]);
    const real = viewOf(own, messages, names);
    const stubbed = viewOf(alone.events, alone.messages, names);
    for (const [part, seen] of real) {
      if (isDeepStrictEqual(seen, stubbed.get(part))) continue;
      const [one, other] = [seen, stubbed.get(part)].map((some) => JSON.stringify(some));
      problems.push(`${plan.key} alone has another ${part}: ${other} and not ${one}`);
    }
    for (const part of stubbed.keys()) {
      if (!real.has(part)) problems.push(`${plan.key} alone has ${part}`);
    }
  }
  return problems;
}

/** Plays one task as a root, with tools instead of subagents. */
async function playAlone(
  parent: TrueTask,
  events: readonly LogEvent[],
  tasks: ReadonlyMap<string, TaskPlan>,
  recall: (key: string) => string | undefined,
) {
  const { plan, record } = parent;
  const clock = new ManualClock(1_700_000_000_000);
  const store: Store = memoryStore({ clock, ...keepEvents });
  const maxIters = maxItersOf(plan.kind);
  const agent = new ReActAgent({
    name: record.agentName,
    model: castModel(tasks, { recall }),
    tools: [...castTools({ onCall() {}, hold: async () => {} }), ...stubs(parent, events)],
    store,
    clock,
    modelExecution: { maxAttempts: 1 },
    ...(maxIters !== undefined && { maxIters }),
  });
  const options = { sessionId: "alone" };
  try {
    let reply = await agent.call(inputFor(plan.key), options);
    while (reply.approvals.length > 0) {
      reply = await agent.call(reply.approvals.map(answerTo), options);
    }
  } catch (error) {
    if (marksIn(String(error)).size === 0) throw error;
  }
  const messages = await store.session("alone");
  const [root] = (await store.tasks({ sessionId: "alone" })) as readonly [TaskRecord];
  return { messages, events: (await readLog(store, root.taskId)) as readonly LogEvent[] };
}

/** Tools that return the recorded result of the same call. */
function stubs(parent: TrueTask, events: readonly LogEvent[]): readonly Tool[] {
  const errors = new Map(
    events.flatMap((event) => {
      if (event.type !== "task.output_item.done" || event.task_id !== parent.record.taskId)
        return [];
      const { item } = event;
      return item.type === "tool_result" && item.error ? [[item.id, item.error] as const] : [];
    }),
  );
  const places = new Map(
    events.flatMap((event) =>
      event.type === "task.output_item.added" && event.item.type === "tool_result"
        ? [[event.item.call_id, event.item.id] as const]
        : [],
    ),
  );
  return [...subagentToolNames].map((name) =>
    tool({
      name,
      description: `Stands for ${name}.`,
      input: jsonSchema<Record<string, unknown>>({ type: "object" }),
      execute(_, { callId, messages }): { readonly content: readonly Block[] } {
        const use = blocksOf(messages).find(
          (block) => block.type === "tool_use" && block.id === callId,
        );
        const key = (use?.type === "tool_use" && use.providerCallId) || "";
        const recorded = resultOf(parent, key);
        if (recorded === undefined) throw new Error(`${key} has no result.`);
        if (recorded.state === "success") return { content: recorded.output };
        const { code = "", message = "" } = errors.get(places.get(recorded.id) ?? "") ?? {};
        throw new ToolFailure(code, message);
      },
    }),
  );
}

/** Names for call ids that are equal in both plays. */
function namesOf(messages: readonly Message[]): readonly (readonly [string, string])[] {
  return blocksOf(messages).flatMap((block) =>
    block.type === "tool_use" ? [[block.id, `call ${block.providerCallId}`] as const] : [],
  );
}

/** Removes the time, the numbers and the children's parts from an event. */
const dropped = new Set([
  ...["task_id", "sequence_number", "task_seq", "created_at", "completed_at", "source", "item_id"],
  ...["id", "approval_id", "session_id", "agent_id", "parent_task_id", "parent_call_id", "where"],
  ...[
    "parent_item_id",
    "message_id",
    "mode",
    "child_task_id",
    "reference_id",
    "metadata",
    "annotations",
  ],
]);
const childEvents =
  /^task\.(child\..*|suspended|resumed|custom|hint\.added|text\.annotation\.added)$/;

/**
 * Groups a parent's events and messages so that they do not depend on timing: by item, by approval, and the rest; the
 * results of a turn are in the order of the calls.
 */
function viewOf(
  events: readonly LogEvent[],
  messages: readonly Message[],
  names: ReadonlyMap<string, string>,
): ReadonlyMap<string, unknown> {
  const clean = (value: unknown) => cleaned(value, names);
  const view = new Map<string, unknown[]>();
  const add = (part: string, value: unknown) => view.set(part, [...(view.get(part) ?? []), value]);
  const approvals = new Map<string, string>();
  const between = new Set<number>();
  const agentCalls = new Set<string>();
  for (const event of events) {
    if (childEvents.test(event.type)) continue;
    if (event.type === "task.output_item.added") {
      const { item, output_index } = event;
      if (item.type === "tool_call" && subagentToolNames.has(item.name))
        agentCalls.add(item.call_id);
      if (item.type === "tool_result" && agentCalls.has(item.call_id)) between.add(output_index);
    }
    if (event.type === "task.approval.requested")
      approvals.set(event.approval_id, event.call_id ?? "");
    if ("approval_id" in event) {
      add(`approval of ${names.get(approvals.get(event.approval_id) ?? "")}`, clean(event));
    } else if (!("output_index" in event)) add("rest", clean(event));
    else if (!between.has(event.output_index)) add(`item ${event.output_index}`, clean(event));
    else if (event.type === "task.output_item.done") {
      // The display of a child is the child itself.
      const { block_list: _, ...item } = event.item as { block_list?: unknown };
      add(`item ${event.output_index}`, clean(item));
    }
  }
  for (const message of messages) {
    const [block] = message.content;
    if (block?.type === "suspension" || block?.type === "answer" || block?.type === "hint")
      continue;
    const part = block?.type === "tool_result" ? `result of ${names.get(block.id)}` : "messages";
    add(part, clean({ role: message.role, content: message.content }));
  }
  return view;
}

function cleaned(value: unknown, names: ReadonlyMap<string, string>): unknown {
  const text = JSON.stringify(value, (key, inner: unknown) =>
    dropped.has(key) ? undefined : inner,
  );
  const named = text.replaceAll(/call_[0-9A-Z]{26}/g, (id) => names.get(id) ?? id);
  return JSON.parse(named.replaceAll(/ID: \d+/g, "ID"));
}
