// One of three servers, each with a store of its own: node chain-process.ts <role> <folder> <port> <next url> <plan>

import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { HarnessAgent, sqliteStore, tool } from "../../../src/index.ts";
import { serve } from "../../../src/server.ts";
import { type ScriptedPart, scriptedModel } from "../../../src/testing.ts";
import { unlimited } from "../../support/unlimited.ts";

const [role = "lead", folder = "", port = "0", next = "", plan = "work"] = process.argv.slice(2);
const token = "the-token-of-the-chain";
const below = { lead: "reviewer", reviewer: "cleaner", cleaner: undefined }[role];

/** Writes down that it was executed. */
const note = tool({
  name: "note",
  description: "Notes a number.",
  input: z.object({ n: z.number() }),
  needsApproval: plan === "approval" && role === "cleaner",
  execute: async ({ n }, { callId, messages }) => {
    const blocks = messages.flatMap(({ content }) => content);
    const isAgain = blocks.some((block) => block.type === "tool_result" && block.id === callId);
    appendFileSync(
      join(folder, "executions"),
      `${role} ${callId} ${n}${isAgain ? " again" : ""}\n`,
    );
    await new Promise((resolve) => setTimeout(resolve, 5));
    return `noted ${n}`;
  },
});

/** Three notes, then the child of this agent, then a text in chunks. */
const model = scriptedModel(({ prompt }) => {
  const turn = prompt.filter(({ role: who }) => who === "assistant").length;
  const words = Array.from({ length: 8 }, (_, n): ScriptedPart[] => [
    { delayMs: 2 },
    { text: `${role} ${n} ` },
  ]).flat();
  if (turn < 2) return [...words, { call: "note", input: { n: turn } }];
  if (turn === 2 && below !== undefined)
    return [{ call: "agent_spawn", input: { agent_id: below, task: "Go.", timeout_seconds: 600 } }];
  return words;
});

const store = sqliteStore(join(folder, `${role}.db`));
const agent = new HarnessAgent({
  ...{ name: role, model, tools: [note], store, filesystem: false, leaseMs: 500 },
  subagents:
    below === undefined
      ? false
      : [
          {
            ...{ name: below, description: "Does it.", url: `${next}/agents/${below}` },
            headers: { authorization: `Bearer ${token}` },
            allowPrivateNetwork: true,
            limits: { lostAfterMs: 45_000 },
          },
        ],
});
const limits = unlimited;
const { url } = await serve({
  ...{ agents: [agent], port: Number(port), token, log: false, limits, heartbeatMs: 200 },
});
console.log(url);
