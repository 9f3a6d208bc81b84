/** Asks for a summary when the task has used up its iterations. */
export const summaryPrompt =
  "You have failed to generate response within the maximum iterations. Now respond directly by summarizing the current situation.";

/** Follows a reply without visible text and calls. */
export const blankReplyPrompt =
  "Your last reply had no visible text and called no tool. Answer the user, or call a tool.";

/** Follows a reply after which a hook wants another reasoning and has nothing to say. */
export const reasonAgainPrompt = "Reason again, and then reply.";

/** Why a child is incomplete, for its parent's model. */
export const incompleteReasons: Readonly<Record<string, string>> = {
  max_iterations: "it reached its maximum number of iterations",
  no_progress: "it repeated the same call without progress",
  budget: "its budget is used up",
  interrupted: "its time was over",
  max_output_tokens: "its reply was cut at the maximum length",
  content_filter: "the provider filtered its reply",
};

/** Explains citations once a tool result can be cited. */
export const citationPrompt =
  "Tool results between <referencable-item> and </referencable-item> can be cited. Put [^n], with the item's ID for n, right after each statement that rests on one. Cite only items that you were given.";

/** Introduces the words of another agent. */
export function agentSays(name: string): string {
  return `The agent ${inLine(name)} says:`;
}

/** Introduces the words of a user who has a name. */
export function userSays(name: string): string {
  return `The user ${inLine(name)} says:`;
}

/** A name cannot add lines of its own. */
function inLine(name: string): string {
  return name.replaceAll(/\s+/g, " ").trim().slice(0, 128);
}

/** Introduces the result of a background task. */
export const backgroundEnded = "A background task has ended.";

/** The result of a call that was pending when its task stopped. */
export const interruptedResult = "Interrupted: the call was stopped before it had a result.";

/** The result of a call that was running when its process was lost. */
export const unknownEffectResult =
  "Interrupted: the process that ran this call was lost. Its effect is unknown.";

/** The result of a call that was not run because the task has reached `maxIters`. */
export const tooLateResult = "Not run: the task has reached its maximum number of iterations.";

/** Why a call of an external tool waits. */
export const externalReason = "[Awaiting external execution]";

/** Replaces a result that the model has read twice already. */
export function repeatedResult(name: string): string {
  return `You have called ${name} with the same input three times and got the same result each time. Do something else: another call like this ends the task.`;
}

/** Texts that replace missing or too long parts of a prompt. */
export const placeholders = {
  pendingResult: "There is no result yet.",
  noOutput: "(no output)",
  error: "The call failed.",
  denied: "The call was denied.",
  interrupted: "The call was interrupted.",
  media: (type: string, address: string | undefined) => `[${type}: ${address}]`,
  cut: (omitted: number, total: number) => `\n\n[${omitted} of ${total} characters left out]\n\n`,
  streamCut: "\n\n[The rest of this output is not shown.]",
  longArguments: (length: number, beginning: string) =>
    `[These arguments had ${length.toLocaleString("en")} characters. They began with: ${beginning}]`,
} as const;

/** Results of calls whose tool did not return a usable result. */
export const toolErrors = {
  failed: (reason: string) => `Tool execution failed: ${reason}`,
  timeout: (timeoutMs: number) => `Tool execution timeout after ${timeoutMs / 1_000}s`,
  interrupted: (when: string) => `Tool execution was interrupted ${when}.`,
  notJson: (reason: string) => `its result is not JSON (${reason})`,
  silentMcpServer: "the server gave no reason",
  inactive: (name: string, groups: readonly string[], activator: string) =>
    `The tool ${name} belongs to ${groups.join(", ")}, which is not active. Activate it with ${activator} first.`,
  unknown(name: string, similar: readonly string[], available: readonly string[]): string {
    const advice = similar.length > 0 ? ` Did you mean ${similar.join(" or ")}?` : "";
    return `There is no tool ${JSON.stringify(name)}.${advice} Available tools: ${available.join(", ") || "none"}.`;
  },
} as const;

/** Tells the model that a person refused to continue after a hook stopped the run. */
export function stopDenied(reason = "No person accepted it in time."): string {
  return `The user did not accept your last step: ${reason}`;
}

/** Results of calls whose arguments are invalid. */
export const argumentErrors = {
  invalid: (name: string, problems: readonly string[]) =>
    `The arguments for ${name} are invalid:\n- ${problems.join("\n- ")}\nCorrect them and call it again.`,
  tooLarge: (maxBytes: number) => `They are larger than ${maxBytes.toLocaleString("en")} bytes.`,
  tooDeep: (maxDepth: number) => `They are nested deeper than ${maxDepth} levels.`,
  notJson: (reason: string) => `They are not valid JSON: ${reason}`,
  notObject: (kind: string) => `They must be a JSON object, not ${kind}.`,
  forbiddenKey: (key: string) => `The key "${key}" is not allowed.`,
  more: (count: number) => `and ${count} more`,
  preset: "A value that the operator has set does not match the schema.",
} as const;

type Groups = Readonly<
  Record<string, { readonly description: string; readonly tools: readonly { name: string }[] }>
>;
/** The description and the results of the tool that selects tool groups. */
export const groupTexts = {
  description(groups: Groups): string {
    const lines = Object.entries(groups).map(([name, group]) => `- ${name}: ${group.description}`);
    return `Choose which groups of tools are active. The groups that you name replace the active ones: a group that you leave out becomes inactive.\n${lines.join("\n")}`;
  },
  active(groups: Groups, chosen: readonly string[]): string {
    const lines = Object.entries(groups)
      .filter(([name]) => chosen.includes(name))
      .map(([name, { description, tools }]) => {
        const names = tools.map((tool) => tool.name).join(", ");
        return `- ${name}: ${description} Tools: ${names}.`;
      });
    if (lines.length === 0) return "No group of tools is active now.";
    return `Active groups of tools now:\n${lines.join("\n")}`;
  },
} as const;

/** The description of the tool that takes a structured answer, and the replies to answers. */
export const answerTexts = {
  description:
    "Submits the final answer in the form that the caller asked for. Call it once you have everything.",
  accepted: "The answer was accepted.",
  missing: "It is missing.",
  callTool: (name: string) => `Call the tool ${name} with your answer.`,
  mismatch: (problems: readonly string[]) =>
    `Your answer does not match the schema: ${problems.join("; ")}`,
  notJson: "Your answer is not JSON. Reply with the JSON document alone.",
} as const;
