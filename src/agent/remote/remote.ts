import { after, type Clock, onAbort } from "../../base/clock.ts";
import { RivuletError, rivuletErrorOf } from "../../base/error.ts";
import { cancelGraceMs, longestTimer } from "../../base/time.ts";
import {
  type Agent,
  type AnswerBlock,
  type Budget,
  endedEarly,
  linkBehind,
  type Post,
  type RemoteLink,
  type RemoteTask,
  remoteLink,
  type StandardSchema,
  type Store,
  serverLost,
  silent,
  type TaskRecord,
} from "../../contract/index.ts";
import { viaOf } from "../../store/index.ts";
import { BudgetUsedUp } from "../base/budget.ts";
import type { Conversation } from "../drive/conversation.ts";
import { openParent } from "../drive/lifecycle.ts";
import { cancelled, type Ending, executorLost, failed, incomplete } from "../loop/ending.ts";
import { cancelReason, reasonText } from "../loop/inbox.ts";
import { commitStep, type TaskRun, untilItEnds } from "../loop/task-run.ts";
import { traceparentOf } from "../loop/trace.ts";
import { messagesOf } from "../loop/transcript.ts";
import { AgentLink } from "./agent-link.ts";
import { RemoteLog } from "./log.ts";
import { isAnswered } from "./messages.ts";

const defaultLostAfterMs = 600_000;
/** A connection that lasts this long was a good one. */
const steadyMs = 30_000;
/** How long the server may take to answer a request, and the longest delay before it is repeated. */
const requestMs = 15_000;
const maxDelayMs = 5_000;
/** How much longer than its budget allows a task may run before it is cancelled from here. */
const lateMs = 2_000;
/** An answer with one of these errors has no effect: the approval no longer waits. */
const settledCodes: ReadonlySet<string> = new Set(["already_answered", "not_found", "task_ended"]);

/** The facts about the child of a link when one of its tasks is taken up. */
interface RemoteStarter {
  readonly parent: TaskRun;
  /** The agent of the child, if the task is the child. */
  readonly agent?: Agent | undefined;
  /** The schema of its result, if the caller has it. */
  readonly output?: StandardSchema | undefined;
  /** Why the agent must not run. */
  readonly failure?: RivuletError | undefined;
}

/** Opens the child of a link that a task belongs to. Without its agent, all its tasks fail. */
export async function openRemote(
  conversation: Conversation,
  record: TaskRecord,
  { parent, agent, output, failure }: RemoteStarter,
): Promise<LinkedChild> {
  const top = agent ? record : await topOf(conversation.store, record);
  const all = conversation.linked as Map<string, Promise<LinkedChild>>;
  const { clock } = parent.settings;
  const open = async () => {
    const link = failure
      ? lostLink(failure)
      : await linkOf(conversation, top, agent, clock, output);
    const log = new RemoteLog(conversation, link, top);
    if (top.status !== "queued") await log.load();
    return new LinkedChild(conversation, link, log, top, clock, () => all.delete(top.taskId));
  };
  const opening = all.get(top.taskId) ?? open();
  all.set(top.taskId, opening);
  opening.catch(() => all.delete(top.taskId));
  return opening;
}

/** The link of a child. It lives as long as the child is unfinished: it may hold what no store does. */
async function linkOf(
  conversation: Conversation,
  top: TaskRecord,
  given: Agent | undefined,
  clock: Clock,
  output: StandardSchema | undefined,
): Promise<RemoteLink> {
  const { store, process } = conversation;
  const { childAgents } = process;
  try {
    const parent = given ? undefined : await openParent(conversation, top);
    const offered = parent && (await conversation.childAgent(parent, top));
    const agent = childAgents.get(top.taskId) ?? given ?? offered;
    if (agent === undefined) return lostLink(executorLost());
    const isLocal = top.remote?.url === undefined;
    const known = linkBehind(agent);
    const link = known ?? (isLocal && new AgentLink({ agent, top, store, clock, output }));
    if (!link) return lostLink(executorLost());
    const linked = known ? agent : Object.assign(Object.create(agent), { [remoteLink]: link });
    childAgents.set(top.taskId, linked as Agent);
    return link;
  } catch (error) {
    return lostLink(error);
  }
}

/** Stands for the link of an agent that cannot run: each request fails. */
function lostLink(thrown: unknown): RemoteLink {
  const { code, message, hint } = rivuletErrorOf(thrown);
  const more = { cause: thrown, ...(hint !== undefined && { hint }) };
  const refuse = () => Promise.reject(new RivuletError(code, message, more));
  const events = () => ({ [Symbol.asyncIterator]: () => ({ next: refuse }) });
  return { limits: {}, events, start: refuse, answer: refuse, steer: refuse, cancel: refuse };
}

/** The budget of a task that has been started already: what is left for it. */
function withItself({ agents, ...left }: Budget): Budget {
  return { ...left, ...(agents !== undefined && { agents: agents + 1 }) };
}

/** The record of the remote child that a task belongs to: its own, or that of an ancestor. */
async function topOf(store: Store, record: TaskRecord): Promise<TaskRecord> {
  const parent = await store.task(record.parentTaskId ?? "");
  const isRemote = (key: "url" | "taskId") => parent?.remote?.[key] === record.remote?.[key];
  return parent?.remote && isRemote("url") && isRemote("taskId") ? topOf(store, parent) : record;
}

/** One child on another server, with its descendants. Reads its events while one of its tasks is driven here. */
export class LinkedChild {
  readonly link: RemoteLink;
  readonly log: RemoteLog;
  readonly #conversation: Conversation;
  readonly #task: RemoteTask;
  /** Whether another process has begun the child. */
  readonly #isLoaded: boolean;
  readonly #clock: Clock;
  readonly #onEnd: () => void;
  /** The tasks that are driven; each settles when it rests. */
  readonly #driven = new Map<string, PromiseWithResolvers<void>>();
  /** The driven tasks whose rows have not been read yet. */
  readonly #unread = new Set<string>();
  /** The tasks of answers that were sent and that the server has not acted upon, by approval. */
  readonly #unresolved = new Map<string, TaskRun>();
  #running: Promise<void> | undefined;
  #starting: Promise<void> | undefined;
  /** The cancels that are being sent. */
  readonly #cancelling = new Set<Promise<void>>();
  #reading = new AbortController();
  #sending: Promise<void> | undefined;
  #mustSendMore = false;
  /** The rest of the budget that the server was told when the child started. */
  #told: Budget = {};
  /** How many rows were sent. */
  #sent = 0;
  /** The number of the last event that the server had when the connection opened. */
  #last = Number.POSITIVE_INFINITY;
  /** Since when no event has arrived and no connection has lasted. */
  #lostSince: number | undefined;

  constructor(
    conversation: Conversation,
    link: RemoteLink,
    log: RemoteLog,
    top: TaskRecord,
    clock: Clock,
    onEnd: () => void,
  ) {
    const { taskId, sessionId, remote, status } = top;
    this.#isLoaded = status !== "queued";
    this.#conversation = conversation;
    this.link = link;
    this.log = log;
    this.#task = { taskId, sessionId, remoteId: remote?.taskId ?? taskId };
    this.#clock = clock;
    this.#onEnd = onEnd;
  }

  /** Whether a record is that of the child itself. */
  isTop({ taskId }: TaskRecord): boolean {
    return taskId === this.#task.taskId;
  }

  /** Drives a task until it has ended or is suspended; the log has its end then. */
  async drive(run: TaskRun): Promise<undefined> {
    const { taskId } = run.identity.ref;
    const { signal: lost } = this.#conversation.lost;
    if (!this.log.has(taskId)) this.log.begin(run);
    if (!this.log.runs.has(taskId)) return void (await this.log.settled()); // it has just ended
    const rested = Promise.withResolvers<void>();
    this.#driven.set(taskId, rested);
    this.#unread.add(taskId);
    const send = () => {
      const onSent = () => {
        this.#unread.delete(taskId);
        this.#settle();
      };
      this.#sendRows().then(onSent, (error: unknown) => this.#fail(error));
    };
    const stops = [
      onAbort(lost, () => rested.reject(lost.reason)),
      onAbort(run.control.controller.signal, () => this.#cancel(run)),
      this.#conversation.onPost(send),
      this.#stopWhenTimeIsUp(run),
      run.budget.onUsedUp(() => this.#stopAtLimit(run)),
    ];
    try {
      send();
      this.#running ??= this.#run();
      await rested.promise;
      if (!this.log.runs.has(taskId)) await this.log.settled(); // its end may not be stored yet
    } finally {
      for (const stop of stops) stop();
      this.#driven.delete(taskId);
      if (this.#driven.size === 0) {
        this.#reading.abort("no task is driven");
        void this.#conversation.look(); // background tasks of a child that has ended go on
      }
      if (this.log.runs.size === 0) this.#onEnd();
    }
  }

  /** The server ends a task whose time is over; it is cancelled from here if it does not. */
  #stopWhenTimeIsUp({ budget: { leftMs }, control: { controller } }: TaskRun): () => void {
    if (leftMs > longestTimer - lateMs) return () => {};
    return after(this.#clock, Math.max(0, leftMs) + lateMs, () =>
      controller.abort(new BudgetUsedUp()),
    );
  }

  /** A server that knows the limit ends the task itself; it does not know what others have used since the start. */
  #stopAtLimit({ budget, control: { controller } }: TaskRun): void {
    const isItsOwn = this.link.enforcesBudget && budget.hasUsed(this.#told);
    if (!isItsOwn) controller.abort(new BudgetUsedUp());
  }

  async #run(): Promise<void> {
    try {
      while (this.#driven.size > 0) {
        this.#reading = new AbortController();
        await this.#follow(this.#reading.signal);
        await this.#sending?.catch(() => {});
      }
    } catch (error) {
      await this.#fail(error);
    } finally {
      this.#running = undefined;
    }
  }

  /** Reads events over one connection. */
  async #follow(signal: AbortSignal): Promise<void> {
    const { log } = this;
    const sent = this.#sent;
    const openedAt = this.#clock.now();
    this.#last = Number.POSITIVE_INFINITY;
    const onOpened = (last: number) => {
      this.#last = last;
      this.#settle();
    };
    try {
      this.#starting = this.#start();
      await this.#starting;
      await Promise.all(this.#cancelling);
      const reading = {
        ...{ after: log.cursor, signal, onOpened },
        get known() {
          return log.known;
        },
      };
      for await (const event of this.link.events(this.#task, reading)) {
        if (signal.aborted) return;
        const before = log.cursor;
        const rested = await log.take(event);
        this.#lostSince = undefined;
        if (event.type === "task.approval.resolved") this.#unresolved.delete(event.approval_id);
        if (rested || before < this.#last) this.#settle();
      }
      if (signal.aborted || this.#sent > sent || this.#sending) return;
      this.#last = log.cursor;
      this.#unresolved.clear(); // no task moves
      this.#settle();
      const open = [...this.#driven.keys()].find(
        (id) => log.runs.get(id)?.control.isResting === false,
      );
      if (open !== undefined) throw endedEarly(open);
    } catch (error) {
      if (signal.aborted && this.#driven.size === 0) return;
      const now = this.#clock.now();
      if (now - openedAt >= steadyMs) this.#lostSince = undefined;
      this.#lostSince ??= now;
      await this.#pause(error, this.#lostSince, signal);
    }
  }

  /**
   * Ends the drives of tasks that have ended or are suspended. A suspension counts when it is the last that the server
   * has to say: not if later events follow, or if an answer has been sent that the server has not acted upon.
   */
  #settle(): void {
    const isCurrent = this.log.cursor >= this.#last;
    for (const [taskId, { resolve }] of this.#driven) {
      const run = this.log.runs.get(taskId);
      const isSuspended = run?.state.record.status === "suspended" && isCurrent;
      if (run === undefined || (isSuspended && !this.#isAnswered(taskId))) resolve();
    }
  }

  #isAnswered(taskId: string): boolean {
    const isBelow = (run: TaskRun) =>
      run.identity.ref.taskId === taskId || run.identity.ancestors.includes(taskId);
    return this.#unread.has(taskId) || [...this.#unresolved.values()].some(isBelow);
  }

  /** Starts the task on the server. Repeated until an event has arrived: the same id is the same start. */
  async #start(): Promise<void> {
    const { taskId, sessionId, remoteId: known } = this.#task;
    const run = this.log.runs.get(taskId);
    const isCancelled = run?.control.controller.signal.aborted === true;
    // An id of the server's own says that the task has started.
    const isStarted = this.log.cursor >= 0 || known !== taskId;
    if (isStarted || run === undefined || isCancelled) return;
    const { outputSchema } = run.state.record;
    const { left } = run.budget;
    this.#told = left ?? {};
    const traceparent = traceparentOf(run);
    const { rootTaskId } = run.identity.ref;
    const request = {
      ...{ taskId, sessionId },
      messages: messagesOf(run).filter(({ metadata }) => metadata?.input),
      mayHaveStarted: this.#isLoaded,
      ...(left && { budget: withItself(left) }),
      ...(outputSchema && { outputSchema }),
      ...(traceparent !== undefined && { traceparent }),
      via: await viaOf(this.#conversation.store, rootTaskId, run.state.record.depth),
    };
    const remoteId = await this.#send((signal) => this.link.start(request, signal));
    if (remoteId === this.#task.remoteId) return;
    Object.assign(this.#task, { remoteId });
    await commitStep(run, {
      record: { remote: { ...run.state.record.remote, taskId: remoteId, cursor: -1 } },
    });
  }

  /** Sends the answers, messages and cancels that were posted for the tasks of the child. */
  #sendRows(): Promise<void> {
    this.#mustSendMore = true;
    this.#sending ??= this.#sendAllRows().finally(() => {
      this.#sending = undefined;
    });
    return this.#sending;
  }

  async #sendAllRows(): Promise<void> {
    const { store, sessionId } = this.#conversation;
    while (this.#mustSendMore) {
      this.#mustSendMore = false;
      for (const post of await store.posts({ conversation: sessionId })) {
        const run = this.log.runs.get(post.taskId ?? post.message?.metadata?.taskId ?? "");
        if (run && !post.ifQueued && !run.control.claims.has(post.id))
          await this.#sendRow(run, post);
      }
    }
  }

  async #sendRow(run: TaskRun, post: Post): Promise<void> {
    const { taskId } = run.identity.ref;
    const { message } = post;
    if (post.kind === "cancel") {
      run.control.claims.set(post.id, untilItEnds);
      if (this.#driven.has(taskId)) run.control.controller.abort(cancelReason(post));
      else this.#cancel(run, reasonText(cancelReason(post)));
      return;
    }
    run.control.claims.set(post.id, untilItEnds); // the task may end meanwhile, and its end takes the row
    const [block] = message?.content ?? [];
    const isAnswer = post.kind === "answer" && block?.type === "answer";
    if (isAnswer) {
      const { approvalId } = block;
      // The row stays until the server has acted upon it, so that a crash cannot leave the task suspended.
      if (!isAnswered(run, approvalId)) this.#unresolved.set(approvalId, run);
      this.log.answers.set(approvalId, post);
      if (await this.#send((signal) => this.#answer(taskId, block, signal))) {
        this.#sent += 1;
        return;
      }
      this.#unresolved.delete(approvalId);
      this.log.answers.delete(approvalId);
    } else if (message && post.kind !== "answer") {
      await this.#send((signal) => this.link.steer(this.#task, taskId, message, signal)).catch(
        ignoreRefusal,
      );
    }
    this.#sent += 1;
    if (!this.log.runs.has(taskId)) return;
    run.control.claims.delete(post.id);
    await commitStep(run, { taken: [post.id] });
  }

  /** Resolves to whether the answer has its effect, now or because another one came first. */
  async #answer(taskId: string, block: AnswerBlock, signal: AbortSignal): Promise<boolean> {
    const { type: _, callId: __, by: ___, ...given } = block;
    const isExpired = block.decision === "expire" || block.decision === "cancel";
    const expired = { decision: "deny", reason: given.reason ?? "It has expired." } as const;
    try {
      await this.link.answer(this.#task, { ...given, ...(isExpired && expired), taskId }, signal);
      return true;
    } catch (error) {
      const { code, retryable } = rivuletErrorOf(error);
      if (retryable || signal.aborted) throw error;
      return settledCodes.has(code);
    }
  }

  /** Cancels a task on the server; ends it here if the server does not say within the grace that it has ended. */
  #cancel(run: TaskRun, reason = reasonText(run.control.controller.signal.reason)): void {
    if (this.#conversation.lost.signal.aborted) return;
    const sent = this.#sendCancel(run, reason).finally(() => this.#cancelling.delete(sent));
    this.#cancelling.add(sent);
  }

  async #sendCancel(run: TaskRun, reason: string): Promise<void> {
    const { taskId } = run.identity.ref;
    const stop = after(this.#clock, cancelGraceMs, () => void this.#force(run));
    void this.#driven.get(taskId)?.promise.then(stop, stop);
    const cancel = (signal: AbortSignal) => this.link.cancel(this.#task, taskId, reason, signal);
    const isOver = () => !this.log.runs.has(taskId);
    await this.#starting?.catch(() => {}); // the server must know the task before it can cancel it
    await this.#send(cancel, isOver).catch(async (error: unknown) => {
      if (rivuletErrorOf(error).code === "not_found") await this.#force(run);
    });
  }

  async #force(run: TaskRun): Promise<void> {
    const isLate = run.control.controller.signal.reason instanceof BudgetUsedUp;
    const ending = (task: TaskRun): Ending =>
      isLate ? incomplete(task, "budget") : cancelled(task);
    await this.#end(run, ending);
  }

  /** The server is gone, or sends what it may not: its tasks end here. */
  async #fail(error: unknown): Promise<void> {
    if (this.#conversation.lost.signal.aborted) return;
    const tops = [...this.log.runs.values()].filter(
      ({ identity: { ancestors } }) => !ancestors.some((id) => this.log.runs.has(id)),
    );
    for (const run of tops) {
      const { taskId } = run.identity.ref;
      const isCancelled = run.control.controller.signal.aborted;
      await this.#end(run, isCancelled ? cancelled : (task) => failed(task, error), cancelled);
      const signal = AbortSignal.timeout(requestMs);
      this.link.cancel(this.#task, taskId, "Its caller has given it up.", signal).catch(() => {});
    }
  }

  async #end(
    run: TaskRun,
    ending: (task: TaskRun) => Ending,
    below: (task: TaskRun) => Ending = ending,
  ): Promise<void> {
    try {
      await this.log.end(run, ending, below);
      this.#settle();
    } catch (error) {
      for (const { reject } of this.#driven.values()) reject(error);
    }
  }

  /** Sends a request, again after errors that may pass; throws when the server is out of reach for too long. */
  async #send<T>(work: (signal: AbortSignal) => Promise<T>, isOver = () => false): Promise<T> {
    const { signal } = this.#conversation.lost;
    const since = this.#clock.now();
    for (;;) {
      const limit = AbortSignal.timeout(requestMs);
      try {
        return await work(AbortSignal.any([signal, limit]));
      } catch (thrown) {
        const error = limit.aborted ? silent(`${this.link.url}`, requestMs) : thrown;
        if (isOver()) throw error;
        await this.#pause(error, since, signal);
      }
    }
  }

  /** Waits before the next attempt; throws an error that does not pass. */
  async #pause(thrown: unknown, since: number, signal: AbortSignal): Promise<void> {
    const { signal: lost } = this.#conversation.lost;
    lost.throwIfAborted();
    const error = rivuletErrorOf(thrown);
    if (!error.retryable) throw error;
    const { lostAfterMs = defaultLostAfterMs } = this.link.limits;
    const waited = this.#clock.now() - since;
    if (waited >= lostAfterMs) throw serverLost(`${this.link.url}`, waited, error);
    const delay = Math.min(maxDelayMs, 50 + waited, lostAfterMs - waited);
    await this.#clock.sleep(delay, AbortSignal.any([lost, signal])).catch(() => {});
  }
}

/** A steering message that the server refuses is dropped, as one that no task can read. */
function ignoreRefusal(thrown: unknown): void {
  if (rivuletErrorOf(thrown).retryable || rivuletErrorOf(thrown).code === "remote_lost")
    throw thrown;
}
