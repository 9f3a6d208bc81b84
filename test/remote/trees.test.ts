import fc from "fast-check";
import { afterAll, expect, it } from "vitest";
import { memoryStore, type Store } from "../../src/index.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { castModel, castTools } from "../harness/subagents/trees/cast.ts";
import { treeArbitrary } from "../harness/subagents/trees/generate.ts";
import type { Plan } from "../harness/subagents/trees/plan.ts";
import { type Played, play } from "../harness/subagents/trees/play.ts";
import { openStage, untilPromoted } from "../harness/subagents/trees/stage.ts";
import { seededRandom } from "../support/random.ts";
import { openFront } from "./support/front.ts";
import { agentsOf, placedDeclarations, placeSome } from "./support/placement.ts";
import { queuedBelow } from "./support/plans.ts";
import { documentsOf, problemsOf, timed } from "./support/tree-checks.ts";

const size = { turns: 3, calls: 3, depth: 3, tasks: isDeep ? 24 : 10 };
const token = "the-token-of-the-lead";
const fronts = [await openFront(), await openFront()];
afterAll(() => Promise.all(fronts.map((front) => front[Symbol.asyncDispose]())));

it("a tree with children on other servers is the tree of one process", async () => {
  const property = fc.asyncProperty(treeArbitrary(size), async (plan) => {
    expect(await problemsOf(await playApart(plan))).toEqual([]);
  });
  await fc.assert(property, { numRuns: isDeep ? 1_000 : 40 });
});

it("a tree with children on other servers has the documents of one process", async () => {
  const trees = treeArbitrary(size, timed);
  const property = fc.asyncProperty(trees, async (plan) => {
    expect(await documentsOf(await playApart(plan))).toEqual(await documentsOf(await play(plan)));
  });
  await fc.assert(property, { numRuns: isDeep ? 300 : 20 });
});

it("a task that waits for its session below a remote child continues the messages of the earlier one", async () => {
  expect(await problemsOf(await playApart(queuedBelow))).toEqual([]);
});

/** Plays a plan with some of its children on two servers. */
async function playApart(plan: Plan): Promise<Played> {
  const placement = placeSome(
    seededRandom(plan.seed),
    fronts.map(({ url }) => url),
  );
  const stage = openStage(plan, placedDeclarations(placement, token, 1), 5_000);
  const stores: Store[] = [stage.store];
  for (const [index, front] of fronts.entries()) {
    // The first server may use the second one.
    const via = fronts.slice(0, index + 1).map(({ url }) => url);
    const subagents = (level: number) => placedDeclarations(placement, token, level, via);
    const { clock, tasks, asked, executed, witness } = stage;
    const store = memoryStore({ clock });
    stores.push(store);
    const options = {
      model: castModel(tasks, { onAsked: (one) => asked.push({ ...one, at: witness.tick() }) }),
      tools: castTools({
        onCall: (callId) => executed.set(callId, (executed.get(callId) ?? 0) + 1),
        hold: (context) => untilPromoted(stores, clock, context),
      }),
      ...{ store, clock, filesystem: false as const, parallel: plan.parallel },
      modelExecution: { maxAttempts: 1 },
      onWarning: (warning: string) => void stage.problems.push(`warned: ${warning}`),
    };
    front.serve(agentsOf(options, subagents), token);
  }
  return play(plan, "run", stage);
}
