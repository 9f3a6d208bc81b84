/** What the model reads when it has used up its iterations. */
export const summaryPrompt =
  "You have failed to generate response within the maximum iterations. Now respond directly by summarizing the current situation.";

/** What the model reads after a reply that nobody could see. */
export const blankReplyPrompt =
  "Your last reply had no visible text and called no tool. Answer the user, or call a tool.";

/** What stands for a call that was pending when its task stopped. */
export const interruptedResult = "Interrupted: the call was stopped before it had a result.";

/** What stands for a call that was running when its process was lost. */
export const unknownEffectResult =
  "Interrupted: the process that ran this call was lost. Its effect is unknown.";

/** What stands for a call that a maxed-out task will not make. */
export const tooLateResult = "Not run: the task has reached its maximum number of iterations.";

/** What the model reads in place of a result that it has seen twice already. */
export function repeatedResult(name: string): string {
  return `You have called ${name} with the same input three times and got the same result each time. Do something else: another call like this ends the task.`;
}

/** What the model reads once there is something to cite. */
export const citationPrompt =
  "Tool results between <referencable-item> and </referencable-item> can be cited. Put [^n], with the item's ID for n, right after each statement that rests on one. Cite only items that you were given.";

/** What the model reads before the result of work that went on in the background. */
export const backgroundEnded = "A background task has ended.";
