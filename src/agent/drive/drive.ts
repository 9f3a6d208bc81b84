import { onAbort } from "../../base/clock.ts";
import { RivuletError } from "../../base/error.ts";
import type {
  Agent,
  Budget,
  Post,
  RunOptions,
  StandardSchema,
  TaskRecord,
} from "../../contract/index.ts";
import { isTerminal } from "../../protocol/index.ts";
import { executorLost } from "../loop/ending.ts";
import { callHooks } from "../loop/hooks.ts";
import { cancelReason, isFor } from "../loop/inbox.ts";
import { fail } from "../loop/loop.ts";
import {
  type AgentSettings,
  settingsBehind,
  withModel,
  withOutsideTools,
} from "../loop/settings.ts";
import { stateOf, type TaskRun, type TaskState } from "../loop/task-run.ts";
import { traceTask } from "../loop/trace.ts";
import type { Conversation } from "./conversation.ts";
import { type Executor, linkExecutor, loopExecutor } from "./executor.ts";
import { endingSettings, endTask, nameOnly, openParent } from "./lifecycle.ts";
import { unfinished } from "./plan.ts";
import { taskReached } from "./rest.ts";

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

/** Takes up a task in any state; the only way to do so. A second call returns the same drive. */
export function drive(
  conversation: Conversation,
  record: TaskRecord,
  start: DriveStart = {},
): Drive {
  return conversation.drives.get(record.taskId) ?? new Drive(conversation, record, start);
}

/** A task that this process works on, from its start to its rest. */
export class Drive {
  /** The ids of the tasks above it, the root's first. */
  ancestors: readonly string[];
  readonly controller = new AbortController();
  /** The queue that the task waits in: for its turn in its session, or for a place among its siblings. */
  queue: "session" | "place" | undefined;
  /** Wakes a child that waits for a place. */
  onPlaceFree: (() => void) | undefined;
  /** Absent until it is open. */
  task?: TaskRun;
  /** Why the task failed, with the cause that its record cannot keep. */
  error?: RivuletError;
  /** The answers and cancels that the drive found when it started. */
  rows: readonly Post[] = [];
  /** Resolves when the task rests; rejects when this process may not write, or the store refused its beginning. */
  readonly ended: Promise<void>;
  readonly conversation: Conversation;
  readonly start: DriveStart;
  /** The same object as that of the open task. */
  state: TaskState;
  /** Whether the drive begins a root task, which the store may refuse. */
  #isRootBeginning = false;
  readonly #opened = Promise.withResolvers<void>();
  readonly #begun = Promise.withResolvers<void>();
  /** Resolves when the task is open, or rests without having been opened. */
  readonly opened = this.#opened.promise;
  /** Resolves when the task is stored; a new one is stored when it begins. */
  readonly begun = this.#begun.promise;

  constructor(conversation: Conversation, record: TaskRecord, start: DriveStart) {
    const { parent, isNew, cancel } = start;
    this.queue = !isNew && record.status === "queued" ? "session" : undefined;
    this.conversation = conversation;
    this.state = stateOf(record);
    this.start = start;
    this.ancestors = parent ? [...parent.identity.ancestors, parent.identity.ref.taskId] : [];
    const { signal: lost } = conversation.lost;
    const ignoreLost = onAbort(lost, () => this.controller.abort(lost.reason));
    if (cancel !== undefined) this.controller.abort(cancel);
    if (parent?.control.controller.signal.aborted)
      this.controller.abort(parent.control.controller.signal.reason);
    conversation.drives.set(record.taskId, this);
    if (!isNew) this.#begun.resolve(start.stored);
    const rest = () => {
      ignoreLost();
      conversation.release(this);
      givePlaces(conversation.drives, this.record);
    };
    this.ended = this.#run().then(
      () => {
        rest();
        this.onOpen();
      },
      (error: unknown) => {
        rest();
        this.#begun.reject(error);
        this.#opened.resolve();
        throw error;
      },
    );
    for (const promise of [this.begun, this.ended]) promise.catch(() => {}); // not every starter waits
  }

  get record(): TaskRecord {
    return this.state.record;
  }

  /** Called by the executor when the task has begun or is resumed. */
  onOpen(): void {
    this.#opened.resolve();
    this.#begun.resolve();
  }

  async #run(): Promise<void> {
    const { conversation } = this;
    const { lost } = conversation;
    try {
      await this.start.stored;
      const canMove = this.start.isNew || (await this.#canMove());
      if (canMove && !this.start.isNew) await this.#waitForHandOver();
      const executor = canMove ? await this.#open() : undefined;
      if (executor && this.task) await this.#execute(this.task, executor);
    } catch (thrown) {
      const isLost = lost.signal.aborted;
      const error: unknown = isLost ? lost.signal.reason : thrown;
      if (!isLost) {
        if (this.#isRootBeginning && isRefusedBeginning(error)) throw error;
        conversation.lose(error); // only the store fails here: nothing more can be written for certain
      }
      if (this.task && error instanceof Error) await tellError(this.task, error);
      throw error;
    }
  }

  /** Reads the record again, now that no other drive can change it; waits for the earlier tasks of its session. */
  async #canMove(): Promise<boolean> {
    const { store } = this.conversation;
    const { fail: failure, caller } = this.start;
    const { taskId } = this.record;
    const workload = await this.conversation.workload();
    const open = workload.record(taskId);
    const stored = open ?? (await store.task(taskId)) ?? this.record;
    // The call may have promoted the task while it was read.
    const isPromoted = this.record.mode === "background";
    const record = isPromoted ? { ...stored, mode: "background" as const } : stored;
    this.state.record = record;
    if (open === undefined) return false;
    this.rows = workload.rowsFor(taskId);
    const budget = caller?.budget ?? budgetIn(this.rows);
    if (budget) this.state.record = { ...record, budget: { ...record.budget, ...budget } };
    const cancel = this.cancelRow();
    if (cancel) this.controller.abort(cancelReason(cancel));
    const { signal } = this.controller;
    if (record.status === "suspended")
      return this.rows.length > 0 || signal.aborted || failure !== undefined;
    if (record.status === "queued" && failure === undefined) {
      await untilFirst(this.conversation, record, signal);
      this.queue = "place";
      await untilPlaced(this.conversation, this);
    }
    this.queue = undefined;
    return true;
  }

  /** Leaves a stored task to the next owner during a hand-over, unless it ends here. */
  async #waitForHandOver(): Promise<void> {
    if (this.start.fail === undefined)
      await this.conversation.handOver.beforeStep(this.record.taskId, this.controller.signal);
    this.conversation.lost.signal.throwIfAborted();
  }

  /** The row that cancels the task, if the drive found one. */
  cancelRow(): Post | undefined {
    return this.rows.find((row) => row.kind === "cancel" && isFor(row, this.record));
  }

  /** Opens the task and returns its executor; undefined if nothing here can run it. */
  async #open(): Promise<Executor | undefined> {
    const { conversation } = this;
    const isChild = this.record.depth > 0;
    this.#isRootBeginning = !isChild && this.record.status === "queued";
    let { parent } = this.start;
    if (isChild) parent ??= await openParent(conversation, this.record);
    if (isChild && parent === undefined) return undefined;
    if (parent) this.ancestors = [...parent.identity.ancestors, parent.identity.ref.taskId];
    const executor = await this.#executor(parent);
    const task = await executor?.open(this);
    if (task === undefined) return undefined;
    this.task = task;
    this.state = task.state;
    return executor;
  }

  /** Undefined: the agent of this root is not here, so the task waits for a process that has it. */
  async #executor(parent: TaskRun | undefined): Promise<Executor | undefined> {
    const { conversation } = this;
    const record = this.record;
    const { settings = conversation.rootSettings(record), fail: failure } = this.start;
    const isEnding = this.controller.signal.aborted || failure !== undefined;
    const named = parent && nameOnly(parent.settings, record);
    // A step of a suspect takes the process down, so nothing of it runs again.
    if (isEnding && conversation.isSuspect && !record.remote) {
      const any = named ?? settings;
      return any && loopExecutor(endingSettings(any, record), parent);
    }
    if (parent === undefined || named === undefined) {
      if (settings === undefined) return undefined;
      return isEnding ? loopExecutor(settings, parent) : loopWith(settings, parent, record);
    }
    if (record.remote) {
      const { LinkExecutor } = await linkExecutor.load();
      return new LinkExecutor(parent);
    }
    if (isEnding) return loopExecutor(named, parent);
    try {
      const agent = this.start.agent ?? (await conversation.childAgent(parent, record));
      const own = agent && settingsBehind(agent);
      if (!agent || !own) throw executorLost(); // its parent no longer offers it
      conversation.process.childAgents.set(record.taskId, agent);
      return loopWith(own, parent, record);
    } catch (error) {
      return loopExecutor(named, parent, (task) => fail(task, error));
    }
  }

  #execute(task: TaskRun, executor: Executor): Promise<void> {
    return traceTask(task, async () => {
      const ending = await executor.run(task, this);
      if (ending === undefined) return;
      await endTask(task, ending);
      if (ending.status !== "failed") return;
      this.error = ending.error;
      await tellError(task, ending.error);
    });
  }
}

/** Runs the loop with the model and the outside tools of a task; fails a task that its agent does not allow any more. */
function loopWith(
  settings: AgentSettings,
  parent: TaskRun | undefined,
  { model, outsideTools }: TaskRecord,
): Executor {
  try {
    const chosen = withOutsideTools(withModel(settings, model), outsideTools);
    return loopExecutor(chosen, parent);
  } catch (error) {
    return loopExecutor(settings, parent, (task) => fail(task, error));
  }
}

/** A call on a task that has begun may change the task's limits: its budget comes with its rows. */
function budgetIn(rows: readonly Post[]): Budget | undefined {
  return rows.find(({ message }) => message?.metadata?.budget)?.message?.metadata?.budget as Budget;
}

/** Tells the hooks why a task failed. */
async function tellError(task: TaskRun, error: Error): Promise<void> {
  try {
    await callHooks(task, "onError", 0, (hook) => hook.onError?.(task.scope.hookContext, error));
  } catch {
    // The error that the hooks were told of is the one to report.
  }
}

/** The store refuses to begin a task whose session has an earlier unfinished one, or belongs to another user. */
export function isRefusedBeginning(error: unknown): boolean {
  return error instanceof RivuletError && ["agent_busy", "not_found"].includes(error.code);
}

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
  const ignoreAbort = onAbort(signal, () => child.onPlaceFree?.());
  while (!signal.aborted && hasAhead(drives, child.record, maxParallel)) {
    await new Promise<void>((resolve) => {
      child.onPlaceFree = resolve;
    });
  }
  ignoreAbort();
  child.onPlaceFree = undefined;
}

/** Wakes the children that have a place now that a sibling rests; the others wait on, so that an end costs little. */
function givePlaces(drives: ReadonlyMap<string, Drive>, { parentSessionId }: TaskRecord): void {
  if (parentSessionId === undefined) return;
  let ahead = 0;
  for (const { record, queue, onPlaceFree } of drives.values()) {
    if (record.parentSessionId !== parentSessionId || queue === "session") continue;
    const { maxParallel = Number.POSITIVE_INFINITY } = record;
    if (queue === "place" && ahead < maxParallel) onPlaceFree?.();
    ahead += 1;
  }
}

/** The siblings of a task that are at work, or wait for a place and came first. Suspended ones are not driven. */
export function* childrenAhead(
  drives: ReadonlyMap<string, Drive>,
  { taskId, parentSessionId }: TaskRecord,
): Generator<Drive, void> {
  let isAhead = true;
  for (const sibling of drives.values()) {
    const { record, queue } = sibling;
    if (record.taskId === taskId) isAhead = false;
    else if (record.parentSessionId !== parentSessionId) continue;
    else if (queue === undefined || (queue === "place" && isAhead)) yield sibling;
  }
}

/** Whether a task has at least `count` siblings ahead of it; looks at no more than these. */
export function hasAhead(
  drives: ReadonlyMap<string, Drive>,
  record: TaskRecord,
  count: number,
): boolean {
  const ahead = childrenAhead(drives, record);
  for (let n = 0; n < count; n++) if (ahead.next().done) return false;
  return true;
}
