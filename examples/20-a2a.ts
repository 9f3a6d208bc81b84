// Serve an agent over A2A, and use an A2A agent as a subagent: its text streams, and its approval is asked for here.
// Run it with: npm run example 20
import assert from "node:assert/strict";
import { HarnessAgent, ReActAgent, tool } from "rivulet";
import { serve } from "rivulet/server";
import { scriptedModel } from "rivulet/testing";
import { z } from "zod";

const remove = tool({
  name: "delete_file",
  description: "Deletes a file.",
  input: z.object({ path: z.string() }),
  needsApproval: true,
  execute: ({ path }) => `deleted ${path}`,
});
const janitor = new ReActAgent({
  name: "janitor",
  description: "Cleans up.",
  model: scriptedModel([
    [{ call: "delete_file", input: { path: "old.log" } }],
    [{ text: ["The log ", "is gone."] }],
  ]),
  tools: [remove],
});
const server = await serve({ agents: [janitor], adapters: ["a2a"], port: 0, log: false });

const lead = new HarnessAgent({
  name: "lead",
  model: scriptedModel([
    [{ call: "agent_spawn", input: { agent_id: "janitor", task: "Clean up." } }],
    "All is clean.",
  ]),
  filesystem: false,
  store: "memory",
  subagents: [
    {
      name: "janitor",
      description: "Cleans up.",
      // The address of any agent card works here; this one is served by the lines above.
      a2a: `${server.url}/a2a/janitor/.well-known/agent-card.json`,
      headers: { authorization: `Bearer ${server.token}` },
      allowPrivateNetwork: true,
    },
  ],
});

const sessionId = "clean-up";
const asked = await lead.call("Clean up, please.", { sessionId });
const [approval] = asked.approvals;
assert.ok(approval);
console.log(`${approval.path} asks: ${approval.call.name} ${JSON.stringify(approval.call.input)}`);
assert.deepEqual(approval.call, {
  ...approval.call,
  name: "delete_file",
  input: { path: "old.log" },
});

let streamed = "";
const run = lead.run(approval.approve(), { sessionId });
for await (const event of run)
  if (event.type === "task.text.delta" && event.source) streamed += event.delta;
console.log(`clean-up/janitor says: ${streamed}`);
const reply = await run.result();
console.log(reply.text);
assert.match(streamed, /The log is gone\.$/);
assert.equal(reply.text, "All is clean.");
await server.close();
