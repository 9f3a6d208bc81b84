import fc from "fast-check";
import { afterAll, expect, it } from "vitest";
import { isDeep } from "../../src/testing/deep.ts";
import { treeArbitrary } from "../harness/subagents/trees/generate.ts";
import type { Plan } from "../harness/subagents/trees/plan.ts";
import { type Played, play } from "../harness/subagents/trees/play.ts";
import { openStage } from "../harness/subagents/trees/stage.ts";
import { seededRandom } from "../support/random.ts";
import { placedDeclarations, placeSome } from "./support/placement.ts";
import { documentsOf, problemsOf, timed } from "./support/tree-checks.ts";
import { type FromServer, TreeServer } from "./support/tree-server.ts";

/*
 * The clock of a tree stands still and cannot cross to another process, so no call times out here: `trees.test.ts` has
 * promoted children, with servers in this process. Model requests of other processes have no common order with the
 * cancel, so only those of this process are checked against it.
 */

const size = { turns: 3, calls: 3, depth: 3, tasks: isDeep ? 24 : 10 };
const silenceMs = 30_000;
const token = "the-token-of-the-lead";
const servers = [await TreeServer.start(), await TreeServer.start()];
afterAll(() => Promise.all(servers.map((server) => server[Symbol.asyncDispose]())));

it("runs the children of a tree in three processes", () => {
  const pids = new Set([process.pid, ...servers.map(({ pid }) => pid)]);
  expect(pids.size).toBe(3);
});

it("a tree with children in other processes is the tree of one process", {
  timeout: 1_200_000,
}, async () => {
  let remote = 0;
  const property = fc.asyncProperty(treeArbitrary(size, ["promoted"]), async (plan) => {
    const played = await playApart(plan);
    expect(await problemsOf(played)).toEqual([]);
    const tasks = await played.store.tasks({ conversation: "s" });
    remote += tasks.filter((task) => task.remote !== undefined).length;
  });
  await fc.assert(property, { numRuns: isDeep ? 300 : 20 });
  expect(remote).toBeGreaterThan(20);
});

it("a tree with children in other processes has the documents of one process", {
  timeout: 1_200_000,
}, async () => {
  const trees = treeArbitrary(size, ["promoted", ...timed]);
  const property = fc.asyncProperty(trees, async (plan) => {
    expect(await documentsOf(await playApart(plan))).toEqual(await documentsOf(await play(plan)));
  });
  await fc.assert(property, { numRuns: isDeep ? 200 : 15 });
});

/** Plays a plan with some of its children in two other processes. */
async function playApart(plan: Plan): Promise<Played> {
  const urls = servers.map(({ url }) => url);
  const placement = placeSome(seededRandom(plan.seed), urls);
  const stage = openStage(plan, placedDeclarations(placement, token, 1), silenceMs);
  const { executed, problems } = stage;
  const onReport = (message: FromServer) => {
    if (message.type === "executed")
      executed.set(message.callId, (executed.get(message.callId) ?? 0) + 1);
    if (message.type === "warned") problems.push(`warned: ${message.warning}`);
  };
  for (const [index, server] of servers.entries()) {
    // The first server may use the second one.
    const via = urls.slice(0, index + 1);
    await server.serve({ plan, placement, token, via }, onReport);
  }
  const played = await play(plan, "run", stage);
  for (const server of servers) await server.flush();
  return played;
}
