// Tools: parallel calls, streamed output, errors, invalid arguments, values from the caller, and an agent as a tool.
// Run it with: npm run example 02
import assert from "node:assert/strict";
import { agentTool, ReActAgent, tool } from "rivulet";
import { scriptedModel } from "rivulet/testing";
import { z } from "zod";

/** Receives the run's signal; `idempotent` allows retries. */
const getWeather = tool({
  name: "get_weather",
  description: "Current weather in a city.",
  input: z.object({ city: z.string() }),
  idempotent: true,
  execute: async ({ city }, { signal }) => {
    signal.throwIfAborted();
    return { city, sky: "clear", celsius: city === "Oslo" ? 11 : 24 };
  },
});

/** Streams output with `emit`, and reads a value that the caller passed in `context`. */
const findTrains = tool({
  name: "find_trains",
  description: "Trains between two cities.",
  input: z.object({ from: z.string(), to: z.string(), seats: z.number().int().positive() }),
  execute: async ({ from, to, seats }, context) => {
    const card = await context.get<string>("railCard");
    for (const hour of [9, 13]) context.emit(`${hour}:05 ${from} → ${to}. `);
    return `Two trains with ${seats} seats${card ? `, half price with card ${card}` : ""}.`;
  },
});

/** Throws: the model reads the error as a result, and the run continues. */
const findFerries = tool({
  name: "find_ferries",
  description: "Ferries between two cities.",
  execute: () => {
    throw new Error("the harbour does not answer");
  },
});

/** Another agent; it streams inside this run. */
const packer = new ReActAgent({
  name: "packer",
  description: "Says what to pack.",
  model: scriptedModel([{ text: ["A jumper", " for Oslo", " and a hat for Rome."] }]),
});

const model = scriptedModel([
  [
    { call: "get_weather", input: { city: "Oslo" } },
    { call: "get_weather", input: { city: "Rome" } },
    { call: "find_ferries" },
    { call: "find_trains", input: { from: "Oslo", to: "Rome", seats: "two" } },
  ],
  [
    { call: "find_trains", input: { from: "Oslo", to: "Rome", seats: 2 } },
    { call: "packer", input: { prompt: "Two days in Oslo at 11 °C, two in Rome at 24 °C." } },
  ],
  "Take the train at 9:05, with a jumper and a hat.",
]);
const agent = new ReActAgent({
  name: "travel",
  model,
  tools: [getWeather, findTrains, findFerries, agentTool(packer)],
});

const lines: string[] = [];
const options = { sessionId: "trip", context: { railCard: "R-7" } };
for await (const event of agent.stream("Oslo to Rome for two.", options)) {
  if (event.type !== "tool_result" && event.type !== "agent_result") continue;
  const [block] = event.message.content;
  const label = block?.type === "tool_result" ? `${block.name} ${block.state}` : "says";
  const line = `${event.source?.path ?? "trip"} ${event.last ? label : "…"} ${event.text}`;
  lines.push(line);
  console.log(line);
}

assert.ok(lines.includes('trip get_weather success {"city":"Oslo","sky":"clear","celsius":11}'));
assert.ok(lines.some((line) => /^trip find_ferries error .*the harbour does not ans/.test(line)));
assert.ok(lines.some((line) => /^trip find_trains error .*:\n- seats: /.test(line)));
assert.ok(lines.includes("trip … 9:05 Oslo → Rome. "), "emitted text arrives in chunks");
assert.ok(lines.includes("trip/packer says A jumper for Oslo and a hat for Rome."));
assert.equal(lines.at(-1), "trip says Take the train at 9:05, with a jumper and a hat.");
// People see the emitted trains. The model reads the returned text, and never sees the card as an argument.
const lastRequest = model.calls[2];
assert.match(
  JSON.stringify(lastRequest?.prompt),
  /Two trains with 2 seats, half price with card R-7\./,
);
assert.doesNotMatch(JSON.stringify(lastRequest?.tools), /railCard/);
