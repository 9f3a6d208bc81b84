import { expect, it } from "vitest";
import { HarnessAgent, memoryStore, type SubagentDeclaration, tool } from "../../../src/index.ts";
import { scriptedModel } from "../../../src/testing.ts";

const make = (name: string, by: string) =>
  tool({ name, description: by, execute: () => `${name} of ${by}` });

/** Returns the tools that an agent three levels down is offered, and who added them. */
async function offered(
  middle: SubagentDeclaration["tools"],
  lowest: SubagentDeclaration["tools"],
): Promise<readonly string[]> {
  const seen: string[] = [];
  const spawn = (agent_id: string) => [{ call: "agent_spawn", input: { agent_id, task: "x" } }];
  const inner: SubagentDeclaration = {
    name: "inner",
    description: "Looks.",
    ...(lowest && { tools: lowest }),
    model: scriptedModel(({ tools = [] }) => {
      for (const one of tools) seen.push(`${one.name} ${"description" in one && one.description}`);
      return "Seen.";
    }),
  };
  const outer: SubagentDeclaration = {
    name: "outer",
    description: "Delegates.",
    leaf: false,
    ...(middle && { tools: middle }),
    subagents: [inner],
    model: scriptedModel([spawn("inner"), "Done."]),
  };
  const store = memoryStore();
  const lead = new HarnessAgent({
    name: "lead",
    store,
    filesystem: false,
    tools: [make("read", "lead"), make("write", "lead")],
    subagents: [outer],
    model: scriptedModel([spawn("outer"), "Done."]),
  });
  await lead.call("Go.", { sessionId: "s" });
  return seen.sort();
}

it("replaces an inherited tool by an added tool of the same name, at any depth", async () => {
  const middle = ["write", make("read", "outer")];
  expect(await offered(middle, undefined)).toEqual(["read outer", "write lead"]);
  expect(await offered(middle, ["*", make("read", "inner")])).toEqual(["read inner", "write lead"]);
});

it("offers an added tool even if the parent's list excludes it", async () => {
  expect(await offered(["read"], ["*", make("draw", "inner")])).toEqual([
    "draw inner",
    "read lead",
  ]);
  expect(await offered([], [make("write", "inner")])).toEqual(["write inner"]);
});

it("does not inherit a tool that the parent does not have", async () => {
  expect(await offered(["read"], undefined)).toEqual(["read lead"]);
  expect(await offered(["read"], ["*"])).toEqual(["read lead"]);
  await expect(offered(["read"], ["write"])).rejects.toThrow(
    'The subagent inner has "write" in tools, which matches no tool.',
  );
});
