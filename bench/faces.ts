// Bytes on the wire for each token of a nested agent, by protocol, beside a subagent as the documentation of the AI SDK
// writes it: a tool that yields its whole message again with each token. Bytes do not depend on the machine, so the claim
// is exact: the cost of a token does not grow with the text.
import {
  isStepCount,
  readUIMessageStream,
  streamText,
  ToolLoopAgent,
  tool,
  toUIMessageStream,
} from "ai";
import { z } from "zod";
import { AcpUpdates } from "../src/adapters/acp/updates.ts";
import { agentTool, memoryStore, ReActAgent } from "../src/index.ts";
import type { TaskEvent } from "../src/protocol.ts";
import { createApp } from "../src/server.ts";
import { type Script, scriptedModel } from "../src/testing.ts";

const sizes = [400, 1_600, 4_800] as const;
const word = "river ";
const token = "0123456789abcdef";
/** How much more a token of the longest text may cost than one of a third of it. */
const limit = 1.2;

const call: Script = [[{ call: "helper", input: { prompt: "Go." } }], "Done."];
const words =
  (count: number): Script =>
  () => [{ text: Array.from({ length: count }, () => word) }];
const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value));

/** An app with an agent whose child says so many words. */
function rivulet(count: number) {
  const store = memoryStore({ flushMs: 0 });
  const helper = new ReActAgent({ name: "helper", store, model: scriptedModel(words(count)) });
  const tools = [agentTool(helper)];
  const lead = new ReActAgent({ name: "lead", store, tools, model: scriptedModel(call) });
  const adapters = ["ai-sdk", "ag-ui", "responses"] as const;
  return { lead, app: createApp({ agents: [lead], adapters, token, log: false }) };
}

async function post(count: number, path: string, body: object): Promise<number> {
  const { app } = rivulet(count);
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const request = { method: "POST", headers, body: JSON.stringify(body) };
  const response = await app.request(`http://localhost${path}`, request);
  return Buffer.byteLength(await response.text());
}

async function acp(count: number): Promise<number> {
  const updates = new AcpUpdates(128_000);
  let bytes = 0;
  for await (const event of rivulet(count).lead.run("Go.").events() as AsyncIterable<TaskEvent>)
    for (const update of updates.translate(event)) bytes += bytesOf(update);
  return bytes;
}

async function aiSdk(count: number): Promise<number> {
  const agent = new ToolLoopAgent({ model: scriptedModel(words(count)) as never });
  const helper = tool({
    description: "Helps.",
    inputSchema: z.object({ prompt: z.string() }),
    async *execute({ prompt }) {
      const { stream } = await agent.stream({ prompt });
      yield* readUIMessageStream({ stream: toUIMessageStream({ stream }) });
    },
    toModelOutput: () => ({ type: "text", value: "Done." }),
  });
  const { stream } = streamText({
    ...{ model: scriptedModel(call) as never, prompt: "Go.", tools: { helper } },
    stopWhen: isStepCount(5),
  });
  let bytes = 0;
  for await (const chunk of toUIMessageStream({ stream })) bytes += bytesOf(chunk);
  return bytes;
}

const message = { id: "m", role: "user", content: "Go.", parts: [{ type: "text", text: "Go." }] };
const sides: Readonly<Record<string, (count: number) => Promise<number>>> = {
  native: (count) => post(count, "/v1/tasks", { agent: "lead", input: "Go.", stream: true }),
  "ai-sdk": (count) => post(count, "/api/chat", { id: "c", messages: [message] }),
  "ag-ui": (count) => post(count, "/agui/lead", { threadId: "t", runId: "r", messages: [message] }),
  acp,
  "AI SDK's own": aiSdk,
};

console.log(
  `Bytes for each token of a child, by its number of tokens (of ${word.length} bytes):\n`,
);
console.log(`${"".padEnd(14)}${sizes.map((size) => String(size).padStart(10)).join("")}`);
let hasFailed = false;
for (const [name, bytesFor] of Object.entries(sides)) {
  const empty = await bytesFor(0);
  const costs: number[] = [];
  for (const size of sizes) costs.push(((await bytesFor(size)) - empty) / size);
  const row = costs.map((cost) => cost.toFixed(0).padStart(10)).join("");
  const growth = (costs.at(-1) ?? 0) / (costs.at(-2) ?? 1);
  const isOurs = name !== "AI SDK's own";
  if (isOurs && growth > limit) hasFailed = true;
  console.log(`${name.padEnd(14)}${row}   ${growth > limit ? "grows" : "constant"}`);
}
process.exit(hasFailed ? 1 : 0);
