import { RivuletError, rivuletErrorOf } from "../../base/error.ts";
import type { Awaitable } from "../../base/time.ts";
import type { Agent, Commit, Lease, Post, Store, TaskRecord } from "../../contract/index.ts";
import { isTerminal } from "../../protocol/index.ts";
import type { BudgetMeter } from "../base/budget.ts";
import { LogWriter, type Step } from "../events/log-writer.ts";
import { executorLost } from "../loop/ending.ts";
import { cancelReason, reasonText } from "../loop/inbox.ts";
import { type AgentSettings, nameOf } from "../loop/settings.ts";
import { type TaskConversation, type TaskRun, untilItEnds } from "../loop/task-run.ts";
import { cancelChildOf, cancelChildren, runChild } from "./child.ts";
import { type Drive, drive, isRefusedBeginning } from "./drive.ts";
import { HandOver, shuttingDown } from "./hand-over.ts";
import { inherited, misfit } from "./home.ts";
import { endingSettings, markHandedOver } from "./lifecycle.ts";
import { cancelRow, type Plan, plan, postCancel, rootRecord, Workload } from "./plan.ts";
import type { Process } from "./process.ts";
import { taskReached } from "./rest.ts";
import { isPoisoned, isSuspect, poison, type TakenLease, takeLease } from "./suspects.ts";

/** How soon the scheduler reads the store again after it could not. */
const retryMs = 250;

/**
 * A root session with all its descendants, owned by this process: one lease, one writer per log, and a scheduler that
 * drives every task that can move. It closes itself when nothing runs, nothing can start and no caller holds it.
 */
export class Conversation implements TaskConversation {
  readonly process: Process;
  readonly store: Store;
  readonly sessionId: string;
  /** The tasks that run now, by id. */
  readonly drives = new Map<string, Drive>();
  /** The meters of tasks that were opened here, until none is driven: background children share those of their parents. */
  readonly meters = new Map<string, BudgetMeter>();
  /** The children behind links with unfinished tasks, by id; `remote` opens them. */
  readonly linked = new Map<string, Promise<unknown>>();
  /** The tasks that write to the sessions of tasks behind links, by session. */
  readonly sessionWriters = new Map<string, string>();
  /** Aborts every drive when this process may no longer write. */
  readonly lost = new AbortController();
  readonly #closing = Promise.withResolvers<void>();
  /** Resolves when the lease is released. */
  readonly closed = this.#closing.promise;
  readonly runChild: TaskConversation["runChild"] = (...args) => runChild(this, ...args);
  readonly cancelChildren: TaskConversation["cancelChildren"] = (...args) =>
    cancelChildren(this, ...args);
  readonly cancelChildOf: TaskConversation["cancelChildOf"] = (...args) =>
    cancelChildOf(this, ...args);
  /** The root agents that entered, by name; the latest of a name wins. */
  readonly #agents = new Map<string, AgentSettings>();
  readonly #logs = new Map<string, LogWriter>();
  readonly #onPost = new Set<() => void>();
  /** Rows that a drive found and left. */
  readonly #tried = new Set<string>();
  /** Tasks that could not be opened here: they wait for another owner. */
  readonly #stuck = new Set<string>();
  readonly #leaseMs: number;
  readonly handOver: HandOver;
  /** Until when, by the clock of this machine, no other process can have taken the lease. */
  #heldUntil: number;
  #workload: { readonly reading?: Promise<Workload>; next?: Promise<Workload> | undefined } = {};
  #lease: Lease;
  /** Lets the next suspect of this process run; absent unless this conversation is one. */
  #endTurn: (() => void) | undefined;
  #holders = 1;
  #isClosing = false;
  #isFailing = false;
  #looking: Promise<void> | undefined;
  #mustLook = false;
  /** The last look found nothing that this process does not drive, and nothing was posted since. */
  #isQuiet = false;
  #renewal: ReturnType<typeof setInterval>;
  #unwatch: () => void;

  private constructor(process: Process, { lease, endTurn }: TakenLease, settings: AgentSettings) {
    this.process = process;
    this.store = process.store;
    this.sessionId = lease.sessionId;
    this.#agents.set(settings.name, settings);
    this.#lease = lease;
    this.#endTurn = endTurn;
    this.#leaseMs = settings.leaseMs;
    // The lease was acquired before, so a part of its time is over.
    this.#heldUntil = performance.now() + this.#leaseMs / 2;
    const lost = this.lost.signal;
    this.handOver = new HandOver(this.drives, lost, () => void this.#giveUp());
    this.#renewal = setInterval(() => void this.#renew(), this.#leaseMs / 3);
    this.#renewal.unref?.();
    this.#unwatch = this.store.watch({ inbox: this.sessionId }, () => {
      for (const run of this.#onPost) run();
      this.#isQuiet = false;
      void this.look();
    });
  }

  /**
   * Acquires the lease; undefined when another process has it. The caller holds the conversation. Tasks that took too
   * many processes down have ended when it resolves.
   */
  static async open(
    process: Process,
    sessionId: string,
    settings: AgentSettings,
    closing: AbortSignal,
  ): Promise<Conversation | undefined> {
    const taken = await takeLease(process, sessionId, settings, closing);
    return taken && Conversation.openWith(process, taken, settings);
  }

  /** The same with a lease that this process has. */
  static async openWith(
    process: Process,
    taken: TakenLease,
    settings: AgentSettings,
  ): Promise<Conversation> {
    const conversation = new Conversation(process, taken, settings);
    try {
      if (isPoisoned(taken.lease)) await conversation.#failPoisoned();
      return conversation;
    } catch (error) {
      conversation.lose(error);
      await conversation.leave();
      throw error;
    }
  }

  /** Whether earlier owners were lost without progress; a task of it that is cancelled runs nothing of its agent. */
  get isSuspect(): boolean {
    return isSuspect(this.#lease);
  }

  /** Whether tasks can be driven here. */
  get isOpen(): boolean {
    return !this.#isClosing && !this.lost.signal.aborted;
  }

  addAgent(settings: AgentSettings): void {
    this.#agents.set(settings.name, settings);
  }

  /** Keeps the conversation open until `leave`, and adds a root agent. */
  hold(settings: AgentSettings): void {
    this.addAgent(settings);
    this.#holders += 1;
  }

  /** Ends a hold; resolves when the scheduler has looked, and if nothing is left to do, when the lease is released. */
  async leave(): Promise<void> {
    this.#holders -= 1;
    await this.look();
    await this.settle();
  }

  /** Resolves when the scheduler rests; if nothing runs either, when the lease is released. */
  async settle(): Promise<void> {
    await this.#looking;
    if (this.#isClosing) await this.closed;
  }

  /** The settings of the agent of a root task; undefined when this process does not have it. */
  rootSettings(record: TaskRecord): AgentSettings | undefined {
    const { taskId, agentName } = record;
    const found = this.process.callers.get(taskId)?.settings ?? this.#agents.get(agentName);
    const settings = found && misfit(found, record) ? undefined : found;
    if (settings || !this.#isFailing || !this.isSuspect) return settings;
    const [any] = this.#agents.values(); // every process ends what takes processes down
    return any && endingSettings(any, record);
  }

  /** The agent of a child; undefined when its parent does not offer it. */
  async childAgent(parent: TaskRun, record: TaskRecord): Promise<Agent | undefined> {
    const { taskId, agentName } = record;
    const agent =
      this.process.childAgents.get(taskId) ?? (await parent.settings.resolveChild?.(record));
    // The name finds the open calls in the transcript.
    return agent && nameOf(agent) === agentName ? agent : undefined;
  }

  /** Reads the workload after the call; callers that come while one is read share the next read. */
  async workload(): Promise<Workload> {
    const { reading } = this.#workload;
    if (reading === undefined) return this.#readWorkload();
    this.#workload.next ??= reading.catch(() => {}).then(() => this.#readWorkload());
    return this.#workload.next;
  }

  #readWorkload(): Promise<Workload> {
    const reading = Workload.read(this.store, this.sessionId);
    const own = { reading, next: undefined };
    this.#workload = own;
    const forget = () => {
      if (this.#workload === own && own.next === undefined) this.#workload = {};
    };
    reading.then(forget, forget);
    return reading;
  }

  /** Starts every task that can move. Calls during a look cause one more look. */
  look(): Promise<void> {
    this.#mustLook = true;
    this.#looking ??= this.#lookAgain();
    return this.#looking;
  }

  async #lookAgain(): Promise<void> {
    await undefined; // `look` must have stored this promise before it can end
    try {
      while (this.#mustLook && this.isOpen && !this.#isFailing) {
        this.#mustLook = false;
        await this.#lookOnce();
      }
    } catch {
      this.#lookLater(); // a store that could not be read may be back; a commit tells if it is gone
    } finally {
      this.#looking = undefined;
      this.#closeIfUnused();
    }
  }

  #closeIfUnused(): void {
    if (this.drives.size > 0 || this.#holders > 0 || this.#looking || this.#isClosing) return;
    this.#isClosing = true;
    void this.#close();
  }

  #lookLater(): void {
    const timer = setTimeout(() => void this.look(), retryMs);
    timer.unref?.();
    void this.closed.then(() => clearTimeout(timer));
  }

  async #lookOnce(): Promise<void> {
    this.#isQuiet = true;
    const workload = await Workload.read(this.store, this.sessionId);
    if (!this.isOpen || this.handOver.hasBegun) return;
    const { posts, records } = workload;
    this.#isQuiet &&= posts.length === 0 && records.every(({ taskId }) => this.drives.has(taskId));
    for (const post of posts) {
      const target = post.kind === "cancel" ? workload.target(post) : undefined;
      if (target) this.abortTree(target.taskId, cancelReason(post), true);
    }
    const { tasks, stale, wakes } = this.#plan(workload);
    for (const record of tasks) {
      // A queued task whose call waits here begins with the live options of that call.
      const caller = this.process.callers.get(record.taskId)?.options;
      drive(this, record, caller && { caller });
    }
    if (stale.length > 0) await this.#drop(stale);
    if (wakes) this.#wake(await this.#lastRoot());
  }

  #plan(workload: Workload): Plan {
    return plan(workload, this.sessionId, {
      isDriven: (taskId) => this.drives.has(taskId) || this.#stuck.has(taskId),
      hasAgent: (root) => this.rootSettings(root) !== undefined,
      isTried: (postId) => this.#tried.has(postId),
    });
  }

  /** The end of a task takes its rows, perhaps since they were read: only rows that are still there are dropped. */
  async #drop(stale: readonly Post[]): Promise<void> {
    const undriven = stale.filter(({ taskId = "" }) => !this.drives.has(taskId));
    const left = await this.store.posts({ conversation: this.sessionId });
    const taken = undriven.flatMap(({ id }) => (left.some((row) => row.id === id) ? [id] : []));
    const [{ rootTaskId, taskId = "" } = {}] = undriven;
    if (taken.length > 0) await this.log(rootTaskId ?? taskId).commit({ taken });
  }

  /** Starts a root task that reads the input posted to the idle session. */
  #wake(last: TaskRecord | undefined): void {
    const start = this.#wakeFor(last);
    if (start && this.isOpen) drive(this, start.record, { settings: start.settings, isNew: true });
  }

  /** The task that input starts after the last one; undefined if no agent here can run it. */
  #wakeFor(last: TaskRecord | undefined) {
    const settings = last && this.#agents.get(last.agentName);
    if (last === undefined || settings === undefined || misfit(settings, last)) return undefined;
    const options = last.userId === undefined ? {} : { userId: last.userId };
    const record = { ...rootRecord(settings, this.sessionId, options), ...inherited(last) };
    return { settings, record };
  }

  async #lastRoot(): Promise<TaskRecord | undefined> {
    const { sessionId } = this;
    return (await this.store.tasks({ sessionId, newestFirst: true, limit: 1 }))[0];
  }

  /** Called by a drive at its rest. */
  release({ record, rows, task }: Drive): void {
    const { taskId, mode, parentTaskId = "", status } = record;
    this.drives.delete(taskId);
    if (this.drives.size === 0) this.meters.clear();
    this.handOver.rested(taskId);
    if (status !== "suspended") this.process.childAgents.delete(taskId);
    for (const { id } of rows) this.#tried.add(id);
    if (!task && (status === "in_progress" || status === "queued")) this.#stuck.add(taskId);
    if (mode === "sync" && this.drives.has(parentTaskId)) return; // a call waits for it
    // The look after the release finds what a watch has not told yet.
    if (this.#isQuiet) this.#closeIfUnused();
    else void this.look();
  }

  /** Fails the running tasks of a process that is gone. */
  async failLost(): Promise<void> {
    const { records } = await Workload.read(this.store, this.sessionId);
    // A remote task goes on: it is not lost with the process that followed it.
    const lost = records.filter(
      ({ status, depth, remote }) =>
        !remote?.url && (status === "in_progress" || (status === "queued" && depth > 0)),
    );
    await this.#fail(lost, executorLost);
  }

  /** Fails the tasks that ran when the owners were lost; if none did, those whose beginning took them down. */
  async #failPoisoned(): Promise<void> {
    const workload = await Workload.read(this.store, this.sessionId);
    const running = workload.records.filter(({ status }) => status === "in_progress");
    const starting = () => this.#plan(workload).tasks.filter(({ status }) => status === "queued");
    const lease = this.#lease;
    await this.#fail(running.length > 0 ? running : starting(), (record) =>
      poison(this.store, record, lease),
    );
  }

  /** Fails tasks, the deepest first: a parent ends after its calls. */
  async #fail(
    records: readonly TaskRecord[],
    errorOf: (record: TaskRecord) => Awaitable<RivuletError>,
  ): Promise<void> {
    this.#isFailing = true; // no look may start what is about to fail
    for (const record of records.toSorted((one, two) => two.depth - one.depth)) {
      if (this.drives.has(record.taskId)) continue;
      const error = await errorOf(record);
      await drive(this, record, { fail: error }).ended.catch(() => {});
    }
    this.#isFailing = false;
  }

  /** The one writer of a root task's log. */
  log(rootTaskId: string): LogWriter {
    const known = this.#logs.get(rootTaskId);
    if (known) return known;
    const { flushes } = this.process;
    const writer = new LogWriter(rootTaskId, (steps) => this.#commit(steps), this.store, flushes);
    this.#logs.set(rootTaskId, writer);
    return writer;
  }

  /** Writes the first steps of a log and returns their number; only the first step can be the refused one. */
  async #commit(steps: readonly Step[]): Promise<number> {
    if (this.lost.signal.aborted) throw this.lost.signal.reason;
    for (const step of steps) step.lease = this.#lease;
    const [first, ...following] = steps as readonly [Commit, ...Commit[]];
    try {
      const written = await this.store.commit(first, following);
      if (this.#endTurn) await this.#renew(); // tells whether that was progress
      if (written >= 1) return written;
      throw new RivuletError("store_failed", `The store's commit() returned ${written}.`, {
        hint: "Return the number of commits that were written, at least 1.",
      });
    } catch (thrown) {
      const error = rivuletErrorOf(thrown, "store_failed");
      if (first.begins !== undefined && isRefusedBeginning(error)) this.#logs.delete(first.log);
      else this.lose(error);
      throw error;
    }
  }

  /** Stores the results of the last steps, which are not awaited, and gives the conversation up. */
  async #giveUp(): Promise<void> {
    for (const { task } of this.drives.values())
      if (task && !task.control.isResting && !task.state.record.remote) markHandedOver(task);
    await Promise.allSettled([...this.#logs.values()].map((log) => log.flush()));
    // A row may have moved a task meanwhile; it calls this again.
    if (this.handOver.isReady) this.lose(shuttingDown());
  }

  /** Stops all drives: an event that was not written must not be shown, and nothing more is written. */
  lose(error: unknown): void {
    if (!this.lost.signal.aborted) {
      const reason = rivuletErrorOf(error, "store_failed");
      if (reason.code !== "fenced") this.process.failures.set(this.sessionId, reason);
      this.lost.abort(reason);
    }
    void this.look();
  }

  /** Resolves when the lease holds; a process that was stopped for longer than its lease must run nothing more. */
  async assertHeld(): Promise<void> {
    if (performance.now() >= this.#heldUntil) await this.#renew();
    this.lost.signal.throwIfAborted();
  }

  async #renew(): Promise<void> {
    const startedAt = performance.now();
    try {
      const [lease] = await this.store.renew([this.#lease], this.#leaseMs);
      if (lease) {
        this.#lease = lease;
        this.#heldUntil = startedAt + this.#leaseMs;
        if (!this.isSuspect) this.#leaveTurn();
      } else this.lose(new RivuletError("fenced", "Another process has taken this session over."));
    } catch {
      // The store may be back before the lease expires; the next commit tells.
    }
  }

  /** Releases the lease of an exiting process, which a running task may have ended: then it counts as lost. */
  releaseOnExit(): void {
    this.store.releaseNow?.(this.#lease, this.drives.size > 0);
  }

  #leaveTurn(): void {
    this.#endTurn?.();
    this.#endTurn = undefined;
  }

  async #close(): Promise<void> {
    clearInterval(this.#renewal);
    this.#unwatch();
    await Promise.allSettled([...this.#logs.values()].map((log) => log.flush()));
    await this.store.release(this.#lease).catch(() => {}); // a lease expires by itself
    this.#leaveTurn();
    this.#closing.resolve();
    if (!this.lost.signal.aborted) await this.#lookAfterRelease().catch(() => {});
  }

  /** A row that was posted while the lease was held but after the last look would otherwise wait for a timer. */
  async #lookAfterRelease(): Promise<void> {
    const workload = await Workload.read(this.store, this.sessionId);
    const { tasks, stale, wakes } = this.#plan(workload);
    const isWoken = wakes && this.#wakeFor(await this.#lastRoot()) !== undefined;
    if (tasks.length === 0 && stale.length === 0 && !isWoken) return;
    if ((await this.store.owner(this.sessionId)) !== undefined) return;
    for (const settings of this.#agents.values())
      await (await this.process.enter(this.sessionId, settings))?.leave();
  }

  onPost(run: () => void): () => void {
    this.#onPost.add(run);
    return () => void this.#onPost.delete(run);
  }

  childStopped(callId: string): Promise<unknown> | undefined {
    const child = this.drives.get(callId);
    return child?.record.mode === "sync" ? child.ended.catch(() => {}) : undefined;
  }

  async cancelTask(taskId: string, reason: string): Promise<void> {
    const targets = await postCancel(this.store, taskId, reason);
    await this.look();
    const isEnded = ({ status }: TaskRecord) => isTerminal(status);
    const { signal } = this.lost;
    await Promise.all(
      targets.map(({ taskId: id }) => taskReached(this.store, id, isEnded, signal)),
    );
  }

  /** Cancels a task that runs here at once, before the caller has posted anything. */
  cancelNow(taskId: string, reason: unknown): void {
    const { task, controller } = this.drives.get(taskId) ?? {};
    // The other end of a link numbers the events of its task.
    const isShown =
      task && !task.output.emitter.isNew && !task.control.isResting && !task.state.record.remote;
    if (isShown && !controller?.signal.aborted)
      task.output.emitter.append({ type: "task.cancelling", reason: reasonText(reason) });
    this.abortTree(taskId, reason);
  }

  /** Aborts a task and its descendants that run here; `isPosted`: a row for the task itself is stored already. */
  abortTree(taskId: string, reason: unknown, isPosted = false): void {
    const targets = [...this.drives.values()].filter(
      ({ record, ancestors, controller }) =>
        (record.taskId === taskId || ancestors.includes(taskId)) && !controller.signal.aborted,
    );
    // One commit before any abort: a crash must not leave only a part of the tree cancelled.
    const unposted = targets.filter(({ record }) => !isPosted || record.taskId !== taskId);
    if (!this.lost.signal.aborted) postCancels(unposted, reason);
    for (const { controller } of targets) controller.abort(reason);
  }
}

/** Stores a cancel for each task until it ends, for a process that takes one of them over before. */
function postCancels(drives: readonly Drive[], reason: unknown): void {
  const message = reasonText(reason);
  const tasks = drives.flatMap(({ task }) => (task && !task.control.isResting ? [task] : []));
  const posts = tasks.flatMap((task) => {
    const row = cancelRow(task.state.record, message);
    if (task.control.claims.has(row.id)) return [];
    task.control.claims.set(row.id, untilItEnds);
    return [row];
  });
  if (posts.length > 0) tasks[0]?.output.log.commit({ posts }).catch(() => {}); // the next commit reports it
}
