import { RivuletError } from "../../base/error.ts";
import {
  blobIn,
  errorPlaced,
  forged,
  invalidEvent,
  logExpired,
  type Message,
  type Post,
  type RemoteLink,
  suspensionOf,
  type TaskRecord,
  tooManyBytes,
} from "../../contract/index.ts";
import {
  type ApprovalRequested,
  type ApprovalResolved,
  amountOf,
  asSent,
  type ChildStarted,
  isTerminal,
  type LogEvent,
  StreamCheck,
  type Task,
  type TaskCreated,
  type TaskEvent,
  TaskTree,
  TaskWriter,
  type Usage,
} from "../../protocol/index.ts";
import { readPages } from "../../store/index.ts";
import { BudgetUsedUp } from "../base/budget.ts";
import { interruptedResult } from "../base/prompts.ts";
import type { Conversation } from "../drive/conversation.ts";
import {
  announce,
  endTask,
  loadTranscript,
  openParent,
  openTask,
  remoteSettings,
} from "../drive/lifecycle.ts";
import { childRecord } from "../drive/plan.ts";
import { taskReached } from "../drive/rest.ts";
import { maxEventBytes } from "../events/emit.ts";
import { cancelled } from "../loop/ending.ts";
import { stopCallId } from "../loop/next.ts";
import { settlePending } from "../loop/settle.ts";
import { commitStep, controlMessage, stateOf, type TaskRun, writeStep } from "../loop/task-run.ts";
import { messagesOf } from "../loop/transcript.ts";
import { waitingTasks } from "../loop/waiting.ts";
import { type EndingOf, endingOf, isEnd, type RestEvent } from "./ending.ts";
import { closeItems, isAnswered, newMessages, sizeOf } from "./messages.ts";

const defaultMaxBytes = 64 * 1024 * 1024;
const defaultMaxTasks = 256;
/** Ids become parts of paths. */
const idPattern = /^[\w-]{1,128}$/;
const segmentPattern = /^[^/]{1,128}$/;
/** How many events may arrive before the place in the remote log is stored. */
const maxUnstored = 512;
/** How long a task may wait for the end of an earlier one of its session, which another connection tells. */
const maxTurnWaitMs = 30_000;

/**
 * Writes the events of a remote child and its descendants into the log of their root here, with a record and a
 * transcript for each task. The remote log is the truth: this one follows it, checks it and adds nothing but sources.
 */
export class RemoteLog {
  /** The unfinished tasks of the child, by id. */
  readonly runs = new Map<string, TaskRun>();
  /** The rows of answers that were sent, by approval; the event that resolves the approval takes the row. */
  readonly answers = new Map<string, Post>();
  /** The number of the last remote event that was written. */
  cursor: number;
  readonly #conversation: Conversation;
  readonly #link: RemoteLink;
  readonly #top: TaskRecord;
  /** The remote log as the server numbers it, without the sources of this one. */
  readonly #tree = new TaskTree();
  #check: StreamCheck | undefined = new StreamCheck();
  /** The number of the last event of each task, and the tasks that this process has ended on its own. */
  readonly #seqs = new Map<string, number>();
  readonly #closed = new Set<string>();
  /** The children that tasks have started and that have no event yet. */
  readonly #announced = new Map<string, { readonly run: TaskRun; readonly event: ChildStarted }>();
  readonly #writers: Map<string, string>;
  #bytes = 0;
  #blobBytes = 0;
  #unstored = 0;
  /** Settles with the last event or end: they are written one at a time. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(conversation: Conversation, link: RemoteLink, top: TaskRecord) {
    this.#conversation = conversation;
    this.#link = link;
    this.#top = top;
    this.cursor = top.remote?.cursor ?? -1;
    this.#writers = conversation.sessionWriters;
  }

  /** The child as it was read so far. */
  get known(): Task {
    return this.#tree.task(this.#top.taskId) as Task; // it has begun
  }

  /** The state of a task that has just begun here. */
  begin(run: TaskRun): void {
    const { taskId, agentId, sessionId, createdAt } = run.state.record;
    const options = { write: (event: LogEvent) => this.#note(event), now: () => createdAt };
    const writer = new TaskWriter(taskId, options);
    writer.create({ agent_id: agentId, session_id: sessionId, created_at: createdAt });
    writer.start();
    this.runs.set(taskId, run);
  }

  /** Continues a log that an earlier process, or an earlier drive, has written. */
  async load(): Promise<void> {
    const { store } = this.#conversation;
    const { taskId, rootTaskId } = this.#top;
    const records = await store.tasks({ rootTaskId });
    const own = new Set([taskId]); // a parent's record comes before those of its children
    for (const record of records) {
      if (own.has(record.parentTaskId ?? "")) own.add(record.taskId);
      if (own.has(record.taskId)) this.cursor = Math.max(this.cursor, record.remote?.cursor ?? -1);
    }
    const started = new Map<string, ChildStarted>();
    for await (const { frames } of readPages(store, rootTaskId)) {
      for (const event of frames) {
        this.#restore(event, own);
        if (event.type === "task.child.started") started.set(event.child_task_id, event);
        if (event.type === "task.created") started.delete(event.task_id);
      }
    }
    for (const record of records) {
      if (!own.has(record.taskId) || isTerminal(record.status)) continue;
      const parent = this.runs.get(record.parentTaskId ?? "");
      await this.#open(record, parent ?? (await openParent(this.#conversation, record)), false);
    }
    for (const event of started.values()) {
      const run = this.runs.get(event.task_id);
      if (run) this.#announced.set(event.child_task_id, { run, event });
    }
  }

  /** Reads an event of the log here, in the form that the server has sent. */
  #restore(event: TaskEvent, own: ReadonlySet<string>): void {
    if (event.type === "error" || !own.has(event.task_id)) return;
    if (event.type === "task.snapshot") {
      this.#check = undefined; // it cannot check a log without a beginning
      this.#tree.apply(event);
      this.#seqs.set(event.task_id, event.through_task_seq);
    } else this.#note(asSent(event, this.#top));
  }

  async #open(record: TaskRecord, parent: TaskRun | undefined, isNew: boolean): Promise<TaskRun> {
    if (parent === undefined) throw forged(`task ${record.taskId} has no parent here`);
    // It has been started already, without asking.
    if (isNew && !parent.budget.start())
      this.runs.get(this.#top.taskId)?.control.controller.abort(new BudgetUsedUp());
    const settings = remoteSettings(parent.settings, record, this.#link);
    const conversation = this.#conversation;
    const run = await openTask({ conversation, settings, state: stateOf(record), parent, isNew });
    this.runs.set(record.taskId, run);
    if (record.status !== "queued") this.#writers.set(record.sessionId, record.taskId);
    return run;
  }

  #note(event: LogEvent): void {
    const problem = this.#check?.next(event);
    if (problem) throw invalidEvent(event, problem.message);
    this.#tree.apply(event);
    this.#seqs.set(event.task_id, event.task_seq);
  }

  #noteSent(event: LogEvent, bytes: number): void {
    if (bytes > maxEventBytes && !event.type.endsWith(".done"))
      throw invalidEvent(event, `it has ${bytes} bytes, and the most is ${maxEventBytes}`);
    try {
      this.#note(event);
    } catch (error) {
      throw error instanceof RivuletError ? error : invalidEvent(event, "it cannot be read");
    }
  }

  /** Writes an event of the remote log; resolves to the task that it ends or suspends. Throws for one that is not allowed. */
  take(event: TaskEvent): Promise<TaskRun | undefined> {
    return this.#inTurn(() => this.#take(event));
  }

  /** Whether the log has an event of a task. */
  has(taskId: string): boolean {
    return this.#seqs.has(taskId);
  }

  /** Resolves when the event or end that is being written is stored. */
  async settled(): Promise<void> {
    await this.#last;
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => {});
    return done;
  }

  async #take(event: TaskEvent): Promise<TaskRun | undefined> {
    const bytes = this.#countBytes(event);
    if (event.type === "error") return undefined;
    if (event.type === "task.snapshot") {
      if (event.through_task_seq <= (this.#seqs.get(event.task_id) ?? -1)) return undefined;
      throw logExpired();
    }
    const { task_id: taskId, sequence_number: at } = event;
    if (event.task_seq <= (this.#seqs.get(taskId) ?? -1) || this.#closed.has(taskId)) {
      this.cursor = Math.max(this.cursor, at);
      return undefined;
    }
    if (!(at > this.cursor)) throw invalidEvent(event, "its number is not above the last one");
    const known = this.runs.get(taskId);
    // An agent in this process may leave items open.
    const isLocal = this.#link.url === undefined && taskId === this.#top.taskId;
    if (known && isLocal && isEnd(event)) {
      await this.#endTree(known, () => endingOf(known, event, false), cancelled);
      return known;
    }
    if (known) await this.#copyBlob(known, event);
    this.#noteSent(event, bytes);
    if (event.type === "task.created") await this.#create(event);
    const run = this.runs.get(taskId);
    if (run === undefined) throw forged(`task ${taskId} is not one of its tasks`);
    this.cursor = at;
    const rested = await this.#write(run, event);
    if (++this.#unstored >= maxUnstored) this.#storePlace(run);
    await run.output.log.catchUp();
    return rested;
  }

  /** Counts an event and returns its size; one that is not written, because it is known or an error, counts as well. */
  #countBytes(event: TaskEvent): number {
    const { maxBytes = defaultMaxBytes } = this.#link.limits;
    const bytes = sizeOf(event);
    this.#bytes += bytes;
    if (this.#bytes > maxBytes) throw tooManyBytes(maxBytes);
    return bytes;
  }

  /** A task may only start children with new ids. */
  async #announce(run: TaskRun, event: ChildStarted): Promise<void> {
    const { child_task_id: taskId, agent } = event;
    const { maxTasks = defaultMaxTasks } = this.#link.limits;
    const isValid = idPattern.test(taskId) && segmentPattern.test(agent.id);
    if (!isValid || (await this.#conversation.store.task(taskId)) !== undefined)
      throw forged(`task ${taskId.slice(0, 128)} cannot be its child`);
    if (run.output.childCalls.size >= maxTasks) throw forged(`it has more than ${maxTasks} tasks`);
    run.output.childCalls.add(taskId);
    this.#announced.set(taskId, { run, event });
  }

  /** Creates the record of a descendant. It may only be a new task in a new session, or in a session of its parent. */
  async #create({ task, source }: TaskCreated): Promise<void> {
    const { id: taskId, session_id: sessionId = "", parent_task_id: parentId = "" } = task;
    const { store } = this.#conversation;
    const { maxTasks = defaultMaxTasks } = this.#link.limits;
    const { run: parent, event } = this.#announced.get(taskId) ?? {};
    if (parent === undefined || parent.identity.ref.taskId !== parentId || event === undefined)
      throw forged(`no task of it has started ${taskId}`);
    if (this.#seqs.size > maxTasks + 1) throw forged(`it has more than ${maxTasks} tasks`);
    const earlier = await store.tasks({ sessionId });
    const isOwn = ({ remote, parentSessionId }: TaskRecord) =>
      remote?.url === parent.state.record.remote?.url &&
      parentSessionId === parent.state.record.sessionId;
    const [session] = await store.sessions({ sessionId, limit: 1 });
    const isTaken = !earlier.every(isOwn) || (session !== undefined && earlier.length === 0);
    if (isTaken || !segmentPattern.test(sessionId) || source?.agentId !== event.agent.id)
      throw forged(`session ${sessionId.slice(0, 128)} is not one of its sessions`);
    await this.#open(childRecord(parent, event, sessionId, task, this.#tree), parent, true);
    this.#announced.delete(taskId);
  }

  /**
   * Begins a descendant, with the messages of its session. A session has one writer: an earlier task of it has ended,
   * which another connection may not have told yet.
   */
  async #begin(run: TaskRun): Promise<void> {
    const { store, lost } = this.#conversation;
    const { sessionId, taskId } = run.state.record;
    const { control: top } = this.runs.get(this.#top.taskId) ?? run;
    const limit = AbortSignal.timeout(maxTurnWaitMs);
    const stops = [top, run.control].map(({ controller }) => controller.signal);
    const signal = AbortSignal.any([limit, lost.signal, ...stops]);
    for (;;) {
      const begun = await store.tasks({ sessionId, status: ["in_progress", "suspended"] });
      const other = begun.find((task) => task.taskId !== taskId)?.taskId;
      const writer = this.#writers.get(sessionId) ?? other;
      if (writer === undefined) break;
      if (this.runs.has(writer) || signal.aborted)
        throw forged(`session ${sessionId} has two tasks at once`);
      await taskReached(store, writer, ({ status }) => isTerminal(status), signal);
    }
    this.#writers.set(sessionId, taskId);
    await loadTranscript(run);
  }

  #release({ state }: TaskRun): void {
    const { sessionId, taskId } = state.record;
    if (this.#writers.get(sessionId) === taskId) this.#writers.delete(sessionId);
  }

  /** Copies the blob that an event names, so that readers of this log find it; what is over the limits stays there. */
  async #copyBlob({ identity, output }: TaskRun, event: LogEvent): Promise<void> {
    const { taskId } = identity.ref;
    const { log } = output;
    const { maxBytes = defaultMaxBytes } = this.#link.limits;
    const name = blobIn(event);
    const left = maxBytes - this.#blobBytes;
    if (name === undefined || left <= 0) return;
    const { signal } = this.#conversation.lost;
    const bytes = await this.#link.blob?.(taskId, name, left, signal);
    if (bytes === undefined) return;
    this.#blobBytes += bytes.length;
    log.addBlob(taskId, bytes);
  }

  async #write(run: TaskRun, event: LogEvent): Promise<TaskRun | undefined> {
    switch (event.type) {
      case "task.suspended":
      case "task.completed":
      case "task.failed":
      case "task.cancelled":
      case "task.incomplete":
        return this.#rest(run, event);
      case "task.created":
      case "task.in_progress":
      case "task.resumed":
        if (event.type === "task.in_progress" && run.identity.ref.taskId !== this.#top.taskId)
          await this.#begin(run);
        run.control.isResting = false;
        run.output.emitter.forward(event);
        this.#store(run, { status: event.type === "task.created" ? "queued" : "in_progress" });
        return undefined;
      case "task.usage":
        this.#countUsage(run, event.usage, event.cost);
        run.state.byModel = event.by_model ?? run.state.byModel;
        break;
      case "task.child.started":
        await this.#announce(run, event);
        break;
      case "task.child.promoted":
        this.#storePlace(this.runs.get(event.child_task_id), { mode: "background" });
        break;
      case "task.approval.requested":
        return this.#ask(run, event);
      case "task.approval.resolved":
        run.output.emitter.forward(event);
        this.#resolve(run, event);
        return undefined;
      case "task.output_item.done":
        run.output.emitter.forward(event);
        if (event.item.type === "tool_result") this.#store(run);
        return undefined;
    }
    run.output.emitter.forward(event);
    return undefined;
  }

  /** Stores the new messages of a task, its record and the place in the remote log, with all events so far. */
  #store(
    run: TaskRun,
    change: Partial<TaskRecord> = {},
    more: readonly Message[] = [],
    taken: readonly string[] = [],
  ): void {
    this.#unstored = 0;
    const { messages, record } = newMessages(run, this.#tree);
    writeStep(run, {
      messages: [...messages, ...more],
      record: { ...record, ...change, remote: this.#place(run) },
      taken,
    });
  }

  /** Stores no messages, because a turn may be under way. */
  #storePlace(run: TaskRun | undefined, change: Partial<TaskRecord> = {}): void {
    if (run === undefined) return;
    this.#unstored = 0;
    writeStep(run, { record: { ...change, remote: this.#place(run) } });
  }

  #place({ state }: TaskRun): NonNullable<TaskRecord["remote"]> {
    return { taskId: this.#top.taskId, ...state.record.remote, cursor: this.cursor };
  }

  /** The budgets of the parents count what a remote task uses. */
  #countUsage(run: TaskRun, usage: Usage | undefined, cost = run.state.cost): void {
    if (usage === undefined) return;
    const grown = usage.total_tokens - run.state.usage.total_tokens;
    const spent = amountOf(cost) - amountOf(run.state.cost);
    if (grown > 0) run.budget.add({ ...usage, total_tokens: grown }, Math.max(0, spent));
    Object.assign(run.state, { usage, cost });
  }

  /** An approval has an id of its own in the whole conversation: an answer must not reach another task. */
  async #ask(run: TaskRun, event: ApprovalRequested): Promise<undefined> {
    const { sessionId: conversation, store } = this.#conversation;
    const waiting = await waitingTasks(store, { conversation });
    if (waiting.some(({ approvals }) => approvals.some(({ id }) => id === event.approval_id)))
      throw forged(`approval ${event.approval_id} exists already`);
    run.output.emitter.forward(event);
    this.#store(run, {}, [controlMessage(run, suspensionOf(event, stopCallId))]);
  }

  /** Stores the answer that was given here, or one from elsewhere, such as the expiry on the server. */
  #resolve(run: TaskRun, event: ApprovalResolved): void {
    const { approval_id: approvalId, decision, by, reason } = event;
    const post = this.answers.get(approvalId);
    this.answers.delete(approvalId);
    if (post) run.control.claims.delete(post.id);
    const taken = post ? [post.id] : [];
    const blocks = messagesOf(run).flatMap(({ content }) => content);
    const asked = blocks.find(
      (block) => block.type === "suspension" && block.approvalId === approvalId,
    );
    const isNew = asked?.type === "suspension" && !isAnswered(run, approvalId);
    const { callId } = isNew ? asked : { callId: "" };
    const given = { ...(by !== undefined && { by }), ...(reason !== undefined && { reason }) };
    const answer = { type: "answer", approvalId, callId, decision, ...given } as const;
    const message = post?.message ?? controlMessage(run, answer);
    this.#store(run, {}, isNew ? [message] : [], taken);
  }

  async #rest(run: TaskRun, event: RestEvent): Promise<TaskRun> {
    this.#store(run);
    const { taskId, path } = run.state.record;
    const isBelow = taskId !== this.#top.taskId;
    if ("task" in event) this.#countUsage(run, event.task.usage);
    run.state.record = { ...run.state.record, remote: this.#place(run) };
    const ending = await endingOf(run, event, !isBelow);
    if (ending.status !== "suspended") this.runs.delete(taskId);
    const isAsSent = ending.status === ("task" in event ? event.task.status : "suspended");
    const forwarded = { event: errorPlaced(event, { taskId, path }), isBelow };
    await endTask(run, ending, isAsSent ? forwarded : undefined);
    if (ending.status !== "suspended") this.#release(run);
    return run;
  }

  /** Adds events of our own, which close what is open, to those that were read. */
  #close(run: TaskRun): void {
    const known = this.#tree.task(run.identity.ref.taskId);
    if (known === undefined) return;
    const write = (event: LogEvent) => {
      this.#tree.apply(event);
      this.#seqs.set(event.task_id, event.task_seq);
      run.output.emitter.forward(event);
    };
    closeItems(run, new TaskWriter(known, { write, now: () => run.settings.clock.now() }));
  }

  /** Ends a task and those below it here, because the server cannot be asked or believed any more. */
  end(run: TaskRun, ending: EndingOf, belowIt = ending): Promise<void> {
    return this.#inTurn(() => this.#endTree(run, ending, belowIt));
  }

  async #endTree(run: TaskRun, ending: EndingOf, belowIt: EndingOf): Promise<void> {
    const { taskId } = run.identity.ref;
    for (const below of [...this.runs.values()].reverse())
      if (below.identity.ancestors.includes(taskId)) await this.#end(below, belowIt);
    await this.#end(run, ending);
  }

  /** Cancels the children of a task that have no event yet: a reader of the log would wait for them. */
  async #endAnnounced(parent: TaskRun): Promise<void> {
    for (const [taskId, { run, event }] of this.#announced) {
      if (run !== parent) continue;
      this.#announced.delete(taskId);
      const sessionId = `sub-${run.settings.ids.uuid()}`;
      const record = childRecord(run, event, sessionId, { created_at: run.settings.clock.now() });
      const child = await this.#open(record, run, true);
      announce(child.output.emitter, record);
      await this.#end(child, cancelled);
    }
  }

  async #end(run: TaskRun, endingFor: EndingOf): Promise<void> {
    const { taskId } = run.identity.ref;
    if (!this.runs.delete(taskId)) return;
    this.#closed.add(taskId);
    await this.#endAnnounced(run);
    this.#close(run);
    await commitStep(run, newMessages(run, this.#tree));
    const ending = await endingFor(run);
    // A suspended task cannot show the results that end it.
    if (run.state.record.status === "suspended")
      run.output.emitter.append({ type: "task.resumed", reason: "cancelled" });
    const state = ending.status === "failed" ? "error" : "interrupted";
    await settlePending(run, state, interruptedResult);
    await endTask(run, ending, undefined);
    this.#release(run);
  }
}
