import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { LogEvent } from "../../../../src/protocol/event.ts";
import { deep } from "../../../agent/support/deep.ts";
import { expectLawful } from "../../../agent/support/laws.ts";
import { childProblems } from "./children.ts";
import { deliveryProblems } from "./delivery.ts";
import { foldProblems } from "./fold.ts";
import { treeArbitrary } from "./generate.ts";
import { outlineOf } from "./plan.ts";
import { type Played, play } from "./play.ts";
import { shownProblems, sourceProblems, streamProblems } from "./sources.ts";
import { stubProblems } from "./stub.ts";
import { truthOf } from "./truth.ts";

const size = { turns: 4, calls: 4, depth: 3, tasks: deep ? 30 : 14 };
const numRuns = deep ? 5_000 : 200;

describe("any tree of agents", () => {
  it("tells the truth about every task", async () => {
    const property = fc.asyncProperty(treeArbitrary(size), async (plan) => {
      const played = await play(plan);
      expect(await problemsOf(played), outlineOf(plan)).toEqual([]);
    });
    await fc.assert(property, { numRuns });
  });
});

async function problemsOf(played: Played): Promise<readonly string[]> {
  const truth = await truthOf(played);
  for (const [log] of truth.logs) {
    if (log && "task_id" in log) await expectLawful(played.store, log.task_id ?? "");
  }
  return [
    ...played.problems,
    ...truth.problems,
    ...sourceProblems(truth),
    ...streamProblems(played, truth),
    ...shownProblems(played, truth),
    ...childProblems(truth),
    ...(await deliveryProblems(played, truth)),
    ...truth.logs.flatMap((log) => foldProblems(log as readonly LogEvent[], played.plan.seed)),
    ...(await stubProblems(truth, played.tasks)),
  ];
}
