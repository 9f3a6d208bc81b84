// A team on a store that several processes share; each call of `walk` leaves a line in a file.
import { appendFileSync, existsSync } from "node:fs";
import { agentTool, jsonSchema, memoryStore, ReActAgent, tool } from "../../../src/index.ts";
import { scriptedModel } from "../../../src/testing.ts";

const { NODES_STORE: store = "", NODES_STEPS: steps = "", NODES_VERSION: version } = process.env;
const rollout = process.env.NODES_ROLLOUT as "move" | "finish" | undefined;
const leaseMs = Number(process.env.NODES_LEASE ?? 1_000);
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const walk = tool({
  name: "walk",
  description: "Walks a step.",
  input: jsonSchema({ type: "object", properties: { step: { type: "string" } } }),
  idempotent: true,
  execute: async ({ step }, { callId }) => {
    await pause(150);
    appendFileSync(steps, `${callId}\n`);
    return `walked ${String(step)}`;
  },
});
const wait = tool({
  name: "wait",
  description: "Waits until the gate is open.",
  idempotent: true,
  async execute() {
    appendFileSync(steps, `waits ${version ?? ""}\n`);
    while (!existsSync(`${steps}.open`)) await pause(20);
    return "open";
  },
});
const ask = tool({
  name: "ask",
  description: "Asks.",
  needsApproval: true,
  execute: () => "asked",
});
const slow = (text: string) => text.split(/(?<= )/).flatMap((word) => [{ delayMs: 40 }, word]);
const common = {
  ...{ leaseMs, ...(version !== undefined && { version }), ...(rollout && { rollout }) },
  store: store === "memory" ? memoryStore() : store,
};

const helper = new ReActAgent({
  ...{ ...common, name: "helper", description: "Helps." },
  model: scriptedModel(
    [
      [...slow("The helper starts. "), { call: "walk", input: { step: "one" } }],
      slow("It is done. "),
    ],
    { by: "prompt" },
  ),
  tools: [walk],
});
const lead = new ReActAgent({
  ...{ ...common, name: "lead" },
  model: scriptedModel(
    [
      [
        { call: "helper", input: { prompt: "Go." } },
        { call: "walk", input: { step: "two" } },
      ],
      [...slow("Half of the way. "), { call: "walk", input: { step: "three" } }],
      slow("The lead has arrived at the end of the way."),
    ],
    { by: "prompt" },
  ),
  tools: [agentTool(helper), walk],
});
const asking = new ReActAgent({
  ...{ ...common, name: "asking" },
  model: scriptedModel([{ call: "ask" }, slow("It was asked and answered.")], { by: "prompt" }),
  tools: [ask],
});

const gated = new ReActAgent({
  ...{ ...common, name: "gated" },
  model: scriptedModel([{ call: "wait" }, "The gate is open."], { by: "prompt" }),
  tools: [wait],
});

export default { agents: [lead, asking, gated] };
