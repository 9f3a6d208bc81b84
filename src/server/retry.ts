import { jsonSchema, runFields } from "../agent/index.ts";
import { RivuletError } from "../base/error.ts";
import type { Input, Message, Store, TaskRecord } from "../contract/index.ts";
import { agentOf, findTask } from "./found-task.ts";
import type { Call, Route } from "./route.ts";
import { beginRun } from "./runs.ts";
import { idField, showTask } from "./tasks.ts";

/** The route with which a person repeats a task that has not completed. */
export const retryRoute: Route = {
  method: "POST",
  path: "/v1/tasks/:id/retry",
  needs: "write",
  summary:
    "Start a new task with the input of a root task that has failed, was cancelled or is incomplete.",
  body: { task_id: idField(runFields.taskId) },
  ids: { id: "task", task_id: "task" },
  returns: { status: 201, description: "The new task." },
  handle: retry,
};

async function retry(call: Call): Promise<Response> {
  const { store } = call.services;
  const found = await findTask(call);
  const { task_id: taskId } = call.body as { readonly task_id?: string };
  const isKnown = taskId !== undefined && (await store.task(taskId)) !== undefined;
  const { input, options: same } = await retryOf(store, found.record);
  const options = { ...same, ...(taskId !== undefined && { taskId }) };
  const run = await beginRun(
    call,
    agentOf(call, found),
    input,
    options,
    isKnown ? taskId : undefined,
  );
  const { taskId: id } = await run.task;
  const started = await findTask({ ...call, params: { id } });
  const more = { starting_after: await run.startsAfter };
  return showTask(call, started, isKnown ? 200 : 201, more);
}

/** The input and the options that repeat a task; throws `conflict` for a task that cannot be repeated. */
export async function retryOf(store: Store, record: TaskRecord) {
  if (record.parentTaskId !== undefined)
    throw notRetryable(record, "is the child of another task", "Retry its root task.");
  if (!/^(failed|cancelled|incomplete)$/.test(record.status) || record.observes || record.compacts)
    throw notRetryable(
      record,
      `is ${record.status}`,
      "Retry a task that has ended without success.",
    );
  const input = await inputOf(store, record);
  const { sessionId, outputSchema, budget, model, priority, metadata, origin } = record;
  const options = {
    sessionId,
    ...(outputSchema && { output: jsonSchema(outputSchema) }),
    ...(budget && { budget }),
    ...(model !== undefined && { model }),
    ...(priority !== undefined && { priority }),
    ...(metadata && { metadata }),
    ...(origin?.via && { origin: { via: origin.via } }),
  };
  return { input, options };
}

/** The messages that a task was started with, as its caller sent them. */
async function inputOf(store: Store, { taskId, sessionId, input }: TaskRecord): Promise<Input> {
  const messages =
    input ??
    (await store.session(sessionId)).filter(
      ({ metadata }) => metadata?.taskId === taskId && metadata.input === true,
    );
  return messages.map(asSent) as Input;
}

/** The next task gets ids and attachments of its own; attached files begin with a hint. */
function asSent({ role, name, content, metadata }: Message) {
  const { taskId: _, input: __, ...given } = metadata ?? {};
  const end = content.findIndex(({ type }) => type === "hint");
  return {
    ...{ role, content: end < 0 ? content : content.slice(0, end) },
    ...(name !== undefined && { name }),
    ...(Object.keys(given).length > 0 && { metadata: given }),
  };
}

function notRetryable({ taskId }: TaskRecord, why: string, hint: string): RivuletError {
  return new RivuletError("conflict", `Task ${taskId} ${why} and cannot be retried.`, { hint });
}
