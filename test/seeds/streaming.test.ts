// How a consumer of `stream()` uses the source of events (seed 001).
import { expect, it } from "vitest";
import {
  type AgentEvent,
  HarnessAgent,
  memoryStore,
  type SubagentDeclaration,
} from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import { collect } from "../agent/support/collect.ts";

const spawn = (agent_id: string) => ({ call: "agent_spawn", input: { agent_id, task: "Do it." } });

/** A planner that delegates to an executor, beside a researcher. */
function team(): HarnessAgent {
  const executor: SubagentDeclaration = {
    name: "executor",
    description: "Executes.",
    model: scriptedModel([{ text: ["It is ", "executed."] }]),
  };
  const planner: SubagentDeclaration = {
    name: "planner",
    description: "Plans.",
    leaf: false,
    subagents: [executor],
    model: scriptedModel([[spawn("executor")], "It is planned."]),
  };
  const researcher: SubagentDeclaration = {
    name: "researcher",
    description: "Finds.",
    model: scriptedModel([{ text: ["It is ", "found."] }]),
  };
  return new HarnessAgent({
    name: "lead",
    model: scriptedModel([[spawn("planner")], [spawn("researcher")], "It is done."]),
    store: memoryStore(),
    filesystem: false,
    subagents: [planner, researcher],
  });
}

const events = () => collect(team().stream("Go.", { sessionId: "sess-001" }));
const isChunk = ({ type, last }: AgentEvent) => type === "reasoning" && !last;

it("a consumer selects the reasoning of direct children by depth", async () => {
  const direct = (await events()).filter(
    (event) => event.source?.depth === 1 && event.type === "reasoning" && event.last,
  );
  expect(direct.map(({ source, text }) => `${source?.agentId}: ${text}`)).toEqual([
    "planner: ",
    "planner: It is planned.",
    "researcher: It is found.",
  ]);
});

it("a consumer selects one agent at any depth by its path", async () => {
  const chunks = (await events()).filter(
    (event) => isChunk(event) && event.source?.path.split("/").includes("executor"),
  );
  expect(chunks.map(({ text }) => text).join("")).toBe("It is executed.");
  expect(new Set(chunks.map(({ source }) => source?.path))).toEqual(
    new Set(["sess-001/planner/executor"]),
  );
});

it("a consumer groups the text of each agent", async () => {
  const byAgent = Map.groupBy(
    (await events()).filter(isChunk),
    ({ source }) => source?.agentId ?? "parent",
  );
  const texts = [...byAgent].map(([agent, list]) => [agent, list.map(({ text }) => text).join("")]);
  expect(Object.fromEntries(texts)).toEqual({
    parent: "It is done.",
    planner: "It is planned.",
    executor: "It is executed.",
    researcher: "It is found.",
  });
});

it("a consumer awaits one child's final reply", async () => {
  for await (const event of team().stream("Go.", { types: ["agent_result"] })) {
    if (event.source?.agentId !== "researcher") continue;
    expect([event.text, event.last]).toEqual(["It is found.", true]);
    return;
  }
  expect.unreachable("the researcher has no result");
});

it("an event is plain JSON with type, text, last and source", async () => {
  const list = await events();
  expect(JSON.parse(JSON.stringify(list))).toEqual(list);
  const last = list.at(-1);
  expect([last?.type, last?.text, last?.last, last?.source]).toEqual([
    "agent_result",
    "It is done.",
    true,
    undefined,
  ]);
});
