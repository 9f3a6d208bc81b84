/** The tools by which an agent works with its subagents and their tasks. */
export const subagentToolNames: ReadonlySet<string> = new Set([
  "agent_spawn",
  "agent_send",
  "agent_list",
  "task_output",
  "task_wait",
  "task_cancel",
  "task_list",
]);
