import { postCancel } from "../../agent/index.ts";
import { onAbort } from "../../base/clock.ts";
import { notFound, RivuletError, rivuletErrorOf } from "../../base/error.ts";
import type { Agent, Answer, Approval, Reply, Run, TaskRecord } from "../../contract/index.ts";
import { isTerminal, subtreeOf, type TaskEvent, taskOf } from "../../protocol/index.ts";
import {
  agentOf,
  beginRun,
  type Call,
  checkBody,
  findTask,
  hashOf,
  ownedBy,
  taskIdOf,
} from "../../server/index.ts";
import { eventsUntil } from "../event-stream.ts";
import { waitingBelow } from "../root-task.ts";
import { textOf } from "./questions.ts";

/** The part of a request that tools need; over stdio there is no HTTP request behind it. */
export interface McpCall extends Pick<Call, "services" | "caller" | "names"> {
  readonly request: Pick<Request, "signal">;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
  /** Whether the client has cancelled the request, so that its task is cancelled. A lost connection cancels nothing. */
  readonly cancels?: () => boolean;
  /** The public address of a stored file. */
  readonly addressOf: (url: string) => string;
}

/** What starts a task. */
export interface Start {
  readonly message: string;
  readonly session?: string | undefined;
  readonly key?: string | undefined;
}

/** Starts a task of an agent, or finds the one that the same user has started with the same key. */
export async function startTask(
  call: McpCall,
  agent: Agent,
  { message, session, key }: Start,
): Promise<TaskRecord> {
  const { services, caller, names } = call;
  const sessionId = session === undefined ? undefined : await names.stored("session", session);
  const body = {
    ...{ agent: agent.name, input: message },
    ...(sessionId !== undefined && { session_id: sessionId }),
    ...(key !== undefined && { idempotency_key: key }),
  };
  const keyed = taskIdOf(body, caller.userId);
  const taskId = keyed && (await names.stored("task", keyed));
  const known = taskId === undefined ? undefined : await services.store.task(taskId);
  if (known) checkBody(known, body);
  const options = {
    ...(sessionId !== undefined && { sessionId }),
    ...(taskId !== undefined && { taskId, origin: { bodyHash: hashOf(body) } }),
  };
  const run = await beginRun(call, agent, message, options, known?.taskId);
  const { taskId: id } = await run.task;
  const { record } = await findTask({ ...call, params: { id } });
  checkBody(record, body);
  return record;
}

/** A root task of the caller. */
export async function findRoot(call: McpCall, id: string): Promise<TaskRecord> {
  const stored = await call.names.stored("task", id);
  const { record } = await findTask({ ...call, params: { id: stored } });
  if (record.depth > 0) throw notFound("task", id.slice(0, 128));
  return record;
}

/** Passes answers to a task that waits for them. */
export async function answerTask(
  call: McpCall,
  record: TaskRecord,
  answers: readonly Answer[],
): Promise<void> {
  if (answers.length === 0) return;
  const { sessionId, taskId } = record;
  await beginRun(call, agentOf(call, { root: record }), answers, { sessionId }, taskId);
}

/** Adds a message to a task that runs. */
export async function steerTask(call: McpCall, record: TaskRecord, message: string): Promise<void> {
  if (isTerminal(record.status))
    throw new RivuletError("task_ended", `Task ${record.taskId} has ended as ${record.status}.`, {
      hint: "Start another task with the same `session`.",
    });
  const run = attach(call, record);
  call.services.background(run.result());
  await run.steer(message);
}

/** Cancels a task and its descendants. */
export async function cancelTask(
  call: McpCall,
  { taskId, agentName, rootTaskId, status, ...record }: TaskRecord,
  reason: string,
): Promise<void> {
  if (isTerminal(status)) return;
  await postCancel(call.services.store, taskId, reason);
  const run = attach(call, { ...record, taskId, agentName, rootTaskId, status });
  call.services.background(Promise.all([run.cancel(reason), run.result()]));
}

function attach(call: McpCall, record: TaskRecord): Run<unknown> {
  const agent = agentOf(call, { root: record });
  const options = { ...ownedBy(call.caller), until: "root" } as const;
  const run = agent.attach?.({ taskId: record.taskId }, options);
  if (run) return run;
  throw new RivuletError("not_found", `The agent ${agent.name} has no stored tasks.`);
}

/** A task that rests: it has ended, or waits for answers. */
export interface Rested {
  readonly record: TaskRecord;
  readonly reply?: Reply<unknown>;
  readonly error?: RivuletError;
}

/** Waits until a task rests; `onEvent` gets the events of its tree meanwhile. */
export async function untilRest(
  call: McpCall,
  record: TaskRecord,
  onEvent?: (event: TaskEvent) => void,
): Promise<Rested> {
  const run = attach(call, record);
  const ending = run.result().then(
    (reply) => ({ reply }),
    (error: unknown) => ({ error: rivuletErrorOf(error) }),
  );
  const { promise: left, resolve } = Promise.withResolvers<undefined>();
  const ignoreAbort = onAbort(call.signal, () => resolve(undefined));
  try {
    if (onEvent)
      for await (const event of eventsUntil(run.events({ after: -1, until: "root" }), call.signal))
        onEvent(event);
    const ended = await Promise.race([ending, left]);
    if (ended === undefined) throw await stopped(call, record);
    const now = (await call.services.store.task(record.taskId)) ?? record;
    return { record: now, ...ended };
  } finally {
    ignoreAbort();
  }
}

async function stopped(call: McpCall, record: TaskRecord): Promise<RivuletError> {
  if (call.cancels?.()) await cancelTask(call, record, "The client cancelled the request.");
  return new RivuletError("shutting_down", "The wait for the task was ended.", {
    retryable: true,
    hint: `Read it with agent_get: ${record.taskId}.`,
  });
}

const maxSubagents = 100;

/** Where a task stands, as plain data. */
export interface Standing {
  readonly task_id: string;
  readonly session_id: string;
  readonly agent: string;
  readonly status: string;
  readonly text?: string;
  readonly error?: { readonly code: string; readonly message: string };
  readonly waiting?: readonly {
    readonly approval_id: string;
    readonly kind: Approval["kind"];
    readonly message: string;
    readonly tool: string;
    readonly input: unknown;
  }[];
  readonly subagents?: readonly { readonly path: string; readonly status: string }[];
  [field: string]: unknown;
}

/** Where a task stands: its last words, what it waits for, and its subagents. */
export async function standingOf(
  call: McpCall,
  { taskId, sessionId, agentName }: TaskRecord,
  answered: readonly Answer[] = [],
): Promise<Standing> {
  const { tree } = await call.services.trees.read(taskId);
  const record = await call.services.store.task(taskId);
  const task = taskOf(tree, taskId);
  const done = new Set(answered.map(({ approvalId }) => approvalId));
  const waiting = (await waitingBelow(call, taskId)).filter(({ id }) => !done.has(id));
  const said = task?.output.findLast((item) => item.type === "message");
  const text = said?.type === "message" ? wordsOf(said.block_list) : "";
  const below = subtreeOf(tree, taskId).slice(1, 1 + maxSubagents);
  return {
    task_id: taskId,
    session_id: sessionId,
    agent: agentName,
    status: record?.status ?? "unknown",
    ...(text !== "" && { text }),
    ...(task?.error && { error: { code: task.error.code, message: task.error.message } }),
    ...(waiting.length > 0 && {
      waiting: waiting.map((approval) => ({
        approval_id: approval.id,
        kind: approval.kind,
        message: textOf(approval),
        tool: approval.call.name,
        input: approval.call.input,
      })),
    }),
    ...(below.length > 0 && {
      subagents: below.map(({ source, agentId = "", status }) => ({
        path: source?.path ?? agentId,
        status,
      })),
    }),
  };
}

function wordsOf(blocks: readonly { readonly type: string }[]): string {
  return blocks
    .map((block) => (block.type === "text" && "text" in block ? block.text : ""))
    .join("");
}
