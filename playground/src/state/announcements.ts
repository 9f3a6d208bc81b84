import { isTerminal, type Task, type Tree, taskOf } from "rivulet/protocol";
import { labelOf, waitingIn } from "./agents.ts";

/** The announcements for a person who does not see the page: requests to a person, ends and failures. */
export function announcementsOf(before: Tree, after: Tree): readonly string[] {
  const said: string[] = [];
  for (const task of Object.values(after.tasks)) {
    const earlier = taskOf(before, task.id);
    if (task === earlier) continue;
    const label = labelOf(after, task.id);
    const asked = new Set((earlier?.approvals ?? []).map(({ approval_id }) => approval_id));
    for (const { approval_id, kind, name, message } of waitingIn(task)) {
      if (asked.has(approval_id)) continue;
      if (kind === "question") said.push(`${label} asks: ${message ?? name}`);
      else if (kind === "external") said.push(`${label} waits for the result of ${name}.`);
      else said.push(`${label} asks for your approval${name ? ` of ${name}` : ""}.`);
    }
    const isRoot = task.parentTaskId === undefined;
    if (isTerminal(task.status) && !(earlier && isTerminal(earlier.status)))
      if (isRoot || task.status === "failed") said.push(endOf(label, task));
  }
  return said;
}

function endOf(label: string, { status, error, incompleteReason }: Task): string {
  if (status === "failed") return `${label} has failed: ${error?.message ?? "no reason given"}`;
  if (status === "incomplete")
    return `${label} stopped early: ${incompleteReason?.replaceAll("_", " ") ?? "no reason given"}.`;
  return status === "cancelled" ? `${label} was cancelled.` : `${label} has answered.`;
}
