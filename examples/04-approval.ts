// Approvals: a person decides before a tool runs, for the agent and for its child. Run it with: npm run example 04
import assert from "node:assert/strict";
import type { Answer, Approval } from "rivulet";
import { agentTool, ReActAgent, tool } from "rivulet";
import { scriptedModel } from "rivulet/testing";
import { z } from "zod";

const files = new Set(["notes.md", "draft.md", "cache/a", "cache/b"]);

const deleteFile = tool({
  name: "delete_file",
  description: "Deletes a file.",
  input: z.object({ path: z.string() }),
  // `true` always asks; a function decides by the input.
  needsApproval: ({ path }) => !path.startsWith("cache/"),
  execute: ({ path }) => (files.delete(path) ? `Deleted ${path}.` : `${path} does not exist.`),
});

/** A child agent. Its approvals appear in the root's reply, with its path. */
const cleaner = new ReActAgent({
  name: "cleaner",
  description: "Empties the cache and deletes old drafts.",
  model: scriptedModel([
    [
      { call: "delete_file", input: { path: "cache/a" } },
      { call: "delete_file", input: { path: "draft.md" } },
    ],
    "I deleted one cache file and kept the draft.",
  ]),
  tools: [deleteFile],
});
const agent = new ReActAgent({
  name: "assistant",
  model: scriptedModel([
    [
      { call: "cleaner", input: { prompt: "Clean up." } },
      { call: "delete_file", input: { path: "notes.md" } },
      { call: "delete_file", input: { path: "/etc/passwd" } },
    ],
    "Done, as far as I was allowed to.",
  ]),
  tools: [deleteFile, agentTool(cleaner)],
  // Deny rules also apply to all descendants.
  permissions: { deny: [{ tool: "delete_file", input: { path: "/*" } }] },
});

/** The person. In a real program: a prompt, a button or a chat message. */
function decide(approval: Approval): Answer {
  const { path } = approval.call.input as { path: string };
  const answer =
    approval.path === undefined
      ? approval.edit({ path: "cache/b" })
      : approval.deny("Keep the draft, please.");
  console.log(`${approval.path ?? "home"}: ${approval.call.name} ${path}: ${answer.decision}`);
  return answer;
}

const sessionId = "home";
let reply = await agent.call("Clean up.", { sessionId });
const requested = reply.approvals.map(({ path, call }) => ({ path, input: call.input }));
while (reply.generateReason === "approval_required") {
  reply = await agent.call(reply.approvals.map(decide), { sessionId });
}
console.log(reply.text, "Left:", [...files].join(", "));

assert.deepEqual(requested, [
  { path: undefined, input: { path: "notes.md" } },
  { path: "home/cleaner", input: { path: "draft.md" } },
]);
assert.deepEqual([...files], ["notes.md", "draft.md"]);
assert.equal(reply.text, "Done, as far as I was allowed to.");
assert.equal(reply.generateReason, "model_stop");
assert.deepEqual(await agent.approvals({ sessionId }), [], "no approval is open");
