import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RivuletError } from "../../../../src/index.ts";
import type { LogEvent } from "../../../../src/protocol/event.ts";
import { isDeep } from "../../../../src/testing/deep.ts";
import { expectLawful } from "../../../agent/support/laws.ts";
import { childProblems } from "./children.ts";
import { deliveryProblems } from "./delivery.ts";
import { foldProblems } from "./fold.ts";
import { treeArbitrary } from "./generate.ts";
import { childCalls, type Plan, type TaskPlan } from "./plan.ts";
import { type Door, type Played, play } from "./play.ts";
import { shownProblems, sourceProblems, streamProblems } from "./sources.ts";
import { sessionId } from "./stage.ts";
import { stubProblems } from "./stub.ts";
import { truthOf } from "./truth.ts";

const size = { turns: 4, calls: 4, depth: 3, tasks: isDeep ? 30 : 14 };
const numRuns = isDeep ? 5_000 : 100;

describe("any tree of agents", () => {
  it("reports every agent truthfully, and each agent behaves as if it ran alone", async () => {
    const property = fc.asyncProperty(treeArbitrary(size), async (plan) => {
      expect(await problemsOf(await play(plan))).toEqual([]);
    });
    await fc.assert(property, { numRuns });
  });

  it("gives the same reply through call, stream and run", async () => {
    const trees = treeArbitrary({ ...size, tasks: 8 }, ["root cancel"]);
    const property = fc.asyncProperty(trees, async (tree) => {
      // With immediate answers the root may not suspend in between.
      const plan: Plan = { ...tree, answers: "at rest" };
      const called = await firstOf(plan, "call");
      expect(await firstOf(plan, "run")).toEqual(called);
      expect(await firstOf(plan, "stream")).toEqual(called);
    });
    await fc.assert(property, { numRuns: numRuns / 4 });
  });
});

/** Returns all problems of a finished tree; expects that the laws hold. */
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
    ...childProblems(truth),
    ...(await deliveryProblems(played, truth)),
    ...truth.logs.flatMap((log) => foldProblems(log as readonly LogEvent[], plan.seed)),
    ...(await stubProblems(truth, tasks)),
  ];
}

/** Returns the reply of the root's first call through a door, without approvals of background tasks. */
async function firstOf(plan: Plan, door: Door) {
  const played = await play(plan, door);
  const { first, problems, streamed } = played;
  expect(problems).toEqual([]);
  const truth = await truthOf(played);
  expect(streamProblems(played, truth)).toEqual([]);
  if (door === "stream") expect(streamed.length).toBeGreaterThan(0);
  if (first instanceof RivuletError) return { code: first.code, message: first.message };
  const { text, generateReason, approvals, content } = first;
  const held = new Set(plan.roots.slice(0, 1).flatMap(heldKeys));
  const asked = approvals
    .map(({ kind, call, path }) => ({ kind, input: call.input as { who: string }, path }))
    .filter(({ input }) => held.has(input.who))
    .sort((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1));
  return { text, generateReason, asked, kinds: content.map(({ type }) => type) };
}

/** Returns a task and the sync descendants that it waits for. */
function heldKeys(task: TaskPlan): readonly string[] {
  const waited = childCalls(task).filter(({ wait }) => wait === "sync");
  return [task.key, ...waited.flatMap((call) => heldKeys(call.task))];
}
