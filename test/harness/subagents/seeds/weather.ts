import type { Block } from "../../../../src/contract/message.ts";
import {
  HarnessAgent,
  type HarnessAgentOptions,
  memoryStore,
  type SubagentDeclaration,
  tool,
} from "../../../../src/index.ts";
import { type ScriptedTurn, scriptedModel } from "../../../../src/testing.ts";

const report = '{"temperature":"15C","condition":"Sunny"}';
const picture: Block = {
  type: "image",
  source: { data: "iVBORw0KGgoAAAANSUhEUgAA...", mimeType: "image/png" },
};

/** Returns the weather as text and an image that is updated twice before it is final. */
const getWeather = tool({
  name: "get_weather",
  description: "Tells the weather of a place.",
  citable: true,
  execute(_, { emit }) {
    emit(report);
    emit(picture, { partial: true });
    emit(picture, { partial: true });
    return [{ type: "text", text: report }, picture];
  },
});

const thoughts: ScriptedTurn = [
  { thinking: ["Thinking about the weather ", "in Paris."] },
  { thinking: ["Decided to call ", "get_weather function."] },
];
const weatherScript: readonly ScriptedTurn[] = [
  [...thoughts, { call: "get_weather", deltas: ['{"location":"Paris', ', France"}'] }],
  { text: ["The weather in Paris is sunny ", "with a temperature of 15C.[^1]"] },
];

/** The agent of the samples: it calls a tool and cites the result. */
export function weatherAgent(more: Partial<HarnessAgentOptions> = {}): HarnessAgent {
  return new HarnessAgent({
    name: "WeatherAgent",
    model: scriptedModel(weatherScript),
    store: memoryStore(),
    filesystem: false,
    tools: [getWeather],
    ...more,
  });
}

/** An agent that thinks, delegates to the weather agent and passes on its answer. */
export function askingAgent(more: Partial<HarnessAgentOptions> = {}): HarnessAgent {
  const weather: SubagentDeclaration = {
    name: "WeatherAgent",
    description: "Knows the weather.",
    tools: [getWeather],
    model: scriptedModel(weatherScript),
  };
  return new HarnessAgent({
    name: "main",
    model: scriptedModel([
      [
        { thinking: "This is for the weather agent." },
        { call: "agent_spawn", input: { agent_id: weather.name, task: "Weather in Paris?" } },
      ],
      { text: ["It is sunny ", "in Paris.[^1]"] },
    ]),
    store: memoryStore(),
    filesystem: false,
    subagents: [weather],
    ...more,
  });
}
