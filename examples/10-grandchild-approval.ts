// Approvals from subagents: an agent two levels down needs approval. The approval appears at the root, and the answer
// comes from another agent object on another store handle. Run it with: npm run example 10
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HarnessAgent, sqliteStore, tool } from "rivulet";
import { scriptedModel } from "rivulet/testing";
import { z } from "zod";

const directory = mkdtempSync(join(tmpdir(), "rivulet-"));
const orders: string[] = [];

const order = tool({
  name: "order",
  description: "Orders goods from a supplier.",
  input: z.object({ item: z.string(), euro: z.number() }),
  needsApproval: ({ euro }) => euro > 50,
  execute({ item }) {
    orders.push(item);
    return `Ordered ${item}.`;
  },
});

/** An agent holds only settings. The conversation is in the store, so any agent with these settings can continue it. */
function createHost(path: string) {
  const store = sqliteStore(path);
  const agent = new HarnessAgent({
    name: "host",
    store,
    filesystem: false,
    // `by: "prompt"` selects the turn by the conversation, so both agents continue the same script.
    model: scriptedModel(
      [
        { call: "agent_spawn", input: { agent_id: "cook", task: "Prepare the party." } },
        "Everything is ready for the party.",
      ],
      { by: "prompt" },
    ),
    subagents: [
      {
        name: "cook",
        description: "Prepares meals.",
        subagents: [
          {
            name: "buyer",
            description: "Buys ingredients.",
            tools: [order],
            model: scriptedModel(
              [
                [
                  { call: "order", input: { item: "bread", euro: 12 } },
                  { call: "order", input: { item: "caviar", euro: 400 } },
                ],
                "Bread and fish are ordered.",
              ],
              { by: "prompt" },
            ),
          },
        ],
        model: scriptedModel(
          [
            { call: "agent_spawn", input: { agent_id: "buyer", task: "Bread and caviar." } },
            "The meal is prepared.",
          ],
          { by: "prompt" },
        ),
      },
    ],
  });
  return { agent, store };
}

const sessionId = "party";
const databasePath = join(directory, "rivulet.db");
const first = createHost(databasePath);
for await (const event of first.agent.stream("Prepare the party.", { sessionId })) {
  const path = event.source?.path ?? sessionId;
  if (event.type === "approval") console.log(`${path} asks: ${event.approval.message}`);
  if (event.type === "agent_result") console.log(`${path} is ${event.status}`);
}
assert.deepEqual(orders, ["bread"], "the call that needs no approval has run");
await first.store.close();

// A suspended run holds no resources: another agent on another store handle continues it, as another process would.
const { agent, store } = createHost(databasePath);
const [approval] = await agent.approvals({ sessionId });
assert.ok(approval);
assert.equal(approval.path, "party/cook/buyer");
const answer = approval.edit({ item: "herring", euro: 9 });
console.log(`answer: ${answer.decision}`);
const reply = await agent.call(answer, { sessionId });

assert.deepEqual(orders, ["bread", "herring"], "the tool ran once, with the edited input");
assert.equal(reply.generateReason, "model_stop");
assert.deepEqual(await agent.approvals({ sessionId }), []);
const tasks = await store.tasks({ rootTaskId: reply.task.rootTaskId });
assert.deepEqual(
  tasks.map((task) => `${task.path} ${task.status}`),
  ["party completed", "party/cook completed", "party/cook/buyer completed"],
);
console.log(reply.text);
await store.close();
rmSync(directory, { recursive: true });
