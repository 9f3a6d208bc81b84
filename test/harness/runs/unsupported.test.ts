import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { recordingOf, replayRecording } from "../../../src/harness/index.ts";
import {
  HarnessAgent,
  type HarnessAgentOptions,
  jsonSchema,
  memoryStore,
  tool,
} from "../../../src/index.ts";
import { serve } from "../../../src/server.ts";
import { recordRun, replayRun, type Script, scriptedModel } from "../../../src/testing.ts";

const path = () => join(mkdtempSync(join(tmpdir(), "unsupported-")), "run.recording.json");
const agentOf = (script: Script, options: Partial<HarnessAgentOptions> = {}) =>
  new HarnessAgent({
    ...{ name: "lead", model: scriptedModel(script), store: memoryStore() },
    ...{ filesystem: false as const, ...options },
  });
const place = { sessionId: "s", taskId: "task_root" };
const hand = (input: unknown) => ({ call: "generate_response", input });
const refused = (reason: string) => ({
  code: "replay_unsupported",
  message: `The run cannot be replayed: ${reason}.`,
  hint: expect.stringContaining("The guide to tests from runs"),
});

it("refuses a run with an agent on another server", async () => {
  const token = "0123456789abcdef";
  const cook = agentOf(["Cooked."], { name: "cook" });
  const server = await serve({ agents: [cook], port: 0, token, log: false });
  const call = { call: "agent_spawn", input: { agent_id: "cook", task: "Cook." } };
  const lead = agentOf([call, "Done."], {
    subagents: [
      {
        ...{ name: "cook", description: "Cooks.", url: `${server.url}/agents/cook` },
        headers: { authorization: `Bearer ${token}` },
        allowPrivateNetwork: true,
      },
    ],
  });
  await lead.call("Cook.", place);
  await server.close();
  await expect(recordRun(lead, "task_root", path())).rejects.toMatchObject(
    refused("cook is an agent of another server or program"),
  );
});

it("refuses a session that was compacted, by itself or by a call", async () => {
  const model = scriptedModel(() => "## Goal\n## Facts\n## Files\n- none");
  const compaction = { model, triggerMessages: 2, keepTokens: 1 };
  const long = agentOf(["One.", "Two.", "Three.", "Four.", "Five.", "Six."], { compaction });
  for (const taskId of ["1", "2", "3"])
    await long.call("Go on. ".repeat(2_000), { sessionId: "s", taskId });
  await recordRun(long, "1", path());
  await expect(recordRun(long, "3", path())).rejects.toMatchObject(
    refused("the session of lead was compacted"),
  );
  const asked = agentOf(["One.", "Summary.", "Two."]);
  await asked.call("Go on.", { sessionId: "s" });
  await asked.compact("s");
  await asked.call("Go on.", place);
  await expect(recordRun(asked, "task_root", path())).rejects.toMatchObject(
    refused("its session was compacted by a call"),
  );
});

it("fails offline when a changed agent compacts what was not compacted", async () => {
  const file = path();
  const agent = agentOf(["One.", "Two.", "Three."]);
  for (const taskId of ["1", "2", "3"]) await agent.call("Go on.", { sessionId: "s", taskId });
  await recordRun(agent, "3", file);
  await replayRun(agentOf([]), file);
  const model = scriptedModel([]);
  const compacting = agentOf([], { model, compaction: { triggerMessages: 2, keepTokens: 1 } });
  await expect(replayRun(compacting, file)).rejects.toMatchObject(
    refused("its session is compacted now, which no recording has"),
  );
  expect(model.calls).toEqual([]);
});

it("refuses a session with observed messages", async () => {
  const agent = agentOf(["Yes."]);
  await agent.observe("Ann was here.", { sessionId: "s" });
  await agent.call("Was she?", place);
  await expect(recordRun(agent, "task_root", path())).rejects.toMatchObject(
    refused("its session was given messages without a run"),
  );
});

it("refuses a run whose caller runs tools", async () => {
  const locate = { name: "locate", description: "Tells where the caller is." };
  const agent = agentOf([{ call: "locate" }, "There."]);
  await agent.call("Where?", { ...place, outsideTools: [locate] });
  await expect(recordRun(agent, "task_root", path())).rejects.toMatchObject(
    refused("its caller runs tools of lead"),
  );
});

it.each([{ models: "live" }, { tools: "live" }] as const)(
  "refuses to replay a cancelled run with %o",
  async (options) => {
    const file = path();
    let cancel = () => {};
    const hold = tool({
      name: "hold",
      description: "Holds.",
      execute: (_, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason));
          cancel();
        }),
    });
    const agent = agentOf([{ call: "hold" }], { tools: [hold] });
    const run = agent.run("Think.", place);
    cancel = () => void run.cancel("Enough.");
    await run.result();
    await recordRun(agent, "task_root", file);
    const { run: replayed } = await replayRun(agent, file);
    expect(replayed.agents[0]?.status).toBe("cancelled");
    await expect(replayRun(agent, file, options)).rejects.toMatchObject(
      refused("it was cancelled, and live models and tools take another time"),
    );
  },
);

it("replays images that a model has made", async () => {
  const kept = memoryStore();
  const file = { mediaType: "image/png", data: { type: "data", data: "aGVsbG8=" } } as const;
  const script: Script = [["Look:", { file }]];
  const agent = agentOf(script, { store: kept });
  await agent.call("Draw.", place);
  const recording = await recordingOf(kept, "task_root");
  const { store } = await replayRecording([agent], recording);
  expect((await store.session("s")).at(-1)?.content).toEqual(
    (await kept.session("s")).at(-1)?.content,
  );
  expect(JSON.stringify(await store.session("s"))).toContain("aGVsbG8=");
});

it("replays answers with a schema, and the limits of a call", async () => {
  const file = path();
  const output = jsonSchema<{ n: number }>({
    type: "object",
    properties: { n: { type: "number" } },
    required: ["n"],
  });
  const agent = agentOf([hand({ n: "two" }), hand({ n: 2 })]);
  const reply = await agent.call("How many?", { ...place, output, budget: { tokens: 100_000 } });
  expect(reply.structured).toEqual({ n: 2 });
  await recordRun(agent, "task_root", file);
  const { run } = await replayRun(agentOf([]), file);
  expect(run.agents[0]?.structured).toEqual({ n: 2 });
});
