import type { Claim, Lease, TaskRecord } from "../contract/index.ts";
import type { MemoryLeases } from "./memory-leases.ts";

/** The conversations that `Store.expired` lists: those with tasks or rows that a scheduler would start, in its order. */
export function waitingConversations(
  leases: MemoryLeases,
  movable: Iterable<string>,
  rows: readonly { readonly conversation: string }[],
): string[] {
  return [...new Set([...movable, ...rows.map(({ conversation }) => conversation)])]
    .filter((id) => !leases.isHidden(id))
    .map((id) => ({ id, since: leases.ownedUntil(id) }))
    .sort((a, b) => a.since - b.since || (a.id < b.id ? -1 : 1))
    .map(({ id }) => id);
}

/** A conversation with its newest root task. */
interface WithRoot {
  readonly sessionId: string;
  readonly root: TaskRecord | undefined;
}

/** Acquires waiting conversations that a process can run, beside the live ones, those of a higher priority first; others keep their order. */
export function claimLeases(
  leases: MemoryLeases,
  waiting: readonly WithRoot[],
  live: readonly WithRoot[],
  request: { owner: string; ttlMs: number; limit: number; claim: Claim },
): readonly Lease[] {
  const { owner, ttlMs, limit, claim } = request;
  const { maxLosses = Number.POSITIVE_INFINITY, maxPerUser = Number.POSITIVE_INFINITY } = claim;
  const priority = ({ root }: WithRoot) => root?.priority ?? 0;
  const claimed: Lease[] = [];
  const owned = new Map<string, number>();
  const count = (userId: string | undefined) => {
    if (userId !== undefined) owned.set(userId, (owned.get(userId) ?? 0) + 1);
  };
  for (const { root } of live) count(root?.userId);
  const ordered = waiting
    .filter(({ root }) => canRun(claim, root))
    .sort((one, two) => priority(two) - priority(one));
  for (const { sessionId, root } of ordered) {
    if (claimed.length >= limit) break;
    if ((owned.get(root?.userId ?? "") ?? 0) >= maxPerUser) continue;
    const lease = leases.acquire(sessionId, owner, ttlMs, maxLosses);
    if (lease === undefined) continue;
    claimed.push(lease);
    count(root?.userId);
  }
  return claimed;
}

/** Whether a process with these agents and places can run a root task. */
function canRun(
  { agents, places = [] }: Pick<Claim, "agents" | "places">,
  root: Pick<TaskRecord, "agentId" | "agentVersion" | "place"> | undefined,
): boolean {
  if (root === undefined) return true;
  const { agentId, agentVersion = "", place = "" } = root;
  const hasAgent = agents.some(
    (agent) => agent.agentId === agentId && ["", agent.version].includes(agentVersion),
  );
  return hasAgent && ["", ...places].includes(place);
}
