// Hooks: observe, edit or stop each step of a run. Run it with: npm run example 03
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

/** Observes. It counts in `state`, which belongs to one run; the hook object serves all runs at once. */
const journal: Hook = {
  name: "journal",
  priority: 0,
  preCall: ({ agent, state }) => {
    state.set("calls", 0);
    print(`${agent} starts`);
  },
  postActing: ({ state }, call, result) => {
    state.set("calls", Number(state.get("calls")) + 1);
    print(`${call.name}: ${result.state}`);
  },
  postCall: ({ agent, state }, reply) =>
    print(`${agent} says after ${state.get("calls")} tool calls: ${reply.text}`),
};

/** Edits one model call; the transcript stays as it is. */
const addDate: Hook = {
  name: "add-date",
  preReasoning: (_, call) => ({
    ...call,
    systemPrompt: `${call.systemPrompt}\nToday is 1 May 2030.`,
  }),
};

/** Returns a result, so the tool does not run. */
const dryRun: Hook = {
  name: "dry-run",
  preActing: (_, call) =>
    call.name === "send_mail" ? { result: "Dry run: nothing was sent." } : undefined,
};

/** Edits a tool result before the model and people see it. */
const redactNumbers: Hook = {
  name: "redact-numbers",
  postActing: (_, _call, result) => ({ ...result, output: result.output.map(redact) }),
};
function redact(block: Block): Block {
  if (block.type !== "text") return block;
  return { ...block, text: block.text.replaceAll(/\+\d+/g, "(a number)") };
}

/** Sends the model back once, with another message. */
const requireSignature: Hook = {
  name: "require-signature",
  postReasoning: ({ state }, message) => {
    const isAnswer = message.content.every((block) => block.type === "text");
    if (!isAnswer || state.has("asked")) return;
    state.set("asked", true);
    return { gotoReasoning: [userMessage("Sign it with your name.")] };
  },
};

const findPerson = tool({
  name: "find_person",
  description: "Finds a person.",
  input: z.object({ name: z.string() }),
  execute: ({ name }) => `${name}, ${name.toLowerCase()}@example.com, +4712345678`,
});
const sentMails: string[] = [];
const sendMail = tool({
  name: "send_mail",
  description: "Sends a mail.",
  input: z.object({ to: z.string(), text: z.string() }),
  execute: ({ to }) => {
    sentMails.push(to);
    return "Sent.";
  },
});

const model = scriptedModel([
  { call: "find_person", input: { name: "Ann" } },
  { call: "send_mail", input: { to: "ann@example.com", text: "Lunch?" } },
  "I have asked Ann.",
  "I have asked Ann. Yours, secretary",
]);
const agent = new ReActAgent({
  name: "secretary",
  model,
  systemPrompt: "You keep the calendar.",
  tools: [findPerson, sendMail],
  hooks: [journal, addDate, dryRun, redactNumbers, requireSignature],
});
const reply = await agent.call("Ask Ann for lunch.");

assert.deepEqual(lines, [
  "secretary starts",
  "find_person: success",
  "send_mail: success",
  "secretary says after 2 tool calls: I have asked Ann. Yours, secretary",
]);
assert.deepEqual(sentMails, [], "the dry run sent no mail");
assert.equal(reply.text, "I have asked Ann. Yours, secretary");
const prompts = model.calls.map(({ prompt }) => JSON.stringify(prompt));
assert.ok(prompts.every((prompt) => prompt.includes("Today is 1 May 2030.")));
assert.ok(prompts[1]?.includes("ann@example.com, (a number)"), "the model reads the edited result");
