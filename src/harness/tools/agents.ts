import { jsonSchema } from "../../agent/tool/schema.ts";
import { type Tool, tool } from "../../agent/tool/tool.ts";
import { taskBehind } from "../../agent/tool-context.ts";
import { childrenOf, describeChild } from "../subagents/children.ts";
import { type SubagentLimits, withPlace } from "../subagents/limits.ts";
import type { Roster } from "../subagents/roster.ts";
import {
  addressed,
  checkLabel,
  defaultSeconds,
  findEntry,
  forChild,
  newChild,
  runSubagent,
} from "../subagents/spawn.ts";

const maxSeconds = 600;
const maxLabel = 64;
const maxListed = 100;

const timeoutProperty = {
  type: "integer",
  minimum: 0,
  maximum: maxSeconds,
  description: `How many seconds to wait for the answer; then it goes on in the background. 0: do not wait. ${defaultSeconds} when absent.`,
};
const labelProperty = { type: "string", minLength: 1, maxLength: maxLabel };

/** The tools by which an agent calls on its subagents. */
export function agentTools(roster: Roster, limits: Required<SubagentLimits>): readonly Tool[] {
  const execution = { timeoutMs: null, maxAttempts: 1 };

  const spawn = tool({
    name: "agent_spawn",
    description:
      "Starts a subagent, and gives it a task. It knows nothing of this conversation: say in the task all it needs. Several calls at once run in parallel.",
    input: jsonSchema<Spawn>({
      type: "object",
      properties: {
        agent_id: { type: "string", description: "The kind of subagent." },
        task: { type: "string", description: "The task. Absent: it is only created." },
        label: { ...labelProperty, description: "A short name for it, to send to it later." },
        timeout_seconds: timeoutProperty,
      },
      required: ["agent_id"],
      additionalProperties: false,
    }),
    idempotent: true, // a child is found again by the call
    execution,
    async execute({ agent_id, task: asked, label, timeout_seconds }, context) {
      const task = taskBehind(context);
      const entry = await findEntry(roster, agent_id);
      return withPlace(task, context.callId, label, limits, async () => {
        if (label !== undefined) await checkLabel(task, context, label);
        const child = newChild(task, entry, label);
        if (asked === undefined) return describeChild(child, "ok");
        const agent = await entry.agentFor(forChild(task, child, context.callId));
        const order = { agent, entry, child, asked, timeout_seconds };
        return runSubagent(context, { ...order, isKnown: false });
      });
    },
  });

  const send = tool({
    name: "agent_send",
    description:
      "Gives a subagent that you have started another task. It remembers what it did before. While it works on something, the new task waits its turn.",
    input: jsonSchema<Send>({
      type: "object",
      properties: {
        agent_key: { type: "string", description: "The whole agent_key from agent_spawn." },
        label: { ...labelProperty, description: "Its label, instead of the key." },
        message: { type: "string", description: "The task." },
        timeout_seconds: timeoutProperty,
      },
      required: ["message"],
      additionalProperties: false,
    }),
    idempotent: true,
    execution,
    async execute({ agent_key, label, message: asked, timeout_seconds }, context) {
      const task = taskBehind(context);
      const child = await addressed(task, context, agent_key, label);
      const entry = await findEntry(roster, child.agentId);
      return withPlace(task, context.callId, undefined, limits, async () => {
        const agent = await entry.agentFor(forChild(task, child, context.callId));
        const order = { agent, entry, child, asked, timeout_seconds };
        return runSubagent(context, { ...order, isKnown: true });
      });
    },
  });

  const list = tool({
    name: "agent_list",
    description: "Lists the kinds of subagents, and those that you have started.",
    execute: async (_, context) => {
      const { conversation, ref } = taskBehind(context);
      const entries = await roster.entries();
      const children = await childrenOf(conversation.store, ref.sessionId, context.messages);
      const kinds = entries.map(({ name, description }) => `- ${name}: ${oneLine(description)}`);
      const shown = children.slice(-maxListed);
      const started = shown.map((child) => describeChild(child, child.task?.status ?? "idle"));
      const more = children.length - shown.length;
      const heading = more > 0 ? `started (${more} older ones are not shown):` : "started:";
      return [
        `kinds:\n${kinds.join("\n")}`,
        ...(started.length > 0 ? [heading, ...started] : ["started: none"]),
      ].join("\n\n");
    },
  });
  return [spawn, send, list];
}

interface Spawn {
  readonly agent_id: string;
  readonly task?: string;
  readonly label?: string;
  readonly timeout_seconds?: number;
}
interface Send {
  readonly agent_key?: string;
  readonly label?: string;
  readonly message: string;
  readonly timeout_seconds?: number;
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
