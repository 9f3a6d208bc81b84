// Workspace: who the agent is, what it knows and what it writes are files. Run it with: npm run example 07
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HarnessAgent } from "rivulet";
import { type ScriptedRequest, scriptedModel } from "rivulet/testing";

// The operator's part: a directory with a persona and some knowledge, for all users.
const workspace = mkdtempSync(join(tmpdir(), "rivulet-"));
const put = (path: string, text: string) => {
  mkdirSync(join(workspace, path, ".."), { recursive: true });
  writeFileSync(join(workspace, path), text);
};
put("AGENTS.md", "You are the librarian. You note every loan in loans.md.");
put("knowledge/KNOWLEDGE.md", "A loan ends after two weeks.");
put("knowledge/new-books.md", "- The Rose Garden\n- Rain in May\n");

/** Everything that the model reads. */
const readBy = ({ prompt }: ScriptedRequest) => JSON.stringify(prompt);

const agent = new HarnessAgent({
  name: "librarian",
  workspace,
  store: "memory", // a database in .rivulet by default
  model: scriptedModel([
    // The persona tells it to note a loan; the mentioned file tells it which book is meant.
    (request) => {
      assert.match(readBy(request), /You are the librarian/);
      assert.match(readBy(request), /The Rose Garden/);
      const content = "- Ann: The Rose Garden\n";
      return { call: "write_file", input: { path: "loans.md", content } };
    },
    "Noted. Bring it back in two weeks.",
    // Bob asks: he has files of his own, and no loans.
    { call: "read_file", input: { path: "loans.md" } },
    (request) => {
      assert.doesNotMatch(readBy(request), /Ann/);
      return "You have no loans.";
    },
    // What steers the agent, the agent cannot write.
    { call: "write_file", input: { path: "tools.json", content: "{}" } },
    (request) => {
      assert.match(readBy(request), /read-only/);
      return "I may not do that.";
    },
    // The persona has changed meanwhile, and holds from the next model call on.
    (request) => (/You are the gardener/.test(readBy(request)) ? "Roses!" : "Books!"),
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
put("AGENTS.md", "You are the gardener.");
const last = await ask("ann", "What do you like?");

assert.equal(last, "Roses!");
rmSync(workspace, { recursive: true });
console.log("The workspace made the difference.");
