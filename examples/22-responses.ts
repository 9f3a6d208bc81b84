// The `openai` package as a client of a Rivulet server: streaming, a tool of the client, and a conversation.
// Run it with: npm run example 22
import assert from "node:assert/strict";
import OpenAI from "openai";
import { ReActAgent } from "rivulet";
import { serve } from "rivulet/server";
import { scriptedModel } from "rivulet/testing";

const guide = new ReActAgent({
  name: "guide",
  model: scriptedModel([
    [{ call: "locate", input: {} }],
    [{ text: ["You are in ", "Bern."] }],
    [{ text: ["It rains ", "there."] }],
  ]),
});
const server = await serve({ agents: [guide], adapters: ["responses"], port: 0, log: false });
const client = new OpenAI({ baseURL: `${server.url}/openai/v1`, apiKey: server.token });

const locate = {
  type: "function" as const,
  name: "locate",
  description: "Tells where the user is.",
  parameters: { type: "object", properties: {} },
  strict: false,
};
const model = "guide"; // the name of the agent
const asked = await client.responses.create({ model, input: "Where am I?", tools: [locate] });
const [call] = asked.output;
assert.ok(call?.type === "function_call");

const answered = await client.responses.create({
  model,
  previous_response_id: asked.id,
  input: [{ type: "function_call_output", call_id: call.call_id, output: "Bern" }],
});
console.log(answered.output_text);

const stream = client.responses.stream({
  model,
  previous_response_id: answered.id,
  input: "How is the weather?",
});
for await (const event of stream)
  if (event.type === "response.output_text.delta") process.stdout.write(event.delta);
const final = await stream.finalResponse();
assert.equal(final.output_text, "It rains there.");
console.log();
await server.close();
