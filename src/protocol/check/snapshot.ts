import type { StreamFrame, TaskSnapshot } from "../event.ts";
import { TaskTree } from "../reduce.ts";
import type { Task } from "../task.ts";
import { isTerminal } from "../task.ts";
import { checkSource } from "./envelope.ts";
import { rememberItem } from "./items.ts";
import { checkEnded, checkRoot } from "./lifecycle.ts";
import type { Check, Frame, TaskState } from "./state.ts";
import { isSame, report, show, taskState } from "./state.ts";

/** Compares a snapshot with the frames before it; replaces the state of its task unless that is newer. */
export function checkSnapshot(check: Check, event: TaskSnapshot): void {
  const through = event.through_sequence_number;
  const task = check.tasks.get(event.task_id);
  check.lenient = true;
  if ((check.snapshotSequence ?? through) !== through)
    report(check, "snapshot", `the snapshot before is through ${check.snapshotSequence}`);
  if (check.snapshotSequence === undefined) check.eventSequence = check.lastSequence;
  check.snapshotSequence = through;
  if (through < check.lastSequence) check.replayedTo = through;
  if (task !== undefined && !check.options.filtered) {
    checkCursor(check, task, event);
    checkContents(check, event);
  }
  check.unfolded.push(event);
  if ((task?.lastSeq ?? -1) <= event.through_task_seq) takeSnapshot(check, event);
  check.lastSequence = Math.max(check.lastSequence, through);
}

/** The numbers agree with the events that the stream has had. */
function checkCursor(check: Check, task: TaskState, event: TaskSnapshot): void {
  const { through_sequence_number: through, through_task_seq: seq } = event;
  const last = task.seen.get(seq)?.sequence_number;
  const next = task.seen.get(seq + 1)?.sequence_number;
  const isMissing = through <= check.eventSequence && seq > task.lastSeq;
  if (Number(last) > through || Number(next) <= through || isMissing)
    report(check, "snapshot", `task_seq ${seq} is not the last one up to ${through}`);
}

/** The fields that events of the parent set. */
const linkFields: readonly string[] = ["mode", "parentOutputIndex", "remote"];

/** The task of the snapshot is the one that the frames up to it make, or an earlier or later state of it. */
function checkContents(check: Check, event: TaskSnapshot): void {
  check.tree.apply(check.unfolded);
  check.unfolded = [];
  const known = check.tree.task(event.task_id);
  const sent = new TaskTree().apply(event as StreamFrame).task(event.task_id);
  if (known === undefined || sent === undefined || known.parked !== undefined) return;
  const seq = event.through_task_seq;
  if (seq !== known.appliedSeq) {
    const [earlier, later] = seq < known.appliedSeq ? [sent, known] : [known, sent];
    const problem = contradiction(earlier, later);
    if (problem) report(check, "snapshot", `${problem} contradicts the other frames`);
    return;
  }
  const isSameCursor = event.through_sequence_number === check.eventSequence;
  const { children: _, ...left } = known;
  const { children: __, ...right } = sent;
  const differs = Object.keys({ ...left, ...right }).find(
    (name) =>
      !(linkFields.includes(name) && !isSameCursor) &&
      !isSame(left[name as "id"], right[name as "id"]),
  );
  if (differs) report(check, "snapshot", `${differs} differs from the frames up to the snapshot`);
}

/** Contradictions between an earlier and a later state of a task. */
function contradiction(earlier: Task, later: Task): string | undefined {
  const kept = [
    "agentId",
    "sessionId",
    "parentTaskId",
    "callId",
    "parentItemId",
    "source",
  ] as const;
  const changed = kept.find((name) => !isSame(earlier[name], later[name]));
  if (changed) return changed;
  if (isTerminal(earlier.status)) return "the end of the task";
  if ((earlier.usage?.total_tokens ?? 0) > (later.usage?.total_tokens ?? 0)) return "usage";
  for (const [at, item] of earlier.output.entries()) {
    const now = later.output[at];
    const isFixed = item.status !== "in_progress" && now?.type !== "discarded";
    const isOther = now?.type !== "discarded" && now?.type !== item.type;
    if (now?.id !== item.id || isOther || (isFixed && !isSame(item, now))) return show(item.id);
  }
  const decisions = new Map(later.approvals.map((approval) => [approval.approval_id, approval]));
  for (const { approval_id: id, decision } of earlier.approvals) {
    const now = decisions.get(id);
    if (now === undefined || (decision ?? now.decision) !== now.decision) return show(id);
  }
  return undefined;
}

function takeSnapshot(check: Check, event: TaskSnapshot): void {
  const { task: sent } = event;
  const seen = check.tasks.get(event.task_id)?.seen ?? [];
  check.tasks.delete(event.task_id);
  const task = taskState(check, event.task_id);
  for (const [seq, frame] of seen) task.seen.set(seq, frame);
  task.status = sent.status;
  task.ended = isTerminal(sent.status);
  task.lastSeq = event.through_task_seq;
  task.sent = sent;
  check.sessionIds.add(sent.session_id ?? "");
  task.parentId = sent.parent_task_id;
  task.parentItemId = sent.parent_item_id;
  // The parent may have promoted the child after an older snapshot.
  const link = check.children.get(task.id);
  task.mode = link?.mode === "background" ? "background" : sent.mode;
  if (sent.parent_task_id === undefined) checkRoot(check, task);
  else if (sent.parent_item_id !== undefined) {
    check.children.set(task.id, {
      parentId: sent.parent_task_id,
      itemId: sent.parent_item_id,
      index: check.index,
      finished: false,
      ...link,
      mode: task.mode ?? "sync",
    });
  }
  task.usage = sent.usage;
  for (const [at, item] of (sent.output ?? []).entries()) {
    if (item.type === "omitted") continue;
    if (task.itemById.has(item.id)) report(check, "A9", `the task has an item ${show(item.id)}`);
    const state = rememberItem(check, task, at, item);
    if (item.type === "discarded") state.state = "discarded";
    else if (item.status !== "in_progress") state.state = "done";
    state.isCompleted = item.status === "completed";
  }
  for (const { approval_id, decision } of sent.approvals ?? []) {
    check.approvals.set(approval_id, { taskId: task.id, resolved: decision !== undefined });
    if (decision === undefined) task.pending.add(approval_id);
  }
  if (task.ended) checkEnded(check, task, sent.status);
  checkSource(check, task, event as unknown as Frame);
}
