import { position, sourceRef } from "../grammar.ts";
import { isCursor, isIndex, readerOf } from "../shape.ts";
import type { SourceRef } from "../source.ts";
import { describeMisfit, misfitOf } from "./misfit.ts";
import type { Check, Frame, TaskState } from "./state.ts";
import { report, show } from "./state.ts";

/** Checks the numbers of a log event; returns false for a repeated event, which needs no further checks. */
export function checkNumbers(check: Check, task: TaskState, event: Frame): boolean {
  const { sequence_number: sequence, task_seq: seq } = event;
  const { type } = event;
  const misfit = misfitOf(position, event, {});
  if (misfit !== undefined) report(check, "shape", describeMisfit(type, misfit));

  const before = isIndex(seq) ? task.seen.get(seq) : undefined;
  if (before !== undefined && before.type === type && before.sequence === sequence) {
    report(check, "duplicate", `${type} ${show(sequence)} was already there`);
    return false;
  }
  if (isIndex(sequence)) checkSequence(check, sequence);
  if (isIndex(seq)) {
    const previous = event.prev_task_seq;
    checkTaskSeq(check, task, seq, isCursor(previous) ? previous : undefined);
    task.seen.set(seq, { type, sequence });
  }
  return true;
}

function checkSequence(check: Check, sequence: number): void {
  const last = check.lastSequence;
  if (sequence <= last) {
    report(check, "sequence", `sequence_number ${sequence} does not come after ${last}`);
  } else if (sequence !== last + 1 && !check.options.filtered) {
    report(check, "sequence", `sequence_number ${sequence} follows ${last}: events are missing`);
  }
  check.lastSequence = Math.max(last, sequence);
}

function checkTaskSeq(check: Check, task: TaskState, seq: number, previous?: number): void {
  const last = task.lastSeq;
  task.lastSeq = Math.max(last, seq);
  if (seq <= last) {
    report(check, "task_seq", `task_seq ${seq} does not come after ${last}`);
    return;
  }
  if (previous !== undefined && previous >= seq) {
    report(check, "task_seq", `prev_task_seq ${previous} is not below task_seq ${seq}`);
    return;
  }
  const expected = check.options.filtered && previous !== undefined ? previous : seq - 1;
  if (expected > last) {
    report(check, "task_seq", `task_seq ${seq} follows ${last}: events are missing`);
  }
}

/** Checks the source of an event (I15) against earlier events of its task and its parent (law 6). */
export function checkSource(check: Check, task: TaskState, event: Frame): void {
  const { source } = event;
  const isChild = task.parentId !== undefined || check.children.has(task.id);
  if (source === undefined || source === null) {
    if (isChild || task.source !== undefined) {
      report(check, "I15", `an event of the child ${show(task.id)} has no source`);
    }
    return;
  }
  if (!isChild && task.status !== undefined && task.source === undefined) {
    report(check, "I15", `an event of the root ${show(task.id)} has a source`);
    return;
  }
  if (readerOf(sourceRef)(source, {}) === undefined) return; // The rule `shape` has reported it.
  const { agentId, depth, path, taskId } = source as SourceRef;
  const segments = path.split("/");
  if (depth !== segments.length - 1) {
    report(check, "I15", `source.depth is ${depth}, but source.path is ${show(path)}`);
  }
  if (segments.at(-1) !== agentId) {
    report(check, "I15", `source.path ${show(path)} does not end in the agent ${show(agentId)}`);
  }
  if ((taskId ?? task.id) !== task.id) {
    report(check, "I15", `source.taskId ${show(taskId)} is not the task_id`);
  }
  if (event.type === "task.created") {
    for (const name of ["agentKey", "sessionId", "parentSessionId", "taskId"] as const) {
      if ((source as SourceRef)[name] === undefined)
        report(check, "I15", `the source of task.created has no ${name}`);
    }
  }
  const first = task.source;
  if (first === undefined) {
    task.source = { agentId, depth, path };
    checkPrefix(check, task);
  } else if (first.agentId !== agentId || first.depth !== depth || first.path !== path) {
    report(check, "L6", `source.path ${show(path)} was ${show(first.path)} before`);
  }
}

/** The path of a child is the path of its parent and its own agent id. */
function checkPrefix(check: Check, task: TaskState): void {
  const parentId = task.parentId ?? check.children.get(task.id)?.parentId;
  const parent = parentId === undefined ? undefined : check.tasks.get(parentId);
  if (parent === undefined || task.source === undefined) return;
  const parentPath = parent.source?.path ?? parent.sessionId;
  const { agentId, path } = task.source;
  if (parentPath !== undefined && path !== `${parentPath}/${agentId}`) {
    report(
      check,
      "L6",
      `source.path ${show(path)} does not extend the parent's ${show(parentPath)}`,
    );
  }
}
