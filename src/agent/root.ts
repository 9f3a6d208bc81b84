import type { Input, RunOptions, StandardSchema } from "../protocol/agent.ts";
import { RivuletError, rivuletErrorOf } from "../protocol/error.ts";
import type { Message, Reply, TaskRef } from "../protocol/message.ts";
import type { TaskRecord } from "../protocol/store.ts";
import { postAnswers } from "./answers.ts";
import { checkBudget } from "./budget.ts";
import { checkOutput } from "./check-output.ts";
import { Conversation } from "./conversation.ts";
import { abortTree, driveUntilIdle, postsFor } from "./drive.ts";
import { unfinished } from "./drivers.ts";
import { type Suspended, suspended } from "./ending.ts";
import { driveHooked, replyOf } from "./hooked.ts";
import { isControl, lateWords } from "./inbox.ts";
import { isHistory, type ReadInput, readInput, storedInput } from "./input.ts";
import { beginTask, openTask, resumeTask } from "./lifecycle.ts";
import { nextStep } from "./next.ts";
import { recordReply, refOf } from "./record-reply.ts";
import {
  answerAhead,
  answerOthers,
  answersOf,
  checkAgent,
  followed,
  heldBy,
  sessionOf,
} from "./root-answers.ts";
import { rootRecord, withBudget } from "./root-record.ts";
import type { AgentSettings } from "./settings.ts";
import { takeSlot } from "./slot.ts";
import type { TaskRun } from "./task-run.ts";
import { traceTask } from "./trace.ts";
import { waitingTasks } from "./waiting.ts";

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

/** How a root task is run. */
interface RootOptions extends RunOptions<StandardSchema | undefined> {
  /** The task to go on with, when no other will do. */
  readonly only?: string;
  /** True: only if something in the inbox is to be read. */
  readonly isWake?: boolean;
}

/** What every part of a call on a session needs. */
interface Call {
  readonly settings: AgentSettings;
  readonly read: ReadInput;
  readonly options: RootOptions;
  readonly stop: AbortSignal;
  readonly onStarted: (started: Started) => void;
}

/** Starts to drive a root task: a new one, or the one that the session has not finished. */
export function startRoot(settings: AgentSettings, input: Input, options: RootOptions): RootWork {
  const started = Promise.withResolvers<Started>();
  const stop = new AbortController();
  const reply = driveRoot(settings, input, options, stop, started.resolve).catch((error) => {
    throw rivuletErrorOf(error);
  });
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
  const { store, ids } = settings;
  checkBudget(options.budget, settings.price !== undefined);
  checkContext(options.context);
  const read = readInput(input, ids);
  const sessionId = options.sessionId ?? (await sessionOf(store, read)) ?? ids.next("sess");
  checkSessionId(sessionId);
  const onAbort = () => stop.abort(options.signal?.reason);
  if (options.signal?.aborted) onAbort();
  options.signal?.addEventListener("abort", onAbort, { once: true });
  const onBusy = options.onBusy ?? "queue";
  const { signal } = stop;
  const call: Call = { settings, read, options, stop: signal, onStarted };
  let release: (() => void) | undefined;
  try {
    const turn = takeSlot(store, sessionId, onBusy, signal);
    turn.catch(() => {}); // who waits for it hears of it
    if (onBusy === "fail") await turn;
    const answered = await answerAhead(call, sessionId).catch((error: unknown) => {
      // Its turn may be yet to come, or never come.
      turn.then(
        (giveBack) => giveBack(),
        () => {},
      );
      throw error;
    });
    release = await turn;
    const conversation = await Conversation.enter({ settings, sessionId, onBusy, signal });
    lookAfter(conversation, settings);
    try {
      return await runOn(conversation, call, answered);
    } finally {
      await conversation.leave();
    }
  } finally {
    release?.();
    options.signal?.removeEventListener("abort", onAbort);
  }
}

/** As long as this process has a conversation, it also starts what somebody else has given it to do. */
export function lookAfter(conversation: Conversation, settings: AgentSettings): void {
  const { sessionId } = conversation;
  const start = (more: Partial<RootOptions>) =>
    startRoot(settings, undefined, { sessionId, ...more }).reply.catch(() => {});
  conversation.onRootWaiting ??= (only) => void start({ only });
  conversation.onDelivery ??= () => {
    if (settings.wakeOnCompletion) void start({ isWake: true });
  };
}

/** Runs the session's own task; answers to others only see to it that those go on. */
async function runOn(
  conversation: Conversation,
  call: Call,
  answered: readonly TaskRecord[] | undefined,
): Promise<Reply<unknown>> {
  const { store, sessionId } = conversation;
  const [known] = await store.tasks({ sessionId, status: unfinished });
  const { only } = call.options;
  if (only !== undefined && only !== known?.taskId) {
    throw new RivuletError("task_ended", `Task ${only} has ended.`);
  }
  const [first] = answered ?? [];
  if (known === undefined && first !== undefined) return followDriven(conversation, call, first);
  const prepared = known
    ? await resumeRoot(conversation, call, known, answered !== undefined)
    : await createRoot(conversation, call);
  const { task, input } = prepared;
  return traceTask(task, () => runRoot(task, call.stop, input));
}

/** What was answered belongs to a background task, or has ended meanwhile: its reply is the one to give. */
async function followDriven(
  conversation: Conversation,
  { stop, onStarted }: Call,
  answered: TaskRecord,
): Promise<Reply<unknown>> {
  const { store, drives } = conversation;
  const { rootTaskId } = answered;
  const after = await store.last(rootTaskId);
  const target = await followed(store, answered);
  const onStop = () => abortTree(conversation, target.taskId, stop.reason);
  if (stop.aborted) onStop();
  stop.addEventListener("abort", onStop, { once: true });
  try {
    await conversation.attend();
    onStarted({ ref: refOf(target), after });
    await drives.get(target.taskId)?.ended;
    return await recordReply(store, (await store.task(target.taskId)) ?? target);
  } finally {
    stop.removeEventListener("abort", onStop);
  }
}

interface PreparedRoot {
  readonly task: TaskRun;
  readonly input: readonly Message[];
}

async function createRoot(conversation: Conversation, call: Call): Promise<PreparedRoot> {
  const { settings, read, options, stop, onStarted } = call;
  const { store, sessionId } = conversation;
  await answerOthers(call, sessionId);
  if (options.isWake) {
    const posts = await store.posts({ sessionId });
    if (posts.every(isControl)) throw new RivuletError("nothing_new", "Nothing has come.");
  }
  const messages = await store.session(sessionId);
  const record = rootRecord(settings, sessionId, options);
  const input = await storedInput(read.messages, record, settings, stop);
  const isNew = true;
  const task = await openTask({ settings, conversation, record, messages, caller: options, isNew });
  const late = await lateWords(task);
  onStarted({ ref: task.ref, after: -1 });
  await beginTask(task, input, { late });
  return { task, input };
}

/** Goes on with the task that the session has not finished; input that does not fit changes nothing. */
async function resumeRoot(
  conversation: Conversation,
  call: Call,
  known: TaskRecord,
  isAnswered: boolean,
): Promise<PreparedRoot> {
  const { settings, read, options, stop, onStarted } = call;
  const { store, sessionId } = conversation;
  checkAgent(settings, known);
  checkOutput(options.output, known);
  if (read.messages.some(isHistory)) throw historyInBetween(known);
  const record = withBudget(known, options.budget);
  const { rootTaskId, status } = record;
  const waiting = await waitingTasks(store, { conversation: sessionId });
  const holding = await heldBy(store, record, waiting);
  const answers = isAnswered ? [] : await answersOf(call, waiting, holding);
  const input = await storedInput(read.messages, record, settings, stop);
  const messages = await store.session(sessionId);
  const task = await openTask({ settings, conversation, record, messages, caller: options });
  onStarted({ ref: task.ref, after: await store.last(rootTaskId) });
  await postAnswers(store, settings.ids, answers, waiting);
  const hasNews = input.length > 0 || (await postsFor(task)).length > 0;
  if (status === "suspended" && !hasNews) return { task, input };
  const isStopped = waiting.some(({ stop }) => stop !== undefined);
  await resumeTask(task, isStopped ? "stop_answered" : "approval_resolved", input, stop);
  return { task, input };
}

async function runRoot(
  task: TaskRun,
  stop: AbortSignal,
  input: readonly Message[],
): Promise<Reply<unknown>> {
  const waiting = stop.aborted ? undefined : stillWaiting(task);
  if (waiting) return replyOf(task, waiting);
  const { conversation, controller, ref } = task;
  const { lost, drives } = conversation;
  const onStop = () => {
    if (task.isResting) return controller.abort(stop.reason); // its hooks may still be waited for
    const reason = String((stop.reason as Error)?.message ?? stop.reason);
    task.emitter.emit({ type: "task.cancelling", reason });
    abortTree(conversation, ref.taskId, stop.reason);
  };
  const onLost = () => controller.abort(lost.signal.reason);
  const ended = Promise.withResolvers<void>();
  drives.set(ref.taskId, {
    record: task.record,
    ancestors: [],
    controller,
    task,
    isQueued: false,
    begun: Promise.resolve(),
    opened: Promise.resolve(),
    ended: ended.promise,
  });
  if (stop.aborted) onStop();
  stop.addEventListener("abort", onStop, { once: true });
  lost.signal.addEventListener("abort", onLost, { once: true });
  try {
    return await driveHooked(task, input, driveUntilIdle);
  } finally {
    drives.delete(ref.taskId);
    ended.resolve();
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

/** What an agent has said before would hide the calls that it has open. */
function historyInBetween({ taskId }: TaskRecord): RivuletError {
  return new RivuletError("invalid_input", `Task ${taskId} of this session has not ended.`, {
    hint: "Messages of role assistant or tool can be given to a new task only. Nothing has changed.",
  });
}

function checkContext(context: unknown): void {
  if (context === undefined || (typeof context === "object" && context !== null)) return;
  throw new RivuletError("invalid_options", "context is no object.", {
    hint: "Pass a ContextStore or an object with values by their keys.",
  });
}
