// AG-UI: `HttpAgent` runs a lead, sees its helper as a subagent, and answers the helper's approval as an interrupt.
// Run it with: npm run example 24
import assert from "node:assert/strict";
import { HttpAgent } from "@ag-ui/client";
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
  model: scriptedModel([{ call: "helper", input: { prompt: "Remove old.log." } }, "All is tidy."]),
  tools: [agentTool(helper)],
});
const server = await serve({ agents: [lead], adapters: ["ag-ui"], port: 0, log: false });

const agent = new HttpAgent({
  url: `${server.url}/agui/lead`,
  headers: { authorization: `Bearer ${server.token}` },
  threadId: "tidy",
});
agent.addMessage({ id: "m1", role: "user", content: "Tidy up." });
await agent.runAgent();
const [interrupt] = agent.pendingInterrupts;
assert.ok(interrupt);
console.log("asked:", interrupt.message);

const payload = { approved: true };
await agent.runAgent({ resume: [{ interruptId: interrupt.id, status: "resolved", payload }] });
const last = agent.messages.at(-1);
assert.equal(last?.content, "All is tidy.");
console.log(last.content);
await server.close();
