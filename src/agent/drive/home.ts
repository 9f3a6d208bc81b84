import { RivuletError } from "../../base/error.ts";
import type { NodeState, Store, TaskRecord, WaitReason } from "../../contract/index.ts";
import { unfinishedStatuses } from "../../store/index.ts";
import type { AgentSettings } from "../loop/settings.ts";

/** The version and the place that tie a root task to some of the processes. */
export type Ties = Pick<TaskRecord, "agentVersion" | "place">;
/** How many of the newest sessions of a user are read; older ones that run are not counted. */
const mostSessions = 200;
type Home = Pick<AgentSettings, "version" | "rollout" | "place">;

/** How long an operator's change may hold a conversation. */
const moveLeaseMs = 10_000;

/** What keeps the agent of a process from running a root task; undefined if nothing does. */
export function misfit(
  { version, place }: Home,
  record: Ties,
): Extract<WaitReason["reason"], "unknown_version" | "unknown_place"> | undefined {
  if (record.place && record.place !== place) return "unknown_place";
  if (record.agentVersion && record.agentVersion !== version) return "unknown_version";
  return undefined;
}

/** The change to a record that ties a root task to the agent that runs it; undefined if nothing changes. */
export function tiesTo({ version, rollout, place }: Home, record: Ties): Ties | undefined {
  const agentVersion = rollout === "finish" ? version : undefined;
  return changed(record, { agentVersion: agentVersion ?? "", place: place ?? "" });
}

/** The change to a record that lets any version continue a task that waits for an answer. */
export function untied(record: Ties): Ties | undefined {
  return changed(record, { agentVersion: "" });
}

function changed(record: Ties, wanted: Ties): Ties | undefined {
  const differs = (name: keyof Ties) =>
    wanted[name] !== undefined && wanted[name] !== (record[name] ?? "");
  const names = (["agentVersion", "place"] as const).filter(differs);
  if (names.length === 0) return undefined;
  return Object.fromEntries(names.map((name) => [name, wanted[name]]));
}

/** The ties of the task before, which the next one of its session inherits. */
export function inherited({ agentVersion, place }: Ties): Ties {
  return { ...(agentVersion && { agentVersion }), ...(place && { place }) };
}

/**
 * Ties the unfinished root tasks of a conversation that no process runs, or one of them, to another version or place; ""
 * is any. Returns false when there are none. Throws `conflict` while a process runs the conversation.
 */
export async function moveConversation(
  store: Store,
  sessionId: string,
  ties: Ties,
  taskId?: string,
): Promise<boolean> {
  const lease = await store.acquire(sessionId, `move:${crypto.randomUUID()}`, moveLeaseMs);
  if (lease === undefined)
    throw new RivuletError("conflict", `A process runs session ${sessionId}.`, {
      hint: "Move a session that waits. A process that ends with SIGTERM releases its sessions.",
    });
  try {
    const all = await store.tasks({ sessionId, status: unfinishedStatuses });
    const roots = all.filter((root) => taskId === undefined || root.taskId === taskId);
    for (const root of roots.filter((one) => changed(one, ties)))
      await store.commit({ lease, log: root.taskId, tasks: [{ ...root, ...ties }] });
    return roots.length > 0;
  } finally {
    await store.release(lease);
  }
}

/** Whether a process that was silent for at most `mostMs` can run a root task; by default, one that is live. */
export async function hasHome(store: Store, root: TaskRecord, mostMs?: number): Promise<boolean> {
  const nodes = (await store.nodes?.()) ?? [];
  const isThere = ({ isLive, silentMs }: NodeState) =>
    mostMs === undefined ? isLive : silentMs <= mostMs;
  return nodes.some((node) => isThere(node) && canRun(node, root));
}

function canRun({ agents, places }: NodeState, { agentId, agentVersion, place }: TaskRecord) {
  const fits = (agent: (typeof agents)[number]) =>
    agent.agentId === agentId && (!agentVersion || agent.version === agentVersion);
  return agents.some(fits) && (!place || places.includes(place));
}

/** Whether each live process that can run a root task leaves it because of the other sessions of its user. */
export async function isAtUserLimit(store: Store, root: TaskRecord): Promise<boolean> {
  const { userId } = root;
  if (userId === undefined) return false;
  const live = ((await store.nodes?.()) ?? []).filter(({ isLive }) => isLive);
  const limits = live
    .filter((node) => canRun(node, root))
    .map(({ maxPerUser = Number.POSITIVE_INFINITY }) => maxPerUser);
  const limit = Math.max(0, ...limits);
  if (limit === 0 || limit > mostSessions) return false;
  const running = new Set(live.flatMap(({ conversations }) => conversations));
  const sessions = await store.sessions({ userId, limit: mostSessions });
  return sessions.filter(({ sessionId }) => running.has(sessionId)).length >= limit;
}

/** Lets any process end the cancelled tasks of a root that no process can run. */
export async function freeCancelled(store: Store, root: TaskRecord): Promise<void> {
  if (!root.agentVersion && !root.place) return;
  if ((await store.owner(root.sessionId)) || (await hasHome(store, root))) return;
  try {
    const { sessionId, taskId } = root;
    await moveConversation(store, sessionId, { agentVersion: "", place: "" }, taskId);
  } catch (error) {
    // A process that runs it takes the cancel.
    if (!(error instanceof RivuletError) || error.code !== "conflict") throw error;
  }
}
