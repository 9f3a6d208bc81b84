import { agentField } from "../../agent/base/validation.ts";
import { answerRows } from "../../agent/drive/answers.ts";
import { unknownTask } from "../../agent/drive/cancel.ts";
import { processOf } from "../../agent/drive/process.ts";
import { refOf } from "../../agent/loop/ending.ts";
import { type AgentSettings, settingsBehind } from "../../agent/loop/settings.ts";
import { waitingTasks } from "../../agent/loop/waiting.ts";
import { cancelTask } from "../../agent/stream/door.ts";
import type { Agent } from "../../protocol/agent.ts";
import type { Clock } from "../../protocol/clock.ts";
import { systemClock } from "../../protocol/clock.ts";
import { RivuletError } from "../../protocol/error.ts";
import * as is from "../../protocol/options.ts";
import {
  type Fields,
  invalid,
  ownerOf,
  readArgument,
  readOptions,
} from "../../protocol/options.ts";
import type { Store, TaskRecord } from "../../protocol/store.ts";

const batchSize = 100;
const agentsHint = "Pass agents with the same store: taskRunner({ agents: [lead] }).";

/** Options of a task runner. */
export interface TaskRunnerOptions {
  /** The root agents; all must use the same store. */
  readonly agents: readonly Agent[];
  /** Whether tasks of a lost process resume from their last commit (default) or fail. */
  readonly lostTasks?: "resume" | "fail";
  /** The time between sweeps; defaults to two seconds. */
  readonly intervalMs?: number;
  readonly clock?: Clock;
  /** Called for each session that it could not take up. */
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
  /** Stops all work of this process on the store and releases its leases; another process can resume the tasks. */
  shutDown(): Promise<void>;
}

const fields: Fields<TaskRunnerOptions> = {
  agents: is.required(is.listOf(agentField), "[lead]"),
  lostTasks: is.oneOf("resume", "fail"),
  intervalMs: is.duration,
  clock: is.clock,
  onProblem: is.callback,
};

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
  let looking: Promise<unknown> = Promise.resolve();

  function takeUp(sessionId: string, owner: AgentSettings): void {
    if (working.has(sessionId)) return;
    const done = work(sessionId, owner)
      .catch((error: unknown) => tell(sessionId, error))
      .finally(() => working.delete(sessionId));
    working.set(sessionId, done);
  }

  /** Starts what the conversation has left; resolves when this process has released it. */
  async function work(sessionId: string, owner: AgentSettings): Promise<void> {
    const conversation = await process.enter(sessionId, owner);
    if (conversation === undefined) return;
    for (const agent of settings) conversation.addAgent(agent);
    if (lostTasks === "fail") await conversation.failLost();
    await conversation.leave();
    await conversation.closed;
  }

  /** Ignores errors of a takeover by another process and of a shutdown. */
  function tell(sessionId: string, error: unknown): void {
    const code = error instanceof RivuletError ? error.code : undefined;
    if (code === "agent_busy" || code === "shutting_down") return;
    options.onProblem?.(sessionId, error);
  }

  async function sweep(): Promise<readonly string[]> {
    const found = new Set(await expireApprovals(store, first as AgentSettings, clock));
    for (const sessionId of await store.expired(batchSize)) found.add(sessionId);
    for (const sessionId of found) {
      const root = (await store.tasks({ sessionId })).at(-1);
      const owner = root && ownerOf(root);
      if (owner) takeUp(sessionId, owner);
      else tell(sessionId, unknownAgent(root));
    }
    if (lostTasks === "fail") await Promise.all(working.values());
    return [...found];
  }

  return {
    sweep,
    start() {
      const look = async () => {
        while (!stop.signal.aborted) {
          await sweep().catch((error: unknown) => options.onProblem?.("", error));
          await clock.sleep(intervalMs, stop.signal).catch(() => {});
        }
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
        throw unknownTask(taskId);
      const { sessionId: conversation } = root;
      await cancelTask(process, owner, { ref: refOf(record), conversation, after: -1 }, reason);
    },
    async shutDown() {
      stop.abort();
      await looking;
      await process.shutDown();
      await Promise.all(working.values());
    },
  };
}

/** Posts an answer to every expired approval; resolves to the sessions that can continue. */
async function expireApprovals(
  store: Store,
  { ids }: Pick<AgentSettings, "ids">,
  clock: Pick<Clock, "now">,
): Promise<readonly string[]> {
  const now = clock.now();
  const suspended = await store.tasks({ status: ["suspended"] });
  const sessions = new Set<string>();
  for (const rootTaskId of new Set(suspended.map((record) => record.rootTaskId))) {
    const waiting = (await waitingTasks(store, { rootTaskId })).map(({ record, approvals }) => ({
      record,
      approvals: approvals.filter(({ expiresAt = Infinity }) => expiresAt <= now),
    }));
    const expired = waiting.flatMap(({ approvals }) => approvals);
    if (expired.length === 0) continue;
    const answers = expired.map((one) => ({ ...one.deny(), decision: "expire" as const }));
    await store.post(answerRows(ids, answers, waiting));
    const root = await store.task(rootTaskId);
    if (root) sessions.add(root.sessionId);
  }
  return [...sessions];
}

function settingsOf(agent: Agent): AgentSettings {
  const settings = settingsBehind(agent);
  if (settings) return settings;
  throw invalid(`${ownerOf("The agent", agent)} does not run in this process.`, agentsHint);
}

function unknownAgent(root: TaskRecord | undefined): RivuletError {
  const name = root?.agentName ?? "unknown";
  return new RivuletError("unknown_agent", `The task runner has no agent "${name}".`, {
    hint: "Pass all root agents that use the store.",
  });
}
