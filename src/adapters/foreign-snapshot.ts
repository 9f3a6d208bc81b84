import {
  type Item,
  isTerminal,
  type LogEvent,
  type SnapshotTask,
  snapshotOf,
  type TaskSnapshot,
  type Tree,
  taskOf,
  type WireBlock,
} from "../protocol/index.ts";

type Envelope = Pick<LogEvent, "task_id" | "sequence_number" | "task_seq" | "created_at">;
type Entry = { readonly item_id: string; readonly output_index: number };
/** Events of the tasks that a result holds. */
type Inside = (outputIndex: number) => readonly LogEvent[];

/**
 * The events that lead to a snapshot, each text in one piece: what a translator of events says about a task whose first
 * events it has not read. Discarded items and decided approvals have none.
 */
export function unfold(snapshot: TaskSnapshot): readonly LogEvent[] {
  return eventsOf(snapshot, () => []);
}

/** The events that lead to a task of a tree and all its descendants; those of a child stand inside its call. */
export function unfoldTree(tree: Tree, taskId: string): readonly LogEvent[] {
  const snapshot = snapshotOf(tree, taskId, { sequenceNumber: tree.safeCursor, createdAt: 0 });
  const { children = [] } = taskOf(tree, taskId) ?? {};
  if (snapshot === undefined) return [];
  const childrenAt = Map.groupBy(children, (id) => taskOf(tree, id)?.parentOutputIndex ?? -1);
  const inside = (index: number) =>
    (childrenAt.get(index) ?? []).flatMap((id) => unfoldTree(tree, id));
  return eventsOf(snapshot, inside);
}

function eventsOf(snapshot: TaskSnapshot, inside: Inside): readonly LogEvent[] {
  const { task, source, created_at } = snapshot;
  const at: Envelope = {
    ...{ task_id: task.id, created_at, ...(source && { source }) },
    sequence_number: Math.max(0, snapshot.through_sequence_number),
    task_seq: Math.max(0, snapshot.through_task_seq),
  };
  const { output = [], status } = task;
  const events: LogEvent[] = [{ ...at, type: "task.created", task: { ...task, status: "queued" } }];
  if (status !== "queued")
    events.push({ ...at, type: "task.in_progress", task: { ...task, status: "in_progress" } });
  for (const [index, item] of output.entries()) events.push(...itemEvents(at, index, item, inside));
  for (const { decision, ...asked } of task.approvals ?? [])
    if (decision === undefined) events.push({ ...at, type: "task.approval.requested", ...asked });
  return [...events, ...restEvents(at, task)];
}

/** The events of how a task stands: waiting or ended. */
function restEvents(at: Envelope, task: SnapshotTask): readonly LogEvent[] {
  const { status, suspension } = task;
  if (status === "suspended")
    return [
      {
        ...at,
        type: "task.suspended",
        ...(suspension ?? { reason: "approval" as const }),
      },
    ];
  if (!isTerminal(status)) return [];
  return [{ ...at, type: `task.${status}`, task: { ...task, status } } as LogEvent];
}

function itemEvents(at: Envelope, index: number, item: Item, inside: Inside): readonly LogEvent[] {
  if (item.type === "discarded" || item.type === "omitted") return [];
  const entry = { item_id: item.id, output_index: index };
  const events: LogEvent[] = [
    { ...at, type: "task.output_item.added", output_index: index, item: opened(item) },
    ...partEvents(at, entry, item),
  ];
  if (item.type === "tool_result") events.push(...inside(index));
  if (item.status === "in_progress") return events;
  return [...events, { ...at, type: "task.output_item.done", output_index: index, item }];
}

/** An item as it opens: its lists are empty. */
function opened(item: Item): Item {
  switch (item.type) {
    case "reasoning":
      return { ...item, status: "in_progress", summary: [] };
    case "tool_call":
      return { ...item, status: "in_progress", arguments: "" };
    case "message":
    case "tool_result":
      return { ...item, status: "in_progress", block_list: [] };
    default:
      return item;
  }
}

function partEvents(at: Envelope, entry: Entry, item: Item): readonly LogEvent[] {
  switch (item.type) {
    case "reasoning":
      return [
        ...item.summary.flatMap((part, summary_index) =>
          summaryEvents(at, { ...entry, summary_index }, part.text, part.status === undefined),
        ),
        ...(item.content ?? []).flatMap(({ text, status }, content_index): readonly LogEvent[] => {
          const place = { ...at, ...entry, content_index };
          const delta = { ...place, type: "task.reasoning_text.delta", delta: text } as const;
          return status === undefined
            ? [delta, { ...place, type: "task.reasoning_text.done", text }]
            : [delta];
        }),
      ];
    case "tool_call":
      return callEvents(at, entry, item.arguments, item.status !== "in_progress");
    case "message":
    case "tool_result":
      return item.block_list.flatMap((block, block_index) =>
        blockEvents(at, { ...entry, block_index }, block),
      );
    default:
      return [];
  }
}

function summaryEvents(
  at: Envelope,
  entry: Entry & { readonly summary_index: number },
  text: string,
  isComplete: boolean,
): readonly LogEvent[] {
  const item = { type: "text", text } as const;
  const place = { ...at, ...entry };
  const events: LogEvent[] = [
    { ...place, type: "task.reasoning_summary_item.added", item: { ...item, text: "" } },
  ];
  if (text !== "")
    events.push({ ...place, type: "task.reasoning_summary_text.delta", delta: text });
  if (isComplete) events.push({ ...place, type: "task.reasoning_summary_item.done", item });
  return events;
}

function callEvents(
  at: Envelope,
  entry: Entry,
  input: string,
  isComplete: boolean,
): readonly LogEvent[] {
  const place = { ...at, ...entry };
  const events: LogEvent[] = [];
  if (input !== "") events.push({ ...place, type: "task.tool_call_arguments.delta", delta: input });
  if (isComplete)
    events.push({ ...place, type: "task.tool_call_arguments.done", arguments: input });
  return events;
}

function blockEvents(
  at: Envelope,
  entry: Entry & { readonly block_index: number },
  block: WireBlock,
): readonly LogEvent[] {
  const place = { ...at, ...entry };
  const isComplete = block.status === undefined;
  if (block.type === "text") {
    const { text, annotations, ...rest } = block;
    const events: LogEvent[] = [{ ...place, type: "task.text.added", item: { ...rest, text: "" } }];
    if (text !== "") events.push({ ...place, type: "task.text.delta", delta: text });
    if (isComplete) events.push({ ...place, type: "task.text.done", item: block });
    return events;
  }
  if (!isComplete || block.type === "task" || block.type === "omitted") return [];
  return block.type === "image"
    ? [{ ...place, type: "task.image.done", item: block }]
    : [{ ...place, type: "task.block.done", item: block }];
}
