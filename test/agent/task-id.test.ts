import { expect, it } from "vitest";
import { memoryStore, ReActAgent } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import { collect } from "./support/collect.ts";

function world() {
  const store = memoryStore();
  const model = scriptedModel(({ callIndex }) => `Answer ${callIndex}.`);
  const make = (name: string) => new ReActAgent({ name, model, store });
  return { store, model, agent: make("lead"), other: make("other") };
}

it("calls with one task id start one task and have one reply, at once and later", async () => {
  const { agent, store, model } = world();
  const call = () => agent.call("Go.", { taskId: "task_mine" });
  const replies = await Promise.all([call(), call(), call()]);
  const later = await agent.call("Something else.", {
    taskId: "task_mine",
    sessionId: "elsewhere",
  });
  expect([...replies, later].map(({ text }) => text)).toEqual(Array(4).fill("Answer 0."));
  expect(await store.tasks({})).toMatchObject([{ taskId: "task_mine", status: "completed" }]);
  expect(model.calls).toHaveLength(1);
  const events = await collect(agent.run("Go.", { taskId: "task_mine" }));
  expect(events.at(-1)).toMatchObject({ type: "task.completed", task_id: "task_mine" });
});

it("a task id of another user or another agent is refused, and nothing is stored", async () => {
  const { agent, other, store } = world();
  await agent.call("Go.", { taskId: "task_mine", userId: "ann" });
  const call = (caller: ReActAgent, userId: string) =>
    caller.call("Go.", { taskId: "task_mine", userId });
  await expect(call(agent, "bob")).rejects.toMatchObject({ code: "not_found" });
  await expect(call(other, "ann")).rejects.toMatchObject({ code: "other_agent" });
  await expect(agent.call("Go.", { taskId: "a/b" })).rejects.toMatchObject({
    code: "invalid_settings",
  });
  expect(await store.tasks({})).toHaveLength(1);
});

it("metadata is part of the first event and of the tree; too much of it is refused", async () => {
  const { agent } = world();
  const events = await collect(agent.run("Go.", { metadata: { ticket: 7 } }));
  expect(events[0]).toMatchObject({ type: "task.created", task: { metadata: { ticket: 7 } } });
  const large = { text: "x".repeat(20_000) };
  await expect(agent.call("Go.", { metadata: large })).rejects.toMatchObject({
    code: "invalid_settings",
  });
});
