import { describe, expect, it } from "vitest";
import { memoryStore, type Reply, type Store } from "../../../src/index.ts";
import { trimLog } from "../../../src/store/trim-log.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import { logTranscriptProblems } from "../../support/log-matches-transcript.ts";
import { answerTo, callToEnd, castOf, storyOf } from "../support/cast.ts";
import { expiringStore, losingStore } from "../support/losing-store.ts";
import { generatePlan } from "../support/plan.ts";

const seeds = Array.from({ length: isDeep ? 200 : 8 }, (_, index) => index + 1);
const sessionId = "session";

function planOf(seed: number) {
  return generatePlan(seed, { turns: 4, calls: 3, depth: seed % 3 });
}

/** Forgets all events of the conversation so far. */
async function trimAll(store: Store): Promise<void> {
  const [root] = await store.tasks({ sessionId });
  if (root) await trimLog(store, root.taskId, await store.last(root.taskId));
}

describe("a conversation whose log is trimmed before it has ended", () => {
  it("reaches the same end after a suspension", async () => {
    let trims = 0;
    for (const seed of seeds) {
      const whole = memoryStore();
      const end = await callToEnd(castOf(planOf(seed), { store: whole }), "Go.", sessionId);
      const store = memoryStore();
      const agent = castOf(planOf(seed), { store });
      let reply: Reply = await agent.call("Go.", { sessionId });
      while (reply.approvals.length > 0) {
        await trimAll(store);
        trims += 1;
        reply = await agent.call(reply.approvals.map(answerTo), { sessionId });
      }
      const hint = `seed ${seed}`;
      expect({ hint, text: reply.text }).toEqual({ hint, text: end.text });
      const story = await storyOf(store, reply.task.taskId);
      expect({ hint, story }).toEqual({ hint, story: await storyOf(whole, end.task.taskId) });
      const problems = await logTranscriptProblems(store, reply.task.taskId);
      expect({ hint, problems }).toEqual({ hint, problems: [] });
    }
    expect(trims).toBeGreaterThan(seeds.length / 2);
  });

  it("resumes after its process is lost", async () => {
    for (const seed of seeds) {
      const plan = planOf(seed);
      for (let at = seed % 5; ; at += 5) {
        const { store, expire } = expiringStore();
        const losing = losingStore(store, at, "before");
        const lost = callToEnd(castOf(plan, { store: losing }), "Go.", sessionId);
        const isLost = await lost.then(() => false).catch(() => true);
        if (!isLost) break;
        expire();
        await trimAll(store);
        const [root] = await store.tasks({ sessionId });
        const input = root === undefined ? "Go." : undefined;
        const reply = await callToEnd(castOf(plan, { store }), input, sessionId);
        const hint = `seed ${seed}, lost before commit ${at}`;
        const problems = await logTranscriptProblems(store, reply.task.taskId);
        expect({ hint, problems }).toEqual({ hint, problems: [] });
      }
    }
  });
});
