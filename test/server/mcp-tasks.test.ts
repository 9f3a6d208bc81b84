import { expect, it, onTestFinished } from "vitest";
import { type Agent, agentTool, memoryStore, ReActAgent, type Store } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import { type Fill, openTasks } from "../support/mcp-tasks-client.ts";
import { scripted, startServer, tokens } from "./support/server.ts";

/** A server of agents, and the official client of the tasks extension for each of its users. */
async function open(...agents: readonly Agent[]) {
  const server = await startServer({ agents, adapters: ["mcp"] });
  async function user(name: "ann" | "bob", fill?: Fill) {
    const client = await openTasks(`${server.url}/mcp`, tokens[name], fill);
    onTestFinished(() => client.close());
    return client;
  }
  return { server, user };
}

/** An agent whose grandchild asks before it removes a file. */
function threeLevels(store: Store = memoryStore({ flushMs: 0 })): Agent {
  const remove = { call: "remove", input: { path: "a.txt" } };
  const worker = scripted([[remove], "Removed."], { name: "worker", store }).agent;
  const go = (call: string) => [{ call, input: { prompt: "Go." } }];
  const above = (name: string, child: Agent, last: string) =>
    new ReActAgent({
      ...{ name, store, model: scriptedModel([go(child.name), last]) },
      tools: [agentTool(child as ReActAgent)],
    });
  return above("lead", above("helper", worker, "Helped."), "All clean.");
}

const approve = () => ({ action: "accept", content: { decision: "approve" } });
const idOf = ({ handle }: { readonly handle?: { readonly taskId: string } }) =>
  handle?.taskId ?? "";

it("runs a tool as a task and polls it to its result", async () => {
  const { user } = await open(scripted(["It is done."]).agent);
  const ann = await user("ann");
  const execution = await ann.session.callTool("lead", { message: "Go." });
  expect(execution.kind).toBe("task");
  const { outcome } = await execution.settle();
  expect(outcome).toMatchObject({
    status: "completed",
    result: { content: [{ type: "text", text: "It is done." }] },
  });
  expect(ann.errors).toEqual([]);
});

it("answers an approval in a grandchild through the task", async () => {
  const { user } = await open(threeLevels());
  const asked: unknown[] = [];
  const ann = await user("ann", (params) => {
    asked.push(params.message);
    return approve();
  });
  const execution = await ann.session.callTool("lead", { message: "Clean up." });
  const states: string[] = [];
  const { outcome } = await execution.settle({
    onEvent: ({ task }) => void (task && states.push(task.status)),
  });
  expect(asked).toEqual([expect.stringMatching(/^helper.*worker.*remove\(\{"path":"a.txt"\}\)/)]);
  expect(states).toContain("input_required");
  expect(outcome).toMatchObject({
    status: "completed",
    result: { content: [{ type: "text", text: "All clean." }] },
  });
  expect(ann.errors).toEqual([]);
});

it("continues a task of another connection, with its question", async () => {
  const { user } = await open(threeLevels());
  const first = await user("ann");
  const execution = await first.session.callTool("lead", { message: "Clean up." });
  const reference = execution.serializeReference();
  await execution.detach();
  const second = await user("ann", approve);
  const { outcome } = await (await second.session.resumeTask(reference)).settle();
  expect(outcome).toMatchObject({ status: "completed" });
});

it("cancels a task", async () => {
  const { user } = await open(scripted([["Wait", { hang: true }]]).agent);
  const ann = await user("ann");
  const execution = await ann.session.callTool("lead", { message: "Go." });
  await execution.cancel();
  const status = async () => (await ann.session.task(idOf(execution)).snapshot()).status;
  await expect.poll(status, { timeout: 20_000 }).toBe("cancelled");
});

it("reports a run that fails as the result of its tool", async () => {
  const { user } = await open(scripted([[{ error: new Error("Out of order.") }]]).agent);
  const ann = await user("ann");
  const { outcome } = await (await ann.session.callTool("lead", { message: "Go." })).settle();
  expect(outcome).toMatchObject({
    status: "completed",
    result: { isError: true, content: [{ text: expect.stringContaining("Out of order.") }] },
  });
});

it("knows no task of another user", async () => {
  const { user } = await open(threeLevels());
  const [ann, bob] = [await user("ann"), await user("bob")];
  const execution = await ann.session.callTool("lead", { message: "Clean up." });
  const read = () => ann.session.task(idOf(execution)).snapshot();
  await expect.poll(async () => (await read()).status).toBe("input_required");
  const { inputRequests = {} } = (await read()).raw;
  const theirs = bob.session.task(idOf(execution));
  const unknown = { code: -32_602, message: expect.stringContaining("There is no task") };
  await expect(theirs.snapshot()).rejects.toMatchObject(unknown);
  await expect(theirs.cancel()).rejects.toMatchObject(unknown);
  const [key = ""] = Object.keys(inputRequests);
  expect(key).not.toBe("");
  await expect(theirs.update({ [key]: approve() })).rejects.toMatchObject(unknown);
  await expect(bob.session.resumeTask(execution.serializeReference())).rejects.toMatchObject(
    unknown,
  );
  expect((await read()).status).toBe("input_required");
});
