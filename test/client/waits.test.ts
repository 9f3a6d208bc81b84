import { describe, expect, it } from "vitest";
import { ReActAgent } from "../../src/agent/index.ts";
import { connect } from "../../src/client.ts";
import type { WaitReason } from "../../src/contract/agent.ts";
import { ManualClock, scriptedModel } from "../../src/testing.ts";
import { type Served, serveAgents } from "./support/serving.ts";

/** A client with a clock of its own, and the answers to its reads of a task. */
function clientOf({ server }: Served) {
  const clock = new ManualClock();
  const reads: { readonly status: number; readonly bytes: number }[] = [];
  const remote = connect(server.url, {
    token: server.token,
    clock,
    async fetch(input, init) {
      const response = await fetch(input, init);
      const isRead = init?.method === undefined && /\/v1\/tasks\/[^/]+$/.test(String(input));
      if (!isRead) return response;
      const bytes = (await response.clone().arrayBuffer()).byteLength;
      reads.push({ status: response.status, bytes });
      return response;
    },
  });
  const aSecond = async () => {
    const { length } = reads;
    await clock.sleeping({ ms: 1_000 });
    await clock.advance(1_000);
    return async () => expect.poll(() => reads.length).toBe(length + 1);
  };
  return { agent: remote.agent("lead"), clock, reads, aSecond };
}

/** An agent that hangs, then says hello. */
const lead = () =>
  new ReActAgent({ name: "lead", model: scriptedModel([{ hang: true }, "Hello."]) });

describe("onWait of a remote run", () => {
  it("names the wait of a queued task every second, until the run ends", async () => {
    await using served = await serveAgents([lead()]);
    const { agent, clock, reads, aSecond } = clientOf(served);
    const first = agent.run("Go.", { sessionId: "s" });
    await first.task;
    const waits: WaitReason[] = [];
    const run = agent.run("Go on.", { sessionId: "s", onWait: (wait) => waits.push(wait) });
    await run.task;
    expect(reads).toEqual([]);
    for (const count of [1, 2]) {
      await (await aSecond())();
      await expect.poll(() => waits.length).toBe(count);
    }
    expect(waits).toEqual([{ reason: "busy" }, { reason: "busy" }]);
    expect(reads.map(({ status }) => status)).toEqual([200, 304]);
    await first.cancel();
    expect((await run.result()).text).toBe("Hello.");
    await clock.advance(5_000);
    expect([reads.length, waits.length, clock.pending]).toEqual([2, 2, 0]);
  });

  it("reads a running task again only if it has changed, and not while events arrive", async () => {
    const modelClock = new ManualClock();
    const text = "x".repeat(10_000);
    const turn = [{ text }, { delayMs: 100 }, "And.", { hang: true as const }];
    const model = scriptedModel([turn], { clock: modelClock });
    await using served = await serveAgents([new ReActAgent({ name: "lead", model })]);
    const { agent, clock, reads, aSecond } = clientOf(served);
    const waits: WaitReason[] = [];
    const run = agent.run("Go.", { onWait: (wait) => waits.push(wait) });
    const events = run[Symbol.asyncIterator]();
    const untilDelta = async () => {
      while ((await events.next()).value?.type !== "task.text.delta");
    };
    await untilDelta();
    await clock.sleeping({ ms: 1_000 });
    await clock.advance(500);
    await modelClock.advance(100);
    await untilDelta();
    await clock.advance(500);
    await clock.sleeping({ ms: 1_000 });
    expect(reads).toEqual([]);
    for (let count = 0; count < 3; count++) await (await aSecond())();
    expect(reads[0]?.bytes).toBeGreaterThan(text.length);
    expect(reads.slice(1)).toEqual([
      { status: 304, bytes: 0 },
      { status: 304, bytes: 0 },
    ]);
    expect(waits).toEqual([]);
    await events.return?.();
    await run.cancel();
    await expect.poll(() => clock.pending).toBe(0);
  });

  it("sends nothing without it, and stops when the task rests without a reader", async () => {
    await using served = await serveAgents([lead()]);
    const { agent, clock, reads, aSecond } = clientOf(served);
    const silent = agent.run("Go.", { sessionId: "s" });
    await silent.task;
    await clock.advance(5_000);
    expect([reads.length, clock.pending]).toEqual([0, 0]);
    const run = agent.run("Go on.", { sessionId: "s", onWait: () => {} });
    const { taskId } = await run.task;
    await silent.cancel();
    await agent.attach({ taskId }).result();
    const { length } = reads;
    await (await aSecond())();
    await expect.poll(() => clock.pending).toBe(0);
    expect(reads).toHaveLength(length + 1);
  });

  it("rejects the run with what it throws", async () => {
    await using served = await serveAgents([lead()]);
    const { agent, aSecond } = clientOf(served);
    const first = agent.run("Go.", { sessionId: "s" });
    await first.task;
    const onWait = () => {
      throw new Error("It is a trap.");
    };
    const result = agent.call("Go on.", { sessionId: "s", onWait });
    result.catch(() => {});
    await (await aSecond())();
    await expect(result).rejects.toThrow("It is a trap.");
    await first.cancel();
  });
});
