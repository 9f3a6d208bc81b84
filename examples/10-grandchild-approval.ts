// Approval in the tree: an agent two levels down wants to do something that a person has to allow. The question comes
// up at the root, those above wait, and the answer goes back down. Run it with: npm run example 10
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
  input: z.object({ what: z.string(), euro: z.number() }),
  needsApproval: ({ euro }) => euro > 50,
  execute({ what }) {
    orders.push(what);
    return `Ordered ${what}.`;
  },
});

/** Settings only: what has been said is in the store, so an agent that is made again can go on with it. */
function shopOn(path: string) {
  const store = sqliteStore(path);
  const agent = new HarnessAgent({
    name: "host",
    store,
    filesystem: false,
    // What the models say depends on the conversation alone, so it does not matter which agent object asks them.
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
        leaf: false, // it may have subagents itself
        subagents: [
          {
            name: "buyer",
            description: "Buys what is needed.",
            tools: [order],
            model: scriptedModel(
              [
                [
                  { call: "order", input: { what: "bread", euro: 12 } },
                  { call: "order", input: { what: "caviar", euro: 400 } },
                ],
                "There is bread, and something from the sea.",
              ],
              { by: "prompt" },
            ),
          },
        ],
        model: scriptedModel(
          [
            { call: "agent_spawn", input: { agent_id: "buyer", task: "Bread, and caviar." } },
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
const path = join(directory, "rivulet.db");
const first = shopOn(path);
for await (const event of first.agent.stream("Prepare the party.", { sessionId })) {
  const who = event.source?.path ?? sessionId;
  if (event.type === "approval") console.log(`${who} asks: ${event.approval.message}`);
  if (event.type === "agent_result") console.log(`${who} is ${event.status}`);
}
assert.deepEqual(orders, ["bread"], "what needs nobody's word was done meanwhile");
await first.store.close();

// Nothing is held while they wait: another agent object on another store handle goes on, as another process would.
const { agent, store } = shopOn(path);
const [asked] = await agent.approvals({ sessionId });
assert.ok(asked);
assert.equal(asked.path, "party/cook/buyer");
const answer = asked.edit({ what: "herring", euro: 9 });
console.log(`You say: ${answer.decision}`);
const reply = await agent.call(answer, { sessionId });

assert.deepEqual(orders, ["bread", "herring"], "the tool ran once, with the other input");
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
