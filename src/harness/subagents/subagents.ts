import { unfinished } from "../../agent/drivers.ts";
import type { HookContext, ModelCall } from "../../agent/hook.ts";
import type { ResolveChild } from "../../agent/settings.ts";
import type { Piece } from "../assemble.ts";
import type { Harness } from "../harness.ts";
import { agentTools } from "../tools/agents.ts";
import { taskTools } from "../tools/tasks.ts";
import type { SubagentDeclaration } from "./declaration.ts";
import { subagentLimits } from "./limits.ts";
import { delegationPrompt } from "./prompt.ts";
import { openRoster } from "./roster.ts";
import { subagentToolNames } from "./tool-names.ts";

const priority = 80;

/** What subagents add to an agent: the tools to call on them, and before each reasoning who they are and what they do. */
export function subagents(
  harness: Harness,
  declared: readonly SubagentDeclaration[],
): Piece & { readonly resolveChild: ResolveChild } {
  const { store, options } = harness;
  const limits = { ...subagentLimits, ...options.limits };
  const roster = openRoster(harness, declared);

  async function preReasoning(context: HookContext, call: ModelCall): Promise<void> {
    if ((context.source?.depth ?? 0) >= limits.maxSpawnDepth) {
      call.tools = call.tools.filter(({ name }) => !subagentToolNames.has(name));
      return;
    }
    const { sessionId } = context.task;
    const agents = await roster.entries();
    const tasks = await store.tasks({ parentSessionId: sessionId, status: unfinished });
    const prompt = delegationPrompt({ agents, tasks: tasks.toReversed() });
    call.system = call.system === "" ? prompt : `${call.system}\n\n${prompt}`;
  }

  return {
    name: "subagents",
    hooks: [{ name: "subagents", priority, preReasoning }],
    tools: [...agentTools(roster, limits), ...taskTools()],
    async resolveChild(record) {
      const { agentKey, agentId, depth, userId, taskId, rootTaskId, sessionId } = record;
      const entry = await roster.find(agentId);
      const task = { taskId, rootTaskId, sessionId };
      return entry?.agentFor({ agentKey, task, depth, ...(userId !== undefined && { userId }) });
    },
  };
}
