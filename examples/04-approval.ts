// Approval: a person decides what a tool may do, while the run waits without holding anything.
// Run it with: npm run example 04
import assert from "node:assert/strict";
import type { Answer, Approval } from "rivulet";
import { agentTool, ReActAgent, tool } from "rivulet";
import { scriptedModel } from "rivulet/testing";
import { z } from "zod";

const files = new Set(["notes.md", "draft.md", "cache/a", "cache/b"]);

const remove = tool({
  name: "delete_file",
  description: "Deletes a file.",
  input: z.object({ path: z.string() }),
  // `true` asks every time; a function looks at the input first.
  needsApproval: ({ path }) => !path.startsWith("cache/"),
  execute: ({ path }) => (files.delete(path) ? `Deleted ${path}.` : `There is no ${path}.`),
});

/** A child that may ask as well: its question comes up at the root, with the path to it. */
const cleaner = new ReActAgent({
  name: "cleaner",
  description: "Empties the cache and old drafts.",
  model: scriptedModel([
    [
      { call: "delete_file", input: { path: "cache/a" } },
      { call: "delete_file", input: { path: "draft.md" } },
    ],
    "The cache has one file less, and the draft stays.",
  ]),
  tools: [remove],
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
  tools: [remove, agentTool(cleaner)],
  // Rules come before `needsApproval`; a deny holds for every descendant, too.
  permissions: { deny: [{ tool: "delete_file", input: { path: "/*" } }] },
});

/** The person. In a real program: a prompt, a button, a message in a chat. */
function decide(asked: Approval): Answer {
  const { path } = asked.call.input as { path: string };
  const answer =
    asked.path === undefined
      ? asked.edit({ path: "cache/b" })
      : asked.deny("Keep the draft, please.");
  console.log(`${asked.path ?? "home"} wants ${asked.call.name} ${path}: ${answer.decision}`);
  return answer;
}

const sessionId = "home";
let reply = await agent.call("Clean up.", { sessionId });
const asked = reply.approvals.map(({ path, call }) => ({ path, input: call.input }));
while (reply.generateReason === "approval_required") {
  reply = await agent.call(reply.approvals.map(decide), { sessionId });
}
console.log(reply.text, "Left:", [...files].join(", "));

assert.deepEqual(asked, [
  { path: undefined, input: { path: "notes.md" } },
  { path: "home/cleaner", input: { path: "draft.md" } },
]);
assert.deepEqual([...files], ["notes.md", "draft.md"]);
assert.equal(reply.text, "Done, as far as I was allowed to.");
assert.equal(reply.generateReason, "model_stop");
assert.deepEqual(await agent.approvals({ sessionId }), [], "nothing waits any more");
