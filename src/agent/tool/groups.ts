import type { Message, ToolUseBlock } from "../../protocol/message.ts";
import { type RanCall, ranCall } from "../ran-call.ts";
import { jsonSchema } from "./schema.ts";
import { type Tool, tool } from "./tool.ts";

/** Tools that come and go together. */
export interface ToolGroup {
  /** What the tools are for and how to use them, for the model. */
  readonly description: string;
  readonly tools: readonly Tool[];
  /** Whether it is active before the model has chosen. */
  readonly active?: boolean;
}
/** Groups by name. */
export type ToolGroups = Readonly<Record<string, ToolGroup>>;

/** The tool with which the model chooses its groups. */
export const groupsToolName = "reset_equipped_tools";

/** Makes the tool with which the model chooses its groups: its input is the final set. */
export function groupsTool(groups: ToolGroups): Tool {
  const offers = Object.entries(groups).map(
    ([name, { description }]) => `- ${name}: ${description}`,
  );
  return tool({
    name: groupsToolName,
    description: `Choose which groups of tools are active. What you name is the final set: a group that you leave out is put away.\n${offers.join("\n")}`,
    input: jsonSchema<{ groups: readonly string[] }>({
      type: "object",
      properties: { groups: { type: "array", items: { enum: Object.keys(groups) } } },
      required: ["groups"],
      additionalProperties: false,
    }),
    idempotent: true,
    exclusive: true,
    execute: ({ groups: chosen }) => describeActive(groups, new Set(chosen)),
  });
}

/** The groups that are active after these messages: the last choice that took effect, else those active from the start. */
export function activeGroups(
  groups: ToolGroups,
  messages: readonly Message[],
  agentName: string,
): ReadonlySet<string> {
  const chosen = lastChoice(messages, agentName);
  const names = Object.keys(groups);
  return new Set(names.filter((name) => chosen?.has(name) ?? groups[name]?.active ?? false));
}

/** What the last call that took effect named, as it was run: neither what somebody refused nor what was edited away. */
function lastChoice(
  messages: readonly Message[],
  agentName: string,
): ReadonlySet<string> | undefined {
  const sent = new Map<string, ToolUseBlock>();
  let last: RanCall | undefined;
  for (const { role, name, content } of messages) {
    const isOwn = role === "assistant" && name === agentName;
    for (const block of content) {
      if (block.type === "tool_use" && isOwn) sent.set(block.id, block);
      if (block.type !== "tool_result" || block.state !== "success") continue;
      const call = sent.get(block.id);
      const ran = call && ranCall(call, block);
      if (ran?.name === groupsToolName) last = ran;
    }
  }
  const { groups } = (last?.input ?? {}) as { groups?: unknown };
  return Array.isArray(groups) ? new Set(groups) : undefined;
}

function describeActive(groups: ToolGroups, active: ReadonlySet<string>): string {
  const notes = Object.entries(groups).flatMap(([name, { description, tools }]) =>
    active.has(name)
      ? [`- ${name}: ${description} Tools: ${tools.map((one) => one.name).join(", ")}.`]
      : [],
  );
  return notes.length === 0
    ? "No group of tools is active now."
    : `Active groups of tools now:\n${notes.join("\n")}`;
}
