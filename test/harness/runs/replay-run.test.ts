import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import {
  HarnessAgent,
  type HarnessAgentOptions,
  jsonSchema,
  memoryStore,
  tool,
} from "../../../src/index.ts";
import { recordRun, replayRun, type ScriptedPart, scriptedModel } from "../../../src/testing.ts";

const path = () => join(mkdtempSync(join(tmpdir(), "replay-run-")), "run.recording.json");
const city = jsonSchema<{ city: string }>({
  type: "object",
  properties: { city: { type: "string" } },
});
const spawn = (task: string): ScriptedPart => ({
  call: "agent_spawn",
  input: { agent_id: "guide", task },
});

interface Changes extends Partial<HarnessAgentOptions> {
  readonly guidePrompt?: string;
  readonly weather?: string;
  /** The agents and tools that the lead calls. */
  readonly calls?: readonly ScriptedPart[];
  /** The city that the guide of Rome asks about. */
  readonly asks?: string;
  readonly answer?: string | Error;
  readonly onSend?: () => void;
}

/** A lead with two guides, who look up the weather and send a letter if a person agrees. */
function team(changes: Changes = {}) {
  const { guidePrompt = "You guide.", weather = "Sun", asks = "Rome", onSend, ...rest } = changes;
  const { calls = [spawn("Rome"), spawn("Oslo")], answer = "Go to Rome.", ...options } = rest;
  const model = scriptedModel(({ prompt }) => {
    const turn = prompt.filter(({ role }) => role === "assistant").length;
    const system = JSON.stringify(prompt.find(({ role }) => role === "system"));
    const isGuide = system.includes("guide.");
    const text = JSON.stringify(prompt.filter(({ role }) => role === "user"));
    if (!isGuide) {
      if (turn === 0) return [...calls];
      return answer instanceof Error ? { error: answer } : answer;
    }
    const name = text.includes("Oslo") ? "Oslo" : asks;
    if (turn === 0 && name !== "") return [{ call: "weather", input: { city: name } }];
    if (turn === 1 && name === "Rome") return [{ call: "send", input: { city: name } }];
    return `I know ${name}.`;
  });
  return new HarnessAgent({
    ...{ name: "lead", model, store: memoryStore(), filesystem: false as const },
    tools: [
      tool({
        name: "weather",
        description: "Tells the weather.",
        input: city,
        execute: ({ city: name }) => `${weather} in ${name}`,
      }),
      tool({
        name: "send",
        description: "Sends a letter.",
        input: city,
        needsApproval: true,
        execute({ city: name }) {
          onSend?.();
          return `Sent to ${name}.`;
        },
      }),
    ],
    subagents: [{ name: "guide", description: "Guides.", systemPrompt: guidePrompt }],
    ...options,
  });
}

let recording: string;

/** Runs the team, approves what it asks, and records the run. */
async function record(agent: ReturnType<typeof team>, file: string): Promise<void> {
  let reply = await agent.call("Where to?", { sessionId: "s", taskId: "task_root" });
  while (reply.generateReason === "approval_required")
    reply = await agent.call(
      reply.approvals.map((one) => one.approve()),
      { sessionId: "s" },
    );
  await recordRun(agent, "task_root", file);
}

beforeEach(async () => {
  recording = path();
  await record(team(), recording);
});
afterEach(() => vi.unstubAllEnvs());

const paths = ["lead", "lead/guide", "lead/guide"];

it("replays without the models and the tools", async () => {
  const onSend = vi.fn();
  const { run } = await replayRun(team({ answer: "Stay.", weather: "Rain", onSend }), recording);
  expect(run.agents.map((agent) => agent.path)).toEqual(paths);
  expect(run.text).toBe("Go to Rome.");
  expect(run.agents[1]?.calls[0]?.output).toBe("Sun in Rome");
  expect(run.agents[1]?.asked).toMatchObject([{ name: "send", decision: "approve" }]);
  expect(onSend).not.toHaveBeenCalled();
});

it("names the agent, the step and the difference of a changed prompt", async () => {
  const changed = replayRun(team({ guidePrompt: "You are a guide." }), recording);
  await expect(changed).rejects.toMatchObject({
    code: "replay_differs",
    message: expect.stringMatching(
      /^lead\/guide, step 1, has another prompt: system:\n- ".*You guide.*\n\+ ".*You are a guide/,
    ),
  });
});

it("names the agent and the step of a tool with another description", async () => {
  const weather = tool({
    ...{ name: "weather", description: "Tells the weather of today.", input: city },
    execute: () => "Sun",
  });
  const changed = replayRun(team({ tools: [weather] }), recording);
  await expect(changed).rejects.toMatchObject({
    code: "replay_differs",
    message: expect.stringMatching(/^lead, step 1, has another prompt: tools\.weather/),
  });
});

it("runs live tools and compares what they return", async () => {
  const onSend = vi.fn();
  const { run } = await replayRun(team({ onSend }), recording, { tools: "live" });
  expect(run.text).toBe("Go to Rome.");
  expect(onSend).toHaveBeenCalledOnce();
  const changed = replayRun(team({ weather: "Rain" }), recording, { tools: "live" });
  await expect(changed).rejects.toMatchObject({
    code: "replay_differs",
    message: expect.stringMatching(
      /^lead\/guide, step 2, has another prompt: messages.*\n- "Sun in \w+"\n\+ "Rain in/,
    ),
  });
});

it("asks live models, whose words may differ", async () => {
  const { run } = await replayRun(team({ answer: "Stay at home." }), recording, { models: "live" });
  expect(run.text).toBe("Stay at home.");
  expect(run.agents.map((agent) => agent.path)).toEqual(paths);
  expect(run.agents[1]?.asked).toMatchObject([{ name: "send", decision: "approve" }]);
});

it("runs live models with live tools", async () => {
  const onSend = vi.fn();
  const agent = team({ weather: "Rain", onSend });
  const { run } = await replayRun(agent, recording, { models: "live", tools: "live" });
  expect(run.agents[1]?.calls[0]?.output).toBe("Rain in Rome");
  expect(onSend).toHaveBeenCalledOnce();
});

it.each([
  ["another call", { asks: "Milan" }, /^lead\/guide, step 1, has another call: input.city/],
  ["no call", { asks: "" }, /^lead\/guide, step 1, has other calls: \[0\]/],
  [
    "another order of two children",
    { calls: [spawn("Oslo"), spawn("Rome")] },
    /^lead, step 1, has other calls: \[0\]\.input\.task:\n- "Rome"\n\+ "Oslo"/,
  ],
  [
    "one child more",
    { calls: [spawn("Rome"), spawn("Oslo"), spawn("Bern")] },
    /^lead, step 1, calls agent_spawn with .*Bern.*, which it did not call/,
  ],
  ["another end", { answer: new Error("no key") }, /^lead is failed and not completed: .*no key/],
])("names the agent and the step of a live model with %s", async (_, changes, message) => {
  const run = replayRun(team(changes), recording, { models: "live" });
  await expect(run).rejects.toMatchObject({
    code: "replay_differs",
    message: expect.stringMatching(message),
  });
});

it("records the run again, so that the changed agents pass", async () => {
  const before = readFileSync(recording, "utf8");
  const changed = () =>
    team({ guidePrompt: "You are a guide.", weather: "Rain", calls: [spawn("Rome")] });
  vi.stubEnv("RIVULET_RECORD", "1");
  const { run: fresh } = await replayRun(changed(), recording);
  expect(fresh.agents).toHaveLength(2);
  expect(readFileSync(recording, "utf8")).not.toBe(before);
  vi.stubEnv("RIVULET_RECORD", "");
  const { run } = await replayRun(changed(), recording);
  expect(run.agents[1]?.calls.map(({ output }) => output)).toEqual([
    "Rain in Rome",
    "Sent to Rome.",
  ]);
  await expect(replayRun(team(), recording)).rejects.toMatchObject({ code: "replay_differs" });
});

it("does not record a run that fails or cannot be replayed", async () => {
  const before = readFileSync(recording, "utf8");
  vi.stubEnv("RIVULET_RECORD", "1");
  await expect(replayRun(team({ answer: new Error("no key") }), recording)).rejects.toMatchObject({
    code: "replay_differs",
    message: expect.stringContaining("lead is failed and not completed: "),
  });
  // A person must decide about a call of which the recording knows nothing.
  const asking = team({
    calls: [
      { call: "send", input: {} },
      { call: "send", input: {} },
    ],
  });
  await expect(replayRun(asking, recording)).rejects.toMatchObject({
    message: "lead is suspended and not completed",
  });
  const compacting = team({ compaction: { triggerMessages: 2, keepTokens: 1 } });
  await expect(replayRun(compacting, recording)).rejects.toMatchObject({
    code: "replay_unsupported",
  });
  expect(readFileSync(recording, "utf8")).toBe(before);
});
