import { expect, it } from "vitest";
import { memoryStore, ReActAgent } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";

const locate = {
  name: "locate",
  description: "Where the user is.",
  parameters: { type: "object", properties: { exact: { type: "boolean" } }, required: ["exact"] },
};

/** An agent that calls the tool of its caller. */
function lead(store = memoryStore()) {
  const model = scriptedModel(
    [[{ call: "locate", input: { exact: true } }], "You are in Bern.", "Nothing to call."],
    { by: "prompt" },
  );
  return { model, agent: new ReActAgent({ name: "lead", model, store }) };
}

it("offers a tool of the caller for one task, and continues with its result", async () => {
  const { agent, model } = lead();
  const asked = await agent.call("Where am I?", { sessionId: "s", outsideTools: [locate] });
  expect(asked.approvals).toMatchObject([{ kind: "external", call: { name: "locate" } }]);
  const reply = await agent.call(
    asked.approvals.map((approval) => approval.answer("Bern")),
    { sessionId: "s" },
  );
  expect(reply.text).toBe("You are in Bern.");
  await agent.call("Thanks.", { sessionId: "s" });
  const offered = model.calls.map(({ tools = [] }) => tools.map(({ name }) => name));
  expect(offered).toEqual([["locate"], ["locate"], []]);
});

it("keeps the tool in the record, so that another agent object continues the task", async () => {
  const store = memoryStore();
  const asked = await lead(store).agent.call("Where?", { sessionId: "s", outsideTools: [locate] });
  const { agent, model } = lead(store);
  const answers = asked.approvals.map((approval) => approval.answer("Bern"));
  expect((await agent.call(answers, { sessionId: "s" })).text).toBe("You are in Bern.");
  expect(model.calls[0]?.tools).toMatchObject([{ name: "locate" }]);
});

it("checks the input against the schema of the caller", async () => {
  const model = scriptedModel([[{ call: "locate", input: { exact: "yes" } }], "I was wrong."]);
  const agent = new ReActAgent({ name: "lead", model, store: memoryStore() });
  const reply = await agent.call("Where?", { outsideTools: [locate] });
  expect(reply.text).toBe("I was wrong.");
});

it("refuses a name that the agent has, and a schema that cannot be checked", async () => {
  const store = memoryStore();
  const own = new ReActAgent({ name: "own", model: scriptedModel(["Hi."]), store });
  const twice = { outsideTools: [locate, locate] };
  await expect(own.call("Hi.", twice)).rejects.toMatchObject({ name: "RivuletError" });
  const dangling = { outsideTools: [{ name: "f", parameters: { $ref: "#/no" } }] };
  await expect(own.call("Hi.", dangling)).rejects.toMatchObject({ name: "RivuletError" });
  expect(await store.tasks({})).toEqual([]);
});
