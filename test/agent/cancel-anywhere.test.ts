import { describe, expect, it } from "vitest";
import { memoryStore, ReActAgent, type Reply, type Store } from "../../src/index.ts";
import type { LogEvent } from "../../src/protocol/event.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { scriptedModel } from "../../src/testing.ts";
import { answerTo, callToEnd, castOf } from "./support/cast.ts";
import { expectLawful, readLog } from "./support/laws.ts";
import { generatePlan, type Plan } from "./support/plan.ts";
import { Executions } from "./support/tools.ts";

const seeds = Array.from({ length: isDeep ? 100 : 4 }, (_, index) => index + 1);
const size = isDeep ? { turns: 3, calls: 4 } : { turns: 2, calls: 3 };

describe("a cancel", () => {
  it.each(seeds)("at any event that a reader sees (seed %i)", async (seed) => {
    const plan = generatePlan(seed, { ...size, depth: seed % 3 });
    const events = await countEvents(plan);
    let cancelled = 0;
    for (let at = 0; at < events; at++) {
      const hint = `seed ${seed}, cancelled at event ${at}`;
      const store = memoryStore();
      const executions = new Executions();
      const agent = castOf(plan, { store, executions });
      const { reply, startedBefore } = await cancelAtEvent(agent, at, executions);
      expect({ hint, startedBefore }).not.toEqual({ hint, startedBefore: undefined });
      const status = await expectStopped(store, reply, executions, startedBefore, hint);
      if (status === "cancelled") cancelled += 1;
      expect({ hint, status }).not.toEqual({ hint, status: "suspended" });
      await expectSound(store, reply, executions, hint);
    }
    // The rest had come to its end before its reader saw that event.
    expect(cancelled).toBeGreaterThan(events / 2);
  });

  it.each(seeds)("in any commit (seed %i)", async (seed) => {
    const plan = generatePlan(seed, { ...size, depth: seed % 3 });
    const counting = cancellingStore(memoryStore(), Number.POSITIVE_INFINITY, () => {});
    await callToEnd(castOf(plan, { store: counting }), "Go.", "session");
    let cancelled = 0;
    for (let at = 0; at < counting.commits(); at++) {
      const hint = `seed ${seed}, cancelled in commit ${at}`;
      const inner = memoryStore();
      const executions = new Executions();
      const stop = new AbortController();
      let startedBefore: number | undefined;
      const store = cancellingStore(inner, at, () => {
        startedBefore = executions.started;
        stop.abort(new Error("enough"));
      });
      const reply = await callUntilCancelled(castOf(plan, { store, executions }), stop);
      const status = await expectStopped(inner, reply, executions, startedBefore, hint);
      if (status === "cancelled") cancelled += 1;
      await expectSound(inner, reply, executions, hint);
    }
    // The rest wrote down its end, or that it waits, in that commit.
    expect(cancelled).toBeGreaterThan(counting.commits() / 2);
  });
});

async function countEvents(plan: Plan): Promise<number> {
  const store = memoryStore();
  const reply = await callToEnd(castOf(plan, { store }), "Go.", "session");
  return (await readLog(store, reply.task.rootTaskId)).length;
}

/** Runs, answers what is asked, and cancels when it sees the event of that number; says what had begun by then. */
async function cancelAtEvent(agent: ReActAgent, at: number, executions: Executions) {
  let run = agent.run("Go.", { sessionId: "session" });
  let startedBefore: number | undefined;
  let cancel: Promise<void> | undefined;
  for (;;) {
    for await (const event of run) {
      if ((event as LogEvent).sequence_number !== at) continue;
      startedBefore = executions.started;
      cancel = run.cancel("enough");
    }
    const reply = await run.result();
    await cancel; // the cancel of a run that waits drives it once more
    const waiting = await agent.approvals({ sessionId: "session" });
    if (waiting.length === 0) return { reply, startedBefore };
    run = agent.run(waiting.map(answerTo), { sessionId: "session" });
  }
}

/** After a cancel no model is asked and no tool begins; gives how the root came to rest. */
async function expectStopped(
  store: Store,
  { task, generateReason }: Reply,
  executions: Executions,
  startedBefore: number | undefined,
  hint: string,
): Promise<string | undefined> {
  const { started } = executions;
  expect({ hint, startedBefore }).toEqual({ hint, startedBefore: started });
  const status = (await store.task(task.taskId))?.status;
  if (generateReason === "interrupted") {
    expect({ hint, status }).toEqual({ hint, status: "cancelled" });
  }
  return status;
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
      return store.commit(commit);
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
