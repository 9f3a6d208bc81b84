import { hasHome, isAtUserLimit, misfit } from "../../agent/index.ts";
import type { NodeState, Store, TaskRecord, WaitReason } from "../../contract/index.ts";

/** How many waiting conversations, and how many failed tasks, an overview reads. */
const most = 200;

/** A conversation that no process runs although it has work. */
export interface WaitingSession {
  readonly sessionId: string;
  /** Its newest root task; absent before the first. */
  readonly root?: TaskRecord;
  /** Why no live process runs it; absent if one can. */
  readonly reason?: Exclude<WaitReason["reason"], "busy" | "owner_silent">;
}

/** The work on a store, as its operator sees it. */
export interface Overview {
  readonly nodes: readonly NodeState[];
  /** Those that have waited longest come first; of many, some. */
  readonly waiting: readonly WaitingSession[];
  /** The newest root tasks that took several processes down. */
  readonly poisoned: readonly TaskRecord[];
}

/** Reads which processes there are, what waits for one, and what was judged poison. */
export async function overviewOf(store: Store): Promise<Overview> {
  const [nodes = [], sessions, failed] = await Promise.all([
    store.nodes?.(),
    store.expired(most),
    store.tasks({ status: ["failed"], newestFirst: true, limit: most }),
  ]);
  const waiting = await Promise.all(sessions.map((sessionId) => waitingSession(store, sessionId)));
  const isPoison = ({ error, depth }: TaskRecord) => depth === 0 && error?.code === "poison";
  return { nodes, waiting, poisoned: failed.filter(isPoison) };
}

async function waitingSession(store: Store, sessionId: string): Promise<WaitingSession> {
  const [root] = await store.tasks({ sessionId, newestFirst: true, limit: 1 });
  if (root === undefined) return { sessionId };
  if (await hasHome(store, root)) {
    const isLimited = await isAtUserLimit(store, root);
    return { sessionId, root, ...(isLimited && { reason: "user_limit" }) };
  }
  const isAgentHere = await hasHome(store, { ...root, agentVersion: "", place: "" });
  const reason = isAgentHere ? (misfit({}, root) ?? "unknown_agent") : "unknown_agent";
  return { sessionId, root, reason };
}
