// Long session: the prompt stays small, the history stays whole. Run it with: npm run example 18
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HarnessAgent, memoryStore, tool } from "rivulet";
import { type ScriptedRequest, scriptedModel } from "rivulet/testing";
import { z } from "zod";

const workspace = mkdtempSync(join(tmpdir(), "rivulet-"));
const store = memoryStore();
const pages = 60;
const window = 10_000;

const readPage = tool({
  name: "read_page",
  description: "Reads a page of the archive.",
  input: z.object({ page: z.number() }),
  readOnly: true,
  execute: ({ page }) =>
    `Page ${page}. ${page === 5 ? "The key is under the heron. " : ""}${"Rain. ".repeat(200)}`,
});

// A model that reads one page after the other. Near the end it needs a fact from page 5.
const sizes: number[] = [];
let page = 0;
const textOf = ({ prompt }: ScriptedRequest) => JSON.stringify(prompt);
const isSummary = (request: ScriptedRequest) => textOf(request).includes("You summarise");
const model = scriptedModel((request) => {
  if (isSummary(request)) {
    const headings = ["Goal", "Decisions", "Facts", "Files", "Open tasks", "Next steps"];
    return headings.map((heading) => `## ${heading}\nRead the archive.`).join("\n\n");
  }
  sizes.push(textOf(request).length / 4);
  page += 1;
  if (page === 1) {
    const todos = [{ content: `Read ${pages} pages`, status: "in_progress" }];
    return { call: "todo_write", input: { todos } };
  }
  if (page < pages) return { call: "read_page", input: { page } };
  // The list is out of sight by now, and was carried over.
  assert.match(textOf(request), /\[>\] Read 60 pages/);
  if (page === pages) {
    assert.doesNotMatch(textOf(request), /under the heron/);
    return { call: "grep_files", input: { pattern: "The key is", path: "tool-results" } };
  }
  return /under the heron/.test(textOf(request)) ? "Under the heron." : "I do not know.";
});

const agent = new HarnessAgent({
  name: "archivist",
  ...{ model, store, workspace, tools: [readPage], subagents: false },
  ...{ maxIters: 100, todos: true, compaction: { window, triggerTokens: 6_000 } },
});

const sessionId = "archive";
const run = agent.run("Read the archive. Where is the key?", { sessionId });
let compactions = 0;
for await (const event of run) {
  if (event.type !== "task.custom" || event.name !== "rivulet.compaction") continue;
  compactions += 1;
  const { from_tokens, to_tokens, pruned } = event.value as Record<string, number>;
  console.log(`compaction: ${from_tokens} → ${to_tokens} tokens, ${pruned} results pruned`);
}
const { text } = await run.result();
console.log(`\narchivist: ${text}`);
assert.equal(text, "Under the heron.");
assert.ok(compactions >= 2);
assert.ok(Math.max(...sizes) < window);

// The store has every message.
const messages = await store.session(sessionId);
assert.equal(messages.filter(({ role }) => role === "assistant").length, pages + 1);

// A deleted session takes its saved results along.
assert.equal(await agent.deleteSession(sessionId), true);
rmSync(workspace, { recursive: true });
console.log("All checks passed.");
