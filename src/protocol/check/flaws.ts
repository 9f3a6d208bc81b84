import type { TaskObject, TaskStatus, Usage } from "../task.ts";
import type { CheckRule } from "./problem.ts";

/** A rule that a task breaks: the linter reports it, the writer refuses it. */
export interface Flaw {
  readonly rule: CheckRule;
  readonly message: string;
}

/** Why a task may resume. */
export const resumeReasons = ["approval_resolved", "continued", "cancelled", "recovered"];
const stopReasons = ["reasoning_stop_requested", "acting_stop_requested"];
/** The reasons that a reply in each state may give; an incomplete task names its own. */
const generateReasons: Partial<Readonly<Record<TaskStatus, readonly string[]>>> = {
  suspended: ["approval_required", "tool_suspended", ...stopReasons],
  completed: ["model_stop", "structured_output"],
  failed: ["failed"],
  cancelled: ["interrupted"],
};

/** A task that fails or is incomplete gives the reason, and no other task does. */
export function causeFlaws(task: TaskObject): readonly Flaw[] {
  const { status, error, incomplete_details: details, generate_reason } = task;
  const flaws: Flaw[] = [];
  const add = (rule: CheckRule, message: string) => flaws.push({ rule, message });
  if ((status === "failed") !== (error !== undefined))
    add("L3", `task.${status} ${error ? "has a" : "has no"} task.error`);
  if ((status === "incomplete") !== (details !== undefined))
    add("L3", `task.${status} ${details ? "has" : "has no"} task.incomplete_details`);
  const { reason } = details ?? {};
  const isNamed = generate_reason === (reason === "timeout" ? "interrupted" : reason);
  if (reason !== undefined && generate_reason !== undefined && !isNamed)
    add("reason", `the reason is ${reason}, but generate_reason is ${generate_reason}`);
  return [...flaws, ...reasonFlaws(status, generate_reason)];
}

/** The reason of a reply fits the status of its task. */
export function reasonFlaws(status: TaskStatus, reason: string | undefined): readonly Flaw[] {
  const fitting = generateReasons[status];
  if (reason === undefined || fitting === undefined || fitting.includes(reason)) return [];
  const message = `generate_reason ${reason} does not fit a task that is ${status}`;
  return [{ rule: "reason", message }];
}

/** The usage of a task only grows. */
export function usageFlaws(usage: Usage | undefined, before: Usage | undefined): readonly Flaw[] {
  if (usage === undefined) return [];
  return (["input_tokens", "output_tokens", "total_tokens"] as const)
    .filter((name) => usage[name] < (before?.[name] ?? 0))
    .map((name) => ({
      rule: "usage",
      message: `${name} ${usage[name]} is less than ${before?.[name] ?? 0} before`,
    }));
}
