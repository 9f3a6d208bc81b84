import { textOf } from "../../../../src/contract/message.ts";
import type { LogEvent } from "../../../../src/protocol/event.ts";
import type { TaskStatus } from "../../../../src/protocol/task.ts";
import { callIdOf, resultOf, type TrueTask, type Truth } from "./truth.ts";

/** The status that a model reads for each terminal state of a child. */
export const endWords: Partial<Record<TaskStatus, string>> = {
  completed: "ok",
  failed: "error",
  cancelled: "cancelled",
  incomplete: "incomplete",
};

/**
 * Checks a parent's events about its children (start, end, promotion) and that the result of the call is the child's real
 * outcome. A child's failure is only that result ("contained failures").
 */
export function childProblems(truth: Truth): readonly string[] {
  const events = truth.logs.flat() as readonly LogEvent[];
  const told = Map.groupBy(
    events.filter((event) => "child_task_id" in event),
    (event) => event.child_task_id,
  );
  const starts = Map.groupBy(
    events.filter((event) => event.type === "task.created"),
    (event) => event.task_id,
  );
  return [...truth.byTaskId.values()].flatMap((child) => {
    const { parent, call, record, plan } = child;
    if (parent === undefined || call === undefined) return [];
    const own = told.get(record.taskId) ?? [];
    const problems: string[] = [];
    if (own.some((event) => event.task_id !== parent.record.taskId)) {
      problems.push("is reported by another task");
    }
    if (own.some((event) => event.call_id !== record.taskId)) problems.push("has another call");
    const [created] = starts.get(record.taskId) ?? [];
    const isBackground = call.wait === "background";
    const mode = isBackground ? "background" : "sync";
    const isPromoted = !isBackground && record.mode === "background";
    const isTold = record.mode === "sync" && created !== undefined;
    const expected = [
      `started ${mode} ${plan.kind} ${record.agentKey}`,
      ...(isPromoted ? ["promoted"] : []),
      ...(isTold ? [`finished ${record.status}`] : []),
    ];
    const actual = own.flatMap((event) => {
      if (event.type === "task.child.started") {
        return [`started ${event.mode} ${event.agent.id} ${event.agent.key}`];
      }
      if (event.type === "task.child.promoted") return ["promoted"];
      return event.type === "task.child.finished" ? [`finished ${event.status}`] : [];
    });
    if (actual.join(", ") !== expected.join(", ")) {
      problems.push(`is reported as ${actual.join(", ")}, not ${expected.join(", ")}`);
    }
    if (created?.type === "task.created" && created.task.mode !== mode) {
      problems.push(`was created as ${created.task.mode}`);
    }
    problems.push(...resultProblems(child, parent, call.key));
    return problems.map((problem) => `${plan.key} ${problem}`);
  });
}

/** Compares the result of the call that started a child with the state of the child. */
function resultProblems(child: TrueTask, parent: TrueTask, key: string): readonly string[] {
  const result = resultOf(parent, key);
  if (result === undefined) return [`has no result in ${callIdOf(parent, key)}`];
  if (result.state === "interrupted") {
    return parent.record.status === "cancelled" ? [] : ["was interrupted"];
  }
  const { status, agentKey, sessionId, taskId, mode } = child.record;
  const text = textOf(result.output);
  const word = /^status: (\w+)$/m.exec(text)?.[1] ?? "";
  const end = endWords[status] ?? "";
  const open = child.call?.wait === "promoted" ? ["timeout_promoted"] : ["accepted"];
  const words = mode === "sync" ? [end] : [...open, "suspended", end];
  const problems: string[] = [];
  if (!words.includes(word)) problems.push(`is ${status}, and its parent reads "${word}"`);
  if (!text.startsWith(`agent_key: ${agentKey}\n`)) problems.push("has a result of another agent");
  if (!text.includes(`\nsession_id: ${sessionId}\n`)) problems.push("has another session there");
  if (word !== end && !text.includes(`\ntask_id: ${taskId}`)) problems.push("has no task id there");
  const state = word === "error" ? "error" : "success";
  if (result.state !== state) problems.push(`has the result ${result.state}, not ${state}`);
  if (word === "ok" && !text.includes(`⟨${child.plan.key}⟩ It is done.`)) {
    problems.push("has another's answer for a result");
  }
  return problems;
}
