// Hooks: code at named points of the loop, which watches, edits or stops what happens there.
// Run it with: npm run example 03
import assert from "node:assert/strict";
import type { Block, Hook } from "rivulet";
import { ReActAgent, tool, userMessage } from "rivulet";
import { scriptedModel } from "rivulet/testing";
import { z } from "zod";

const lines: string[] = [];
const print = (line: string) => {
  lines.push(line);
  console.log(line);
};

/** Watches. What belongs to one run is kept in `state`, never on the hook, which serves all runs at once. */
const journal: Hook = {
  name: "journal",
  priority: 0,
  preCall: ({ agent, state }) => {
    state.set("calls", 0);
    print(`${agent} begins`);
  },
  postActing: ({ state }, call, { state: outcome }) => {
    state.set("calls", Number(state.get("calls")) + 1);
    print(`${call.name}: ${outcome}`);
  },
  postCall: ({ agent, state }, reply) =>
    print(`${agent} says after ${state.get("calls")} tool calls: ${reply.text}`),
};

/** Changes one model call: its system prompt, its messages, its tools, its options. The transcript stays as it is. */
const today: Hook = {
  name: "today",
  preReasoning: (_, call) => ({ ...call, system: `${call.system}\nToday is 1 May 2030.` }),
};

/** Answers in a tool's place, so the tool never runs. */
const dryRun: Hook = {
  name: "dry-run",
  preActing: (_, call) =>
    call.name === "send_mail" ? { result: "Dry run: nothing was sent." } : undefined,
};

/** Edits a result before anybody sees it. */
const discretion: Hook = {
  name: "discretion",
  postActing: (_, _call, result) => ({ ...result, output: result.output.map(masked) }),
};
function masked(block: Block): Block {
  if (block.type !== "text") return block;
  return { ...block, text: block.text.replaceAll(/\+\d+/g, "(a number)") };
}

/** Looks at what the model said, and sends it back, once, to think again. */
const manners: Hook = {
  name: "manners",
  postReasoning: ({ state }, message) => {
    const isAnswer = message.content.every((block) => block.type === "text");
    if (!isAnswer || state.has("manners")) return;
    state.set("manners", "asked");
    return { gotoReasoning: [userMessage("Sign it with your name.")] };
  },
};

const lookUp = tool({
  name: "look_up",
  description: "Finds a person.",
  input: z.object({ name: z.string() }),
  execute: ({ name }) => `${name}, ${name.toLowerCase()}@example.com, +4712345678`,
});
const mails: string[] = [];
const sendMail = tool({
  name: "send_mail",
  description: "Sends a mail.",
  input: z.object({ to: z.string(), text: z.string() }),
  execute: ({ to }) => {
    mails.push(to);
    return "Sent.";
  },
});

const model = scriptedModel([
  { call: "look_up", input: { name: "Ann" } },
  { call: "send_mail", input: { to: "ann@example.com", text: "Lunch?" } },
  "I have asked Ann.",
  "I have asked Ann. Yours, secretary",
]);
const agent = new ReActAgent({
  name: "secretary",
  model,
  systemPrompt: "You keep the calendar.",
  tools: [lookUp, sendMail],
  hooks: [journal, today, dryRun, discretion, manners],
});
const reply = await agent.call("Ask Ann for lunch.");

assert.deepEqual(lines, [
  "secretary begins",
  "look_up: success",
  "send_mail: success",
  "secretary says after 2 tool calls: I have asked Ann. Yours, secretary",
]);
assert.deepEqual(mails, [], "the dry run kept the mail in");
assert.equal(reply.text, "I have asked Ann. Yours, secretary");
const prompts = model.calls.map(({ prompt }) => JSON.stringify(prompt));
assert.ok(prompts.every((prompt) => prompt.includes("Today is 1 May 2030.")));
assert.ok(prompts[1]?.includes("ann@example.com, (a number)"), "the model read the edited result");
