import type { StreamFrame, TaskSnapshot } from "../event.ts";
import { taskFrom } from "../fold/draft.ts";
import { foldSnapshot } from "../fold/task.ts";
import { TaskTree } from "../reduce.ts";
import type { Task } from "../task.ts";
import { isTerminal } from "../task.ts";
import type { AnyItem, Check, CheckedTask, Frame } from "./checked.ts";
import { addTask, hasEnded, report } from "./checked.ts";
import { checkSource } from "./envelope.ts";
import { rememberItem } from "./items.ts";
import { checkEnded, checkRoot } from "./lifecycle.ts";
import { isSame, show } from "./problem.ts";

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
    checkContents(check, task, event);
  }
  if ((task?.node.appliedSeq ?? -1) <= event.through_task_seq) takeSnapshot(check, event);
  check.lastSequence = Math.max(check.lastSequence, through);
}

/** The numbers agree with the events that the stream has had. */
function checkCursor(check: Check, task: CheckedTask, event: TaskSnapshot): void {
  const { through_sequence_number: through, through_task_seq: seq } = event;
  const last = task.seen.get(seq)?.sequence_number;
  const next = task.seen.get(seq + 1)?.sequence_number;
  const isMissing = through <= check.eventSequence && seq > task.node.appliedSeq;
  if (Number(last) > through || Number(next) <= through || isMissing)
    report(check, "snapshot", `task_seq ${seq} is not the last one up to ${through}`);
}

/** The fields that events of the parent set. */
const linkFields: readonly string[] = ["mode", "parentOutputIndex", "remote"];

/** The task of the snapshot is the one that the frames up to it make, or an earlier or later state of it. */
function checkContents(check: Check, task: CheckedTask, event: TaskSnapshot): void {
  if (task.hasGap) return;
  const known = taskFrom(task.node);
  const sent = new TaskTree().apply(event as StreamFrame).task(event.task_id);
  if (sent === undefined) return;
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
  return otherItem(earlier, later) ?? otherApproval(earlier, later);
}

/** An item that is gone, or changed although it was done. */
function otherItem(earlier: Task, later: Task): string | undefined {
  for (const [at, item] of earlier.output.entries()) {
    const now = later.output[at];
    const isFixed = item.status !== "in_progress" && now?.type !== "discarded";
    const isOther = now?.type !== "discarded" && now?.type !== item.type;
    if (now?.id !== item.id || isOther || (isFixed && !isSame(item, now))) return show(item.id);
  }
  return undefined;
}

/** An approval that is gone, or was decided otherwise. */
function otherApproval(earlier: Task, later: Task): string | undefined {
  const decisions = new Map(later.approvals.map((approval) => [approval.approval_id, approval]));
  for (const { approval_id: id, decision } of earlier.approvals) {
    const now = decisions.get(id);
    if (now === undefined || (decision ?? now.decision) !== now.decision) return show(id);
  }
  return undefined;
}

function takeSnapshot(check: Check, event: TaskSnapshot): void {
  const { task: sent } = event;
  const task = addTask(check, event.task_id);
  const { source: _, ...frame } = event;
  foldSnapshot(check.draft, frame, check.options);
  task.sent = sent;
  check.sessionIds.add(sent.session_id ?? "");
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
  for (const [at, item] of (sent.output ?? []).entries()) {
    if (item.type === "omitted") continue;
    if (task.itemAt.has(item.id)) report(check, "A9", `the task has an item ${show(item.id)}`);
    rememberItem(check, task, at, item as AnyItem);
  }
  for (const { approval_id, decision } of sent.approvals ?? []) {
    check.approvals.set(approval_id, { taskId: task.id, resolved: decision !== undefined });
  }
  if (hasEnded(task)) checkEnded(check, task, sent.status);
  checkSource(check, task, event as unknown as Frame);
}
