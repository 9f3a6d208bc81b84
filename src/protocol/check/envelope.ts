import { position, sourceRef } from "../grammar/index.ts";
import { isCursor, isIndex, nests, readerOf } from "../shape.ts";
import type { SourceRef } from "../source.ts";
import type { Check, CheckedTask, Frame } from "./checked.ts";
import { report } from "./checked.ts";
import { describeMisfit, misfitOf } from "./misfit.ts";
import { isSame, show } from "./problem.ts";

/** Checks the numbers of a log event; returns false for a repeated event, which needs no further checks. */
export function checkNumbers(check: Check, task: CheckedTask, event: Frame): boolean {
  const { sequence_number: sequence, task_seq: seq } = event;
  const { type } = event;
  const misfit = misfitOf(position, event, {});
  if (misfit !== undefined) report(check, "shape", describeMisfit(type, misfit));

  const before = isIndex(seq) ? task.seen.get(seq) : undefined;
  if (before !== undefined && before.type === type && before.sequence_number === sequence) {
    const isReplayed = check.replayedTo !== undefined && Number(sequence) > check.replayedTo;
    if (!nests(event) || !isSame({ ...before, prev_task_seq: event.prev_task_seq }, event)) {
      report(check, "task_seq", `${type} ${show(sequence)} differs from the one sent before`);
    } else if (isReplayed) check.replayedTo = Number(sequence);
    else report(check, "duplicate", `${type} ${show(sequence)} was already there`);
    return false;
  }
  if (isIndex(sequence)) checkSequence(check, sequence);
  if (isIndex(seq)) {
    const previous = event.prev_task_seq;
    checkTaskSeq(check, task, seq, isCursor(previous) ? previous : undefined);
    task.seen.set(seq, event);
  }
  return true;
}

function checkSequence(check: Check, sequence: number): void {
  const last = check.lastSequence;
  if (sequence < check.oldestSequence) {
    const oldest = `the log begins at ${check.oldestSequence}`;
    report(check, "sequence", `sequence_number ${sequence}, but ${oldest}`);
  } else if (sequence <= last) {
    report(check, "sequence", `sequence_number ${sequence} does not come after ${last}`);
  } else if (sequence !== last + 1 && !check.options.filtered) {
    report(check, "sequence", `sequence_number ${sequence} follows ${last}: events are missing`);
  }
  check.lastSequence = Math.max(last, sequence);
}

function checkTaskSeq(check: Check, task: CheckedTask, seq: number, previous?: number): void {
  const last = task.node.appliedSeq;
  task.node.appliedSeq = Math.max(last, seq);
  if (seq <= last) {
    report(check, "task_seq", `task_seq ${seq} does not come after ${last}`);
    return;
  }
  if (previous !== undefined && previous >= seq) {
    report(check, "task_seq", `prev_task_seq ${previous} is not below task_seq ${seq}`);
    return;
  }
  const expected = check.options.filtered && previous !== undefined ? previous : seq - 1;
  if (expected <= last) return;
  task.hasGap = true;
  report(check, "task_seq", `task_seq ${seq} follows ${last}: events are missing`);
}

/** Checks the source of an event (I15) against earlier events of its task and its parent (L6). */
export function checkSource(check: Check, task: CheckedTask, event: Frame): void {
  const { source } = event;
  const { node } = task;
  const isChild = task.sent.parent_task_id !== undefined || check.children.has(task.id);
  if (source === undefined || source === null) {
    if (isChild || node.source !== undefined)
      report(check, "I15", `an event of the child ${show(task.id)} has no source`);
    return;
  }
  if (!isChild && node.status !== "unknown" && node.source === undefined) {
    report(check, "I15", `an event of the root ${show(task.id)} has a source`);
    return;
  }
  if (readerOf(sourceRef)(source, {}) === undefined) return; // The rule `shape` has reported it.
  const sent = source as SourceRef;
  checkSourceFields(check, task, event, sent);
  if (node.source === undefined) {
    node.source = sent;
    checkParentSource(check, task, sent);
    return;
  }
  for (const [name, before] of Object.entries(node.source)) {
    const now: unknown = sent[name as keyof SourceRef] ?? before;
    if (now !== before)
      report(check, "L6", `source.${name} ${show(now)} was ${show(before)} before`);
  }
}

/** The fields of a source agree with each other and with its event. */
function checkSourceFields(check: Check, task: CheckedTask, event: Frame, sent: SourceRef): void {
  const { agentId, depth, path, taskId } = sent;
  const segments = path.split("/");
  if (depth !== segments.length - 1)
    report(check, "I15", `source.depth is ${depth}, but source.path is ${show(path)}`);
  if (segments.at(-1) !== agentId)
    report(check, "I15", `source.path ${show(path)} does not end in the agent ${show(agentId)}`);
  if ((taskId ?? task.id) !== task.id)
    report(check, "I15", `source.taskId ${show(taskId)} is not the task_id`);
  if (event.type === "task.created") {
    for (const name of ["agentKey", "sessionId", "parentSessionId", "taskId"] as const) {
      if (sent[name] === undefined)
        report(check, "I15", `the source of task.created has no ${name}`);
    }
  }
}

/** The source agrees with the task, with its parent and with what the parent says about the child. */
export function checkParentSource(check: Check, task: CheckedTask, source: SourceRef): void {
  const link = check.children.get(task.id);
  const parent = check.tasks.get(task.sent.parent_task_id ?? link?.parentId ?? "");
  const agent = link?.agent;
  const parentPath = parent && (parent.node.source?.path ?? parent.sent.session_id);
  const expected = [
    ["agentId", task.sent.agent_id],
    ["sessionId", task.sent.session_id],
    ["parentSessionId", parentSession(check, parent, source)],
    ["agentId", agent?.id],
    ["agentKey", agent?.key],
    ["agentName", agent?.name],
    ["path", parentPath && `${parentPath}/${source.agentId}`],
  ] as const;
  for (const [name, value] of expected) {
    const sent = source[name];
    if (sent === undefined || value === undefined || sent === value) continue;
    report(check, "L6", `source.${name} is ${show(sent)}, but task and parent say ${show(value)}`);
  }
}

/**
 * The session of the parent. A forwarded agent has another one where its events are made, and its children name that
 * one: all of them the same, and no session of another task.
 */
function parentSession(check: Check, parent: CheckedTask | undefined, source: SourceRef) {
  if (parent === undefined || source.parentSessionId === undefined) return undefined;
  const isKnown = check.sessionIds.has(source.parentSessionId);
  parent.childSessionId ??= isKnown ? parent.sent.session_id : source.parentSessionId;
  return parent.childSessionId;
}
