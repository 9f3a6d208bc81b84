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

/** A conversation without an owner, with its newest root task. */
interface Waiting {
  readonly sessionId: string;
  readonly root: TaskRecord | undefined;
}

/** Acquires the conversations that a process can run, those of a higher priority first; others keep their order. */
export function claimLeases(
  leases: MemoryLeases,
  waiting: readonly Waiting[],
  request: { owner: string; ttlMs: number; limit: number; claim: Claim },
): readonly Lease[] {
  const { owner, ttlMs, limit, claim } = request;
  const { maxLosses = Number.POSITIVE_INFINITY } = claim;
  const priority = ({ root }: Waiting) => root?.priority ?? 0;
  const claimed: Lease[] = [];
  const ordered = waiting
    .filter(({ root }) => canRun(claim, root))
    .sort((one, two) => priority(two) - priority(one));
  for (const { sessionId } of ordered) {
    if (claimed.length >= limit) break;
    const lease = leases.acquire(sessionId, owner, ttlMs, maxLosses);
    if (lease) claimed.push(lease);
  }
  return claimed;
}

function canRun({ agents, places = [] }: Claim, root: TaskRecord | undefined): boolean {
  if (root === undefined) return true;
  const { agentId, agentVersion, place } = root;
  const hasAgent = agents.some(
    (agent) =>
      agent.agentId === agentId && (agentVersion === undefined || agent.version === agentVersion),
  );
  return hasAgent && (place === undefined || places.includes(place));
}
