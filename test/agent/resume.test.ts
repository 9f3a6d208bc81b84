import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { TaskRecord } from "../../src/contract/store.ts";
import { type Hook, type Message, memoryStore, type Store } from "../../src/index.ts";
import { isTerminal } from "../../src/protocol/task.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { callToEnd, castOf, type Story, storyOf } from "./support/cast.ts";
import { expectLawful } from "./support/laws.ts";
import { expiringStore, losingStore } from "./support/losing-store.ts";
import { generatePlan, type Plan, planArbitrary } from "./support/plan.ts";
import { Executions } from "./support/tools.ts";

const size = isDeep ? { turns: 4, calls: 5, depth: 2 } : { turns: 3, calls: 3, depth: 1 };

/** How a plan ends when nothing comes between. */
async function endOf(plan: Plan, store: Store) {
  const reply = await callToEnd(castOf(plan, { store }), "Go.", "session");
  const { text, generateReason, task } = reply;
  return { task, end: { text, generateReason, story: await storyOf(store, task.taskId) } };
}

describe("the next step depends only on the messages", () => {
  it("any prefix of a finished transcript resumes to the same end", async () => {
    const property = fc.asyncProperty(planArbitrary(size), async (plan) => {
      const store = memoryStore();
      const { task, end } = await endOf(plan, store);
      const record = (await store.task(task.taskId)) as TaskRecord;
      const messages = await store.session("session");
      const wanted = { ...end, story: withoutChildren(end.story) };
      for (let length = 1; length <= messages.length; length++) {
        const other = memoryStore();
        await putSession(other, record, messages.slice(0, length));
        const executions = new Executions();
        const resumed = castOf(plan, { store: other, executions });
        const { text, generateReason } = await callToEnd(resumed, undefined, "session");
        const story = await storyOf(other, task.taskId);
        const resumedEnd = { text, generateReason, story: withoutChildren(story) };
        expect({ length, end: resumedEnd }).toEqual({ length, end: wanted });
        expect(executions.again).toEqual([]);
      }
    });
    await fc.assert(property, { numRuns: isDeep ? 500 : 15 });
  });
});

/** The other process has kept its children to itself: what they came to is in their parent's results. */
function withoutChildren({ said, calls }: Story): Story {
  return { said, calls: calls.map(({ child: _, ...call }) => call) };
}

/** A session as another process may have left it: in the middle of a task. */
async function putSession(store: Store, record: TaskRecord, messages: readonly Message[]) {
  const { result: _, structured: __, error: ___, ...kept } = record;
  const lease = await store.acquire(record.sessionId, "another process", 1_000);
  if (lease === undefined) throw new Error("The session is taken.");
  await store.commit({
    lease,
    log: record.rootTaskId,
    appends: [{ sessionId: record.sessionId, at: 0, messages }],
    tasks: [{ ...kept, status: "in_progress", committedOutput: 0 }],
  });
  await store.release(lease);
}

describe("stop and resume", () => {
  /** Stops after the reasonings, or the results, that `when` names by their number. */
  const stopping = (point: "reasoning" | "acting", when: (count: number) => boolean): Hook => {
    let count = 0;
    const verdict = () => (when(count++) ? ({ stop: true } as const) : undefined);
    return {
      name: "stopping",
      ...(point === "reasoning" ? { postReasoning: verdict } : { postActing: verdict }),
    };
  };

  it.each(["reasoning", "acting"] as const)("at every %s at once", async (point) => {
    const property = fc.asyncProperty(planArbitrary({ ...size, depth: 2 }), async (plan) => {
      const { end } = await endOf(plan, memoryStore());
      const store = memoryStore();
      const executions = new Executions();
      const agent = castOf(plan, { store, executions, hooks: [stopping(point, () => true)] });
      const reply = await callToEnd(agent, "Go.", "session");
      const { text, generateReason } = reply;
      const story = await storyOf(store, reply.task.taskId);
      expect({ text, generateReason, story }).toEqual(end);
      await expectLawful(store, reply.task.rootTaskId);
      expect(executions.again).toEqual([]);
    });
    await fc.assert(property, { numRuns: isDeep ? 500 : 15 });
  });

  it.each(["reasoning", "acting"] as const)("at each %s alone", async (point) => {
    const property = fc.asyncProperty(planArbitrary({ ...size, depth: 0 }), async (plan) => {
      const { end } = await endOf(plan, memoryStore());
      const steps = point === "reasoning" ? end.story.said.length : end.story.calls.length;
      for (let step = 0; step < steps; step++) {
        const store = memoryStore();
        const agent = castOf(plan, { store, hooks: [stopping(point, (count) => count === step)] });
        const reply = await callToEnd(agent, "Go.", "session");
        expect(await storyOf(store, reply.task.taskId)).toEqual(end.story);
        await expectLawful(store, reply.task.rootTaskId, `stopped at ${point} ${step}`);
      }
    });
    await fc.assert(property, { numRuns: isDeep ? 200 : 6 });
  });
});

describe("a lost process", () => {
  // Lost before the write, and lost after it with nobody told: both happen.
  it.each(["before", "after"] as const)("%s any commit leaves a lawful tree", async (when) => {
    const seeds = Array.from({ length: isDeep ? 200 : 4 }, (_, index) => index + 1);
    for (const seed of seeds) {
      const plan = generatePlan(seed, { ...size, depth: seed % 3 });
      const commits = await countCommits(plan);
      for (let at = 0; at < commits; at++) {
        const { store, expire } = expiringStore();
        const executions = new Executions();
        const hint = `seed ${seed}, lost ${when} commit ${at} of ${commits}`;
        const first = castOf(plan, { store: losingStore(store, at, when), executions });
        await callToEnd(first, "Go.", "session").catch(() => {});
        expire();
        const [left] = await store.tasks({ sessionId: "session" });
        const second = castOf(plan, { store, executions });
        const hasEnded = left !== undefined && isTerminal(left.status);
        const reply = hasEnded
          ? await second.attach({ sessionId: "session" }).result()
          : await callToEnd(second, left === undefined ? "Go." : undefined, "session");
        await expectLawful(store, reply.task.rootTaskId, hint);
        expect({ hint, again: executions.again }).toEqual({ hint, again: [] });
      }
    }
  });
});

async function countCommits(plan: Plan): Promise<number> {
  const counting = losingStore(memoryStore(), Number.POSITIVE_INFINITY, "before");
  await callToEnd(castOf(plan, { store: counting }), "Go.", "session");
  return counting.commits;
}
