import { hostname } from "node:os";
import { type AgentSettings, processOf } from "../../agent/index.ts";
import type { NodeInfo, Store } from "../../contract/index.ts";

/** Leases shorter than this do not make the heartbeat faster. */
const leastLeaseMs = 2_000;
/** The shortest time between two heartbeats, however often conversations change their owner. */
const leastBeatMs = 250;
/** How many conversations a heartbeat names. */
const maxConversations = 1_000;

/**
 * Tells the store that this process is there, which agents it runs and which conversations it owns. Returns a function
 * that says that it leaves.
 */
export function startHeartbeat(
  store: Store,
  agents: readonly AgentSettings[],
  maxPerUser?: number,
): () => Promise<void> {
  const owner = processOf(store);
  const { beatMs, goneMs } = rhythm(agents);
  const startedAt = Date.now();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let beatAt = Number.NEGATIVE_INFINITY;
  let beating: Promise<void> = Promise.resolve();
  let hasLeft = false;

  function beat(ttlMs: number): Promise<void> {
    clearTimeout(timer);
    beatAt = performance.now();
    const info = {
      ...nodeInfo(owner.id, startedAt, agents, hasLeft ? [] : owner.conversations),
      ...(maxPerUser !== undefined && { maxPerUser }),
    };
    beating = beating
      .then(() => store.heartbeat?.(info, ttlMs))
      .catch(() => {}) // the next one tells
      .then(() => beatAfter(beatMs));
    return beating;
  }

  function beatAfter(ms: number): void {
    clearTimeout(timer);
    if (hasLeft) return;
    timer = setTimeout(() => void beat(goneMs), ms);
    timer.unref?.();
  }

  void beat(goneMs);
  owner.onOwned = () => beatAfter(Math.max(0, beatAt + leastBeatMs - performance.now()));
  return () => {
    hasLeft = true;
    owner.onOwned = undefined;
    return beat(0);
  };
}

/** How often a process says that it is there, and after which silence it counts as gone: its leases have ended then. */
function rhythm(agents: readonly AgentSettings[]) {
  const leaseMs = Math.max(leastLeaseMs, ...agents.map((agent) => agent.leaseMs));
  return { beatMs: leaseMs / 3, goneMs: 1.5 * leaseMs };
}

function nodeInfo(
  nodeId: string,
  startedAt: number,
  agents: readonly AgentSettings[],
  conversations: readonly string[],
): NodeInfo {
  const places = agents.flatMap(({ place }) => place ?? []);
  return {
    nodeId,
    name: `${hostname()}:${process.pid}`,
    startedAt,
    agents: agents.map(({ agentId, version }) => ({
      agentId,
      ...(version !== undefined && { version }),
    })),
    places: [...new Set(places)],
    conversations: conversations.slice(0, maxConversations),
  };
}
