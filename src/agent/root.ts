import type { Answer, Approval, Input, RunOptions, StandardSchema } from "../protocol/agent.ts";
import { RivuletError } from "../protocol/error.ts";
import type { AnswerBlock, Message, Reply, TaskRef } from "../protocol/message.ts";
import type { Store, TaskRecord } from "../protocol/store.ts";
import { Conversation } from "./conversation.ts";
import { type Ending, type Suspended, suspended } from "./ending.ts";
import { driveHooked, replyOf } from "./hooked.ts";
import { isControl } from "./inbox.ts";
import { duplicate, type ReadInput, readInput } from "./input.ts";
import { beginTask, driveTask, openTask, resumeTask } from "./lifecycle.ts";
import { nextStep } from "./next.ts";
import { type AgentSettings, checkBudget } from "./settings.ts";
import { takeSlot } from "./slot.ts";
import type { TaskRun } from "./task-run.ts";
import { toJsonSchema } from "./tool/schema.ts";
import { traceTask } from "./trace.ts";
import { type WaitingTask, waitingTasks } from "./waiting.ts";

/** What the driver of a root task tells its run. */
export interface RootWork {
  /** Resolves once the task is known and its events can be read. */
  readonly started: Promise<Started>;
  /** Settles when the task rests and the session is free again. */
  readonly reply: Promise<Reply<unknown>>;
  cancel(reason?: string): void;
}
/** Where the events of this run begin. */
export interface Started {
  readonly ref: TaskRef;
  readonly after: number;
}

/** How a root task is run; `only` names the one to go on with, when no other will do. */
type RootOptions = RunOptions<StandardSchema | undefined> & { readonly only?: string };

/** Starts to drive a root task: a new one, or the one that the session has not finished. */
export function startRoot(settings: AgentSettings, input: Input, options: RootOptions): RootWork {
  const started = Promise.withResolvers<Started>();
  const stop = new AbortController();
  const reply = driveRoot(settings, input, options, stop, started.resolve);
  reply.catch(started.reject);
  started.promise.catch(() => {});
  return {
    started: started.promise,
    reply,
    cancel: (reason = "cancelled") => stop.abort(new Error(reason)),
  };
}

async function driveRoot(
  settings: AgentSettings,
  input: Input,
  options: RootOptions,
  stop: AbortController,
  onStarted: (started: Started) => void,
): Promise<Reply<unknown>> {
  const { store, clock, ids } = settings;
  checkBudget(options.budget, settings.price !== undefined);
  const read = readInput(input, ids);
  const sessionId = options.sessionId ?? (await sessionOf(store, read)) ?? ids.next("sess");
  checkSessionId(sessionId);
  const onAbort = () => stop.abort(options.signal?.reason);
  if (options.signal?.aborted) onAbort();
  options.signal?.addEventListener("abort", onAbort, { once: true });
  const onBusy = options.onBusy ?? "queue";
  let release: (() => void) | undefined;
  try {
    release = await takeSlot(store, sessionId, onBusy, stop.signal);
    const conversation = await Conversation.enter(store, sessionId, clock, onBusy, stop.signal);
    try {
      const task = await prepareRoot(settings, conversation, read, options, onStarted);
      return await traceTask(task, () => runRoot(task, stop.signal, read.messages));
    } finally {
      await conversation.leave();
    }
  } finally {
    release?.();
    options.signal?.removeEventListener("abort", onAbort);
  }
}

/** Answers know which task they are for, so they find its session by themselves. */
async function sessionOf(store: Store, { answers }: ReadInput): Promise<string | undefined> {
  const [answer] = answers;
  return answer && (await store.task(answer.rootTaskId))?.sessionId;
}

async function runRoot(
  task: TaskRun,
  stop: AbortSignal,
  input: readonly Message[],
): Promise<Reply<unknown>> {
  const waiting = stop.aborted ? undefined : stillWaiting(task);
  if (waiting) return replyOf(task, waiting);
  const { lost } = task.conversation;
  const onStop = () => {
    if (task.isResting) return;
    task.emitter.emit({
      type: "task.cancelling",
      reason: String((stop.reason as Error)?.message ?? stop.reason),
    });
    task.controller.abort(stop.reason);
  };
  const onLost = () => task.controller.abort(lost.signal.reason);
  if (stop.aborted) onStop();
  stop.addEventListener("abort", onStop, { once: true });
  lost.signal.addEventListener("abort", onLost, { once: true });
  try {
    const { reply } = await driveHooked(task, input, driveUntilIdle);
    return reply;
  } finally {
    stop.removeEventListener("abort", onStop);
    lost.signal.removeEventListener("abort", onLost);
  }
}

/** How a suspended task rests that nothing new was said to: it is not driven, and nothing is written. */
function stillWaiting(task: TaskRun): Suspended | undefined {
  if (task.record.status !== "suspended") return undefined;
  const step = nextStep(task.messages, task.settings.name);
  return step.type === "act" || step.type === "wait" ? suspended(task, step) : undefined;
}

/**
 * Drives the task until it rests and nothing has been posted meanwhile: who answers as soon as an approval is asked
 * for may be faster than the suspension.
 */
async function driveUntilIdle(task: TaskRun, prepare: () => Promise<void>): Promise<Ending> {
  let ending = await driveTask(task, prepare);
  const { store } = task.conversation;
  const { rootTaskId } = task.ref;
  let tried = new Set<string>();
  while (ending.status === "suspended") {
    const posts = (await store.posts({ rootTaskId })).filter(isControl);
    // What a drive knew of and did not take has to wait for something else.
    if (posts.every(({ id }) => tried.has(id))) break;
    tried = new Set(posts.map(({ id }) => id));
    await resumeTask(task, "approval_resolved");
    ending = await driveTask(task);
  }
  return ending;
}

/** Finds or makes the task that this call is about; input that does not fit is an error that changes nothing. */
async function prepareRoot(
  settings: AgentSettings,
  conversation: Conversation,
  read: ReadInput,
  options: RootOptions,
  onStarted: (started: Started) => void,
): Promise<TaskRun> {
  const { store, sessionId } = conversation;
  const messages = await store.session(sessionId);
  const [unfinished] = await store.tasks({
    sessionId,
    status: ["queued", "in_progress", "suspended"],
  });
  if (options.only !== undefined && options.only !== unfinished?.taskId) {
    throw new RivuletError("task_ended", `Task ${options.only} has ended.`);
  }
  if (unfinished === undefined) {
    if (read.answers.length > 0 || read.results.size > 0) {
      throw unknownApproval([
        ...read.answers.map((answer) => answer.approvalId),
        ...read.results.keys(),
      ]);
    }
    const record = newRecord(settings, sessionId, options);
    const task = await openTask({ settings, conversation, record, messages, caller: options });
    onStarted({ ref: task.ref, after: -1 });
    await beginTask(task, asInput(read.messages, record.taskId));
    return task;
  }
  const waiting = await waitingTasks(store, unfinished.rootTaskId);
  const answers = matchAnswers(read, waiting, options.onSuspended ?? "fail", settings.clock.now());
  const task = await openTask({
    settings,
    conversation,
    record: unfinished,
    messages,
    caller: options,
  });
  onStarted({ ref: task.ref, after: await store.last(unfinished.rootTaskId) });
  await postAnswers(store, task, answers, waiting);
  const posts = await store.posts({ rootTaskId: unfinished.rootTaskId });
  const hasNews = posts.length > 0 || read.messages.length > 0;
  if (unfinished.status === "suspended" && !hasNews) return task;
  const isStopped = waiting.some(({ stop }) => stop !== undefined);
  const resumed = isStopped ? "stop_answered" : "approval_resolved";
  await resumeTask(task, resumed, asInput(read.messages, task.ref.taskId));
  return task;
}

/** The answers that this call gives; what cannot be given is an error before anything has changed. */
function matchAnswers(
  { messages, answers, results }: ReadInput,
  waiting: readonly WaitingTask[],
  onSuspended: "fail" | "deny",
  now: number,
): readonly Answer[] {
  const approvals = waiting.flatMap((task) => task.approvals);
  const byId = new Map(approvals.map((approval) => [approval.id, approval]));
  const byCall = new Map(approvals.map((approval) => [approval.call.id, approval]));
  const unknown = [
    ...answers.filter(({ approvalId }) => !byId.has(approvalId)).map((one) => one.approvalId),
    ...[...results.keys()].filter((callId) => !byCall.has(callId)),
  ];
  if (unknown.length > 0) throw unknownApproval(unknown);
  const sent = [
    ...answers,
    ...[...results].map(([callId, output]) => (byCall.get(callId) as Approval).answer(output)),
  ];
  // What has expired is denied, whatever is said about it now.
  const expired = approvals.filter(({ expiresAt = Infinity }) => expiresAt <= now);
  const isExpired = new Set(expired.map(({ id }) => id));
  const given = [
    ...sent.filter(({ approvalId }) => !isExpired.has(approvalId)),
    ...expired.map((one): Answer => ({ ...one.deny(), decision: "expire" })),
  ];
  const said = new Set(given.map(({ approvalId }) => approvalId));
  if (said.size < given.length) throw duplicate("A call has an answer and a result.");
  if (messages.length === 0) return given;
  const open = approvals.filter(({ id }) => !said.has(id));
  if (open.length === 0) return given;
  if (onSuspended === "deny") {
    return [...given, ...open.map((one) => one.deny("The user went on with something else."))];
  }
  throw new RivuletError(
    "session_suspended",
    `The session waits for ${open.map(({ id, call }) => `${call.name} (${id})`).join(", ")}.`,
    { hint: 'Answer these first, or call with onSuspended: "deny" to deny them and go on.' },
  );
}

/** Answers reach a transcript through its inbox only, so that whoever drives a task is the only one who writes it. */
async function postAnswers(
  store: Store,
  root: TaskRun,
  answers: readonly Answer[],
  waiting: readonly WaitingTask[],
): Promise<void> {
  const post = async ({ record }: WaitingTask, block: AnswerBlock) => {
    const { taskId, sessionId, rootTaskId } = record;
    const message: Message = {
      id: root.settings.ids.next("msg"),
      role: "user",
      content: [block],
      metadata: { taskId },
    };
    const id = `answer:${block.approvalId}`;
    await store.post({ id, kind: "answer", sessionId, rootTaskId, message });
  };
  for (const answer of answers) {
    const { decision, input, output, reason, always, approvalId } = answer;
    const task = waiting.find(({ approvals }) => approvals.some(({ id }) => id === approvalId));
    const approval = task?.approvals.find(({ id }) => id === approvalId);
    if (task === undefined || approval === undefined) continue;
    await post(task, {
      type: "answer",
      approvalId,
      callId: approval.call.id,
      decision,
      ...(input !== undefined && { input }),
      ...(output !== undefined && { output }),
      ...(reason !== undefined && { reason }),
      ...(always !== undefined && { always }),
    });
  }
  // A stop, at any depth, was for the caller to look: that it calls again is the answer.
  for (const task of waiting) {
    if (task.stop === undefined) continue;
    const { approvalId, callId } = task.stop;
    await post(task, { type: "answer", approvalId, callId, decision: "approve" });
  }
}

function newRecord(
  settings: AgentSettings,
  sessionId: string,
  options: RunOptions<StandardSchema | undefined>,
): TaskRecord {
  const { ids, clock, agentId, name } = settings;
  const taskId = ids.next("task");
  return {
    taskId,
    rootTaskId: taskId,
    agentId,
    agentName: name,
    agentKey: `agent:${agentId}:${ids.uuid()}`,
    sessionId,
    ...(options.userId !== undefined && { userId: options.userId }),
    depth: 0,
    path: sessionId,
    createdAt: clock.now(),
    mode: "sync",
    status: "queued",
    committedOutput: 0,
    ...(options.output && { outputSchema: toJsonSchema(options.output) }),
  };
}

function asInput(messages: readonly Message[], taskId: string): readonly Message[] {
  return messages.map((message) => ({
    ...message,
    metadata: { ...message.metadata, input: true, taskId },
  }));
}

function checkSessionId(sessionId: string): void {
  if (sessionId.length > 0 && sessionId.length <= 128 && !sessionId.includes("/")) return;
  throw new RivuletError(
    "invalid_session_id",
    "A session id has 1 to 128 characters and no slash.",
    {
      hint: "Leave it out to start a new session.",
    },
  );
}

function unknownApproval(ids: readonly string[]): RivuletError {
  return new RivuletError("unknown_approval", `Nothing waits for ${ids.join(", ")}.`, {
    hint: "agent.approvals({ sessionId }) lists what waits; answers belong to the session that asked.",
  });
}
