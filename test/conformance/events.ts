import type { Frame } from "./kit.ts";

/** Numbers events as a log would; those without `task_id` belong to the root. */
export function numbered(...events: readonly Frame[]): Frame[] {
  const perTask = new Map<unknown, number>();
  return events.map((event, sequence_number) => {
    const { type, task_id = "task_r", ...rest } = event;
    const task_seq = perTask.get(task_id) ?? 0;
    perTask.set(task_id, task_seq + 1);
    return { type, task_id, sequence_number, task_seq, created_at: 1_763_236_800_000, ...rest };
  });
}

/** The first event of a task. */
export const created = (id = "task_r", more: Frame = {}): Frame => ({
  type: "task.created",
  task_id: id,
  task: { id, object: "task", status: "queued", agent_id: "main", session_id: "sess-1", ...more },
});
/** An event that sets the status of a task. */
export const lifecycle = (status: string, more: Frame = {}, id = "task_r"): Frame => ({
  type: `task.${status}`,
  task_id: id,
  task: { id, object: "task", status, ...more },
});
export const begin: readonly Frame[] = [created(), lifecycle("in_progress")];
export const end: Frame = lifecycle("completed");

/** An item opens. */
export const added = (output_index: number, item: Frame, more: Frame = {}): Frame => ({
  type: "task.output_item.added",
  output_index,
  item: { status: "in_progress", ...item },
  ...more,
});
/** An item closes. */
export const done = (output_index: number, item: Frame, more: Frame = {}): Frame => ({
  type: "task.output_item.done",
  output_index,
  item: { status: "completed", ...item },
  ...more,
});
export const message = (id = "msg_1"): Frame => ({
  type: "message",
  id,
  role: "assistant",
  block_list: [],
});
export const call = (id: string, call_id: string, more: Frame = {}): Frame => ({
  type: "tool_call",
  id,
  call_id,
  name: "search",
  arguments: "",
  ...more,
});
export const result = (id: string, call_id: string, more: Frame = {}): Frame => ({
  type: "tool_result",
  id,
  call_id,
  block_list: [],
  ...more,
});
/** An event of block `block_index` of an item. */
export const onBlock = (type: string, output_index: number, block_index: number, more: Frame) => ({
  type: `task.${type}`,
  item_id: "msg_1",
  output_index,
  block_index,
  ...more,
});
export const delta = (text: string, block_index = 0, output_index = 0): Frame =>
  onBlock("text.delta", output_index, block_index, { delta: text });
export const textBlock = (text: string, more: Frame = {}): Frame => ({
  type: "text",
  text,
  ...more,
});
export const textDone = (text: string, block_index = 0, output_index = 0): Frame =>
  onBlock("text.done", output_index, block_index, { item: textBlock(text) });
export const textAdded = (block_index = 0, output_index = 0): Frame =>
  onBlock("text.added", output_index, block_index, { item: textBlock("") });
export const custom = (value: unknown, name = "app.step", task_id = "task_r"): Frame => ({
  type: "task.custom",
  task_id,
  name,
  value,
});
/** A child as its parent announces it. */
export const started = (
  child: string,
  output_index: number,
  item_id: string,
  more: Frame = {},
): Frame => ({
  type: "task.child.started",
  child_task_id: child,
  call_id: child,
  item_id,
  output_index,
  mode: "sync",
  agent: { id: "helper", key: "agent:helper:1" },
  ...more,
});
export const finished = (
  child: string,
  output_index: number,
  item_id: string,
  more: Frame = {},
): Frame => ({
  type: "task.child.finished",
  child_task_id: child,
  call_id: child,
  item_id,
  output_index,
  status: "completed",
  ...more,
});
/** The place of a child of the root in the tree of agents. */
const source = (taskId: string): Frame => ({
  agentKey: "agent:helper:1",
  agentId: "helper",
  agentName: "Helper",
  sessionId: "sub-1",
  parentSessionId: "sess-1",
  depth: 1,
  path: "sess-1/helper",
  taskId,
});
/** The first event of a child of the root. */
export const childCreated = (id: string, item_id: string, more: Frame = {}): Frame => ({
  ...created(id, {
    agent_id: "helper",
    session_id: "sub-1",
    parent_task_id: "task_r",
    parent_call_id: id,
    parent_item_id: item_id,
    mode: "sync",
    ...more,
  }),
  source: source(id),
});

/** A root that calls a tool which is a child; the child says one sentence. */
export const withChild: readonly Frame[] = [
  ...begin,
  added(0, call("fc_1", "call_1")),
  done(0, call("fc_1", "call_1", { arguments: "{}" })),
  added(1, result("fco_1", "call_1")),
  started("call_1", 1, "fco_1"),
  childCreated("call_1", "fco_1"),
  { ...lifecycle("in_progress", {}, "call_1") },
  { ...added(0, message("msg_c")), task_id: "call_1" },
  { ...textDone("I am the child."), item_id: "msg_c", task_id: "call_1" },
  {
    ...done(0, { ...message("msg_c"), block_list: [textBlock("I am the child.")] }),
    task_id: "call_1",
  },
  lifecycle(
    "completed",
    { usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 } },
    "call_1",
  ),
  finished("call_1", 1, "fco_1"),
  done(1, { type: "tool_result", id: "fco_1", call_id: "call_1", child_task_id: "call_1" }),
  added(2, message()),
  textDone("It is done.", 0, 2),
  done(2, { ...message(), block_list: [textBlock("It is done.")] }),
  end,
].map((event) =>
  event.task_id === "call_1" && event.source === undefined
    ? { ...event, source: { agentId: "helper", depth: 1, path: "sess-1/helper" } }
    : event,
);
