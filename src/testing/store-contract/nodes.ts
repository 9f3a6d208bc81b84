import { deepEqual } from "node:assert/strict";
import type { NodeInfo, NodeState, Store } from "../../contract/index.ts";
import { MissingAbility } from "../contract.ts";
import type { StoreSuite } from "./fixture.ts";

/** The processes that share a store. */
export function nodeCases({ describe, it }: StoreSuite): void {
  const node = (nodeId: string, changes: Partial<NodeInfo> = {}): NodeInfo => ({
    ...{ nodeId, name: `host:${nodeId}`, startedAt: 1, places: [], conversations: [] },
    agents: [{ agentId: "assistant" }],
    ...changes,
  });

  async function beat(store: Store, info: NodeInfo, ttlMs = 1000): Promise<void> {
    if (!store.heartbeat) throw new MissingAbility("The store has no `heartbeat`.");
    await store.heartbeat(info, ttlMs);
  }

  const listed = async (store: Store): Promise<readonly NodeState[]> =>
    (await store.nodes?.()) ?? [];
  const states = async (store: Store) =>
    (await listed(store)).map(({ nodeId, isLive, silentMs }) => [nodeId, isLive, silentMs]);

  describe("nodes", () => {
    it("are listed as they were last noted, the youngest first", async ({ store }) => {
      await beat(store, node("old", { startedAt: 1 }));
      const agents = [{ agentId: "assistant", version: "2" }, { agentId: "\u0000 \ud800" }];
      const young = node("young", { startedAt: 2, agents, places: ["disk"], conversations: ["s"] });
      await beat(store, node("young", { startedAt: 2 }));
      await beat(store, young);
      const found = await listed(store);
      deepEqual(
        found.map(({ silentMs: _, ...rest }) => rest),
        [
          { ...young, isLive: true },
          { ...node("old"), isLive: true },
        ],
      );
    });

    it("are live for as long as they said", async ({ store, clock }) => {
      await beat(store, node("a"), 1000);
      clock.advance(999);
      deepEqual(await states(store), [["a", true, 999]]);
      clock.advance(1);
      deepEqual(await states(store), [["a", false, 1000]]);
      await beat(store, node("a"), 1000);
      deepEqual(await states(store), [["a", true, 0]]);
    });

    it("are remembered for an hour after they have left", async ({ store, clock }) => {
      await beat(store, node("a"));
      await beat(store, node("a"), 0);
      deepEqual(await states(store), [["a", false, 0]]);
      clock.advance(60 * 60_000);
      deepEqual(await states(store), [["a", false, 60 * 60_000]]);
      clock.advance(1);
      deepEqual(await states(store), []);
    });

    it("are there for other processes", async ({ store, openSecond }) => {
      await beat(store, node("a"));
      const other = await openSecond();
      deepEqual(
        (await listed(other)).map(({ nodeId }) => nodeId),
        ["a"],
      );
    });
  });
}
