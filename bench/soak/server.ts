// A server of the soak: `node server.ts <database> <port> <token>`. Several of them share one database. It answers each
// message of its parent with the bytes of its memory.
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { agentTool, ReActAgent, sqliteStore, tool } from "../../src/index.ts";
import { serve } from "../../src/server.ts";
import { scriptedModel } from "../../src/testing.ts";
import { unlimited } from "../../test/support/unlimited.ts";
import { words } from "./words.ts";

const [path = "", port = "0", token = ""] = process.argv.slice(2);
const store = sqliteStore(path, { retention: { logs: { maxAgeMs: 20_000 } } });

/** A model with a script. It forgets its requests, which would look like a leak. */
function scripted(...[script, options]: Parameters<typeof scriptedModel>) {
  const model = scriptedModel(script, options);
  const { doStream } = model;
  return {
    ...model,
    doStream(options: Parameters<typeof doStream>[0]) {
      (model.calls as unknown[]).length = 0;
      return doStream(options);
    },
  };
}

/** A model that says the words of the soak at the pace of a fast provider. */
function talking() {
  const model = scripted(() => ({ text: words }));
  return {
    ...model,
    async doStream(options: Parameters<typeof model.doStream>[0]) {
      const { stream, ...rest } = await model.doStream(options);
      const pace = new TransformStream({
        async transform(part, controller) {
          await sleep(20);
          controller.enqueue(part);
        },
      });
      return { ...rest, stream: stream.pipeThrough(pace) };
    },
  };
}

const common = { store, maxIters: 10 };
const talker = new ReActAgent({ ...common, name: "talker", model: talking() });
const helpers = ["a", "b", "c"].map((name) =>
  agentTool(new ReActAgent({ ...common, name, description: name, model: talking() })),
);
const lead = new ReActAgent({
  ...common,
  name: "lead",
  tools: helpers,
  model: scripted(
    [["a", "b", "c"].map((call) => ({ call, input: { prompt: "Go." } })), "All is done."],
    { by: "prompt" },
  ),
});
const pay = tool({
  name: "pay",
  description: "Pays.",
  input: z.object({ amount: z.number() }),
  needsApproval: true,
  execute: ({ amount }) => `paid ${amount}`,
});
const payer = new ReActAgent({
  ...common,
  name: "payer",
  tools: [pay],
  model: scripted([{ call: "pay", input: { amount: 5 } }, "It is settled."], { by: "prompt" }),
});
await serve({
  agents: [talker, lead, payer],
  port: Number(port),
  token,
  log: false,
  limits: unlimited,
});
process.on("message", () => {
  globalThis.gc?.();
  process.send?.(process.memoryUsage.rss());
});
process.on("disconnect", () => process.exit(0));
process.send?.(process.memoryUsage.rss());
