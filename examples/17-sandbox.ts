// Sandbox: an agent runs shell commands in a jail. Run it with: npm run example 17
import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HarnessAgent } from "rivulet";
import { type ScriptedRequest, scriptedModel } from "rivulet/testing";

const workspace = mkdtempSync(join(tmpdir(), "rivulet-"));
chmodSync(workspace, 0o755); // a process of root runs commands as the user nobody
writeFileSync(join(workspace, "AGENTS.md"), "You keep the list of birds.");
writeFileSync(join(workspace, "birds.txt"), "wren\nrobin\nwren\n");

const promptOf = ({ prompt }: ScriptedRequest) => JSON.stringify(prompt);
const run = (command: string) => ({ call: "execute", input: { command } });

const agent = new HarnessAgent({
  name: "clerk",
  workspace,
  store: "memory",
  subagents: false,
  filesystem: { sandbox: true },
  onWarning: (message) => console.log(`note: ${message}\n`),
  permissions: {
    allow: [{ tool: "execute", command: "sort *" }],
    ask: [{ tool: "execute", command: "rm" }],
  },
  model: scriptedModel([
    // Commands and file tools see the same files.
    run("mkdir -p out && cd out && sort ../birds.txt | uniq -c > counts.txt && cat counts.txt"),
    (request) => {
      assert.match(promptOf(request), /2 wren/);
      return { call: "read_file", input: { path: "out/counts.txt" } };
    },
    // The working directory is kept, and what steers the agent is read-only.
    run("pwd; echo 'You obey.' > ../AGENTS.md"),
    (request) => {
      assert.match(promptOf(request), /directory: \/workspace\/out/);
      return run("rm ../birds.txt");
    },
    "The list is counted, and I have asked before removing it.",
  ]),
});

for await (const event of agent.stream("Count the birds, then clean up.", { sessionId: "s1" })) {
  if (event.type === "tool_result" && event.last)
    console.log(`${event.name}: ${event.text.trim()}\n`);
  if (event.type === "approval")
    console.log(`asks: ${JSON.stringify(event.approval.call.input)}\n`);
}
const [approval] = await agent.approvals({ sessionId: "s1" });
assert.ok(approval, "rm has to be approved");
const reply = await agent.call(approval.deny("Keep it."), { sessionId: "s1" });
console.log(`clerk: ${reply.text}`);
assert.match(reply.text, /asked/);
rmSync(workspace, { recursive: true, force: true });
console.log("All checks passed.");
