import { describe, expect, it } from "vitest";
import type { Reply, Store } from "../../src/index.ts";
import { memoryStore, ReActAgent } from "../../src/index.ts";
import type { LogEvent } from "../../src/protocol/event.ts";
import { scriptedModel } from "../../src/testing/index.ts";
import { answerTo, callToEnd, castOf } from "./support/cast.ts";
import { deep } from "./support/deep.ts";
import { expectLawful, readLog } from "./support/laws.ts";
import { generatePlan, type Plan } from "./support/plan.ts";
import { Executions } from "./support/tools.ts";

const seeds = Array.from({ length: deep ? 100 : 4 }, (_, index) => index + 1);
const size = deep ? { turns: 3, calls: 4 } : { turns: 2, calls: 3 };

describe("a cancel", () => {
  it.each(seeds)("at any event that a reader sees (seed %i)", async (seed) => {
    const plan = generatePlan(seed, { ...size, depth: seed % 3 });
    const events = await countEvents(plan);
    for (let at = 0; at < events; at++) {
      const store = memoryStore();
      const executions = new Executions();
      const agent = castOf(plan, { store, executions });
      const reply = await cancelAtEvent(agent, at);
      await expectSound(store, reply, executions, `seed ${seed}, cancelled at event ${at}`);
    }
  });

  it.each(seeds)("in any commit (seed %i)", async (seed) => {
    const plan = generatePlan(seed, { ...size, depth: seed % 3 });
    const counting = cancellingStore(memoryStore(), Number.POSITIVE_INFINITY, () => {});
    await callToEnd(castOf(plan, { store: counting }), "Go.", "session");
    for (let at = 0; at < counting.commits(); at++) {
      const inner = memoryStore();
      const executions = new Executions();
      const stop = new AbortController();
      const store = cancellingStore(inner, at, () => stop.abort(new Error("enough")));
      const reply = await callUntilCancelled(castOf(plan, { store, executions }), stop);
      await expectSound(inner, reply, executions, `seed ${seed}, cancelled in commit ${at}`);
    }
  });
});

async function countEvents(plan: Plan): Promise<number> {
  const store = memoryStore();
  const reply = await callToEnd(castOf(plan, { store }), "Go.", "session");
  return (await readLog(store, reply.task.rootTaskId)).length;
}

/** Runs, answers what is asked, and cancels when it sees the event of that number. */
async function cancelAtEvent(agent: ReActAgent, at: number): Promise<Reply> {
  let run = agent.run("Go.", { sessionId: "session" });
  for (;;) {
    for await (const event of run) {
      if ((event as LogEvent).sequence_number === at) void run.cancel("enough");
    }
    const reply = await run.result();
    await run.cancel(); // the cancel of a run that waits drives it once more: this waits for that
    const waiting = await agent.approvals({ sessionId: "session" });
    if (waiting.length === 0) return reply;
    run = agent.run(waiting.map(answerTo), { sessionId: "session" });
  }
}

async function callUntilCancelled(agent: ReActAgent, stop: AbortController): Promise<Reply> {
  const options = { sessionId: "session", signal: stop.signal };
  let reply = await agent.call("Go.", options);
  while (!stop.signal.aborted && reply.approvals.length > 0) {
    reply = await agent.call(reply.approvals.map(answerTo), options);
  }
  return reply;
}

function cancellingStore(store: Store, at: number, cancel: () => void) {
  let commits = 0;
  return {
    ...store,
    commits: () => commits,
    async commit(commit: Parameters<Store["commit"]>[0]) {
      if (commits++ === at) cancel();
      await store.commit(commit);
    },
  };
}

/** Whatever the moment: the tree is lawful, nothing ran twice, and the session can be talked to. */
async function expectSound(store: Store, reply: Reply, executions: Executions, hint: string) {
  await expectLawful(store, reply.task.rootTaskId, hint);
  expect({ hint, again: executions.again }).toEqual({ hint, again: [] });
  expect({ hint, twice: [...executions.byCall.values()].filter((times) => times > 1) }).toEqual({
    hint,
    twice: [],
  });
  const [unfinished] = await store.tasks({ sessionId: "session", status: ["in_progress"] });
  expect({ hint, unfinished }).toEqual({ hint, unfinished: undefined });
  const model = scriptedModel(() => "Hello again.");
  const next = new ReActAgent({ name: "lead", model, store });
  const options = { sessionId: "session", onSuspended: "deny" } as const;
  const { text } = await next.call("Are you there?", options);
  expect({ hint, text }).toEqual({ hint, text: "Hello again." });
}
