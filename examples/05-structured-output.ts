// Structured output: the answer as typed data. Run it with: npm run example 05
import assert from "node:assert/strict";
import { ReActAgent, tool } from "rivulet";
import { scriptedModel } from "rivulet/testing";
import { z } from "zod";

const Invoice = z.object({
  number: z.string(),
  total: z.number().describe("In euro, without the sign."),
  lines: z.array(z.object({ text: z.string(), euro: z.number() })).min(1),
});

const readMail = tool({
  name: "read_mail",
  description: "Reads the newest mail.",
  execute: () => "Invoice 2030-17: bread 4 €, cheese 9 €, together 13 €.",
});

const lines = [
  { text: "bread", euro: 4 },
  { text: "cheese", euro: 9 },
];
const agent = new ReActAgent({
  name: "clerk",
  // A model without a native response format answers through the tool `generate_response`.
  model: scriptedModel([
    { call: "read_mail" },
    { call: "generate_response", input: { number: "2030-17", total: "13 €", lines } },
    { call: "generate_response", input: { number: "2030-17", total: 13, lines } },
  ]),
  tools: [readMail],
});

const reply = await agent.call("What do I owe?", { output: Invoice });
assert(reply.generateReason === "structured_output");
const invoice = reply.structured;
console.log(`Invoice ${invoice.number}: ${invoice.total.toFixed(2)} €`);
for (const { text, euro } of invoice.lines) {
  console.log(`  ${text.padEnd(8)} ${euro.toFixed(2)} €`);
}

// The first answer had a string as its total: the model read the error and tried again.
assert.deepEqual(invoice, { number: "2030-17", total: 13, lines });
assert.equal(reply.generateReason, "structured_output");
assert.deepEqual(JSON.parse(reply.text), invoice);
