// Remote subagents: the host runs in this process, its cook on a second server and the cook's buyer on a third one. The
// buyer needs approval, which appears at the host. Run it with: npm run example 19
import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { HarnessAgent, memoryStore, type SubagentDeclaration, tool } from "rivulet";
import { serve } from "rivulet/server";
import { scriptedModel } from "rivulet/testing";
import { z } from "zod";

const token = "example-0123456789abcdef";
const common = { store: memoryStore(), filesystem: false } as const;

const order = tool({
  name: "order",
  description: "Orders goods from a supplier.",
  input: z.object({ item: z.string(), euro: z.number() }),
  needsApproval: ({ euro }) => euro > 50,
  execute: ({ item }) => `Ordered ${item}.`,
});

/** An agent on another server; its address ends in its name there. */
function remote(name: string, description: string, url: string): SubagentDeclaration {
  return {
    name,
    description,
    url: `${url}/agents/${name}`,
    headers: { authorization: `Bearer ${token}` },
    allowPrivateNetwork: true, // all three run on this machine
  };
}

function createBuyer() {
  const turns = [{ call: "order", input: { item: "caviar", euro: 400 } }, "The fish is ordered."];
  return new HarnessAgent({
    ...common,
    name: "buyer",
    model: scriptedModel(turns),
    tools: [order],
  });
}

function createCook(buyerUrl: string) {
  const task = "Buy caviar.";
  const turns = [{ call: "agent_spawn", input: { agent_id: "buyer", task } }, "The meal is ready."];
  const subagents = [remote("buyer", "Buys ingredients.", buyerUrl)];
  return new HarnessAgent({ ...common, name: "cook", model: scriptedModel(turns), subagents });
}

/** Starts this file again in another process, which serves one agent and sends its address. */
async function startServer(role: string, next = "") {
  const child = fork(new URL(import.meta.url), [role, next]);
  const [url] = (await once(child, "message")) as [string];
  return { child, url };
}

if (process.send) {
  const [role, next = ""] = process.argv.slice(-2);
  const agent = role === "cook" ? createCook(next) : createBuyer();
  const { url } = await serve({ agents: [agent], port: 0, token, log: false });
  process.send(url);
} else {
  const buyer = await startServer("buyer");
  const cook = await startServer("cook", buyer.url);
  await runHost(cook.url).finally(() => stop(buyer.child, cook.child));
}

function stop(...children: readonly ChildProcess[]): void {
  for (const child of children) child.kill();
}

async function runHost(cookUrl: string): Promise<void> {
  const task = "Prepare the party.";
  const turns = [{ call: "agent_spawn", input: { agent_id: "cook", task } }, "Dinner is served."];
  const host = new HarnessAgent({
    ...common,
    name: "host",
    model: scriptedModel(turns),
    subagents: [remote("cook", "Prepares meals.", cookUrl)],
  });
  const sessionId = "party";
  for await (const event of host.stream("Prepare the party.", { sessionId })) {
    const path = event.source?.path ?? sessionId;
    if (event.type === "approval") console.log(`${path} asks: ${event.approval.call.name}`);
    if (event.type === "agent_result") console.log(`${path} is ${event.status}`);
  }
  const approvals = await host.approvals({ sessionId });
  assert.deepEqual(
    approvals.map(({ path, call }) => [path, call.input]),
    [["party/cook/buyer", { item: "caviar", euro: 400 }]],
  );
  const answers = approvals.map((approval) => approval.edit({ item: "herring", euro: 9 }));
  const reply = await host.call(answers, { sessionId });
  const tasks = await common.store.tasks({ rootTaskId: reply.task.rootTaskId });
  assert.deepEqual(
    tasks.map(({ path, status }) => `${path} ${status}`),
    ["party completed", "party/cook completed", "party/cook/buyer completed"],
  );
  console.log(reply.text);
}
