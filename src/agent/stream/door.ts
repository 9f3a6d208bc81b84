import { notFound, RivuletError } from "../../base/error.ts";
import type {
  Approval,
  AttachOptions,
  AttachTarget,
  Input,
  Post,
  Reply,
  RunOptions,
  StandardSchema,
  Store,
  TaskRecord,
} from "../../contract/index.ts";
import { checkBudget } from "../base/budget.ts";
import {
  answerRows,
  approveStops,
  checkAgent,
  checkOutput,
  checkTaskModel,
  denyAll,
  matchAnswers,
  refusalOf,
  sessionSuspended,
  withLimits,
} from "../drive/answers.ts";
import type { Conversation } from "../drive/conversation.ts";
import { type Drive, drive } from "../drive/drive.ts";
import { inherited, misfit, type Ties } from "../drive/home.ts";
import { cancelRow, rootRecord, unfinished, Workload } from "../drive/plan.ts";
import type { Process } from "../drive/process.ts";
import { type Rest, untilRest } from "../drive/rest.ts";
import { readEnding, refOf, replyOf } from "../loop/ending.ts";
import { withHooks } from "../loop/hooks.ts";
import { isControl } from "../loop/inbox.ts";
import { isHistory, type ReadInput, readInput, storedInput } from "../loop/input.ts";
import { type AgentSettings, withModel, withOutsideTools } from "../loop/settings.ts";
import { structuredState } from "../loop/structured-output.ts";
import { waitingTasks } from "../loop/waiting.ts";
import { modelName } from "../model/resolve.ts";
import {
  type Answered,
  type EntryInput,
  type EntrySession,
  isLive,
  planAnswers,
  planEntry,
  planStart,
} from "./entry.ts";

/** The options of `call`, `stream` and `run`. */
export type CallOptions = RunOptions<StandardSchema | undefined>;

/** A call and the process that it runs in. */
export interface Call {
  readonly process: Process;
  readonly settings: AgentSettings;
  readonly options: CallOptions;
  /** Aborts when the caller cancels. */
  readonly stop: AbortSignal;
  /** The task that this process runs with the options of this call, if it runs it. */
  taskId?: string;
  /** The work on the task that this call has begun here; it may have failed before anyone looks for it. */
  drive?: Drive;
}

/** The task that a call concerns, before its rest. */
export interface Entered {
  readonly record: TaskRecord;
  /** The root session. */
  readonly conversation: string;
  /** The number of the last event before this call. */
  readonly after: number;
  /** Why some answers of the call have no effect; thrown when the task rests. */
  readonly refused?: RivuletError | undefined;
}

/** Adds the input to the session, or compacts it, without running the agent. */
type Only = "observes" | "compacts";

/** Reads the input of a call; throws for input and options that cannot be used. */
function readEntry({ settings, options }: Call, input: Input, only?: Only): ReadInput {
  checkBudget(options.budget, settings.price !== undefined);
  withHooks(settings, options.hooks); // throws if they are wrong
  withModel(settings, options.model); // throws if it is not allowed
  withOutsideTools(settings, options.outsideTools); // throws if a name is taken
  const read = readInput(input, settings.ids);
  const { messages, answers, results } = read;
  if (only === "observes" && (messages.length === 0 || answers.length + results.size > 0)) {
    throw new RivuletError("invalid_input", "`observe` takes one or more messages.", {
      hint: "Pass answers and results to `call`. Nothing was stored.",
    });
  }
  return read;
}

/** Finds a task that exists. */
export async function findTask(
  store: Store,
  { sessionId, taskId }: AttachTarget,
  { userId, after = -1 }: AttachOptions,
): Promise<Entered> {
  const record =
    taskId === undefined ? await newestTask(store, sessionId ?? "") : await store.task(taskId);
  const root = record && (await store.task(record.rootTaskId));
  if (record === undefined || root === undefined || root.userId !== userId)
    throw taskId === undefined ? notFound("session", sessionId ?? "") : notFound("task", taskId);
  return { record, conversation: root.sessionId, after };
}

/** The newest task of a session that runs its agent. */
async function newestTask(store: Store, sessionId: string): Promise<TaskRecord | undefined> {
  for (let limit = 1; ; limit *= 8) {
    const tasks = await store.tasks({ sessionId, newestFirst: true, limit });
    const found = tasks.find((task) => !task.observes && !task.compacts);
    if (found || tasks.length < limit) return found;
  }
}

/** Lists the approvals that wait in a session, at any depth. */
export async function openApprovals(
  { store }: AgentSettings,
  { sessionId, userId }: { readonly sessionId: string; readonly userId?: string },
): Promise<readonly Approval[]> {
  if (!(await hasSession(store, sessionId, userId))) throw notFound("session", sessionId);
  const waiting = await waitingTasks(store, { conversation: sessionId });
  return waiting.flatMap(({ approvals }) => approvals);
}

/** Whether a session exists; throws `not_found` for the session of another user. */
async function hasSession(
  store: Store,
  sessionId: string,
  userId: string | undefined,
): Promise<boolean> {
  const [session] = await store.sessions({ sessionId, limit: 1 });
  const hasTask = session?.agentId !== undefined;
  if (hasTask && session.userId !== userId) throw notFound("session", sessionId);
  return hasTask;
}

/** An owner here runs the task with the options of this call. */
function register(call: Call, { taskId }: TaskRecord): void {
  call.process.callers.set(taskId, call);
  call.taskId = taskId;
}

/** Waits for the rest of the task and builds the reply from it. */
export async function finish(
  call: Call,
  { record: { taskId, status, input }, conversation }: Entered,
): Promise<Reply<unknown>> {
  const { process, settings, options } = call;
  let isWithdrawn = false;
  const onBlocked = async (workload: Workload, first: TaskRecord) => {
    const record = workload.record(taskId);
    if (isWithdrawn || record?.status !== "queued") return;
    isWithdrawn = true;
    if (options.onSuspended === "deny") return denyHeld(call, workload, first);
    await process.store.post([cancelRow(record, "The session waits for answers.", true)]);
  };
  const isCaller = process.callers.get(taskId)?.options === options;
  const rest = await untilRest(process, {
    settings,
    conversation,
    taskId,
    onWait: options.onWait,
    ...(call.drive && { drive: call.drive }),
    ...(isCaller && status === "queued" && input && { onBlocked }),
  });
  const { record } = rest;
  // The input leaves the record when a task begins.
  if (record.status === "cancelled" && record.input !== undefined && isCaller) {
    if (isWithdrawn && !call.stop.aborted) throw sessionSuspended();
    throw cancelledInQueue(call.stop.reason);
  }
  if (record.status === "failed" && rest.drive?.error) throw rest.drive.error;
  return readReply(call, rest);
}

/** Denies what the first task of a session waits for, so that the next one can begin. */
async function denyHeld(
  { process, settings }: Call,
  workload: Workload,
  { taskId, rootTaskId }: TaskRecord,
): Promise<void> {
  const waiting = await waitingTasks(process.store, { rootTaskId });
  const held = waiting.filter(({ record }) => workload.topId(record) === taskId);
  const denials = denyAll(held.flatMap(({ approvals }) => approvals));
  await process.store.post(answerRows(settings.ids, denials, held));
}

/** Builds the reply; a structured value that another process validated is validated with this call's schema. */
async function readReply(call: Call, { record, drive }: Rest): Promise<Reply<unknown>> {
  const { store } = call.process;
  const { output } = call.options;
  const reply = await replyOf(store, record, readEnding(record));
  const isChecked = output === undefined || drive?.task?.scope.caller.output === output;
  if (reply.generateReason !== "structured_output") return reply;
  // The caller may change its value; the store's is frozen.
  if (isChecked) return { ...reply, structured: structuredClone(reply.structured) };
  // The next task of the session may have begun already.
  const all = await store.session(record.sessionId);
  const messages = all.filter(({ metadata }) => metadata?.taskId === record.taskId);
  const state = await structuredState({
    settings: call.settings,
    identity: { ref: refOf(record) },
    state: { record },
    transcript: { messages },
    control: { controller: new AbortController(), cancelledAt: undefined },
    scope: { caller: { output } },
  });
  if (state.type === "found") return { ...reply, structured: state.value };
  const problem = state.type === "wrong" ? `: ${state.problem}` : "";
  const message = `The answer of task ${record.taskId} does not fit the output schema of this call${problem}.`;
  throw new RivuletError("structured_output_invalid", message, {
    hint: "Another process ran the task and checked the answer with the JSON Schema alone.",
  });
}

/** The session of a call, with its unfinished tasks. */
interface CallSession extends EntrySession {
  readonly sessionId: string;
  readonly workload: Workload;
}

/** Finds the session of a call. Answers name their tasks, so they find their session themselves. */
async function sessionOf(
  { settings, options }: Call,
  { answers: [answer] }: ReadInput,
): Promise<{ readonly sessionId: string; readonly exists: boolean }> {
  const { store, ids } = settings;
  const { sessionId, userId } = options;
  if (sessionId !== undefined)
    return { sessionId, exists: await hasSession(store, sessionId, userId) };
  const root = answer && (await store.task(answer.rootTaskId));
  if (root && root.userId === userId) return { sessionId: root.sessionId, exists: true };
  return { sessionId: ids.next("sess"), exists: false };
}

async function readSession(call: Call, read: ReadInput): Promise<CallSession> {
  const { sessionId, exists } = await sessionOf(call, read);
  const isNamed = call.options.sessionId !== undefined;
  const isFresh = !exists && !isNamed;
  const workload = isFresh
    ? new Workload([], [])
    : await Workload.read(call.settings.store, sessionId);
  const root = workload.first(sessionId);
  const hasInbox = workload.posts.some((row) => row.sessionId === sessionId && !isControl(row));
  return { sessionId, exists, isNamed, workload, root, hasInbox };
}

/** Starts a task, or continues the session's unfinished one. */
export async function enter(call: Call, given: Input, only?: Only): Promise<Entered> {
  const read = readEntry(call, given, only);
  const { taskId } = call.options;
  const started = taskId && (await call.settings.store.task(taskId));
  if (started) return followStarted(call, started);
  const input: EntryInput = {
    hasText: read.messages.length > 0,
    hasAnswers: read.answers.length > 0 || read.results.size > 0,
    compacts: only === "compacts",
  };
  const session = await readSession(call, read);
  const entry = planEntry(input, session);
  if (entry === "missing") throw notFound("session", session.sessionId);
  if (entry === "start") return startTask(call, read, session, only);
  const { rows, ...answered } = await answersOf(call, read, session, entry);
  const next = planAnswers(input, session, answered);
  switch (next.type) {
    case "continue":
      return continueTask(call, read, next.task, rows, session.sessionId);
    case "start": {
      const refused = await post(call, session.sessionId, rows);
      return { ...(await startTask(call, read, session, only)), refused };
    }
    case "drain":
      return startTask(call, read, session);
    case "missing":
      throw notFound("session", session.sessionId);
    case "idle":
      throw nothingToResume(session.sessionId);
  }
}

/** Follows the task that an earlier call started with the id of this one. */
function followStarted({ settings, options }: Call, record: TaskRecord): Entered {
  const isOwn = record.userId === options.userId && record.depth === 0;
  if (!isOwn) throw notFound("task", record.taskId);
  checkAgent(settings.name, record);
  return { record, conversation: record.sessionId, after: -1 };
}

/** The answers of a call as rows, and the tasks that they move. Throws before anything is written. */
async function answersOf(
  { settings, options }: Call,
  read: ReadInput,
  { sessionId, workload, root }: CallSession,
  entry: "answer" | "resume",
): Promise<Answered & { readonly rows: readonly Post[] }> {
  const { store, ids, name, clock } = settings;
  const hasText = read.messages.length > 0;
  if (root && hasText) checkAgent(name, root);
  const waiting = await waitingTasks(store, { conversation: sessionId });
  const held = waiting.filter(({ record }) => root && workload.topId(record) === root.taskId);
  const holding = new Set(hasText ? held.map(({ record }) => record.taskId) : []);
  const stops = () => approveStops(root ? held : waiting);
  const given = entry === "resume" ? { ...read, answers: stops() } : read;
  const { onSuspended = "fail" } = options;
  const answers = matchAnswers(given, waiting, holding, onSuspended, clock.now());
  const rows = answerRows(ids, answers, waiting);
  const answered = rows.flatMap((row) => workload.target(row) ?? []);
  for (const { rootTaskId } of answered) {
    const asked = workload.record(rootTaskId) ?? (await store.task(rootTaskId));
    if (asked) checkAgent(name, asked);
  }
  const tops = answered.map((record) => workload.top(record));
  return { rows, tops, isHeld: holding.size > 0 };
}

/** Posts answers and text to a task and follows it. */
async function continueTask(
  call: Call,
  read: ReadInput,
  record: TaskRecord,
  rows: readonly Post[],
  conversation: string,
): Promise<Entered> {
  const { settings, options, stop } = call;
  const { store, ids } = settings;
  const { taskId, rootTaskId, depth } = record;
  if (depth === 0) checkAgent(settings.name, record);
  checkOutput(options.output, record);
  checkTaskModel(options.model, modelName(settings.models), record);
  // Past assistant messages would hide the open calls of an unfinished task.
  if (read.messages.some(isHistory))
    throw new RivuletError("invalid_input", `Task ${taskId} of this session has not ended.`, {
      hint: "Pass messages of role assistant or tool only to a new task. Nothing has changed.",
    });
  const text = await storedInput(read.messages, record, settings, stop);
  const after = await store.last(rootTaskId);
  if (depth === 0) register(call, record);
  const input = { kind: "input", ...refOf(record) } as const;
  const posts = text.map((message) => ({ id: ids.next("post"), ...input, message }));
  const all = withLimits([...rows, ...posts], options.budget);
  return { record, conversation, after, refused: await post(call, conversation, all) };
}

/** Posts rows; a call with live values first makes this process the owner, which alone can use them. */
async function post(call: Call, sessionId: string, rows: readonly Post[]) {
  if (rows.length === 0) return undefined;
  const { process, options } = call;
  const owned = isLive(options) ? await own(call, sessionId) : undefined;
  const stored = await process.store.post(rows).finally(() => void owned?.leave());
  return refusalOf(rows, stored);
}

/** Starts a root task: at once if the session is idle and this process can own it, else through the queue. */
async function startTask(
  call: Call,
  read: ReadInput,
  { sessionId, root }: CallSession,
  only?: Only,
): Promise<Entered> {
  const { process, settings, options, stop } = call;
  const start = planStart(options, root);
  if (start === "busy") throw busy(sessionId);
  const record = {
    ...rootRecord(settings, sessionId, options),
    ...(await tiesIn(call, sessionId, root)),
    ...(only && { [only]: true as const }),
  };
  const isElsewhere = misfit(settings, record) !== undefined;
  const input = await storedInput(read.messages, record, settings, stop);
  const queued = { ...record, input };
  register(call, record);
  const entered = { record: queued, conversation: sessionId, after: -1 };
  if (start === "own") {
    if (isElsewhere) throw elsewhere(sessionId);
    await submitLive(call, queued);
    return entered;
  }
  if (start === "begin" && !isElsewhere && (await submit(call, queued))) return entered;
  const stored = await process.store.enqueue(queued, { ifIdle: options.onBusy === "fail" });
  return { ...entered, record: stored, conversation: stored.sessionId };
}

/** What the tasks before a new one tie it to: unfinished ones to their version, all to the place of their files. */
async function tiesIn(
  { process: { store }, settings: { place } }: Call,
  sessionId: string,
  root: TaskRecord | undefined,
): Promise<Ties> {
  if (root) return inherited(root);
  if (place === undefined) return {};
  const [last] = await store.tasks({ sessionId, newestFirst: true, limit: 1 });
  return last ? inherited({ ...last, agentVersion: "" }) : {};
}

function elsewhere(sessionId: string): RivuletError {
  return new RivuletError("unknown_place", `Session ${sessionId} depends on another process.`, {
    hint: "Live `context` values and `hooks` cannot cross processes. Omit them, or move the session.",
  });
}

/** Begins a task here, with one commit; false when it has to queue. */
async function submit(call: Call, record: TaskRecord): Promise<boolean> {
  const { process, settings, options, stop } = call;
  const owned = await process.enter(record.sessionId, settings);
  if (owned === undefined) return false;
  const onStop = () => owned.cancelNow(record.taskId, stop.reason);
  try {
    const isRoot = (one: Drive) => one.record.sessionId === record.sessionId;
    const running = [...owned.drives.values()].find(isRoot);
    if (running) {
      await running.begun.catch(() => {}); // its record precedes this one
      return false;
    }
    const cancel = stop.aborted ? { cancel: stop.reason } : {};
    call.drive = drive(owned, record, { settings, caller: options, isNew: true, ...cancel });
    stop.addEventListener("abort", onStop);
    await call.drive.begun;
    return true;
  } catch (error) {
    const code = error instanceof RivuletError ? error.code : "";
    if (code === "agent_busy" || code === "fenced") return false;
    throw error;
  } finally {
    stop.removeEventListener("abort", onStop);
    void owned.leave();
  }
}

/** Begins a task with live values as soon as this process owns the idle session; it is not stored before. */
async function submitLive(call: Call, record: TaskRecord): Promise<void> {
  const { process, options } = call;
  const { sessionId } = record;
  for (; ; await untilChange(call, sessionId)) {
    const owned = await own(call, sessionId);
    try {
      const [first] = await process.store.tasks({ sessionId, status: unfinished });
      if (first === undefined && (await submit(call, record))) return;
      if (options.onBusy === "fail") throw busy(sessionId);
      if (first?.status === "suspended") throw sessionSuspended();
    } finally {
      void owned.leave();
    }
  }
}

/** Takes the lease of a conversation, waiting for it if need be. The caller must leave the conversation. */
async function own(call: Call, sessionId: string): Promise<Conversation> {
  const { process, settings, options } = call;
  if (!process.canRun)
    throw new RivuletError("cannot_run", "This process runs no tasks.", {
      hint: "Live `context` values and `hooks` cannot cross processes. Omit them.",
    });
  for (; ; await untilChange(call, sessionId)) {
    const owned = await process.enter(sessionId, settings);
    if (owned) return owned;
    if (options.onBusy !== "fail") continue;
    throw new RivuletError("agent_busy", `Another process owns session ${sessionId}.`, {
      retryable: true,
      hint: 'Live `context` values and `hooks` cannot cross processes. Omit them, or wait with onBusy: "queue".',
    });
  }
}

/** Resolves when something of the session has changed, or after a second. */
async function untilChange(
  { process, settings, options, stop }: Call,
  sessionId: string,
): Promise<void> {
  const woken = new AbortController();
  const unwatch = process.store.watch({ session: sessionId }, () => woken.abort("woken"));
  const { signal } = woken;
  await settings.clock.sleep(1_000, AbortSignal.any([signal, stop])).then(
    () => options.onWait?.({ reason: "busy" }),
    () => {}, // woken before the second was over
  );
  unwatch();
  if (stop.aborted) throw cancelledInQueue(stop.reason);
}

function busy(sessionId: string): RivuletError {
  return new RivuletError("agent_busy", `Session ${sessionId} has a task running.`, {
    retryable: true,
    hint: 'Wait for the task, steer it, or call with onBusy: "queue".',
  });
}

function nothingToResume(sessionId: string): RivuletError {
  return new RivuletError("nothing_to_resume", `Session ${sessionId} has no unfinished task.`, {
    hint: "Pass a message to start a task.",
  });
}

function cancelledInQueue(cause: unknown): RivuletError {
  return new RivuletError("cancelled", "The call was cancelled before its task began.", { cause });
}
