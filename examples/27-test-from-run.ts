// A run becomes a test: a travel agency is recorded once, then replayed without its models and tools, and each change of
// its code is named with its agent and step. Run it with: npm run example 27
import assert from "node:assert/strict";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HarnessAgent, memoryStore, tool } from "rivulet";
import { recordRun, replayRun, scriptedModel } from "rivulet/testing";
import { z } from "zod";

let booked = 0;

/** The agency; in a program of yours this is the code that the tests import. */
function createAgency({ guide = "You know the weather.", weather = "sun" } = {}) {
  const trip = { agent_id: "guide", task: "How is Rome?" };
  return new HarnessAgent({
    name: "agency",
    store: memoryStore(),
    filesystem: false,
    model: scriptedModel([
      { call: "agent_spawn", input: trip },
      { call: "book", input: { city: "Rome" } },
      "Rome is booked.",
    ]),
    tools: [
      tool({
        name: "book",
        description: "Books a trip.",
        input: z.object({ city: z.string() }),
        needsApproval: true,
        execute: ({ city }) => `Trip ${++booked} goes to ${city}.`,
      }),
    ],
    subagents: [
      {
        name: "guide",
        description: "Knows cities.",
        systemPrompt: guide,
        model: scriptedModel([{ call: "weather", input: { city: "Rome" } }, "Warm enough."]),
        tools: [
          tool({
            name: "weather",
            description: "Tells the weather.",
            input: z.object({ city: z.string() }),
            execute: ({ city }) => `There is ${weather} in ${city}.`,
          }),
        ],
      },
    ],
  });
}

const recording = join(mkdtempSync(join(tmpdir(), "example-")), "rome.recording.json");
const agency = createAgency();
const asked = await agency.call("Send me to Rome.", { taskId: "task_rome" });
const answers = asked.approvals.map((approval) => approval.approve());
await agency.call(answers, { sessionId: asked.task.sessionId });
await recordRun(agency, "task_rome", recording);
assert.equal(booked, 1);

const { run } = await replayRun(createAgency(), recording);
console.log("agents:", run.agents.map(({ path }) => path).join(", "));
assert.equal(run.text, "Rome is booked.");
assert.equal(run.agents[0]?.asked[0]?.decision, "approve");
assert.equal(booked, 1); // the tool never ran again

/** Prints why a replay fails. */
async function explain(replay: Promise<unknown>, place: string): Promise<void> {
  const reason = await replay.then(
    () => "nothing differs",
    (error: Error) => error.message,
  );
  console.log(`\n${reason}`);
  assert.ok(reason.startsWith(place), reason);
}
await explain(
  replayRun(createAgency({ guide: "You like rain." }), recording),
  "agency/guide, step 1,",
);
const rainy = replayRun(createAgency({ weather: "rain" }), recording, { tools: "live" });
await explain(rainy, "agency/guide, step 2,");
console.log("\nAll checks passed.");
