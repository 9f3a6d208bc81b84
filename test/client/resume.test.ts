import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { agentTool, ReActAgent, tool } from "../../src/agent/index.ts";
import { connect } from "../../src/client.ts";
import type { LogEvent } from "../../src/protocol/event.ts";
import { emptyTree, reduce } from "../../src/protocol/reduce.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { scriptedModel } from "../../src/testing.ts";
import { collect } from "../agent/support/collect.ts";
import { type Cut, type CutProxy, cutProxy, type Fault } from "./support/cut-proxy.ts";
import { hastyClock, type Served, serveAgents } from "./support/serving.ts";

const wanted = isDeep ? 10_000 : 500;

const echo = tool({
  name: "echo",
  description: "Repeats.",
  execute(_, { emit }) {
    emit("one ");
    emit("two");
    return "done";
  },
});

function team(): ReActAgent {
  const model = (script: Parameters<typeof scriptedModel>[0]) =>
    scriptedModel(script, { by: "prompt" });
  const deepest = new ReActAgent({ name: "deep", model: model([{ text: ["De", "ep."] }]) });
  const helper = new ReActAgent({
    name: "helper",
    model: model([
      ["Ask. ", { call: "deep", input: { prompt: "y" } }, { call: "echo" }],
      { text: ["Hel", "ped."] },
    ]),
    tools: [agentTool(deepest), echo],
  });
  return new ReActAgent({
    name: "lead",
    store: memoryStore(),
    model: model([
      [{ thinking: "Hm." }, "Wait. ", { call: "helper", input: { prompt: "x" } }, { call: "echo" }],
      { text: ["The ", "end — ", "ü👍."] },
    ]),
    tools: [agentTool(helper), echo],
  });
}

let served: Served;
let proxy: CutProxy;
beforeAll(async () => {
  served = await serveAgents([team()]);
  proxy = await cutProxy(served.server.url);
});
afterAll(async () => {
  await proxy[Symbol.asyncDispose]();
  await served[Symbol.asyncDispose]();
});

const fold = (events: readonly unknown[]) =>
  JSON.stringify(reduce(emptyTree(), events as readonly LogEvent[]));

const faults: readonly Fault[] = ["cut", "half-close", "torn", "throttle", "stall"];

describe("a run through a proxy that cuts, stalls, throttles and half-closes", () => {
  it(`ends with the tree of the uncut run, over ${wanted} resumes`, async () => {
    const reply = await served.remote.agent("lead").call("Go.");
    const { taskId } = reply.task;
    const uncut = await collect(served.remote.task(taskId).events({ after: -1, until: "tree" }));
    const numbers = uncut.map((event) => (event as LogEvent).sequence_number);
    expect(numbers).toEqual(numbers.map((_, index) => index));
    const remote = connect(proxy.url, { token: served.server.token, clock: hastyClock });
    const run = remote.task(taskId);
    await run.task;
    let stalls = 0;
    for (let round = 0; proxy.count.faults < wanted; round++) {
      // Every round cuts at every index: each connection lets one to three events pass.
      const step = 1 + (round % 3);
      const plan: Cut[] = [];
      for (let at = 0; at < uncut.length; at += step) {
        let fault = faults[(round + at) % faults.length] as Fault;
        // A stall takes the time of a heartbeat, so few of them must do.
        if (fault === "stall" && stalls++ % (isDeep ? 40 : 10) !== 0) fault = "cut";
        plan.push({ fault, after: step });
      }
      proxy.plan = plan;
      const events = await collect(run.events({ after: -1, until: "tree" }));
      expect(events.map((event) => (event as LogEvent).sequence_number)).toEqual(numbers);
      expect(fold(events)).toBe(fold(uncut));
    }
    console.log(`${proxy.count.faults} resumes over ${proxy.count.streams} connections`);
  });

  it("sees a live run to its end, cut after every event", async () => {
    const remote = connect(proxy.url, { token: served.server.token, clock: hastyClock });
    proxy.plan = Array.from({ length: 40 }, (_, index) => ({
      fault: faults[index % 4] as Fault,
      after: 1,
    }));
    const run = remote.agent("lead").run("Go.");
    const events = await collect(run);
    const { taskId } = await run.task;
    const uncut = await collect(served.remote.task(taskId).events({ after: -1, until: "tree" }));
    expect(fold(events)).toBe(fold(uncut));
    expect((await run.result()).text).toBe("The end — ü👍.");
    proxy.plan = [];
  });
});
