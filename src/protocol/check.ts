import { checkApproval, checkChild, checkInside } from "./check/children.ts";
import { checkEnd } from "./check/end.ts";
import { checkNumbers, checkSource } from "./check/envelope.ts";
import { checkControl } from "./check/frame.ts";
import { checkItem } from "./check/items.ts";
import { checkBegun, checkLifecycle, checkUsage } from "./check/lifecycle.ts";
import type { Problem } from "./check/rule.ts";
import { isId, isKnownType, isRecord, shapeFault } from "./check/shape.ts";
import { takeSnapshot } from "./check/snapshot.ts";
import type { Check, CheckOptions, TaskState } from "./check/state.ts";
import { report, show, taskState } from "./check/state.ts";
import type { ControlFrame, LogEvent, TaskSnapshot } from "./event.ts";

export type { Problem, Rule } from "./check/rule.ts";
export type { CheckOptions } from "./check/state.ts";

/**
 * Finds what is wrong with a stream, whoever made it. Never throws, whatever the list holds; a stream in order is an
 * empty list. Problems come in the order of the events they are about. docs/protocol/check-stream.md has the rules.
 */
export function checkStream(
  events: Iterable<unknown>,
  options: CheckOptions = {},
): readonly Problem[] {
  const check: Check = {
    options,
    problems: [],
    index: -1,
    lenient: options.filtered ?? false,
    lastSequence: -1,
    rootId: undefined,
    closed: false,
    tasks: new Map(),
    children: new Map(),
    approvals: new Map(),
    callIds: new Set(),
    results: new Map(),
  };
  for (const event of events) {
    check.index++;
    checkFrame(check, event);
  }
  checkEnd(check);
  return check.problems.sort((one, other) => one.index - other.index);
}

function checkFrame(check: Check, frame: unknown): void {
  if (!isRecord(frame) || !isId(frame.type)) {
    report(check, "I1", isRecord(frame) ? "no type" : `${show(frame)} is not an event`);
    return;
  }
  const { type } = frame;
  const fault = isKnownType(type) ? shapeFault(frame, type) : undefined;
  if (fault !== undefined) report(check, "shape", `${type}: ${fault}`);
  if (type.startsWith("stream.")) {
    if (fault === undefined) checkControl(check, frame as unknown as ControlFrame);
    return;
  }
  if (check.closed) report(check, "frame", `${show(type)} after stream.closed`);
  if (type === "error" && frame.task_id === undefined) return;
  if (!isId(frame.task_id)) report(check, "I1", `${show(type)} has no task_id`);
  else if (type === "task.snapshot") {
    if (fault !== undefined) return;
    checkSource(check, takeSnapshot(check, frame as unknown as TaskSnapshot), frame);
  } else if (type !== "error") {
    checkTask(check, taskState(check, frame.task_id), frame, fault === undefined);
  }
}

/** An event of a log; its contents are looked at only when their shape is in order. */
function checkTask(
  check: Check,
  task: TaskState,
  event: Readonly<Record<string, unknown>>,
  inShape: boolean,
): void {
  const type = event.type as string;
  const { legacy } = check.options;
  task.lastIndex = check.index;
  if (!legacy) {
    if (!checkNumbers(check, task, event)) return;
    if (task.ended) {
      report(check, "L3", `${show(type)} after the end of ${show(task.id)}`);
      return;
    }
    checkBegun(check, task, type);
  }
  if (inShape && isKnownType(type)) checkEvent(check, task, event as unknown as LogEvent);
  if (!legacy) checkSource(check, task, event);
  checkInside(check, task);
}

function checkEvent(check: Check, task: TaskState, event: LogEvent): void {
  switch (event.type) {
    case "task.created":
    case "task.in_progress":
    case "task.suspended":
    case "task.resumed":
    case "task.completed":
    case "task.failed":
    case "task.cancelled":
    case "task.incomplete":
      if (!check.options.legacy) checkLifecycle(check, task, event);
      return;
    case "task.child.started":
    case "task.child.finished":
    case "task.child.promoted":
      checkChild(check, task, event);
      return;
    case "task.approval.requested":
    case "task.approval.resolved":
      checkApproval(check, task, event);
      return;
    case "task.usage":
      checkUsage(check, task, event.usage.total_tokens);
      return;
    case "task.cancelling":
    case "task.custom":
      return;
    default:
      checkItem(check, task, event);
      return;
  }
}
