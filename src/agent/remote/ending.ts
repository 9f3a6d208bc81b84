import { RivuletError } from "../../base/error.ts";
import type { Awaitable } from "../../base/time.ts";
import {
  isTerminal,
  type LogEvent,
  type TaskObject,
  type TaskSuspended,
} from "../../protocol/index.ts";
import { completed, type Ending, incomplete, suspended } from "../loop/ending.ts";
import type { TaskRun } from "../loop/task-run.ts";
import { type JsonSchema, jsonSchema } from "../tool/schema.ts";
import { editedMessage } from "./messages.ts";

/** How a task ends, with the messages that it has then. */
export type EndingOf = (run: TaskRun) => Awaitable<Ending>;

/** An event with which a task ends or waits. */
export type RestEvent = TaskSuspended | TaskEvent;
type TaskEvent = Extract<LogEvent, { readonly task: TaskObject }>;

/** Whether a task ends with an event. */
export function isEnd(event: LogEvent): event is TaskEvent {
  return "task" in event && isTerminal(event.task.status);
}

/** How a remote task rests; the child itself must return what its caller has asked for. */
export async function endingOf(run: TaskRun, event: RestEvent, isChild: boolean): Promise<Ending> {
  const last = completed(run, undefined);
  if (event.type === "task.suspended") {
    const { generate_reason: generateReason = "approval_required", reason } = event;
    const { next } = run.transcript.steps;
    const isOpen = next.type === "act" || next.type === "wait";
    const { message } = isOpen ? suspended(run, next) : last;
    return { status: "suspended", generateReason, message, suspension: { reason } };
  }
  const { status, error, structured, incomplete_details, reason } = event.task;
  const edited = editedMessage(event.task);
  const isEdited = edited && ({ message: edited, isEdited: true } as const);
  const { taskId, path, outputSchema } = run.state.record;
  switch (status) {
    case "failed": {
      const { code = "failed", message = "The task failed.", retryable, hint } = error ?? {};
      const more = { retryable: retryable === true, ...(hint !== undefined && { hint }) };
      return { status, error: new RivuletError(code, message, more).at({ taskId, path }) };
    }
    case "incomplete":
      return { ...incomplete(run, incomplete_details?.reason ?? "timeout"), ...isEdited };
    case "cancelled": {
      const why = reason !== undefined && { reason };
      return { ...last, status, generateReason: "interrupted", ...why, ...isEdited };
    }
    default: {
      const problem = isChild && outputSchema && (await outputProblem(outputSchema, structured));
      if (problem) return { status: "failed", error: problem.at({ taskId, path }) };
      if (structured === undefined) return { ...last, ...isEdited };
      return completed(run, undefined, { value: structured });
    }
  }
}

async function outputProblem(schema: object, value: unknown): Promise<RivuletError | undefined> {
  const { issues } = await jsonSchema(schema as JsonSchema)["~standard"].validate(value);
  if (issues === undefined) return undefined;
  const problems = issues.map(({ message }) => message).join("; ");
  const message = `The server returned a value that does not fit the output schema: ${problems}`;
  return new RivuletError("structured_output_invalid", message);
}
