// A worker or a web node on the store of a chaos run; ends with the process that started it.
import { appendFileSync } from "node:fs";
import { processOf } from "../../../src/agent/drive/process.ts";
import { HarnessAgent, jsonSchema, taskRunner, tool } from "../../../src/index.ts";
import { postgresStore } from "../../../src/postgres.ts";
import { serve } from "../../../src/server.ts";
import { type ScriptedPart, type ScriptedTurn, scriptedModel } from "../../../src/testing.ts";
import type { Kind, NodeSettings } from "./kinds.ts";

const { url, role, leaseMs, executions } = JSON.parse(
  process.env.CHAOS_NODE ?? "{}",
) as NodeSettings;
process.once("disconnect", () => process.exit());

const store = postgresStore({ url, onProblem: () => {} });
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const input = jsonSchema({ type: "object", properties: {} });

/** A tool that notes each execution, and whether the store had a result of the call when it began. */
const toolOf = (name: string, needsApproval: boolean) =>
  tool({
    ...{ name, needsApproval, input, description: "Works.", idempotent: true },
    async execute(_, { callId, sessionId }) {
      const messages = await store.session(sessionId);
      const isRecorded = messages.some(({ content }) =>
        content.some((block) => block.type === "tool_result" && block.id === callId),
      );
      appendFileSync(executions, `${JSON.stringify({ callId, isRecorded })}\n`);
      await pause(100 + Math.random() * 200);
      return "done";
    },
  });
const tools = [toolOf("walk", false), toolOf("ask", true)];

const words = (text: string): readonly ScriptedPart[] =>
  text.split(/(?<= )/).flatMap((word) => [{ delayMs: 20 }, word]);
const calls = (...names: readonly string[]): ScriptedTurn => [
  ...words("I do the next part of the work. "),
  ...names.map((call) => ({ call })),
];
const spawn = (agent_id: string, timeout_seconds: number): ScriptedPart => ({
  call: "agent_spawn",
  input: { agent_id, task: "Go.", timeout_seconds },
});

function agent(
  name: string,
  script: (asked: string) => readonly ScriptedTurn[],
  children: readonly HarnessAgent[] = [],
): HarnessAgent {
  return new HarnessAgent({
    ...{ name, agentId: name, store, leaseMs, tools, filesystem: false as const },
    description: "Works.",
    model: scriptedModel(
      ({ prompt, assistantCount }) =>
        script(JSON.stringify(prompt))[assistantCount] ?? words("All the work is done."),
    ),
    subagents:
      children.length > 0 &&
      children.map((child) => ({ name: child.name, description: "Helps.", agent: child })),
  });
}

const leaf = agent("leaf", () => [calls("walk")]);
const helper = agent("helper", () => [calls("walk"), [spawn("leaf", 600)]], [leaf]);
const asker = agent("asker", () => [calls("ask")]);
const scripts: Readonly<Record<Kind, readonly ScriptedTurn[]>> = {
  plain: [calls("walk"), calls("walk"), calls("walk")],
  nested: [[spawn("helper", 600), { call: "walk" }], calls("walk"), calls("walk")],
  background: [[spawn("helper", 0), { call: "walk" }], calls("walk"), calls("walk")],
  asking: [[spawn("asker", 600), { call: "walk" }], calls("walk"), calls("walk")],
};
const lead = agent(
  "lead",
  (asked) => {
    const kind = (Object.keys(scripts) as Kind[]).find((name) => asked.includes(`Do: ${name}.`));
    return scripts[kind ?? "plain"];
  },
  [helper, asker],
);

if (role === "worker") {
  taskRunner({ agents: [lead], intervalMs: 500 }).start();
  process.send?.({ id: processOf(store).id });
} else {
  const { url, token } = await serve({ agents: [lead], store, port: 0, run: false });
  process.send?.({ id: processOf(store).id, url, token });
}
