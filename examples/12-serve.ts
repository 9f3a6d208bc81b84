// Serve: an agent over HTTP. A client starts a task, follows its events, loses the connection, resumes, and answers an
// approval. Run it with: npm run example 12
import assert from "node:assert/strict";
import { ReActAgent, tool } from "rivulet";
import { decodeSse, emptyTree, reduce, rootTask, type TaskEvent } from "rivulet/protocol";
import { serve } from "rivulet/server";
import { scriptedModel } from "rivulet/testing";
import { z } from "zod";

const publish = tool({
  name: "publish",
  description: "Publishes a page.",
  input: z.object({ page: z.string() }),
  needsApproval: true,
  execute: ({ page }) => `Published ${page}.`,
});
const agent = new ReActAgent({
  name: "editor",
  model: scriptedModel([
    [{ text: ["The page ", "is ready. "] }, { call: "publish", input: { page: "rivers" } }],
    { text: ["The page ", "is online."] },
  ]),
  tools: [publish],
});

// Without `auth` the server listens on this machine only and creates a token.
const server = await serve({ agents: [agent], port: 0, log: false });
const headers = { authorization: `Bearer ${server.token}`, "content-type": "application/json" };

const started = await fetch(`${server.url}/v1/tasks`, {
  method: "POST",
  headers,
  // The same key starts one task, so the request can be repeated after a lost answer.
  body: JSON.stringify({ agent: "editor", input: "Publish it.", idempotency_key: "order-7" }),
});
assert.equal(started.status, 201);
const task = (await started.json()) as { id: string; session_id: string };

let tree = emptyTree();
/** Reads events after the last one that the tree has; `leave` closes the connection. */
async function follow(query: string, leave?: (event: TaskEvent) => boolean): Promise<void> {
  const url = `${server.url}/v1/tasks/${task.id}/events?starting_after=${tree.safeCursor}${query}`;
  const response = await fetch(url, { headers });
  assert.ok(response.body);
  for await (const frame of decodeSse(response.body)) {
    if (frame.type.startsWith("stream.")) continue;
    const event = frame as TaskEvent;
    tree = reduce(tree, event);
    if (event.type === "task.text.delta") console.log(`text: ${event.delta}`);
    if (leave?.(event)) return;
  }
}

await follow("", ({ type }) => type === "task.text.delta");
console.log("the connection is lost; the run goes on");
await follow("&until=idle");
assert.equal(rootTask(tree)?.status, "suspended");

const listed = await fetch(`${server.url}/v1/sessions/${task.session_id}/approvals`, { headers });
const { approvals } = (await listed.json()) as {
  approvals: { approval_id: string; call: { name: string } }[];
};
const [approval] = approvals;
assert.equal(approval?.call.name, "publish");
console.log(`approve: ${approval.call.name}`);
const answer = `${server.url}/v1/tasks/${task.id}/approvals/${approval.approval_id}`;
const body = JSON.stringify({ decision: "approve" });
assert.equal((await fetch(answer, { method: "POST", headers, body })).status, 202);

await follow("");
assert.equal(rootTask(tree)?.status, "completed");
assert.deepEqual(tree.gaps, []);
const end = `${server.url}/v1/tasks/${task.id}/events?starting_after=${tree.safeCursor}`;
assert.equal((await fetch(end, { headers })).status, 204, "nothing follows");
assert.equal((await fetch(end)).status, 401, "a credential is required");
await server.close();
