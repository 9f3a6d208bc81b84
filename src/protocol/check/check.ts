import { readInput, readTyped } from "../../base/argument.ts";
import { isObject } from "../../base/plain.ts";
import type { ControlFrame, LogEvent, TaskSnapshot } from "../event.ts";
import { logEvents, words } from "../grammar/index.ts";
import { isId, readerOf } from "../shape.ts";
import { checkApproval } from "./calls.ts";
import {
  type Check,
  type CheckedTask,
  type CheckOptions,
  checkedTask,
  type Frame,
  foldInto,
  hasEnded,
  newCheck,
  report,
} from "./checked.ts";
import { checkChild, checkInside } from "./children.ts";
import { checkEnd } from "./end.ts";
import { checkNumbers, checkSource } from "./envelope.ts";
import { checkControl, isControl, shapeOf } from "./frame.ts";
import { checkItem } from "./items.ts";
import { checkBegun, checkLifecycle, checkUsage, checkWorks } from "./lifecycle.ts";
import { describeMisfit, type Misfit, misfitOf } from "./misfit.ts";
import { type Problem, show } from "./problem.ts";
import { checkSnapshot } from "./snapshot.ts";

export type { CheckOptions } from "./checked.ts";
export type { CheckRule, Problem } from "./problem.ts";

/**
 * Checks a stream and returns its problems in the order of the events; a correct stream has none. Throws only for
 * a bad argument.
 * docs/protocol/check-stream.md explains the rules.
 */
export function checkStream(
  events: Iterable<unknown>,
  options: CheckOptions = {},
): readonly Problem[] {
  const flag = "a boolean";
  const check = newCheck(readTyped(options, { legacy: flag, filtered: flag, partial: flag }));
  const isList = () => typeof events === "object" && typeof events[Symbol.iterator] === "function";
  readInput("events", "an iterable of events", events, isList);
  for (const event of events) {
    check.index++;
    try {
      checkFrame(check, event);
    } catch (error) {
      report(check, "I1", `the event cannot be read: ${show(String(error))}`);
    }
  }
  checkEnd(check);
  return check.problems.sort((left, right) => left.index - right.index);
}

/** Checks the events of a log as they arrive, each once and in order. Keeps no event. */
export class StreamCheck {
  readonly #check = newCheck({ partial: true });

  /** Returns the first rule that the next event breaks; its number in the log does not matter. */
  next(event: LogEvent): Problem | undefined {
    const check = this.#check;
    check.index++;
    try {
      checkFrame(check, { ...event, sequence_number: check.index });
    } catch (error) {
      report(check, "I1", `the event cannot be read: ${show(String(error))}`);
    }
    check.tasks.get(event.task_id)?.seen.clear();
    return check.problems[0];
  }
}

function checkFrame(check: Check, frame: unknown): void {
  if (!isObject(frame) || !isId(frame.type)) {
    report(
      check,
      "I1",
      isObject(frame) ? "the event has no type" : `an event must be an object, got ${show(frame)}`,
    );
    return;
  }
  const { type } = frame as { type: string };
  const readable = readFrame(check, frame as Frame);
  const event = readable ?? (frame as Frame);
  if (type.startsWith("stream.")) {
    if (readable && isControl(type)) checkControl(check, event as unknown as ControlFrame);
    return;
  }
  if (check.closed) report(check, "frame", `${show(type)} after stream.closed`);
  if (type === "error" && event.task_id === undefined) return;
  const id = event.task_id;
  if (!isId(id)) {
    report(check, "I1", `${show(type)} has no task_id`);
    return;
  }
  if (readable && isObject(event.task) && event.task.id !== id) {
    report(check, "link", `task.id is ${show(event.task.id)}, not the task_id ${show(id)}`);
  }
  if (type === "task.snapshot") {
    if (!readable) return;
    checkSnapshot(check, event as unknown as TaskSnapshot);
  } else if (type !== "error") {
    check.snapshotSequence = undefined;
    checkTask(check, checkedTask(check, id), event, readable !== undefined);
  }
}

/** Reports an event that does not fit the grammar; returns the event if it is readable in either form of the protocol. */
function readFrame(check: Check, frame: Frame): Frame | undefined {
  const { legacy = false } = check.options;
  const shape = shapeOf(frame.type);
  const event = readerOf(shape)(frame, { legacy, words }) as Frame | undefined;
  if (event !== undefined) return event;
  const misfit = misfitOf(shape, frame, { legacy });
  const word = misfit ?? (misfitOf(shape, frame, { legacy, words }) as Misfit);
  report(check, misfit ? "shape" : "word", describeMisfit(frame.type, word));
  return readerOf(shape)(frame, { legacy: true, words }) as Frame | undefined;
}

/** Checks an event of a log; its contents only if it is readable. */
function checkTask(check: Check, task: CheckedTask, event: Frame, isReadable: boolean): void {
  const { type } = event;
  const { legacy } = check.options;
  task.lastIndex = check.index;
  if (!legacy) {
    if (!checkNumbers(check, task, event)) return;
    if (hasEnded(task)) {
      report(check, "L3", `${show(type)} after the end of ${show(task.id)}`);
      return;
    }
    checkBegun(check, task, type);
    checkWorks(check, task, type);
  }
  if (isReadable && Object.hasOwn(logEvents, type))
    checkEvent(check, task, event as unknown as LogEvent);
  if (!legacy) checkSource(check, task, event);
  checkInside(check, task);
}

function checkEvent(check: Check, task: CheckedTask, event: LogEvent): void {
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
      break;
    case "task.approval.requested":
    case "task.approval.resolved":
      checkApproval(check, task, event);
      break;
    case "task.usage":
      checkUsage(check, task, event.usage);
      break;
    case "task.cancelling":
    case "task.hint.added":
    case "task.custom":
      break;
    default:
      checkItem(check, task, event);
      return;
  }
  foldInto(check, event);
}
