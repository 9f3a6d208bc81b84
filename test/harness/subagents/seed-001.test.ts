// The order of events in `stream()` when a parent waits for a child.
import { describe, expect, it } from "vitest";
import {
  type AgentEvent,
  HarnessAgent,
  type HarnessAgentOptions,
  memoryStore,
  type SubagentDeclaration,
  tool,
} from "../../../src/index.ts";
import { type ScriptedTurn, scriptedModel } from "../../../src/testing.ts";
import { collect } from "../../agent/support/collect.ts";

const look = tool({
  name: "look",
  description: "Looks.",
  execute(_, { emit }) {
    emit("something ");
    emit("was found");
    return "something was found";
  },
});

const spawn = (agent_id: string, more: object = {}): ScriptedTurn => [
  { text: ["I ask ", agent_id, "."] },
  { call: "agent_spawn", input: { agent_id, task: "Find it.", label: agent_id, ...more } },
];
const finding: readonly ScriptedTurn[] = [
  [{ thinking: ["Where ", "is it?"] }, { call: "look" }],
  { text: ["It was ", "found."] },
];

/** A subagent that calls a tool and answers. */
function researcher(script = finding): SubagentDeclaration {
  return {
    name: "researcher",
    displayName: "ResearcherAgent",
    description: "Finds things.",
    tools: [look],
    model: scriptedModel(script),
  };
}

function parent(
  turns: readonly ScriptedTurn[],
  subagents: readonly SubagentDeclaration[],
  more: Partial<HarnessAgentOptions> = {},
): HarnessAgent {
  const model = scriptedModel(turns);
  const store = memoryStore();
  return new HarnessAgent({ name: "parent", model, store, filesystem: false, subagents, ...more });
}

const seedTypes = ["reasoning", "tool_result", "hint", "summary", "agent_result"];

/** Returns the type and agent of the seed's events; equal neighbours are merged, so chunks count once. */
function timeline(events: readonly AgentEvent[]): readonly string[] {
  const entries: string[] = [];
  for (const { type, source } of events) {
    if (!seedTypes.includes(type)) continue;
    const entry = `${type.toUpperCase()}(${source?.agentId ?? "parent"})`;
    if (entries.at(-1) !== entry) entries.push(entry);
  }
  return entries;
}

const ofChild = [
  "REASONING(researcher)", // chunk×M
  "TOOL_RESULT(researcher)",
  "REASONING(researcher)", // last
  "AGENT_RESULT(researcher)",
];
const expected = [
  "REASONING(parent)", // chunk×N
  ...ofChild,
  "TOOL_RESULT(parent)",
  "REASONING(parent)", // chunk×K
  "AGENT_RESULT(parent)",
];
const stream = { sessionId: "sess-main-001" };

describe("the timeline of a parent and a child", () => {
  it("matches the seed for agent_spawn", async () => {
    const agent = parent([spawn("researcher"), { text: ["So it ", "is."] }], [researcher()]);
    const events = await collect(agent.stream("Find it.", stream));
    expect(timeline(events)).toEqual(expected);
    const chunks = events.filter(({ last, type }) => !last && type === "reasoning");
    expect(chunks.map(({ text, source }) => `${source?.agentId ?? "parent"}: ${text}`)).toEqual([
      ...["I ask ", "researcher", "."].map((text) => `parent: ${text}`),
      ...["", "", "It was ", "found."].map((text) => `researcher: ${text}`),
      ...["So it ", "is."].map((text) => `parent: ${text}`),
    ]);
    // An agent's events end with its result, and each message with its last event.
    const ends = events.filter(({ type }) => type === "agent_result");
    expect(ends.map(({ text, last }) => [text, last])).toEqual([
      ["It was found.", true],
      ["So it is.", true],
    ]);
  });

  it("is the same for agent_send", async () => {
    const send = { call: "agent_send", input: { label: "researcher", message: "Again." } };
    const script = [spawn("researcher"), [{ text: "Again." }, send], "So it is."];
    const agent = parent(script, [researcher([...finding, ...finding])]);
    const events = await collect(agent.stream("Find it.", stream));
    expect(timeline(events)).toEqual([
      ...expected.slice(0, -1),
      ...ofChild,
      "TOOL_RESULT(parent)",
      "REASONING(parent)",
      "AGENT_RESULT(parent)",
    ]);
    const keys = new Set(events.flatMap(({ source }) => source?.agentKey ?? []));
    const tasks = new Set(events.flatMap(({ source }) => source?.taskId ?? []));
    expect([keys.size, tasks.size]).toEqual([1, 2]);
  });

  it("continues after the parent's end while a background child works", async () => {
    const done = Promise.withResolvers<void>();
    const slow = scriptedModel([
      async () => {
        await done.promise;
        return finding[0] as ScriptedTurn;
      },
      finding[1] as ScriptedTurn,
    ]);
    const script = [spawn("researcher", { timeout_seconds: 0 }), "It is on its way."];
    const agent = parent(script, [{ ...researcher(), model: slow } as SubagentDeclaration]);
    const events: AgentEvent[] = [];
    for await (const event of agent.stream("Find it.", { ...stream, until: "tree" })) {
      events.push(event);
      if (event.type === "agent_result") done.resolve();
    }
    expect(timeline(events)).toEqual([
      "REASONING(parent)",
      "TOOL_RESULT(parent)",
      "REASONING(parent)",
      "AGENT_RESULT(parent)",
      ...ofChild,
    ]);
  });

  it("continues when the child fails: its error is the parent's tool result", async () => {
    const broken = scriptedModel(() => [{ error: new Error("no model today") }]);
    const child = { ...researcher(), model: broken } as SubagentDeclaration;
    const agent = parent([spawn("researcher"), "It failed."], [child], {
      modelExecution: { maxAttempts: 1 },
    });
    const events = await collect(agent.stream("Find it.", stream));
    expect(timeline(events)).toEqual([
      "REASONING(parent)",
      "AGENT_RESULT(researcher)",
      "TOOL_RESULT(parent)",
      "REASONING(parent)",
      "AGENT_RESULT(parent)",
    ]);
    const result = events.find(({ type }) => type === "tool_result");
    expect(result?.text).toContain("no model today");
  });
});

describe("a source", () => {
  it("is absent on the parent's events and complete on the child's", async () => {
    const agent = parent([spawn("researcher"), "So it is."], [researcher()]);
    const events = await collect(agent.stream("Find it.", stream));
    const [source, ...others] = new Set(events.flatMap((event) => event.source ?? []));
    expect(others).toEqual([]);
    expect(source).toEqual({
      agentKey: expect.stringMatching(/^agent:researcher:[0-9a-f-]{36}$/),
      agentId: "researcher",
      agentName: "ResearcherAgent",
      sessionId: expect.stringMatching(/^sub-[0-9a-f-]{36}$/),
      parentSessionId: "sess-main-001",
      depth: 1,
      path: "sess-main-001/researcher",
      taskId: expect.stringMatching(/^call_/),
    });
  });

  it("has another level for a grandchild, whose events are inside its parent's", async () => {
    const planner: SubagentDeclaration = {
      name: "planner",
      description: "Plans.",
      leaf: false,
      subagents: [researcher()],
      model: scriptedModel([spawn("researcher"), "It is planned."]),
    };
    const agent = parent([spawn("planner"), "So it is."], [planner]);
    const events = await collect(agent.stream("Find it.", stream));
    expect(timeline(events)).toEqual([
      "REASONING(parent)",
      "REASONING(planner)",
      ...ofChild,
      "TOOL_RESULT(planner)",
      "REASONING(planner)",
      "AGENT_RESULT(planner)",
      "TOOL_RESULT(parent)",
      "REASONING(parent)",
      "AGENT_RESULT(parent)",
    ]);
    const places = new Set(events.map(({ source }) => `${source?.depth ?? 0} ${source?.path}`));
    expect([...places]).toEqual([
      "0 undefined",
      "1 sess-main-001/planner",
      "2 sess-main-001/planner/researcher",
    ]);
  });

  it("does not change the reply of call()", async () => {
    const make = () => parent([spawn("researcher"), "So it is."], [researcher()]);
    const reply = await make().call("Find it.", stream);
    const events = await collect(make().stream("Find it.", stream));
    expect(events.at(-1)).toMatchObject({ type: "agent_result", text: reply.text });
    expect(reply.text).toBe("So it is.");
  });
});
