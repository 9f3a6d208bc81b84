import { isAlwaysAllowed, jsonSchema, ToolFailure, taskBehind, tool } from "../agent/index.ts";
import {
  type Hook,
  type HookContext,
  type InputMessage,
  type Message,
  type Tool,
  textOf,
} from "../contract/index.ts";
import type { Note } from "./context/notes.ts";
import { planTexts } from "./prompts.ts";
import { isLocal } from "./subagents/declaration.ts";
import type { RosterEntry } from "./subagents/roster.ts";

const exitName = "exit_plan";
const noteKey = "plan";
/** They start only children, which are in plan mode as well. */
const delegating: ReadonlySet<string> = new Set(["agent_spawn", "agent_send"]);

/** Lets an agent change nothing until a person has approved its plan. */
export const planMode: { readonly hooks: readonly Hook[]; readonly notes: readonly [typeof note] } =
  {
    hooks: [
      {
        name: "plan-mode",
        priority: 990, // after hooks that edit the call
        tools: [exitPlan()],
        preReasoning({ source }, call) {
          // The plan of a child is its report.
          if (source) call.tools = call.tools.filter(({ name }) => name !== exitName);
        },
        preActing({ messages }, { name, readOnly }) {
          if (readOnly || name === exitName || delegating.has(name)) return undefined;
          if (!isPlanning(messages)) return undefined;
          return { result: planTexts.blocked(name), state: "denied" };
        },
      },
    ],
    notes: [note],
  };

/**
 * Whether a session is in plan mode: by the last message that sets it (`metadata.planMode`), the last approved plan, or
 * the last note, which a compaction adds again. Before all of these it is.
 */
function isPlanning(messages: readonly Message[]): boolean {
  for (let at = messages.length - 1; at >= 0; at--) {
    const { role, metadata, content } = messages[at] as Message;
    if (role === "user" && typeof metadata?.planMode === "boolean") return metadata.planMode;
    for (const block of content) {
      if (block.type === "hint" && block.metadata?.note === noteKey)
        return block.text !== planTexts.off;
      const isExit = block.type === "tool_result" && block.name === exitName;
      if (isExit && block.state === "success" && textOf(block.output) === planTexts.approved)
        return false;
    }
  }
  return true;
}

function note({ messages, source }: HookContext): readonly Note[] {
  const on = source ? planTexts.onForChild : planTexts.on;
  return [{ key: noteKey, text: isPlanning(messages) ? on : planTexts.off }];
}

/** The task for a child, which is in plan mode like its parent; throws for an agent that the harness does not control. */
export function planInput(
  prompt: string,
  messages: readonly Message[],
  { name, declaration }: Pick<RosterEntry, "name" | "declaration">,
): InputMessage {
  const planMode = isPlanning(messages);
  if (planMode && declaration && !isLocal(declaration))
    throw new ToolFailure("plan_mode", planTexts.otherAgent(name));
  return { role: "user", content: prompt, metadata: { planMode } };
}

function exitPlan(): Tool {
  return tool({
    name: exitName,
    description: planTexts.exitDescription,
    input: jsonSchema<{ plan: string }>({
      type: "object",
      properties: { plan: { type: "string", minLength: 1, description: planTexts.planField } },
      required: ["plan"],
      additionalProperties: false,
    }),
    exclusive: true,
    needsApproval: (_, { messages }) => isPlanning(messages),
    execute(_, context) {
      const { messages, callId } = context;
      if (taskBehind(context).state.record.depth > 0)
        throw new ToolFailure("not_the_lead", planTexts.childExit);
      if (!isPlanning(messages)) return planTexts.off;
      const blocks = messages.flatMap(({ content }) => content);
      const asked = blocks.filter(
        (block) => block.type === "suspension" && block.callId === callId && block.kind !== "stop",
      );
      const isApproved = blocks.some(
        (block) =>
          block.type === "answer" &&
          asked.some(
            (question) => "approvalId" in question && question.approvalId === block.approvalId,
          ),
      );
      // A rule that allows every tool does not approve a plan.
      if (!isApproved && !isAlwaysAllowed(messages, exitName)) context.suspend(planTexts.question);
      return planTexts.approved;
    },
  });
}
