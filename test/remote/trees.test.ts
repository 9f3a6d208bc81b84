import fc from "fast-check";
import { afterAll, expect, it } from "vitest";
import { memoryStore, type Store } from "../../src/index.ts";
import type { LogEvent } from "../../src/protocol/event.ts";
import { emptyTree, materialize, reduce } from "../../src/protocol/index.ts";
import { deep } from "../agent/support/deep.ts";
import { expectLawful } from "../agent/support/laws.ts";
import { comparable } from "../client/support/serving.ts";
import { castModel, castTools } from "../harness/subagents/trees/cast.ts";
import { childProblems } from "../harness/subagents/trees/children.ts";
import { foldProblems } from "../harness/subagents/trees/fold.ts";
import { treeArbitrary } from "../harness/subagents/trees/generate.ts";
import type { Plan } from "../harness/subagents/trees/plan.ts";
import { type Played, play } from "../harness/subagents/trees/play.ts";
import { shownProblems, sourceProblems } from "../harness/subagents/trees/sources.ts";
import { openStage, sessionId, untilPromoted } from "../harness/subagents/trees/stage.ts";
import { stubProblems } from "../harness/subagents/trees/stub.ts";
import { type Truth, truthOf } from "../harness/subagents/trees/truth.ts";
import { seededRandom } from "../support/random.ts";
import { openFront } from "./support/front.ts";
import { agentsOf, placedDeclarations, placeSome } from "./support/placement.ts";

const size = { turns: 3, calls: 3, depth: 3, tasks: deep ? 24 : 10 };
const token = "the-token-of-the-lead";
const fronts = [await openFront(), await openFront()];
afterAll(() => Promise.all(fronts.map((front) => front[Symbol.asyncDispose]())));

it("a tree with children on other servers is the tree of one process", async () => {
  const property = fc.asyncProperty(treeArbitrary(size), async (plan) => {
    expect(await problemsOf(await playApart(plan))).toEqual([]);
  });
  await fc.assert(property, { numRuns: deep ? 1_000 : 40 });
});

it("a tree with children on other servers has the documents of one process", async () => {
  const trees = treeArbitrary(size, timed);
  const property = fc.asyncProperty(trees, async (plan) => {
    expect(await documentsOf(await playApart(plan))).toEqual(await documentsOf(await play(plan)));
  });
  await fc.assert(property, { numRuns: deep ? 300 : 20 });
});

/** Features with results that depend on the moment. */
const timed = ["root cancel", "cancel", "stuck", "list", "output", "wait"] as const;

/** The documents of the roots; results are numbered as they arrive. */
async function documentsOf(played: Played): Promise<unknown> {
  const { logs } = await truthOf(played);
  const documents = logs.map((log) => materialize(reduce(emptyTree(), log)));
  const numbered = /^(reference_id|annotations|child_task_id|message_id)$/;
  const text = JSON.stringify(documents, (key, value: unknown) =>
    numbered.test(key) ? undefined : value,
  );
  return comparable(JSON.parse(text));
}

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

/** Returns all problems of a finished tree; expects laws 3, 4 and 12. */
async function problemsOf(played: Played): Promise<readonly string[]> {
  const { store, plan, tasks, executed, asked, cancelledAt = Infinity } = played;
  const truth = await truthOf(played);
  for (const { taskId } of await store.tasks({ sessionId })) await expectLawful(store, taskId);
  const again = [...executed].filter(([, times]) => times > 1);
  const late = asked.filter(({ key, at }) => key.startsWith("r") && at > cancelledAt);
  return [
    ...played.problems,
    ...truth.problems,
    ...again.map(([callId, times]) => `${callId} was executed ${times} times`),
    ...late.map(({ key }) => `the model of ${key} was asked after the cancel`),
    ...sourceProblems(truth),
    ...shownProblems(played, truth),
    ...childProblems(truth).filter((problem) => !isOfPeople(problem, truth)),
    ...truth.logs.flatMap((log) => foldProblems(log as readonly LogEvent[], plan.seed)),
    ...(await stubProblems(truth, tasks)).filter((problem) => !isOfPeople(problem, truth)),
  ];
}

/**
 * The transcript of a remote task has the results of its calls as people see them, and those below the child have no
 * input: what a model reads is not sent. Such a parent cannot be played again from its transcript.
 */
function isOfPeople(problem: string, { byKey }: Truth): boolean {
  const [, key = ""] = /^(\S+) alone has /.exec(problem) ?? [];
  const [, child = ""] =
    /^(\S+) (?:is .* parent reads|has (?:a|another|another's|no|the) .*(?:agent|there|result))/.exec(
      problem,
    ) ?? [];
  return Boolean(byKey.get(key)?.record.remote ?? byKey.get(child)?.parent?.record.remote);
}
