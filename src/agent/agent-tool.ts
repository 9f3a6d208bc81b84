import { RivuletError } from "../base/error.ts";
import { type Field, flag, readArgument, readOptions, required, text } from "../base/options.ts";
import { type Agent, agentField, type Block, type Budget } from "../contract/index.ts";
import { incompleteReason } from "./loop/child-outcome.ts";
import type { ChildOutcome } from "./tool/context.ts";
import { jsonSchema } from "./tool/schema.ts";
import { type Tool, tool } from "./tool/tool.ts";

/** The argument with which a model limits a child. */
const budgetSchema = {
  type: "object",
  description: "The most that the agent and the agents below it may use.",
  properties: {
    tokens: { type: "integer", minimum: 1 },
    cost: { type: "number", exclusiveMinimum: 0 },
    agents: { type: "integer", minimum: 1 },
  },
  additionalProperties: false,
} as const;

/** A whole agent as a tool: each call runs it as a child task, which streams in its parent's log. */
export function agentTool(
  agent: Agent,
  options: {
    readonly name?: string;
    readonly description?: string;
    /** True: the model may limit a call with `budget`, within what is left. */
    readonly budget?: boolean;
  } = {},
): Tool {
  readArgument("agent", agent, required(agentField));
  const read = readOptions("agentTool()", options, {
    name: text,
    description: text,
    budget: flag,
  });
  const {
    name = agent.name,
    budget: hasBudget,
    description = agent.description ?? `Asks the agent ${agent.name}.`,
  } = read;
  return tool({
    name,
    description,
    input: jsonSchema<{ prompt: string; budget?: Budget }>({
      type: "object",
      properties: {
        prompt: { type: "string", description: "The task, complete in itself." },
        ...(hasBudget && { budget: budgetSchema }),
      },
      required: ["prompt"],
    }),
    idempotent: true, // a child is found again by its call
    // A child may take as long as it takes: it has limits of its own.
    execution: { timeoutMs: null, maxAttempts: 1 },
    async execute({ prompt, budget }, context) {
      const limits = hasBudget && budget && { budget };
      return childResult(await context.runChild(agent, prompt, { agentId: name, ...limits }));
    },
  });
}

const outcomeField: Field = {
  fits(value) {
    const { status, cited, reply } = value as Partial<ChildOutcome>;
    const hasReply = reply === undefined || Array.isArray(reply.content);
    return typeof status === "string" && Array.isArray(cited) && hasReply;
  },
  expected: "an outcome of runChild()",
};

/** The result of a child for the parent's model: its citations, then its last message. A failed child is an error. */
export function childResult(outcome: ChildOutcome): { content: readonly Block[] } {
  const { status, reply, cited, error } = readArgument("outcome", outcome, required(outcomeField));
  if (status === "failed") {
    throw new RivuletError("tool_failed", error?.message ?? "The agent failed.", {
      hint: error?.hint ?? "Read the error of the child's task.",
    });
  }
  const reason = incompleteReason(outcome);
  const why = reason === undefined ? "" : `reason: ${reason}\n`;
  const note =
    status === "completed" ? [] : [{ type: "text" as const, text: `status: ${status}\n${why}` }];
  // Its thoughts and its calls are its own.
  const said = reply?.content.filter((block) => block.type === "text" || "source" in block) ?? [];
  return { content: [...note, ...cited, ...said] };
}
