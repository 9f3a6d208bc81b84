import { isId, isIndex, isRecord } from "./shape.ts";
import type { Check, TaskState } from "./state.ts";
import { report, show } from "./state.ts";

type Frame = Readonly<Record<string, unknown>>;

/** The numbers of a log event. False when the event is one that was already there, and so says nothing more. */
export function checkNumbers(check: Check, task: TaskState, event: Frame): boolean {
  const { sequence_number: sequence, task_seq: seq } = event;
  const type = event.type as string;
  if (!isIndex(sequence)) report(check, "shape", "sequence_number is not an index");
  if (!isIndex(seq)) report(check, "shape", "task_seq is not an index");
  if (!isIndex(event.created_at)) report(check, "shape", "created_at is not an index");

  const before = isIndex(seq) ? task.seen.get(seq) : undefined;
  if (before !== undefined && before.type === type && before.sequence === sequence) {
    report(check, "duplicate", `${type} ${show(sequence)} was already there`);
    return false;
  }
  if (isIndex(sequence)) checkSequence(check, sequence);
  if (isIndex(seq)) {
    checkTaskSeq(check, task, seq, event.prev_task_seq);
    task.seen.set(seq, { type, sequence });
  }
  return true;
}

function checkSequence(check: Check, sequence: number): void {
  const last = check.lastSequence;
  if (sequence <= last) {
    report(check, "sequence", `sequence_number ${sequence} does not come after ${last}`);
  } else if (sequence !== last + 1 && !check.options.filtered) {
    report(check, "sequence", `sequence_number ${sequence} follows ${last}: some are missing`);
  }
  check.lastSequence = Math.max(last, sequence);
}

function checkTaskSeq(check: Check, task: TaskState, seq: number, previous: unknown): void {
  const last = task.lastSeq;
  task.lastSeq = Math.max(last, seq);
  if (previous !== undefined && previous !== -1 && !isIndex(previous)) {
    report(check, "shape", "prev_task_seq is not an index or -1");
    return;
  }
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
    report(check, "task_seq", `task_seq ${seq} follows ${last}: some of the task are missing`);
  }
}

/** Where an event says it came from (I15), against what its task said before and what its parent says (law 6). */
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
  if (!isRecord(source) || !isId(source.agentId) || !isId(source.path) || !isIndex(source.depth)) {
    report(check, "I15", "source has no agentId, depth and path");
    return;
  }
  const { agentId, depth, path } = source;
  const segments = path.split("/");
  if (depth !== segments.length - 1) {
    report(check, "I15", `source.depth is ${depth}, its path ${show(path)} has another`);
  }
  if (segments.at(-1) !== agentId) {
    report(check, "I15", `source.path ${show(path)} does not end in the agent ${show(agentId)}`);
  }
  if (source.taskId !== undefined && source.taskId !== task.id) {
    report(check, "I15", `source.taskId is ${show(source.taskId)}, not the event's task`);
  }
  if (event.type === "task.created") {
    for (const name of ["agentKey", "sessionId", "parentSessionId", "taskId"]) {
      if (!isId(source[name])) report(check, "I15", `the source of task.created has no ${name}`);
    }
  }
  const first = task.source;
  if (first === undefined) {
    task.source = { agentId, depth, path };
    checkPrefix(check, task);
  } else if (first.agentId !== agentId || first.depth !== depth || first.path !== path) {
    report(
      check,
      "L6",
      `source.path ${show(path)} was ${show(first.path)} on the task's events before`,
    );
  }
}

/** A child's path is its parent's with one level more: ancestors only ever put themselves in front. */
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
      `source.path ${show(path)} is not its parent's ${show(parentPath)} and itself`,
    );
  }
}
