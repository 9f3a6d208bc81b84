// Getting started: an agent with a model and a tool, called once. Run it with: npm run example 01
//
// The scripted model needs no network and no API key. To use a real model, set `model: "openai:gpt-5-mini"` or pass
// any AI SDK language model.
import assert from "node:assert/strict";
import { ReActAgent, tool } from "rivulet";
import { scriptedModel } from "rivulet/testing";
import { z } from "zod";

const bookTable = tool({
  name: "book_table",
  description: "Books a table for tonight.",
  input: z.object({ people: z.number() }),
  execute: ({ people }) => `A table for ${people}, at eight.`,
});
const model = scriptedModel([
  { call: "book_table", input: { people: 2 } },
  "Your table for 2 is booked, at eight.",
]);
const agent = new ReActAgent({ name: "assistant", model, tools: [bookTable] });

const reply = await agent.call("Book a table for two.");
console.log(reply.text);

assert.equal(reply.text, "Your table for 2 is booked, at eight.");
assert.equal(reply.generateReason, "model_stop");
assert.match(JSON.stringify(model.calls[1]?.prompt), /A table for 2, at eight\./); // the tool's result
