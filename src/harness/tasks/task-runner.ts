import {
  type AgentSettings,
  answerRows,
  type Conversation,
  cancelTask,
  misfit,
  processOf,
  settingsBehind,
  waitingTasks,
} from "../../agent/index.ts";
import { type Clock, systemClock } from "../../base/clock.ts";
import { notFound, RivuletError } from "../../base/error.ts";
import * as is from "../../base/options.ts";
import { type Fields, invalid, ownerOf, readArgument, readOptions } from "../../base/options.ts";
import { type Agent, agentField, type Store, type TaskRecord } from "../../contract/index.ts";
import { startHeartbeat } from "./heartbeat.ts";
import { Rollouts } from "./rollouts.ts";

/** The shortest time between two sweeps, however often something is posted. */
const leastPauseMs = 50;
/** How many conversations one sweep takes up. */
const batchSize = 100;
const agentsHint = "Pass agents with the same store: taskRunner({ agents: [lead] }).";
/** The longest pause before another attempt at a conversation that cannot be taken up. */
const maxPauseMs = 5 * 60_000;
/** The time after which an unchanged problem is reported again. */
const remindMs = 60 * 60_000;

/** Options of a task runner. */
export interface TaskRunnerOptions {
  /** The root agents; all must use the same store. */
  readonly agents: readonly Agent[];
  /** Whether tasks of a lost process resume from their last commit (default) or fail. */
  readonly lostTasks?: "resume" | "fail";
  /**
   * How many conversations of a user run at once, in all processes; others wait. Only for stores that claim; defaults to
   * no limit.
   */
  readonly maxPerUser?: number;
  /** The time between sweeps; defaults to two seconds. */
  readonly intervalMs?: number;
  readonly clock?: Clock;
  /**
   * Called for a session that cannot be taken up: when the problem appears or changes, then once an hour. The session is
   * "" when the store fails.
   */
  readonly onProblem?: (sessionId: string, error: unknown) => void;
}

/** Takes up the conversations of a store that have no owner. */
export interface TaskRunner {
  /** Takes up or fails lost tasks and expires approvals, once; resolves to the affected sessions. */
  sweep(): Promise<readonly string[]>;
  /** Sweeps at every interval. */
  start(): void;
  /** Cancels a task and its descendants, in whatever process. */
  cancel(taskId: string, reason?: string): Promise<void>;
  /**
   * Stops all work of this process on the store and releases its leases; another process can resume the tasks. Steps that
   * run may take `graceMs` to end (default 0).
   */
  shutDown(options?: { readonly graceMs?: number }): Promise<void>;
}

const fields: Fields<TaskRunnerOptions> = {
  agents: is.required(is.listOf(agentField), "[lead]"),
  lostTasks: is.oneOf("resume", "fail"),
  maxPerUser: is.count,
  intervalMs: is.duration,
  clock: is.clock,
  onProblem: is.callback,
};

const shutDownFields: Fields<{ readonly graceMs?: number }> = { graceMs: is.integer(0) };

/** Creates a task runner for these agents. */
export function taskRunner(given: TaskRunnerOptions): TaskRunner {
  const options = readOptions("taskRunner()", given, fields);
  const { agents, lostTasks = "resume", intervalMs = 2_000, clock = systemClock } = options;
  const settings = agents.map(settingsOf);
  const [first] = settings;
  if (first === undefined) throw invalid("`agents` is empty.", agentsHint);
  const { store } = first;
  if (settings.some((one) => one.store !== store)) {
    throw invalid("`agents` must use the same store.", agentsHint);
  }
  const ownerOf = (root: TaskRecord) => settings.find(({ name }) => name === root.agentName);
  const process = processOf(store);
  const stop = new AbortController();
  const working = new Map<string, Promise<void>>();
  const pauses = new Pauses(clock, intervalMs, options.onProblem);
  const approvals = new ApprovalExpiry(store, first, clock);
  const rollouts = new Rollouts(store, clock);
  let leave = async () => {};
  const terms = {
    leaseMs: Math.max(...settings.map(({ leaseMs }) => leaseMs)),
    clock: first.clock,
  };
  /** Processes that share a store start each other's tasks: where looking is cheap, they look when they are told. */
  const isShared = store.claim !== undefined && store.memory === undefined;
  let looking: Promise<unknown> = Promise.resolve();

  /** Starts what the conversation has left; resolves when this process has released it. */
  async function work(conversation: Conversation | undefined): Promise<void> {
    if (conversation === undefined) return;
    for (const agent of settings) conversation.addAgent(agent);
    if (lostTasks === "fail") await conversation.failLost();
    await conversation.leave();
    await conversation.closed;
  }

  /** Starts work on a conversation; returns false when no agent of the runner can do it. */
  async function takeUp(sessionId: string): Promise<boolean> {
    try {
      const { tasks, owner } = await rootOf(sessionId, true);
      workOn(sessionId, process.enter(sessionId, owner), () => tasks);
      return true;
    } catch (error) {
      pauses.afterError(sessionId, error);
      return false;
    }
  }

  function workOn(
    sessionId: string,
    opening: Promise<Conversation | undefined>,
    tasksBefore: () => readonly TaskRecord[],
  ): void {
    const done = opening
      .then(work)
      .then(() => pauses.afterWork(sessionId, tasksBefore()))
      .catch((error: unknown) => void pauses.afterError(sessionId, error))
      .finally(() => working.delete(sessionId));
    working.set(sessionId, done);
  }

  /** The tasks of a session, and the settings of the agent of its last root task, which may leave its version. */
  async function rootOf(sessionId: string, mayFree = false) {
    const tasks = await store.tasks({ sessionId });
    const root = tasks.at(-1);
    const owner = root && ownerOf(root);
    if (root === undefined || owner === undefined) throw unknownAgent(root);
    const wrong = misfit(owner, root);
    if (wrong && !(wrong === "unknown_version" && mayFree && (await rollouts.free(root))))
      throw unknownHome(wrong, root);
    return { tasks, owner };
  }

  /** Takes up conversations that no other process takes up; false if the store cannot do that. */
  async function claim(found: Set<string>): Promise<boolean> {
    const request = {
      agents: settings.map(({ agentId, version }) => ({
        agentId,
        ...(version !== undefined && { version }),
      })),
      places: settings.flatMap(({ place }) => place ?? []),
      ...(options.maxPerUser !== undefined && { maxPerUser: options.maxPerUser }),
    };
    for (;;) {
      const states = new Map<string, readonly TaskRecord[]>();
      const claimed = await process.claim(batchSize, terms, request, async (sessionId) => {
        await untilMovable(sessionId);
        const { tasks, owner } = await rootOf(sessionId);
        states.set(sessionId, tasks);
        return owner;
      });
      if (claimed === undefined) return false;
      for (const { sessionId, opening } of claimed) {
        found.add(sessionId);
        workOn(sessionId, opening, () => states.get(sessionId) ?? []);
      }
      await turn();
      if (claimed.length < batchSize) return true;
    }
  }

  /** Keeps a conversation that did not move the last time until something is posted or a part of its lease is over. */
  async function untilMovable(sessionId: string): Promise<void> {
    if (!pauses.isPaused(sessionId)) return;
    const woken = new AbortController();
    const unwatch = store.watch({ inbox: sessionId }, () => woken.abort("woken"));
    const wake = AbortSignal.any([stop.signal, woken.signal]);
    await clock.sleep(terms.leaseMs / 3, wake).catch(() => {});
    unwatch();
  }

  async function sweep(): Promise<readonly string[]> {
    if (isShared) await rollouts.look(ownerOf);
    const found = new Set<string>();
    const listed = new Set<string>();
    let started = 0;
    const look = async (sessionId: string) => {
      listed.add(sessionId);
      if (working.has(sessionId) || pauses.isPaused(sessionId)) return;
      found.add(sessionId);
      if (await takeUp(sessionId)) started += 1;
      await turn();
    };
    await approvals.expire(pauses, listed, look);
    if (isShared && lostTasks === "resume" && (await claim(found))) {
      pauses.forgetOld();
      return [...found];
    }
    // A page is larger than all that is listed already, so conversations that stay do not hide the others.
    for (let limit = batchSize; ; limit = batchSize + 2 * listed.size) {
      const page = await store.expired(limit);
      for (const sessionId of page) {
        if (started < batchSize && !listed.has(sessionId)) await look(sessionId);
      }
      if (started >= batchSize || page.length < limit) break;
    }
    if (started < batchSize) pauses.keepOnly(listed);
    if (lostTasks === "fail") await Promise.all(working.values());
    return [...found];
  }

  return {
    sweep,
    start() {
      leave = startHeartbeat(store, settings, options.maxPerUser);
      let woken = new AbortController();
      const unwatch = isShared
        ? store.watch({ inbox: "*" }, () => woken.abort("woken"))
        : undefined;
      const look = async () => {
        while (!stop.signal.aborted) {
          woken = new AbortController();
          const pauseMs = await sweep().then(
            () => intervalMs,
            (error: unknown) => pauses.afterError("", error),
          );
          if (unwatch) await clock.sleep(leastPauseMs, stop.signal).catch(() => {});
          const wake = AbortSignal.any([stop.signal, woken.signal]);
          await clock.sleep(pauseMs, wake).catch(() => {});
        }
        unwatch?.();
      };
      looking = look();
    },
    async cancel(taskId, reason = "cancelled") {
      readArgument("taskId", taskId, is.required(is.name));
      readArgument("reason", reason, is.text);
      const record = await store.task(taskId);
      const root = record && (await store.task(record.rootTaskId));
      const owner = root && ownerOf(root);
      if (root && !owner) throw unknownAgent(root);
      if (record === undefined || root === undefined || owner === undefined)
        throw notFound("task", taskId);
      const target = { settings: owner, conversation: root.sessionId, taskId };
      await cancelTask(process, target, reason);
    },
    async shutDown(given = {}) {
      const { graceMs = 0 } = readOptions("shutDown()", given, shutDownFields);
      stop.abort();
      await looking;
      if (graceMs > 0) await process.handOver(graceMs);
      await process.shutDown();
      await Promise.all(working.values());
      await leave();
    },
  };
}

interface Pause {
  readonly until: number;
  readonly ms: number;
  /** The problem, or the state of the tasks if there was none. */
  readonly reason: string;
  readonly reportedAt: number;
}

/** The conversations that stayed as they were after an attempt, with growing pauses before the next one. */
class Pauses {
  readonly #clock: Clock;
  readonly #intervalMs: number;
  readonly #onProblem: TaskRunnerOptions["onProblem"];
  readonly #pauses = new Map<string, Pause>();

  constructor(clock: Clock, intervalMs: number, onProblem: TaskRunnerOptions["onProblem"]) {
    this.#clock = clock;
    this.#intervalMs = intervalMs;
    this.#onProblem = onProblem;
  }

  isPaused(sessionId: string): boolean {
    const pause = this.#pauses.get(sessionId);
    if (pause === undefined) return false;
    const leftMs = pause.until - this.#clock.now();
    return leftMs > 0 && leftMs <= pause.ms; // More than that is left when the clock was set back.
  }

  /** Pauses longer each time that work leaves the tasks as they were. */
  afterWork(sessionId: string, tasks: readonly TaskRecord[]): void {
    const states = tasks.map(({ taskId, status, committedOutput }) => [
      taskId,
      status,
      committedOutput,
    ]);
    this.#pause(sessionId, { reason: JSON.stringify(states), reportedAt: 0, firstMs: 0 });
  }

  /** Pauses longer each time that the same error appears, and reports it rarely; returns the pause. */
  afterError(sessionId: string, error: unknown): number {
    const isRivulet = error instanceof RivuletError;
    // Another process took over, or this one shuts down.
    if (isRivulet && (error.code === "agent_busy" || error.code === "shutting_down")) {
      return this.#intervalMs;
    }
    const reason = isRivulet ? `${error.code} ${error.message}` : String(error);
    const old = this.#pauses.get(sessionId);
    const now = this.#clock.now();
    const isReported = old?.reason === reason && Math.abs(now - old.reportedAt) < remindMs;
    const reportedAt = isReported ? old.reportedAt : now;
    const ms = this.#pause(sessionId, { reason, reportedAt, firstMs: this.#intervalMs });
    try {
      if (!isReported) this.#onProblem?.(sessionId, error);
    } catch {
      // A callback that throws must not stop the runner.
    }
    return ms;
  }

  /** Forgets the conversations that were not taken up for longer than any pause. */
  forgetOld(): void {
    const now = this.#clock.now();
    for (const [sessionId, { until }] of this.#pauses) {
      if (until + maxPauseMs < now) this.#pauses.delete(sessionId);
    }
  }

  /** Forgets the conversations that are no longer listed. */
  keepOnly(listed: ReadonlySet<string>): void {
    for (const sessionId of this.#pauses.keys()) {
      if (!listed.has(sessionId)) this.#pauses.delete(sessionId);
    }
  }

  #pause(
    sessionId: string,
    { firstMs, ...cause }: Pick<Pause, "reason" | "reportedAt"> & { readonly firstMs: number },
  ): number {
    const old = this.#pauses.get(sessionId);
    const longer = Math.max(this.#intervalMs, (old?.ms ?? 0) * 2);
    const ms = Math.min(old?.reason === cause.reason ? longer : firstMs, maxPauseMs);
    this.#pauses.set(sessionId, { ...cause, ms, until: this.#clock.now() + ms });
    return ms;
  }
}

/** Answers approvals that have expired. It reads the transcripts of a tree again only when it changed or one is due. */
class ApprovalExpiry {
  readonly #store: Store;
  readonly #settings: Pick<AgentSettings, "ids">;
  readonly #clock: Pick<Clock, "now">;
  readonly #dueAt = new Map<
    string,
    { readonly state: string; readonly at: number; readonly failed?: string }
  >();

  constructor(store: Store, settings: Pick<AgentSettings, "ids">, clock: Pick<Clock, "now">) {
    this.#store = store;
    this.#settings = settings;
    this.#clock = clock;
  }

  /** Calls `look` with each root session that can continue; adds to `listed` those that cannot be read. */
  async expire(
    pauses: Pauses,
    listed: Set<string>,
    look: (sessionId: string) => Promise<void>,
  ): Promise<void> {
    const due = { status: ["in_progress", "suspended"], dueBy: this.#clock.now() } as const;
    const trees = Map.groupBy(await this.#store.tasks(due), ({ rootTaskId }) => rootTaskId);
    for (const rootTaskId of this.#dueAt.keys()) {
      if (!trees.has(rootTaskId)) this.#dueAt.delete(rootTaskId);
    }
    for (const [rootTaskId, records] of trees) {
      const state = records
        .map(({ taskId, committedOutput, workedMs }) => [taskId, committedOutput, workedMs])
        .join();
      const due = this.#dueAt.get(rootTaskId);
      if (due?.failed !== undefined) listed.add(due.failed);
      if (due?.state === state && due.at > this.#clock.now()) continue;
      try {
        const sessionId = await this.#expireTree(rootTaskId, state);
        if (sessionId !== undefined) await look(sessionId);
      } catch (error) {
        const root = records.find(({ taskId }) => taskId === rootTaskId);
        const { sessionId } = root ?? (records[0] as TaskRecord);
        const at = this.#clock.now() + pauses.afterError(sessionId, error);
        this.#dueAt.set(rootTaskId, { state, at, failed: sessionId });
        listed.add(sessionId);
      }
      await turn();
    }
  }

  /** Returns the root session if an approval has expired. */
  async #expireTree(rootTaskId: string, state: string): Promise<string | undefined> {
    const now = this.#clock.now();
    const all = await waitingTasks(this.#store, { rootTaskId });
    const times = all.flatMap(({ approvals }) =>
      approvals.map(({ expiresAt = Number.POSITIVE_INFINITY }) => expiresAt),
    );
    const at = Math.min(...times, Number.POSITIVE_INFINITY);
    if (at > now) {
      this.#dueAt.set(rootTaskId, { state, at });
      return undefined;
    }
    const waiting = all.map(({ record, approvals }) => ({
      record,
      approvals: approvals.filter(({ expiresAt = Infinity }) => expiresAt <= now),
    }));
    const expired = waiting.flatMap(({ approvals }) => approvals);
    const answers = expired.map((one) => ({ ...one.deny(), decision: "expire" as const }));
    await this.#store.post(answerRows(this.#settings.ids, answers, waiting));
    return (await this.#store.task(rootTaskId))?.sessionId;
  }
}

/** Lets the event loop turn between conversations. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function settingsOf(agent: Agent): AgentSettings {
  const settings = settingsBehind(agent);
  if (settings) return settings;
  throw invalid(`${ownerOf("The agent", agent)} does not run in this process.`, agentsHint);
}

function unknownHome(code: "unknown_version" | "unknown_place", root: TaskRecord): RivuletError {
  const { agentName, agentVersion, place, sessionId } = root;
  const what = code === "unknown_place" ? `place ${place}` : `version ${agentVersion}`;
  return new RivuletError(code, `Session ${sessionId} waits for ${what} of ${agentName}.`, {
    hint: "Start a process that has it, or move the session: rivulet tasks move.",
  });
}

function unknownAgent(root: TaskRecord | undefined): RivuletError {
  const name = root?.agentName ?? "unknown";
  return new RivuletError("unknown_agent", `The task runner has no agent "${name}".`, {
    hint: "Pass all root agents that use the store.",
  });
}
