import { postAnswers } from "../../agent/answers.ts";
import { cancelTask } from "../../agent/cancel.ts";
import { Conversation } from "../../agent/conversation.ts";
import { failConversation, resumeConversation } from "../../agent/resume-conversation.ts";
import { type AgentSettings, settingsBehind } from "../../agent/settings.ts";
import { waitingTasks } from "../../agent/waiting.ts";
import type { Agent } from "../../protocol/agent.ts";
import type { Clock } from "../../protocol/clock.ts";
import { systemClock } from "../../protocol/clock.ts";
import { RivuletError } from "../../protocol/error.ts";
import type { Store, TaskRecord } from "../../protocol/store.ts";

const batchSize = 100;

/** What a task runner looks after. */
export interface TaskRunnerOptions {
  /** The root agents; all of them on one store. */
  readonly agents: readonly Agent[];
  /** What becomes of tasks whose process was lost: they go on where they were last written, or fail. */
  readonly lostTasks?: "resume" | "fail";
  /** How often it looks; every two seconds by default. */
  readonly intervalMs?: number;
  readonly clock?: Clock;
  /** Told of what it could not take up, and why. */
  readonly onProblem?: (sessionId: string, error: unknown) => void;
}

/** Looks after the conversations of a store that nobody drives. */
export interface TaskRunner {
  /** Looks once: takes up, or fails, what was lost, and denies what nobody has answered in time. Resolves to the sessions. */
  sweep(): Promise<readonly string[]>;
  /** Looks again and again from now on. */
  start(): void;
  /** Cancels a task with everything below it, wherever it runs or waits. */
  cancel(taskId: string, reason?: string): Promise<void>;
  /**
   * Ends the work of this process on the store: nothing new begins; what runs stops where it was last written, its
   * lease released, and goes on in another process or after a restart.
   */
  shutDown(): Promise<void>;
}

/** A task runner for these agents. */
export function taskRunner(options: TaskRunnerOptions): TaskRunner {
  const { agents, lostTasks = "resume", intervalMs = 2_000, clock = systemClock } = options;
  const settings = agents.map(settingsOf);
  const [first] = settings;
  if (first === undefined) throw invalid("A task runner needs an agent.");
  const { store } = first;
  if (settings.some((one) => one.store !== store)) {
    throw invalid("The agents of a task runner have different stores.");
  }
  const ownerOf = (root: TaskRecord) => settings.find(({ name }) => name === root.agentName);
  const stop = new AbortController();
  const working = new Map<string, Promise<void>>();
  let looking: Promise<unknown> = Promise.resolve();

  function takeUp(sessionId: string, owner: AgentSettings): void {
    if (working.has(sessionId)) return;
    const work = lostTasks === "resume" ? resumeConversation : failConversation;
    const done = work(owner, sessionId)
      .catch((error: unknown) => tell(sessionId, error))
      .finally(() => working.delete(sessionId));
    working.set(sessionId, done);
  }

  /** Another process was faster, or this one is going down: neither is a problem. */
  function tell(sessionId: string, error: unknown): void {
    const code = error instanceof RivuletError ? error.code : undefined;
    if (code === "agent_busy" || code === "task_ended" || code === "shutting_down") return;
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
    async cancel(taskId, reason) {
      const record = await store.task(taskId);
      const root = record && (await store.task(record.rootTaskId));
      const owner = root && ownerOf(root);
      if (root && !owner) throw unknownAgent(root);
      await cancelTask(owner ?? (first as AgentSettings), taskId, reason);
    },
    async shutDown() {
      stop.abort();
      await looking;
      await Conversation.shutDown(store);
      await Promise.all(working.values());
    },
  };
}

/** Posts what stands for an answer where nobody has given one in time; resolves to the sessions that can go on. */
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
    await postAnswers(store, ids, answers, waiting);
    const root = await store.task(rootTaskId);
    if (root) sessions.add(root.sessionId);
  }
  return [...sessions];
}

function settingsOf(agent: Agent): AgentSettings {
  const settings = settingsBehind(agent);
  if (settings) return settings;
  throw invalid(`${agent.name} does not run in this process.`);
}

function unknownAgent(root: TaskRecord | undefined): RivuletError {
  const name = root?.agentName ?? "unknown";
  return new RivuletError("unknown_agent", `The task runner has no agent "${name}".`, {
    hint: "Give it all the root agents that use the store.",
  });
}

function invalid(message: string): RivuletError {
  return new RivuletError("invalid_settings", message, {
    hint: "taskRunner({ agents: [lead] }) with agents on one store.",
  });
}
