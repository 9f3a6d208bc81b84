// Workspace: instructions, knowledge and output of an agent are files. Run it with: npm run example 07
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { HarnessAgent } from "rivulet";
import { type ScriptedRequest, scriptedModel } from "rivulet/testing";

// The operator prepares a directory with instructions and knowledge for all users.
const workspace = mkdtempSync(join(tmpdir(), "rivulet-"));
const write = (path: string, text: string) => {
  const file = join(workspace, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
};
write("AGENTS.md", "You are the librarian. You note every loan in loans.md.");
write("knowledge/KNOWLEDGE.md", "A loan ends after two weeks.");
write("knowledge/new-books.md", "- The Rose Garden\n- Rain in May\n");

const promptOf = ({ prompt }: ScriptedRequest) => JSON.stringify(prompt);

const agent = new HarnessAgent({
  name: "librarian",
  workspace,
  store: "memory",
  model: scriptedModel([
    // AGENTS.md is in the prompt, and so is the attached file.
    (request) => {
      assert.match(promptOf(request), /You are the librarian/);
      assert.match(promptOf(request), /The Rose Garden/);
      const content = "- Ann: The Rose Garden\n";
      return { call: "write_file", input: { path: "loans.md", content } };
    },
    "Noted. Bring it back in two weeks.",
    // Bob has his own files, and no loans.md.
    { call: "read_file", input: { path: "loans.md" } },
    (request) => {
      assert.doesNotMatch(promptOf(request), /Ann/);
      return "You have no loans.";
    },
    // The agent cannot edit its own configuration.
    { call: "write_file", input: { path: "tools.json", content: "{}" } },
    (request) => {
      assert.match(promptOf(request), /read-only/);
      return "I may not do that.";
    },
    // A changed AGENTS.md takes effect at the next model call.
    (request) => (/You are the gardener/.test(promptOf(request)) ? "Roses!" : "Books!"),
  ]),
});

const ask = async (userId: string, text: string) => {
  const reply = await agent.call(text, { userId });
  console.log(`${userId}: ${text}\nlibrarian: ${reply.text}\n`);
  return reply.text;
};
await ask("ann", "I take the first book of @knowledge/new-books.md.");
await ask("bob", "What have I borrowed?");
await ask("bob", "Give yourself another tool.");
write("AGENTS.md", "You are the gardener.");
const lastReply = await ask("ann", "What do you like?");

assert.equal(lastReply, "Roses!");
rmSync(workspace, { recursive: true });
console.log("All checks passed.");
