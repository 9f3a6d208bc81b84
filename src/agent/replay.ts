import type { LogEvent, TaskEvent, TaskSnapshot } from "../protocol/event.ts";
import type { Item, SnapshotTask } from "../protocol/task.ts";
import { isTerminal } from "../protocol/task.ts";
import type { EventBody } from "./emit.ts";

/**
 * Snapshots for those who go by events: each is followed by what a log could have said to come to it, and a child's
 * events stand within the call that started it. Text comes in one piece, turns without calls between them as one.
 */
export function replay(snapshots: readonly TaskSnapshot[]): readonly TaskEvent[] {
  const left = new Map(snapshots.map((snapshot) => [snapshot.task_id, snapshot]));
  const events: TaskEvent[] = [];

  function replayTask(taskId: string): void {
    const snapshot = left.get(taskId);
    if (snapshot === undefined) return;
    left.delete(taskId);
    events.push(snapshot);
    const tell = (body: EventBody) => events.push(eventOf(snapshot, body));
    let turn: "none" | "open" | "closed" = "none";
    for (const [index, item] of (snapshot.task.output ?? []).entries()) {
      if (item.type === "discarded" || item.type === "omitted") continue;
      if (item.type !== "tool_result") {
        if (turn !== "open") turn = item.status === "in_progress" ? "open" : "closed";
      } else if (turn !== "none") {
        tell(turnDone(snapshot.task));
        turn = "none";
      }
      tell({ type: "task.output_item.added", output_index: index, item });
      const text = shownText(item);
      const at = { item_id: item.id, output_index: index, block_index: 0 };
      if (text !== "") tell({ type: "task.text.delta", ...at, delta: text });
      if (item.type === "tool_result" && item.child_task_id) replayTask(item.child_task_id);
      if (item.status === "in_progress") continue;
      tell({ type: "task.output_item.done", output_index: index, item });
    }
    if (turn === "closed") tell(turnDone(snapshot.task));
    for (const approval of snapshot.task.approvals ?? []) {
      if (approval.decision !== undefined) continue;
      const { call_id = "", name = "", arguments: input = "{}" } = approval;
      tell({ type: "task.approval.requested", ...approval, call_id, name, arguments: input });
    }
    tellRest(snapshot.task, tell);
  }

  for (const { task_id } of snapshots) replayTask(task_id);
  return events;
}

/** What the chunks of an item have shown; of a result that is there whole, nothing was chunks. */
function shownText(item: Item): string {
  if (item.type === "reasoning") {
    const parts = item.summary.length > 0 ? item.summary : (item.content ?? []);
    return parts.map(({ text }) => text).join("");
  }
  const isShown = item.type === "message" || item.status === "in_progress";
  if (!isShown || !("block_list" in item)) return "";
  return item.block_list.map((block) => (block.type === "text" ? block.text : "")).join("");
}

function turnDone({ usage }: SnapshotTask): EventBody {
  const none = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };
  return { type: "task.usage", cumulative: true, usage: usage ?? none };
}

function tellRest(task: SnapshotTask, tell: (body: EventBody) => void): void {
  const { status, suspension, generate_reason } = task;
  if (isTerminal(status)) tell({ type: `task.${status}`, task } as EventBody);
  else if (status === "suspended" && suspension !== undefined) {
    tell({
      type: "task.suspended",
      ...suspension,
      ...(generate_reason && { generate_reason }),
    });
  }
}

function eventOf(snapshot: TaskSnapshot, body: EventBody): LogEvent {
  const { task_id, created_at, source, through_sequence_number, through_task_seq } = snapshot;
  return {
    ...body,
    task_id,
    sequence_number: through_sequence_number,
    task_seq: through_task_seq,
    created_at,
    ...(source && { source }),
  } as LogEvent;
}
