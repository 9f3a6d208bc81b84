/** A kind of agent, as the one who may call on it sees it. */
export interface OfferedAgent {
  readonly name: string;
  readonly description: string;
}

/** A task that is not finished, or whose result the model has not been shown. */
export interface OpenTask {
  readonly taskId: string;
  readonly agentId: string;
  readonly label?: string;
  readonly status: string;
}

const maxTasks = 10;
const maxDescription = 500;
const maxLabel = 100;

/** What every subagent is told besides its own instructions. */
export function subagentContext(): string {
  return `# Subagent Context

You are a subagent: another agent has given you one task and waits for its outcome.

- Do this task and nothing else. What you were not asked for is not yours to begin.
- Your last message is your report, and it is all that the other agent gets from you. Say in it what you did, what you found and what is still open, with the details that matter, and be brief.
- Do not address the user and do not ask them anything: your reader is the other agent. If something is missing, work with what you have and say so in your report.
- If you cannot do the task, report what stopped you. Do not make up a result.`;
}

/** How and when to delegate, to whom, and what is under way: for the system message before each reasoning. */
export function delegationPrompt(state: {
  readonly agents: readonly OfferedAgent[];
  readonly tasks: readonly OpenTask[];
}): string {
  const agents = state.agents.map(
    ({ name, description }) => `- ${name}: ${oneLine(description, maxDescription)}`,
  );
  return [howToDelegate, ...agents, ...taskSection(state.tasks)].join("\n");
}

const howToDelegate = `# Delegation

You can give work to subagents with agent_spawn. A subagent works on its own, in a conversation of its own, and gives you one report.

Delegate what stands on its own and is large, what would fill this conversation with text of which only the outcome matters, and what can be done side by side. Do small things yourself, and those of which every step matters here.

- A subagent has not read this conversation: put all that it needs to know into \`task\`, and say what its report should contain.
- To let several work at once, call agent_spawn several times in one reply.
- To say more to a subagent, use agent_send with the whole agent_key that agent_spawn returned, or with its label.
- With timeout_seconds 0 it works in the background and you get a task_id at once. One that takes longer than its timeout goes on in the background (timeout_promoted): do not start the same work again.
- Do not poll a task that you have just created. Answer first and look later: you are told when a task has finished. Use task_output with block false for a look, and task_wait only when you cannot go on without the results.
- Stop with task_cancel what is no longer needed.
- After a compaction or a resume call task_list first: it knows every task.
- Reports are written for you. Tell the user what matters in them in your own answer.

## Subagents
`;

function taskSection(tasks: readonly OpenTask[]): readonly string[] {
  if (tasks.length === 0) return [];
  const lines = tasks.slice(0, maxTasks).map(({ taskId, agentId, label, status }) => {
    const called = label === undefined ? "" : ` ${JSON.stringify(oneLine(label, maxLabel))}`;
    return `- ${taskId}: ${agentId}${called}, ${status}`;
  });
  const more = tasks.length - lines.length;
  return [
    "",
    "## Tasks",
    "",
    "Tasks of this session that are not finished, or whose result you have not seen:",
    ...lines,
    ...(more > 0 ? [`- and ${more} more: call task_list`] : []),
  ];
}

/** A text as part of a list: it cannot begin a line of its own, nor fill the prompt. */
function oneLine(text: string, maxCharacters: number): string {
  const line = text.replaceAll(/[\s\p{Cc}]+/gu, " ").trim();
  return line.length > maxCharacters ? `${line.slice(0, maxCharacters).toWellFormed()}…` : line;
}
