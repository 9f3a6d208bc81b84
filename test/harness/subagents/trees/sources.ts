import { isDeepStrictEqual } from "node:util";

import type { LogEvent, TaskEvent } from "../../../../src/protocol/event.ts";
import type { Source } from "../../../../src/protocol/source.ts";
import { marksIn } from "./plan.ts";
import type { Played } from "./play.ts";
import type { TrueTask, Truth } from "./truth.ts";

/** Tools whose results may contain other agents' texts. */
const betweenAgents = /^(agent|task)_/;

/**
 * Checks "source at the origin" against the plan: the source of every event names its agent, its task belongs to the
 * call that started the agent, and its text is from that agent.
 */
export function sourceProblems(truth: Truth): readonly string[] {
  const problems: string[] = [];
  for (const log of truth.logs) {
    const items = new Map<string, string>();
    for (const [index, event] of log.entries()) {
      const task = "task_id" in event ? truth.byTaskId.get(event.task_id ?? "") : undefined;
      if (task === undefined || event.type === "error" || event.type === "task.snapshot") {
        problems.push(`${event.type} at ${index} is of no task`);
        continue;
      }
      const found = [...placeProblems(event, task), ...markProblems(event, task, truth, items)];
      problems.push(...found.map((problem) => `${event.type} at ${index}: ${problem}`));
    }
  }
  return problems;
}

function placeProblems(event: LogEvent, task: TrueTask): readonly string[] {
  const expected = sourceOf(task);
  if (isDeepStrictEqual(event.source, expected)) return [];
  return [`its source is ${JSON.stringify(event.source)}, not ${JSON.stringify(expected)}`];
}

/** In the log every event has a complete source; the wire shortens it. */
function sourceOf({ plan, record, parent }: TrueTask): Source | undefined {
  if (parent === undefined) return undefined;
  return {
    agentKey: record.agentKey,
    agentId: plan.kind,
    agentName: plan.kind,
    sessionId: record.sessionId,
    parentSessionId: parent.record.sessionId,
    taskId: record.taskId,
    depth: record.depth,
    path: `${pathOf(parent)}/${plan.kind}`,
  };
}

function pathOf({ plan, parent, record }: TrueTask): string {
  return parent ? `${pathOf(parent)}/${plan.kind}` : record.sessionId;
}

/** Returns the text of an event and the agents that may have written it. */
function markProblems(
  event: LogEvent,
  task: TrueTask,
  truth: Truth,
  items: Map<string, string>,
): readonly string[] {
  if (!("output_index" in event)) return [];
  const place = `${event.task_id} ${event.output_index}`;
  if (event.type === "task.output_item.added") {
    const { item } = event;
    if (item.type === "tool_call") items.set(`call ${item.call_id}`, item.name);
    const name = item.type === "tool_result" ? items.get(`call ${item.call_id}`) : item.type;
    items.set(place, name ?? "");
  }
  const kind = items.get(place) ?? "";
  const marks = [...marksIn(JSON.stringify(event))];
  if (!betweenAgents.test(kind)) {
    const others = marks.filter((key) => key !== task.plan.key);
    return others.length > 0 ? [`${task.plan.key} says what ${others} said`] : [];
  }
  // A child may cite its own children's texts.
  const strangers = marks.filter((key) => !isBelow(truth.byKey.get(key), task.record.sessionId));
  return strangers.length > 0 ? [`${task.plan.key} was told what ${strangers} said`] : [];
}

function isBelow(task: TrueTask | undefined, sessionId: string): boolean {
  if (task === undefined) return false;
  return task.record.parentSessionId === sessionId || isBelow(task.parent, sessionId);
}

/** Checks that the text of an agent event is from the agent in its source. */
export function streamProblems({ streamed }: Played, truth: Truth): readonly string[] {
  return streamed.flatMap((event, index) => {
    const said = event.type === "reasoning" || event.type === "summary" ? event.text : "";
    return [...marksIn(said)].flatMap((key) => {
      const task = truth.byKey.get(key);
      const { taskId, path } = event.source ?? {};
      const isRight = task?.parent
        ? taskId === task.record.taskId && path === pathOf(task)
        : event.source === undefined;
      return isRight ? [] : [`${event.type} ${index} of ${key} has the source ${path}`];
    });
  });
}

/** Compares the events of a run with its log. */
export function shownProblems({ shown }: Played, { logs }: Truth): readonly string[] {
  const problems: string[] = [];
  for (const [taskId, events] of shown) {
    const log = logs.find(([first]) => isOf(first, taskId)) ?? [];
    const different = events.findIndex((event, index) => !isDeepStrictEqual(event, log[index]));
    if (different >= 0) problems.push(`${taskId} has shown something else at ${different}`);
    if (events.length === 0) problems.push(`${taskId} has shown nothing`);
  }
  return problems;
}

function isOf(event: TaskEvent | undefined, taskId: string): boolean {
  return event !== undefined && "task_id" in event && event.task_id === taskId;
}
