// Background: an agent starts work that takes long, and answers at once. It reads the result in its next call, or is
// woken by it; and the work goes on when its process is restarted. Run it with: npm run example 09
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HarnessAgent, type HarnessAgentOptions, sqliteStore, taskRunner, tool } from "rivulet";
import { scriptedModel } from "rivulet/testing";
import { z } from "zod";

const directory = process.env.EXAMPLE_DIRECTORY ?? mkdtempSync(join(tmpdir(), "rivulet-"));
const isFirst = process.env.EXAMPLE_DIRECTORY !== undefined;
const counted = join(directory, "counted.txt");
const store = sqliteStore(join(directory, "rivulet.db"));
const isAtWork = Promise.withResolvers<void>();

const count = tool({
  name: "count",
  description: "Counts the books on a shelf.",
  input: z.object({ shelf: z.enum(["north", "south"]) }),
  idempotent: true, // when it was stopped in the middle, it may be done again
  async execute({ shelf }, { signal }) {
    if (isFirst && shelf === "south") {
      isAtWork.resolve();
      await new Promise((_, reject) => signal.addEventListener("abort", reject)); // a long shelf
    }
    appendFileSync(counted, `${shelf}\n`);
    return shelf === "north" ? 3 : 4;
  },
});

/** A librarian who has somebody count. What the models say depends on the conversation alone. */
function librarian(more: Partial<HarnessAgentOptions> = {}): HarnessAgent {
  return new HarnessAgent({
    name: "librarian",
    store,
    filesystem: false,
    subagents: [
      {
        name: "counter",
        description: "Counts all books. It takes its time.",
        tools: [count],
        model: scriptedModel(
          [
            { call: "count", input: { shelf: "north" } },
            { call: "count", input: { shelf: "south" } },
            "There are 7 books.",
          ],
          { by: "prompt" },
        ),
      },
    ],
    model: scriptedModel(
      [
        // With 0 it does not wait: it gets the id of a task, and goes on.
        { call: "agent_spawn", input: { agent_id: "counter", task: "Go.", timeout_seconds: 0 } },
        "They are being counted.",
        ({ prompt }) => {
          const isTold = JSON.stringify(prompt).includes("There are 7 books.");
          return isTold ? "You have 7 books." : "I cannot say yet.";
        },
      ],
      { by: "prompt" },
    ),
    ...more,
  });
}
const question = "How many books do I have?";

if (isFirst) {
  // The process that is stopped in the middle: on SIGTERM, say. It writes down where it is, and lets go of its work.
  const agent = librarian();
  await agent.call(question, { sessionId: "tuesday" });
  await isAtWork.promise;
  await taskRunner({ agents: [agent] }).shutDown();
  await store.close();
} else {
  const agent = librarian();
  const run = agent.run(question, { sessionId: "monday" });
  console.log(`monday: ${(await run.result()).text}`);
  await run.settled(); // the whole tree, not only the answer
  const next = await agent.call("And?", { sessionId: "monday" });
  console.log(`monday: ${next.text}`);
  assert.equal(next.text, "You have 7 books.");

  const { status } = spawnSync(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
    env: { ...process.env, EXAMPLE_DIRECTORY: directory },
    stdio: "inherit",
  });
  assert.equal(status, 0);
  const linesOf = () => readFileSync(counted, "utf8").trim().split("\n");
  assert.deepEqual(linesOf(), ["north", "south", "north"], "one shelf is left");
  console.log("tuesday: the process was stopped, with one shelf to go");

  // This process takes the work up. Had the other one been killed, its lease would have to end first: ten seconds.
  const woken = Promise.withResolvers<string>();
  const eager = librarian({
    wakeOnCompletion: true,
    hooks: [{ name: "mail", postCall: (_, reply) => woken.resolve(reply.text) }],
  });
  const runner = taskRunner({ agents: [eager] });
  runner.start();
  const said = await woken.promise; // nobody has called it
  await runner.shutDown();
  assert.equal(said, "You have 7 books.");
  assert.deepEqual(linesOf(), ["north", "south", "north", "south"], "no shelf was counted twice");
  console.log(`tuesday: ${said}`);
  await store.close();
  rmSync(directory, { recursive: true });
}
