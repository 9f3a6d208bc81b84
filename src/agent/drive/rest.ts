import { onAbort } from "../../base/clock.ts";
import { notFound, RivuletError } from "../../base/error.ts";
import type { Store, TaskRecord, WaitReason } from "../../contract/index.ts";
import { isTerminal } from "../../protocol/index.ts";
import type { AgentSettings } from "../loop/settings.ts";
import type { Drive } from "./drive.ts";
import { isAtUserLimit, misfit } from "./home.ts";
import { plan, postCancel, Workload } from "./plan.ts";
import type { Process } from "./process.ts";

/** How often a follower looks when no watch wakes it. */
const pollMs = 1_000;

/** The task, or the whole tree, that a follower waits for. */
export interface Following {
  readonly settings: AgentSettings;
  /** The root session. */
  readonly conversation: string;
  readonly taskId: string;
  /** True: waits for every task of the tree that this task is the root of. */
  readonly isTree?: boolean;
  /** The work on the task that has begun here, even if it has ended since. */
  readonly drive?: Drive;
  /** Called while the task waits behind a suspended one of its session. */
  readonly onBlocked?: (workload: Workload, first: TaskRecord) => Promise<void>;
  /** Called every second while the task does not move. */
  readonly onWait?: ((reason: WaitReason) => void) | undefined;
}

/** A task at rest; `drive` is present if it ran here. */
export interface Rest {
  readonly record: TaskRecord;
  readonly drive?: Drive;
}

/**
 * Resolves when a task has ended, or is suspended with all its answers taken. The owner may be this process, another one
 * or none. If there is no owner and something can move, this process takes the lease.
 */
export async function untilRest(process: Process, following: Following): Promise<Rest> {
  const { taskId, conversation, drive, isTree = false } = following;
  if (!isTree) {
    const rest = await driveHere(process, following, drive);
    if (rest) return rest;
  }
  const { store } = process;
  let woken = new AbortController();
  const wake = () => woken.abort("woken");
  const unwatch = [
    store.watch({ task: taskId }, wake),
    store.watch({ inbox: conversation }, wake),
    store.watch({ session: conversation }, wake),
  ];
  const { clock } = following.settings;
  const startedAt = clock.now();
  let entries = 0;
  try {
    for (;;) {
      woken = new AbortController();
      const found = await lookAt(process, following);
      if ("rest" in found) return found.rest;
      const { workload, record } = found;
      const first = workload.first(record.sessionId);
      if (first?.status === "suspended" && first.taskId !== taskId)
        await following.onBlocked?.(workload, first);
      const owner = await ensureOwner(process, following, workload);
      if (owner === undefined) {
        entries += 1;
        // This process could take the lease but not move the task: the next try waits, whatever wakes it.
        if (entries > 1) await clock.sleep(pollMs);
        continue;
      }
      entries = 0;
      const { leftMs } = owner;
      const reason = waitReason(following, workload, record, owner);
      if (reason && following.onWait && clock.now() - startedAt >= pollMs)
        following.onWait(await withUserLimit(store, workload.root(record) ?? record, reason));
      // The timer is referenced: a process that only waits for another one must not exit.
      await clock.sleep(Math.min(pollMs, leftMs ?? pollMs), woken.signal).catch(() => {});
    }
  } finally {
    for (const stop of unwatch) stop();
  }
}

/** The rest of a task, or the work of its conversation before it. */
async function lookAt(
  process: Process,
  following: Following,
): Promise<{ readonly rest: Rest } | { readonly workload: Workload; readonly record: TaskRecord }> {
  const { taskId, conversation, isTree } = following;
  const { store } = process;
  const here = isTree ? undefined : await driveHere(process, following);
  if (here) return { rest: here };
  const workload = await Workload.read(store, conversation);
  const record = workload.record(taskId) ?? (await store.task(taskId));
  if (record === undefined) throw notFound("task", taskId);
  if (isTree && process.failures.has(conversation)) return { rest: { record } };
  const isAtRest = isTree ? treeRests(workload, record) : taskRests(workload, record);
  if (!isAtRest) return { workload, record };
  await process.owned(conversation)?.settle();
  return { rest: { record } };
}

/** Cancels a task and what is left below it; resolves when all of that has ended. */
export async function cancelTask(
  process: Process,
  { taskId, ...following }: Following,
  reason: string,
): Promise<void> {
  const targets = await postCancel(process.store, taskId, reason);
  await Promise.all(
    targets.map((task) => untilRest(process, { ...following, taskId: task.taskId })),
  );
}

/** Resolves when a task's record is as wanted, when there is none any more, or when the waiting is aborted. */
export async function taskReached(
  store: Store,
  taskId: string,
  isReached: (record: TaskRecord) => boolean,
  signal: AbortSignal,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const look = () =>
    void store.task(taskId).then((record) => {
      if (record === undefined || isReached(record)) resolve();
    }, reject);
  const unwatch = store.watch({ task: taskId }, look);
  const ignoreAbort = onAbort(signal, resolve);
  if (!signal.aborted) look();
  try {
    await promise;
  } finally {
    unwatch();
    ignoreAbort();
  }
}

/** Waits for the drive of this process, if there is one; undefined when the task may continue elsewhere. */
async function driveHere(
  process: Process,
  { conversation, taskId }: Following,
  begun?: Drive,
): Promise<Rest | undefined> {
  const owned = process.owned(conversation);
  const drive = owned?.drives.get(taskId) ?? begun;
  if (drive === undefined) return undefined;
  try {
    await drive.ended;
  } catch (error) {
    // Another process has taken over, or the store queues the task: this one follows.
    if (error instanceof RivuletError && (error.code === "fenced" || error.code === "agent_busy"))
      return undefined;
    throw error;
  }
  const { record } = drive;
  if (!isTerminal(record.status)) return undefined;
  await owned?.settle();
  return { record, drive };
}

function taskRests(workload: Workload, { taskId, status }: TaskRecord): boolean {
  if (isTerminal(status)) return true;
  return status === "suspended" && workload.rowsFor(taskId).length === 0;
}

function treeRests(workload: Workload, { rootTaskId }: TaskRecord): boolean {
  const tree = workload.records.filter((record) => record.rootTaskId === rootTaskId);
  return tree.every((record) => taskRests(workload, record));
}

/** The owner of a conversation. */
interface Owner {
  /** The time that another process still has the lease. */
  readonly leftMs?: number;
  readonly isHere?: true;
}

/** The owner; undefined if this process has just become it. */
async function ensureOwner(
  process: Process,
  { conversation, settings }: Following,
  workload: Workload,
): Promise<Owner | undefined> {
  const { store } = process;
  if (process.owned(conversation)) return { isHere: true };
  const owner = await store.owner(conversation);
  if (owner) return owner;
  const { tasks, stale } = plan(workload, conversation, {
    isDriven: () => false,
    hasAgent: (root) => root.agentName === settings.name && !misfit(settings, root),
  });
  if (tasks.length === 0 && stale.length === 0) return {};
  const entered = await process.enter(conversation, settings);
  if (entered === undefined) return (await store.owner(conversation)) ?? {};
  await entered.leave();
  return undefined;
}

/** A task whose agent no process seems to have may wait for other sessions of its user. */
export async function withUserLimit(
  store: Store,
  root: TaskRecord,
  wait: WaitReason,
): Promise<WaitReason> {
  const isLimit = wait.reason === "unknown_agent" && (await isAtUserLimit(store, root));
  return isLimit ? { reason: "user_limit" } : wait;
}

/** Why the followed task does not move; undefined when a live owner runs it. */
export function waitReason(
  { settings }: Pick<Following, "settings">,
  workload: Workload,
  record: TaskRecord,
  { leftMs, isHere }: Owner,
): WaitReason | undefined {
  const { taskId, sessionId, status } = record;
  // A live owner renews its lease after a third of its time.
  if (leftMs !== undefined && leftMs < settings.leaseMs / 2)
    return { reason: "owner_silent", leftMs };
  if (status === "in_progress" && leftMs !== undefined) return undefined;
  const isHeldUp = status === "queued" && workload.first(sessionId)?.taskId !== taskId;
  if (isHeldUp) return { reason: "busy" };
  if (isHere) return undefined;
  return { reason: misfit(settings, workload.root(record) ?? record) ?? "unknown_agent" };
}
