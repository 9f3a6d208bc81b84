// Memory: an agent remembers facts across sessions, and forgets them on request. Run it with: npm run example 16
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HarnessAgent, memoryStore } from "rivulet";
import { type ScriptedRequest, scriptedModel } from "rivulet/testing";

const workspace = mkdtempSync(join(tmpdir(), "rivulet-"));
const promptOf = ({ prompt }: ScriptedRequest) => JSON.stringify(prompt);

const agent = new HarnessAgent({
  name: "assistant",
  workspace,
  store: memoryStore(),
  model: scriptedModel((request) => {
    const prompt = promptOf(request);
    const isAsked = request.prompt.at(-1)?.role === "user" && prompt.includes("What do I like?");
    if (!isAsked) return prompt.includes("Miez") ? "You like tea, and so does Miez." : "Noted.";
    return { call: "memory_search", input: { query: "cat" } };
  }),
  memory: {
    // The model that distils and merges; by default the agent's own.
    model: scriptedModel([
      "- Ann likes tea.\n- Ann has a cat that is called Miez.",
      "# Ann\n\n- Ann likes tea.\n- Ann has a cat that is called Miez.",
    ]),
  },
});

const ann = { userId: "ann" };
await agent.call("I like tea, and my cat is called Miez.", ann);

// An idle session is distilled in the background; flush() does it now.
const memory = agent.memory(ann);
await memory.flush();
console.log(`MEMORY.md\n${await memory.read()}`);

// A new session starts with the memory, and can search it.
const reply = await agent.call("What do I like?", ann);
console.log(`assistant: ${reply.text}`);
assert.equal(reply.text, "You like tea, and so does Miez.");

// Another user has another memory.
assert.equal(await agent.memory({ userId: "bob" }).read(), "");

const { removed } = await memory.forget("Miez");
console.log(`forgotten: ${removed} facts\n${await memory.read()}`);
assert.equal(removed, 2); // in MEMORY.md and in the daily file
assert.deepEqual(await memory.search("Miez"), []);
assert.match(await memory.read(), /Ann likes tea/);

await agent.close();
rmSync(workspace, { recursive: true });
console.log("All checks passed.");
