// Tools: several at once, one that streams, one that fails, arguments that do not fit, values that the model never
// sees, and a whole agent as a tool. Run it with: npm run example 02
import assert from "node:assert/strict";
import { agentTool, ReActAgent, tool } from "rivulet";
import { scriptedModel } from "rivulet/testing";
import { z } from "zod";

/** A tool may be slow, so it gets the run's signal; `idempotent` says that it may be tried again. */
const weather = tool({
  name: "get_weather",
  description: "Current weather in a city.",
  input: z.object({ city: z.string() }),
  idempotent: true,
  execute: async ({ city }, { signal }) => {
    signal.throwIfAborted();
    return { city, sky: "clear", celsius: city === "Oslo" ? 11 : 24 };
  },
});

/** What a tool emits is shown while it works. `context.get` finds what the caller handed in. */
const trains = tool({
  name: "find_trains",
  description: "Trains between two cities.",
  input: z.object({ from: z.string(), to: z.string(), seats: z.number().int().positive() }),
  execute: (trip, context) => {
    const card = context.get<string>("railCard");
    for (const hour of [9, 13]) context.emit(`${hour}:05 ${trip.from} → ${trip.to}. `);
    return `Two trains with ${trip.seats} seats${card ? `, half price with card ${card}` : ""}.`;
  },
});

/** What goes wrong is a result for the model to read; the run goes on. */
const ferries = tool({
  name: "find_ferries",
  description: "Ferries between two cities.",
  execute: () => {
    throw new Error("the harbour does not answer");
  },
});

/** Another agent, which streams inside of this one. */
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
  tools: [weather, trains, ferries, agentTool(packer)],
});

const lines: string[] = [];
const options = { sessionId: "trip", context: { railCard: "R-7" } };
for await (const event of agent.stream("Oslo to Rome for two.", options)) {
  if (event.type !== "tool_result" && event.type !== "agent_result") continue;
  const [block] = event.message.content;
  const what = block?.type === "tool_result" ? `${block.name} ${block.state}` : "says";
  const line = `${event.source?.path ?? "trip"} ${event.last ? what : "…"} ${event.text}`;
  lines.push(line);
  console.log(line);
}

assert.ok(lines.includes('trip get_weather success {"city":"Oslo","sky":"clear","celsius":11}'));
assert.ok(lines.some((line) => /^trip find_ferries error .*the harbour does not ans/.test(line)));
assert.ok(lines.some((line) => /^trip find_trains error .*refused:\n- seats: /.test(line)));
assert.ok(lines.includes("trip … 9:05 Oslo → Rome. "), "what a tool emits arrives in chunks");
assert.ok(lines.includes("trip/packer says A jumper for Oslo and a hat for Rome."));
assert.equal(lines.at(-1), "trip says Take the train at 9:05, with a jumper and a hat.");
// People saw the trains; the model read what the tool returned, and never the card as an argument.
const [, , last] = model.calls;
assert.match(JSON.stringify(last?.prompt), /Two trains with 2 seats, half price with card R-7\./);
assert.doesNotMatch(JSON.stringify(last?.tools), /railCard/);
