import type { Agent, Budget, RunOptions, StandardSchema } from "../../protocol/agent.ts";
import { RivuletError } from "../../protocol/error.ts";
import type { Message } from "../../protocol/message.ts";
import type { Post, TaskRecord } from "../../protocol/store.ts";
import { isTerminal } from "../../protocol/task.ts";
import { type Ending, executorLost, failed } from "../loop/ending.ts";
import { callHooks } from "../loop/hooks.ts";
import { cancelReason, isFor } from "../loop/inbox.ts";
import { fail, runLoop } from "../loop/loop.ts";
import { type AgentSettings, settingsBehind } from "../loop/settings.ts";
import { hooksOf, type TaskRun } from "../loop/task-run.ts";
import { traceTask } from "../loop/trace.ts";
import type { Conversation } from "./conversation.ts";
import {
  beginTask,
  cancelQueued,
  endTask,
  nameOnly,
  openParent,
  openTask,
  resumeTask,
  withBudget,
} from "./lifecycle.ts";
import { unfinished, Workload } from "./plan.ts";
import { relay } from "./relay.ts";
import { taskReached } from "./task-reached.ts";

/** A task that this process works on. */
export interface Drive {
  /** The task as it was when the drive opened it; `task.record` is newer. */
  record: TaskRecord;
  /** The ids of the tasks above it, the root's first. */
  ancestors: readonly string[];
  readonly controller: AbortController;
  /** The queue that the task waits in: for its turn in its session, or for a place among its siblings. */
  queue: "session" | "place" | undefined;
  /** Absent until it is open. */
  task?: TaskRun;
  /** Why the task failed, with the cause that its record cannot keep. */
  error?: RivuletError;
  /** Resolves when the task is open, or rests without having been opened. */
  readonly opened: Promise<unknown>;
  /** Resolves when the task is stored; a new one is stored when it begins. */
  readonly begun: Promise<unknown>;
  /** Resolves when the task rests; rejects when this process may not write, or the store refused its beginning. */
  readonly ended: Promise<void>;
}

/** Knowledge of a drive's starter about the task. */
export interface DriveStart {
  /** The agent of a root. */
  readonly settings?: AgentSettings;
  /** The agent of a child. */
  readonly agent?: Agent;
  readonly parent?: TaskRun;
  readonly caller?: RunOptions<StandardSchema | undefined>;
  /** True: no record is stored yet; the first commit writes it. */
  readonly isNew?: boolean;
  /** Resolves when the record of a queued task is stored. */
  readonly stored?: Promise<void>;
  /** Emits events of the parent that go into the first commit. */
  readonly onBegin?: () => void;
  /** Cancels the task instead of running it. */
  readonly cancel?: unknown;
  /** Fails the task instead of running it. */
  readonly fail?: RivuletError;
}

/**
 * Takes up a task, whatever its state: new, queued, answered, lost or to be ended. This is the only way to do so. The
 * task counts as driven from the moment of the call; a second call returns the same drive.
 */
export function drive(
  conversation: Conversation,
  record: TaskRecord,
  start: DriveStart = {},
): Drive {
  const running = conversation.drives.get(record.taskId);
  if (running) return running;
  const { parent } = start;
  const opened = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  const started: Drive = {
    record,
    ancestors: parent ? [...parent.ancestors, parent.ref.taskId] : [],
    controller: new AbortController(),
    queue: !start.isNew && record.status === "queued" ? "session" : undefined,
    opened: opened.promise,
    begun: begun.promise,
    ended: ended.promise,
  };
  const { controller } = started;
  const { signal: lost } = conversation.lost;
  const onLost = () => controller.abort(lost.reason);
  if (lost.aborted) onLost();
  else lost.addEventListener("abort", onLost, { once: true });
  if (start.cancel !== undefined) controller.abort(start.cancel);
  if (parent?.controller.signal.aborted) controller.abort(parent.controller.signal.reason);
  conversation.drives.set(record.taskId, started);
  if (!start.isNew) begun.resolve(start.stored);
  const onOpen = () => {
    opened.resolve();
    begun.resolve();
  };
  const work = new Work(conversation, started, start);
  work.run(onOpen).then(
    () => {
      lost.removeEventListener("abort", onLost);
      conversation.release(started, work.rows);
      onOpen();
      ended.resolve();
    },
    (error: unknown) => {
      lost.removeEventListener("abort", onLost);
      conversation.release(started, work.rows);
      for (const { promise } of [begun, ended]) promise.catch(() => {}); // not every starter waits
      begun.reject(error);
      opened.resolve();
      ended.reject(error);
    },
  );
  return started;
}

/** One drive from its start to its rest. */
class Work {
  /** The answers and cancels that the drive found when it started. */
  rows: readonly Post[] = [];
  readonly #conversation: Conversation;
  readonly #drive: Drive;
  readonly #start: DriveStart;

  constructor(conversation: Conversation, drive: Drive, start: DriveStart) {
    this.#conversation = conversation;
    this.#drive = drive;
    this.#start = start;
  }

  async run(onBegun: () => void): Promise<void> {
    const { lost } = this.#conversation;
    try {
      await this.#start.stored;
      if (!this.#start.isNew && !(await this.#canMove())) return;
      await this.#open(onBegun);
    } catch (thrown) {
      const isLost = lost.signal.aborted;
      const error: unknown = isLost ? lost.signal.reason : thrown;
      const { depth, status } = this.#drive.record;
      const isRefused = depth === 0 && status === "queued" && isRefusedBeginning(error);
      if (!isLost && isRefused) throw error;
      // Only the store fails here: nothing more can be written for certain.
      if (!isLost) this.#conversation.lose(error);
      const { task } = this.#drive;
      if (task && error instanceof Error) await tellError(task, error);
      throw error;
    }
  }

  /** Reads the record again, now that no other drive can change it; waits for the earlier tasks of its session. */
  async #canMove(): Promise<boolean> {
    const drive = this.#drive;
    const { store, sessionId } = this.#conversation;
    const { taskId } = drive.record;
    const workload = await Workload.read(store, sessionId);
    const record = workload.record(taskId);
    drive.record = record ?? (await store.task(taskId)) ?? drive.record;
    if (record === undefined) return false;
    this.rows = workload.rowsFor(taskId);
    drive.record = withBudget(record, this.#start.caller?.budget ?? budgetIn(this.rows));
    const cancel = this.#cancelRow();
    if (cancel) drive.controller.abort(cancelReason(cancel));
    const { signal } = drive.controller;
    if (record.status === "suspended") {
      return this.rows.length > 0 || signal.aborted || this.#start.fail !== undefined;
    }
    if (record.status === "queued" && this.#start.fail === undefined) {
      await untilFirst(this.#conversation, record, signal);
      drive.queue = "place";
      await untilPlaced(this.#conversation, drive);
    }
    drive.queue = undefined;
    return true;
  }

  #cancelRow(): Post | undefined {
    const { record } = this.#drive;
    return this.rows.find((row) => row.kind === "cancel" && isFor(row, record));
  }

  async #open(onBegun: () => void): Promise<void> {
    const { caller, isNew = false } = this.#start;
    const { controller, record } = this.#drive;
    const conversation = this.#conversation;
    const parent =
      this.#start.parent ?? (record.depth > 0 ? await openParent(conversation, record) : undefined);
    if (record.depth > 0 && parent === undefined) return;
    if (parent) this.#drive.ancestors = [...parent.ancestors, parent.ref.taskId];
    const executor = await this.#executor(parent);
    if (executor === undefined) return;
    const isFirst = isNew && record.depth > 0;
    const messages = isFirst ? [] : await conversation.store.session(record.sessionId);
    const task = await openTask({
      conversation,
      settings: executor.settings,
      record: this.#drive.record, // it may have been promoted meanwhile
      messages,
      parent,
      controller,
      ...(caller && { caller }),
      isNew: isNew || (record.depth === 0 && record.status === "queued"),
    });
    this.#drive.task = task;
    await traceTask(task, () => this.#execute(task, executor, onBegun));
  }

  /** Undefined: the agent of this root is not here, so the task waits for a process that has it. */
  async #executor(parent: TaskRun | undefined): Promise<Executor | undefined> {
    const { record, controller } = this.#drive;
    const { settings = this.#conversation.rootSettings(record), agent } = this.#start;
    if (parent === undefined) return settings && loopExecutor(settings);
    if (controller.signal.aborted || this.#start.fail) {
      return endingExecutor(this.#conversation, parent, record);
    }
    return executorOf(this.#conversation, parent, record, agent);
  }

  async #execute(task: TaskRun, executor: Executor, onBegun: () => void): Promise<void> {
    const { fail: failure } = this.#start;
    const { input = [], status } = task.record;
    if (status === "queued") {
      if (failure) return endTask(task, failed(task, failure));
      const isAborted = task.controller.signal.aborted;
      if (isAborted && !this.#start.isNew) return cancelQueued(task, this.#cancelRow());
      await beginTask(task, input, this.#start.onBegin);
    } else {
      const isCancelled = task.controller.signal.aborted;
      await resumeTask(task, isCancelled ? "cancelled" : "approval_resolved", executor.isRelay);
    }
    onBegun();
    const ending = failure ? await fail(task, failure) : await executor.run(task, input);
    await endTask(task, ending);
    if (ending.status !== "failed") return;
    this.#drive.error = ending.error;
    await tellError(task, ending.error);
  }
}

/** A call on a task that has begun may change the task's limits: its budget comes with its rows. */
function budgetIn(rows: readonly Post[]): Budget | undefined {
  return rows.find(({ message }) => message?.metadata?.budget)?.message?.metadata?.budget as Budget;
}

/** An `onError` hook that throws must not hide the error. */
async function tellError(task: TaskRun, error: Error): Promise<void> {
  const { hookContext } = task;
  await callHooks(hooksOf(task), "onError", undefined, (hook) =>
    hook.onError?.(hookContext, error),
  ).catch(() => {});
}

/** The store refuses to begin a task whose session has an earlier unfinished one, or belongs to another user. */
export function isRefusedBeginning(error: unknown): boolean {
  return error instanceof RivuletError && refusals.has(error.code);
}

const refusals: ReadonlySet<string> = new Set(["agent_busy", "not_found"]);

/** Resolves when a queued task is the first unfinished one of its session, or is cancelled. */
async function untilFirst(
  { store }: Conversation,
  { taskId, sessionId }: TaskRecord,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const [first] = await store.tasks({ sessionId, status: unfinished });
    if (first === undefined || first.taskId === taskId) return;
    await taskReached(store, first.taskId, ({ status }) => isTerminal(status), signal);
  }
}

/** Resolves when a child has a place among its siblings, or is cancelled. First come, first served. */
async function untilPlaced({ drives }: Conversation, child: Drive): Promise<void> {
  const { maxParallel = Number.POSITIVE_INFINITY } = child.record;
  const { signal } = child.controller;
  const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve));
  while (!signal.aborted) {
    const ahead = childrenAhead(drives, child.record);
    if (ahead.length < maxParallel) return;
    await Promise.race([aborted, ...ahead.map(({ ended }) => ended.catch(() => {}))]);
  }
}

/** The siblings of a task that are at work, or wait for a place and came first. Suspended ones are not driven. */
export function childrenAhead(
  drives: ReadonlyMap<string, Drive>,
  { taskId, parentSessionId }: TaskRecord,
): readonly Drive[] {
  let isAhead = true;
  return [...drives.values()].filter(({ record, queue }) => {
    if (record.taskId === taskId) isAhead = false;
    const isSibling = record.parentSessionId === parentSessionId && record.taskId !== taskId;
    return isSibling && (queue === undefined || (queue === "place" && isAhead));
  });
}

/** Runs the agent behind a record: the loop for our agents, a relay for any other object with the `Agent` interface. */
interface Executor {
  readonly settings: AgentSettings;
  /** True: the calls of the task are run by another agent. */
  readonly isRelay?: true;
  run(task: TaskRun, input: readonly Message[]): Promise<Ending>;
}

/** Runs our loop with these settings. */
function loopExecutor(settings: AgentSettings): Executor {
  return { settings, run: runLoop };
}

/** Relays an agent that is not of this package. */
function relayExecutor(settings: AgentSettings, agent: Agent): Executor {
  const run = (task: TaskRun, input: readonly Message[]) => relay(task, agent, input);
  return { settings: { ...settings, hooks: [] }, isRelay: true, run };
}

/** Ends a child without running its agent; an agent that is not of this package is told. */
function endingExecutor({ process }: Conversation, parent: TaskRun, record: TaskRecord): Executor {
  const settings = nameOnly(parent.settings, record);
  const agent = process.childAgents.get(record.taskId);
  const isRelayed = agent !== undefined && settingsBehind(agent) === undefined;
  return isRelayed ? relayExecutor(settings, agent) : loopExecutor(settings);
}

/** Finds the agent of a child. A child that its parent no longer offers fails. */
async function executorOf(
  conversation: Conversation,
  parent: TaskRun,
  record: TaskRecord,
  given: Agent | undefined,
): Promise<Executor> {
  const settings = nameOnly(parent.settings, record);
  try {
    const agent = given ?? (await conversation.childAgent(parent, record));
    if (agent === undefined) return { settings, run: (task) => fail(task, executorLost()) };
    conversation.process.childAgents.set(record.taskId, agent);
    const own = settingsBehind(agent);
    return own ? loopExecutor(own) : relayExecutor(settings, agent);
  } catch (error) {
    return { settings, run: (task) => fail(task, error) };
  }
}
