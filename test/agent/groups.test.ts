import { expect, it } from "vitest";
import {
  type Hook,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  Toolkit,
  tool,
} from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";

/** An agent whose model chooses a group of tools and then wants to use it; what it was offered, and what has run. */
function world(options: Partial<ReActAgentOptions> = {}) {
  const ran: string[] = [];
  const remove = tool({
    name: "remove",
    description: "Removes.",
    execute: () => void ran.push("remove"),
  });
  const toolkit = new Toolkit({ groups: { danger: { description: "Danger.", tools: [remove] } } });
  const choose = { call: "reset_equipped_tools", input: { groups: ["danger"] } };
  const model = scriptedModel([[choose], [{ call: "remove" }], "done"], { by: "prompt" });
  const agent = new ReActAgent({ name: "lead", model, toolkit, store: memoryStore(), ...options });
  const offered = () => model.calls.map(({ tools }) => tools?.map(({ name }) => name));
  return { agent, ran, offered };
}
const session = { sessionId: "s" };
const without = ["reset_equipped_tools"];

it("activates a group that the model selects", async () => {
  const { agent, ran, offered } = world();
  await agent.call("Go.", session);
  expect(offered().slice(0, 2)).toEqual([without, [...without, "remove"]]);
  expect(ran).toEqual(["remove"]);
});

const refusals: Record<string, Hook> = {
  "edited the choice": {
    name: "no",
    preActing: (_, call) =>
      call.name === "reset_equipped_tools" ? { ...call, input: { groups: [] } } : undefined,
  },
  "gave a result in its place": {
    name: "no",
    preActing: (_, { name }) =>
      name === "reset_equipped_tools" ? { result: "Not for you." } : undefined,
  },
  "went on with a result of its own": {
    name: "no",
    postReasoning(_, { content: [block] }) {
      if (block?.type !== "tool_use" || block.name !== "reset_equipped_tools") return undefined;
      const { id, name } = block;
      const output = [{ type: "text", text: "Not for you." }] as const;
      const result = { type: "tool_result", id, name, state: "success", output } as const;
      return { gotoReasoning: [{ id: "m", role: "tool", content: [result] }] };
    },
  },
};

it.each(Object.entries(refusals))(
  "does not activate a group when a hook has %s",
  async (_, hook) => {
    const { agent, ran, offered } = world({ hooks: [hook] });
    await agent.call("Go.", session);
    expect(offered()).toEqual([without, without, without]);
    expect(ran).toEqual([]);
  },
);

it("activates a group when a person approves the call, not when they answer or edit it", async () => {
  const permissions = { ask: ["reset_equipped_tools"] };
  for (const [answer, isActive] of [
    ["answer", false],
    ["edit", false],
    ["approve", true],
  ] as const) {
    const { agent, ran } = world({ permissions });
    const [approval] = (await agent.call("Go.", session)).approvals;
    const said = {
      answer: () => approval?.answer("You may not have that."),
      edit: () => approval?.edit({ groups: [] }),
      approve: () => approval?.approve(),
    };
    await agent.call(said[answer](), session);
    expect(ran).toEqual(isActive ? ["remove"] : []);
  }
});
