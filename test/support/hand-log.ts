import { type CheckOptions, checkStream } from "../../src/protocol/check/check.ts";

export type Fields = Readonly<Record<string, unknown>>;

export type Entry = readonly [type: string, fields?: Fields];

export function log(...events: readonly Entry[]): Fields[] {
  return numbered(events);
}

/** Numbers events; those without `task_id` belong to the root. */
export function numbered(events: readonly Entry[]): Fields[] {
  const sent = new Map<unknown, number>();
  return events.map(([type, fields = {}], sequence_number) => {
    const { task_id = "task_r", ...rest } = fields;
    const task_seq = sent.get(task_id) ?? 0;
    sent.set(task_id, task_seq + 1);
    return { type: `task.${type}`, task_id, sequence_number, task_seq, created_at: 0, ...rest };
  });
}

export const task = (status: string, more: Fields = {}) => ({
  task: { id: "task_r", object: "task", status, ...more },
});
export const begin = [
  ["created", task("queued", { session_id: "sess-1" })],
  ["in_progress", task("in_progress")],
] as const;
export const end = ["completed", task("completed")] as const;
const at = { item_id: "msg_1", output_index: 0 };
export const block = { ...at, block_index: 0 };
export const message = (status: string, ...block_list: readonly unknown[]) => ({
  output_index: 0,
  item: { type: "message", id: "msg_1", role: "assistant", status, block_list },
});
export const open = ["output_item.added", message("in_progress")] as const;
export const text = (value: string, more: Fields = {}) => ({ type: "text", text: value, ...more });

const sourceOf = (taskId: string) => ({
  agentKey: "agent:helper:1",
  agentId: "helper",
  sessionId: "sub-1",
  parentSessionId: "sess-1",
  taskId,
  depth: 1,
  path: "sess-1/helper",
});
/** The events of a root and its sync child, from the call to the end. */
export function withChild(id: string, links: Fields = {}): (readonly [string, Fields?])[] {
  const source = sourceOf(id);
  const call = { type: "tool_call", id: "fc_1", call_id: id, name: "agent_spawn" };
  const result = { type: "tool_result", id: "fco_1", call_id: id };
  const child = { child_task_id: id, call_id: id, item_id: "fco_1", output_index: 1 };
  const item = (type: string, output_index: number, fields: Fields) =>
    [`output_item.${type}`, { output_index, item: fields }] as const;
  const own = (status: string) => ({
    task_id: id,
    source,
    task: { id, object: "task", status, ...(status === "queued" && { ...parent, ...links }) },
  });
  const parent = {
    parent_task_id: "task_r",
    parent_call_id: id,
    parent_item_id: "fco_1",
    mode: "sync",
  };
  return [
    ...begin,
    item("added", 0, { ...call, status: "in_progress", arguments: "" }),
    item("done", 0, { ...call, status: "completed", arguments: "{}" }),
    item("added", 1, { ...result, status: "in_progress", block_list: [] }),
    ["child.started", { ...child, mode: "sync", agent: { id: "helper", key: "agent:helper:1" } }],
    ["created", own("queued")],
    ["in_progress", own("in_progress")],
    ["completed", own("completed")],
    ["child.finished", { ...child, status: "completed" }],
    item("done", 1, { ...result, status: "completed", child_task_id: id }),
    end,
  ];
}

export const found = (events: Iterable<unknown>, options?: CheckOptions) =>
  checkStream(events, options).map(({ index, rule }) => [index, rule]);
