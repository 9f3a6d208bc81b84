import { describeChild, jsonSchema, taskBehind, tool } from "../../agent/index.ts";
import type { Input, Message, Tool } from "../../contract/index.ts";
import { oneLine } from "../prompts.ts";
import { childrenOf, labelOf } from "../subagents/children.ts";
import type { Roster, RosterEntry } from "../subagents/roster.ts";
import {
  checkSpawn,
  defaultWaitMs,
  findChild,
  findEntry,
  newChild,
  runSubagent,
  type SubagentLimits,
} from "../subagents/spawn.ts";

const maxSeconds = 600;
const maxLabel = 64;
const maxListed = 100;

const timeoutProperty = {
  type: "integer",
  minimum: 0,
  maximum: maxSeconds,
  description: `How many seconds to wait for the answer; after that the subagent continues in the background. 0: do not wait. Defaults to ${defaultWaitMs / 1_000}.`,
};
const optionalText = { type: "string", minLength: 1 }; // an empty text counts as left out
const labelProperty = { ...optionalText, maxLength: maxLabel };

type Address = { readonly agent_key?: string; readonly label?: string };

/** Makes the input of a child from the model's text. */
export type ChildInput = (prompt: string, parent: readonly Message[], child: RosterEntry) => Input;

/** Creates the tools that start subagents and send them tasks. */
export function agentTools(
  roster: Roster,
  limits: Required<SubagentLimits>,
  inputOf: ChildInput = (prompt) => prompt,
): readonly Tool[] {
  const execution = { timeoutMs: null, maxAttempts: 1 };
  const { parallelChildren: maxParallel } = limits;

  const spawn = tool({
    name: "agent_spawn",
    description:
      "Starts a subagent and gives it a task. It knows nothing about this conversation: put everything it needs into the task. Several calls in one reply run in parallel.",
    input: jsonSchema<{
      agent_id: string;
      task?: string;
      label?: string;
      timeout_seconds?: number;
    }>({
      type: "object",
      properties: {
        agent_id: { type: "string", description: "The name of the subagent." },
        task: { ...optionalText, description: "The task; omit it to create an idle subagent." },
        label: { ...labelProperty, description: "A short name for sending it more tasks." },
        timeout_seconds: timeoutProperty,
      },
      required: ["agent_id"],
      additionalProperties: false,
    }),
    idempotent: true, // a repeated call finds its child again
    execution,
    async execute({ agent_id, task: prompt, label: given, timeout_seconds: seconds }, context) {
      const task = taskBehind(context);
      const label = labelOf(given);
      const entry = await findEntry(roster, agent_id);
      await checkSpawn(task, context, limits, label);
      const child = newChild(task, entry, label);
      if (prompt === undefined) return describeChild(child, "ok");
      const input = inputOf(prompt, context.messages, entry);
      return runSubagent(context, entry, child, { isKnown: false, input, seconds, maxParallel });
    },
  });

  const send = tool({
    name: "agent_send",
    description:
      "Gives another task to a subagent that you have started. It remembers its earlier tasks. While it is busy, the new task waits.",
    input: jsonSchema<Address & { message: string; timeout_seconds?: number }>({
      type: "object",
      properties: {
        agent_key: { ...optionalText, description: "The whole agent_key from agent_spawn." },
        label: { ...labelProperty, description: "Its label, instead of the key." },
        message: { type: "string", description: "The task." },
        timeout_seconds: timeoutProperty,
      },
      required: ["message"],
      additionalProperties: false,
    }),
    idempotent: true,
    execution,
    async execute({ agent_key, label, message: prompt, timeout_seconds: seconds }, context) {
      const task = taskBehind(context);
      await checkSpawn(task, context, limits);
      const child = await findChild(task, agent_key, labelOf(label));
      const entry = await findEntry(roster, child.agentId);
      const input = inputOf(prompt, context.messages, entry);
      return runSubagent(context, entry, child, { isKnown: true, input, seconds, maxParallel });
    },
  });

  const list = tool({
    name: "agent_list",
    description: "Lists the available subagents, and those that you have started.",
    readOnly: true,
    execute: async (_, context) => {
      const entries = await roster.entries();
      const children = await childrenOf(taskBehind(context));
      const kinds = entries.map(
        ({ name, description, url }) =>
          `- ${name}${url ? ` (runs on ${url})` : ""}: ${oneLine(description)}`,
      );
      const latest = children.slice(-maxListed);
      const started = latest.map((child) => describeChild(child, child.task?.status ?? "idle"));
      const more = children.length - latest.length;
      const heading = more > 0 ? `started (${more} older ones are not shown):` : "started:";
      return [
        `kinds:\n${kinds.join("\n")}`,
        ...(started.length > 0 ? [heading, ...started] : ["started: none"]),
      ].join("\n\n");
    },
  });
  return [spawn, send, list];
}
