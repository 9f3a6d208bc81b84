import type { Answer, StandardSchema } from "../protocol/agent.ts";
import { RivuletError } from "../protocol/error.ts";
import type { Store, TaskRecord } from "../protocol/store.ts";
import { matchAnswers, postAnswers } from "./answers.ts";
import { checkOutput } from "./check-output.ts";
import { driverOf, unfinished } from "./drivers.ts";
import type { ReadInput } from "./input.ts";
import type { AgentSettings } from "./settings.ts";
import { type WaitingTask, waitingTasks } from "./waiting.ts";

/** A call that may bring answers. */
export interface AnsweringCall {
  readonly settings: AgentSettings;
  readonly read: ReadInput;
  readonly options: {
    readonly onSuspended?: "fail" | "deny";
    readonly output?: StandardSchema | undefined;
  };
}

/** Answers know which task they are for, so they find its session by themselves. */
export async function sessionOf(store: Store, { answers }: ReadInput): Promise<string | undefined> {
  const [answer] = answers;
  return answer && (await store.task(answer.rootTaskId))?.sessionId;
}

/**
 * Answers alone need not wait for the session's turn: they are posted at once, and whoever drives what waits takes them.
 * Resolves to the tasks that were answered; undefined when there is more to say, which has to be said in turn.
 */
export async function answerAhead(
  call: AnsweringCall,
  conversation: string,
): Promise<readonly TaskRecord[] | undefined> {
  if (!hasAnswers(call.read) || call.read.messages.length > 0) return undefined;
  const { store } = call.settings;
  const { output } = call.options;
  return answer(call, conversation, async ([first]) => {
    if (output === undefined) return;
    const [own] = await store.tasks({ sessionId: conversation, status: unfinished });
    const replying = own ?? (first && (await followed(store, first)));
    if (replying) checkOutput(output, replying);
  });
}

/** Text for a new task may come with answers to what its background tasks ask. Resolves to those that were answered. */
export async function answerOthers(
  call: AnsweringCall,
  conversation: string,
): Promise<readonly TaskRecord[]> {
  return hasAnswers(call.read) ? answer(call, conversation) : [];
}

/** Posts the answers of a call, after a last check. Resolves to the tasks that they are for. */
async function answer(
  call: AnsweringCall,
  conversation: string,
  check?: (answered: readonly TaskRecord[]) => Promise<void>,
): Promise<readonly TaskRecord[]> {
  const { store, ids } = call.settings;
  const waiting = await waitingTasks(store, { conversation });
  const answers = await answersOf(call, waiting);
  const answered = answeredBy(answers, waiting);
  await check?.(answered);
  await postAnswers(store, ids, answers, waiting);
  return answered;
}

/** The task whose reply is the one to give when what was answered is not the session's own task. */
export async function followed(store: Store, answered: TaskRecord): Promise<TaskRecord> {
  const { rootTaskId, sessionId } = answered;
  const tree = await store.tasks({ rootTaskId, status: unfinished });
  return driverOf(tree, sessionId) ?? (await store.task(rootTaskId)) ?? answered;
}

function hasAnswers({ answers, results }: ReadInput): boolean {
  return answers.length > 0 || results.size > 0;
}

function answeredBy(
  answers: readonly Answer[],
  waiting: readonly WaitingTask[],
): readonly TaskRecord[] {
  const said = new Set(answers.map(({ approvalId }) => approvalId));
  return waiting
    .filter(({ approvals }) => approvals.some(({ id }) => said.has(id)))
    .map(({ record }) => record);
}

/** What a call answers; `holding` are the tasks that must not ask while text is said to the session's own. */
export async function answersOf(
  { settings, read, options }: AnsweringCall,
  waiting: readonly WaitingTask[],
  holding: ReadonlySet<string> = new Set(),
): Promise<readonly Answer[]> {
  const { onSuspended = "fail" } = options;
  const now = settings.clock.now();
  const answers = matchAnswers(read, waiting, { holding, onSuspended, now });
  for (const { rootTaskId } of answeredBy(answers, waiting)) {
    const root = await settings.store.task(rootTaskId);
    if (root) checkAgent(settings, root);
  }
  return answers;
}

/** The tasks that a root task waits for when they wait. */
export async function heldBy(
  store: Store,
  { taskId, rootTaskId }: TaskRecord,
  waiting: readonly WaitingTask[],
): Promise<ReadonlySet<string>> {
  const tree = await store.tasks({ rootTaskId, status: unfinished });
  const held = waiting.filter(({ record }) => driverOf(tree, record.sessionId)?.taskId === taskId);
  return new Set(held.map(({ record }) => record.taskId));
}

/** A task goes on only with the agent whose calls it has open: they are found by that agent's name. */
export function checkAgent({ name }: AgentSettings, { agentName, taskId }: TaskRecord): void {
  if (name === agentName) return;
  throw new RivuletError("other_agent", `Task ${taskId} is ${agentName}'s, and this is ${name}.`, {
    hint: `Call ${agentName} to go on with it or to cancel it; ${name} can have another session.`,
  });
}
