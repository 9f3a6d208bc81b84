import type { StandardSchema } from "../protocol/agent.ts";
import { RivuletError } from "../protocol/error.ts";
import type { TaskRecord } from "../protocol/store.ts";
import { isSame } from "./plain.ts";
import { toJsonSchema } from "./tool/schema.ts";

/** A task answers in the form that it was started with: whoever goes on with it asks for that, or says nothing of it. */
export function checkOutput(
  output: StandardSchema | undefined,
  { taskId, outputSchema }: Pick<TaskRecord, "taskId" | "outputSchema">,
): void {
  if (output === undefined || isSame(toJsonSchema(output), outputSchema)) return;
  const asked = outputSchema === undefined ? "no structured output" : "another output schema";
  throw new RivuletError("other_output", `Task ${taskId} was started with ${asked}.`, {
    hint: "Leave output out to go on with the task, or begin a session for another one. Nothing has changed.",
  });
}
