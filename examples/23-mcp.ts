// Agents as tools over MCP: the client of the official SDK calls a lead, whose helper asks before it removes a file.
// Run it with: npm run example 23
import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { agentTool, ReActAgent, tool } from "rivulet";
import { serve } from "rivulet/server";
import { scriptedModel } from "rivulet/testing";
import { z } from "zod";

const remove = tool({
  name: "remove",
  description: "Removes a file.",
  input: z.object({ path: z.string() }),
  needsApproval: true,
  execute: ({ path }) => `Removed ${path}.`,
});
const helper = new ReActAgent({
  name: "helper",
  description: "Works on files.",
  model: scriptedModel([{ call: "remove", input: { path: "old.log" } }, "It is gone."]),
  tools: [remove],
});
const lead = new ReActAgent({
  name: "lead",
  description: "Keeps the folder tidy.",
  model: scriptedModel([{ call: "helper", input: { prompt: "Remove old.log." } }, "All is tidy."]),
  tools: [agentTool(helper)],
});
const server = await serve({ agents: [lead], adapters: ["mcp"], port: 0, log: false });

const client = new Client(
  { name: "example", version: "1.0.0" },
  { capabilities: { elicitation: {} } },
);
// The client asks its user; the answer continues the call.
client.setRequestHandler("elicitation/create", async ({ params }) => {
  console.log("asked:", params.message);
  return { action: "accept", content: { decision: "approve" } };
});
const requestInit = { headers: { authorization: `Bearer ${server.token}` } };
await client.connect(
  new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`), { requestInit }),
);

const { tools } = await client.listTools();
console.log("tools:", tools.map(({ name }) => name).join(", "));
assert.ok(tools.some(({ name }) => name === "lead"));

const steps = new Set<string>();
const result = await client.callTool(
  { name: "lead", arguments: { message: "Tidy up." } },
  { onprogress: ({ message = "" }) => void steps.add(message) },
);
console.log("steps:", [...steps].join(", "));
const [answer] = result.content;
assert.ok(answer?.type === "text");
assert.equal(answer.text, "All is tidy.");
console.log(answer.text);
await client.close();
await server.close();
