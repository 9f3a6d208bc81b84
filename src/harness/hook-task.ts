import { taskBehind, taskKey } from "../agent/index.ts";
import type { HookContext, Message } from "../contract/index.ts";

/** The messages of a hook's context, without the copy that hooks of users get; the array grows with the transcript. */
export function transcriptBehind(context: HookContext): readonly Message[] {
  return taskKey in context ? taskBehind(context).transcript.messages : context.messages;
}

/** How many calls of a hook's task have started a child; undefined if it is not known. */
export function childrenStarted(context: HookContext): number | undefined {
  return taskKey in context ? taskBehind(context).output.childCalls.size : undefined;
}

/** How deep the root task of a hook's context is below the first root of a chain of servers; 0 for other tasks. */
export function levelsAbove(context: HookContext): number {
  return taskKey in context ? (taskBehind(context).state.record.origin?.via?.depth ?? 0) : 0;
}
