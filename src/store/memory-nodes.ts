import type { Clock } from "../base/clock.ts";
import { frozenCopy } from "../base/plain.ts";
import type { NodeInfo, NodeState, Store } from "../contract/index.ts";

/** How long a store remembers a process that is gone. */
export const nodeMemoryMs = 60 * 60_000;

interface Noted {
  readonly node: NodeInfo;
  readonly seenAt: number;
  readonly ttlMs: number;
}

/** The methods of a memory store for processes. */
export function memoryNodes(
  clock: Pick<Clock, "now">,
): Required<Pick<Store, "heartbeat" | "nodes">> {
  const noted = new Map<string, Noted>();
  return {
    async heartbeat(node, ttlMs) {
      noted.set(node.nodeId, { node: frozenCopy(node), seenAt: clock.now(), ttlMs });
    },
    async nodes() {
      const states = [...noted.values()].map((one) => nodeState(one, clock.now()));
      for (const { nodeId, silentMs } of states) if (silentMs > nodeMemoryMs) noted.delete(nodeId);
      return newestFirst(states.filter(({ silentMs }) => silentMs <= nodeMemoryMs));
    },
  };
}

/** A process as it is now. */
export function nodeState({ node, seenAt, ttlMs }: Noted, now: number): NodeState {
  const silentMs = Math.max(0, now - seenAt);
  return { ...node, isLive: silentMs < ttlMs, silentMs };
}

/** Processes in the order of `Store.nodes`. */
export function newestFirst(nodes: readonly NodeState[]): readonly NodeState[] {
  return nodes.toSorted((one, two) => two.startedAt - one.startedAt);
}
