// ACP: an editor drives `rivulet acp` with a prompt, a permission of a nested agent and a plan, and loads the session in
// another process. Run it with: npm run example 25
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { client, ndJsonStream, type SessionUpdate } from "@agentclientprotocol/sdk";
import { agentTool, HarnessAgent, ReActAgent, tool } from "rivulet";
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
const todos = [
  { content: "Look around.", status: "completed" },
  { content: "Remove old files.", status: "in_progress" },
];
const lead = new HarnessAgent({
  name: "lead",
  todos: true,
  // `by: "prompt"` selects the turn by the conversation, so both processes continue the same script.
  model: scriptedModel(
    [
      { call: "todo_write", input: { todos } },
      { call: "helper", input: { prompt: "Remove old.log." } },
      "All is tidy.",
      "I removed old.log.",
    ],
    { by: "prompt" },
  ),
  tools: [agentTool(helper)],
});
// This file is the config of `rivulet acp`, and the editor that starts it.
export default { agents: [lead] };

if (!process.argv.includes("acp")) {
  const cwd = mkdtempSync(join(tmpdir(), "rivulet-"));
  const first = await openEditor(cwd);
  const { sessionId } = await first.agent.request("session/new", { cwd, mcpServers: [] });
  await first.say(sessionId, "Tidy up.");
  console.log(first.lines.join("\n"));
  assert.deepEqual(first.lines, [
    "plan: Look around. (completed), Remove old files. (in_progress)",
    "asked: helper › remove: old.log",
    "lead: All is tidy.",
  ]);
  await first.close();

  const second = await openEditor(cwd);
  await second.agent.request("session/load", { sessionId, cwd, mcpServers: [] });
  assert.deepEqual(second.lines, ["user: Tidy up.", first.lines[2], first.lines[0]]);
  await second.say(sessionId, "What did you do?");
  console.log(second.lines.at(-1));
  assert.equal(second.lines.at(-1), "lead: I removed old.log.");
  await second.close();
  rmSync(cwd, { recursive: true });
}

/** Starts `rivulet acp` in a folder, as an editor does; `lines` is what it shows. */
async function openEditor(cwd: string) {
  // In a project: spawn("npx", ["rivulet", "acp"], …).
  const program = fileURLToPath(new URL("../src/cli/main.ts", import.meta.url));
  const args = [...process.execArgv, program, "acp", "--config", import.meta.filename];
  const child = spawn(process.execPath, args, { cwd, stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(child, "close");
  const lines: string[] = [];
  const editor = client({ name: "example" });
  editor.onNotification("session/update", ({ params: { update } }) => show(lines, update));
  editor.onRequest("session/request_permission", ({ params: { toolCall } }) => {
    lines.push(`asked: ${toolCall.title}`);
    return { outcome: { outcome: "selected", optionId: "approve" } };
  });
  const input = Readable.toWeb(child.stdout) as ReadableStream<Uint8Array>;
  const { agent } = editor.connect(ndJsonStream(Writable.toWeb(child.stdin), input));
  await agent.request("initialize", { protocolVersion: 1 });
  return {
    agent,
    lines,
    say: (sessionId: string, text: string) =>
      agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] }),
    async close() {
      child.stdin.end();
      await ended;
    },
  };
}

function show(lines: string[], update: SessionUpdate): void {
  if (update.sessionUpdate === "plan") {
    const entries = update.entries.map(({ content, status }) => `${content} (${status})`);
    lines.push(`plan: ${entries.join(", ")}`);
  }
  const isUser = update.sessionUpdate === "user_message_chunk";
  if ((isUser || update.sessionUpdate === "agent_message_chunk") && update.content.type === "text")
    lines.push(`${isUser ? "user" : "lead"}: ${update.content.text}`);
}
