// Background tasks: an agent starts slow work and answers at once. The result is delivered to its next call, or wakes
// the session; the work survives a restart. Run it with: npm run example 09
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HarnessAgent, type HarnessAgentOptions, sqliteStore, taskRunner, tool } from "rivulet";
import { scriptedModel } from "rivulet/testing";
import { z } from "zod";

// The example starts itself a second time: the child process shuts down in the middle, this process resumes its work.
const isChildProcess = process.env.EXAMPLE_DIRECTORY !== undefined;
const directory = process.env.EXAMPLE_DIRECTORY ?? mkdtempSync(join(tmpdir(), "rivulet-"));
const countsFile = join(directory, "counts.txt");
const store = sqliteStore(join(directory, "rivulet.db"));
const southStarted = Promise.withResolvers<void>();

const countShelf = tool({
  name: "count_shelf",
  description: "Counts the books on a shelf.",
  input: z.object({ shelf: z.enum(["north", "south"]) }),
  idempotent: true, // may run again if it was interrupted
  async execute({ shelf }, { signal }) {
    if (isChildProcess && shelf === "south") {
      southStarted.resolve();
      await new Promise((_, reject) => signal.addEventListener("abort", reject)); // slow work
    }
    appendFileSync(countsFile, `${shelf}\n`);
    return shelf === "north" ? 3 : 4;
  },
});

/** `by: "prompt"` selects the turn by the conversation, so both processes continue the same script. */
function createLibrarian(options: Partial<HarnessAgentOptions> = {}): HarnessAgent {
  return new HarnessAgent({
    name: "librarian",
    store,
    filesystem: false,
    subagents: [
      {
        name: "counter",
        description: "Counts all books. It is slow.",
        tools: [countShelf],
        model: scriptedModel(
          [
            { call: "count_shelf", input: { shelf: "north" } },
            { call: "count_shelf", input: { shelf: "south" } },
            "There are 7 books.",
          ],
          { by: "prompt" },
        ),
      },
    ],
    model: scriptedModel(
      [
        // With timeout 0 the call returns a task id at once.
        { call: "agent_spawn", input: { agent_id: "counter", task: "Go.", timeout_seconds: 0 } },
        "They are being counted.",
        ({ prompt }) => {
          const hasResult = JSON.stringify(prompt).includes("There are 7 books.");
          return hasResult ? "You have 7 books." : "I cannot say yet.";
        },
      ],
      { by: "prompt" },
    ),
    ...options,
  });
}
const question = "How many books do I have?";

if (isChildProcess) {
  // Shuts down in the middle of the work, as on SIGTERM: everything is committed, and the lease is released.
  const agent = createLibrarian();
  await agent.call(question, { sessionId: "tuesday" });
  await southStarted.promise;
  await taskRunner({ agents: [agent] }).shutDown();
  await store.close();
} else {
  const agent = createLibrarian();
  const run = agent.run(question, { sessionId: "monday" });
  console.log(`monday: ${(await run.result()).text}`);
  await run.settled(); // waits for the whole tree
  const reply = await agent.call("And?", { sessionId: "monday" });
  console.log(`monday: ${reply.text}`);
  assert.equal(reply.text, "You have 7 books.");

  const { status } = spawnSync(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
    env: { ...process.env, EXAMPLE_DIRECTORY: directory },
    stdio: "inherit",
  });
  assert.equal(status, 0);
  const countedShelves = () => readFileSync(countsFile, "utf8").trim().split("\n");
  assert.deepEqual(countedShelves(), ["north", "south", "north"], "one shelf is left");
  console.log("tuesday: the process stopped with one shelf to go");

  // This process resumes the work at once. After a kill it would first wait for the lease to expire.
  const woken = Promise.withResolvers<string>();
  const wakingAgent = createLibrarian({
    wakeOnCompletion: true,
    hooks: [{ name: "mail", postCall: (_, { text }) => woken.resolve(text) }],
  });
  const runner = taskRunner({ agents: [wakingAgent] });
  runner.start();
  const text = await woken.promise; // the session started without a call
  await runner.shutDown();
  assert.equal(text, "You have 7 books.");
  assert.deepEqual(
    countedShelves(),
    ["north", "south", "north", "south"],
    "each shelf was counted once per session",
  );
  console.log(`tuesday: ${text}`);
  await store.close();
  rmSync(directory, { recursive: true });
}
