import type { LogEvent, Tree } from "rivulet/protocol";

/** What a task does: its model answers, a tool runs, it waits for a child, it waits for a person. */
export type Activity = "model" | "tool" | "wait" | "ask";

/** A stretch of time in which a task does one thing. */
export interface Span {
  readonly kind: Activity;
  readonly from: number;
  /** Undefined while it lasts. */
  to?: number;
  /** The number of the event that it begins with. */
  readonly at: number;
  /** The item of the tool or the call. */
  readonly itemId?: string;
}

/** The spans of one task. */
export interface Lane {
  readonly taskId: string;
  readonly startedAt: number;
  readonly at: number;
  endedAt?: number;
  readonly spans: Span[];
  /** The messages that the task got while it ran, with the number of items before each. */
  readonly hints: Map<string, number>;
}

interface Working extends Lane {
  readonly tools: Map<number, string>;
  readonly children: Set<number>;
  readonly approvals: Set<string>;
  items: number;
  isSuspended: boolean;
}

/** The lanes in the order of the tree: each agent above the agents that it has started. */
export function inTreeOrder(lanes: ReadonlyMap<string, Lane>, { tasks }: Tree): readonly Lane[] {
  const ordered = new Set<Lane>();
  const add = (id: string) => {
    const lane = lanes.get(id);
    if (lane === undefined || ordered.has(lane)) return;
    ordered.add(lane);
    for (const child of tasks[id]?.children ?? []) add(child);
  };
  for (const id of lanes.keys()) add(id); // the root comes first
  return [...ordered];
}

/** Collects the spans of all tasks of a log, event by event. */
export class Spans {
  readonly lanes = new Map<string, Lane>();

  add(event: LogEvent): void {
    const lane = this.lanes.get(event.task_id) as Working | undefined;
    if (event.type === "task.created") {
      if (lane === undefined) this.lanes.set(event.task_id, newLane(event));
      return;
    }
    if (lane === undefined || lane.endedAt !== undefined) return;
    if (note(lane, event)) show(lane, event);
  }
}

function newLane({ task_id: taskId, created_at: startedAt, sequence_number: at }: LogEvent) {
  const lane: Working = {
    ...{ taskId, startedAt, at, spans: [], hints: new Map(), items: 0, isSuspended: true },
    ...{ tools: new Map(), children: new Set(), approvals: new Set() },
  };
  return lane;
}

/** Notes what an event changes; false if it changes nothing that a span shows. */
function note(lane: Working, event: LogEvent): boolean {
  switch (event.type) {
    case "task.in_progress":
    case "task.resumed":
      lane.isSuspended = false;
      return true;
    case "task.suspended":
      lane.isSuspended = true;
      return true;
    case "task.hint.added":
      lane.hints.set(event.hint.id, lane.items);
      return false;
    case "task.output_item.added":
      lane.items = event.output_index + 1;
      if (event.item.type === "tool_result") lane.tools.set(event.output_index, event.item.id);
      return event.item.type === "tool_result";
    case "task.child.started":
      lane.tools.delete(event.output_index);
      if (event.mode === "sync") lane.children.add(event.output_index);
      return true;
    case "task.child.promoted":
      return lane.children.delete(event.output_index);
    case "task.output_item.done":
    case "task.output_item.discarded":
      return lane.tools.delete(event.output_index) || lane.children.delete(event.output_index);
    case "task.approval.requested":
      lane.approvals.add(event.approval_id);
      return true;
    case "task.approval.resolved":
      return lane.approvals.delete(event.approval_id);
    case "task.completed":
    case "task.failed":
    case "task.cancelled":
    case "task.incomplete":
      lane.endedAt = event.created_at;
      return true;
    default:
      return false;
  }
}

function activityOf(lane: Working): Activity | undefined {
  if (lane.endedAt !== undefined) return undefined;
  if (lane.approvals.size > 0) return "ask";
  if (lane.tools.size > 0 && !lane.isSuspended) return "tool";
  if (lane.children.size > 0 || lane.isSuspended) return "wait";
  return "model";
}

function show(lane: Working, { created_at: now, sequence_number: at }: LogEvent): void {
  const kind = activityOf(lane);
  const last = lane.spans.at(-1);
  const [itemId] = kind === "tool" ? lane.tools.values() : [];
  if (last && last.to === undefined) {
    if (last.kind === kind && last.itemId === itemId) return;
    last.to = now;
  }
  if (kind) lane.spans.push({ kind, from: now, at, ...(itemId !== undefined && { itemId }) });
}
