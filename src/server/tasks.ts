import { isDeepStrictEqual } from "node:util";
import { jsonSchema, lowerBudget, postCancel, runFields, settingsBehind } from "../agent/index.ts";
import { RivuletError } from "../base/error.ts";
import * as is from "../base/options.ts";
import {
  type Answer,
  type AnswerBlock,
  type Budget,
  budgetField,
  type Input,
  type Message,
  originFields,
  outsideToolsField,
  type RunOptions,
  resultState,
  type Store,
  type TaskRecord,
  type Via,
} from "../contract/index.ts";
import { isTerminal, materialize, snapshotOf, taskOf } from "../protocol/index.ts";
import { storeIdOf } from "../store/index.ts";
import { badRequest, unknownAgent } from "./errors.ts";
import { agentOf, type FoundTask, findTask, ownedBy } from "./found-task.ts";
import { checkBody, hashOf, taskIdOf } from "./idempotency.ts";
import type { Call, Route } from "./route.ts";
import { beginRun } from "./runs.ts";
import type { StreamOptions } from "./stream.ts";
import { waitOf } from "./waits.ts";

const input: is.Field = {
  fits: (value) => typeof value === "string" || (typeof value === "object" && value !== null),
  expected: "a text, a message, or an array of messages",
  schema: { type: ["string", "object", "array"] },
};
const key: is.Field = {
  fits: (value) => typeof value === "string" && value.length >= 1 && value.length <= 256,
  expected: "1 to 256 characters",
  schema: { type: "string", minLength: 1, maxLength: 256 },
};
/** The field of an id, for the OpenAPI document. */
export const idField = (field: is.Field): is.Field => ({
  ...field,
  schema: { type: "string", minLength: 1, maxLength: 128 },
});

const startFields = {
  agent: is.required(is.name, '"assistant"'),
  input,
  session_id: idField(runFields.sessionId),
  task_id: idField(runFields.taskId),
  stream: is.flag,
  idempotency_key: key,
  metadata: { ...runFields.metadata, schema: { type: "object" } },
  on_busy: is.oneOf("queue", "fail"),
  on_suspended: is.oneOf("fail", "deny"),
  cancel_on_disconnect: is.flag,
  output: is.data,
  budget: budgetField,
  model: is.name,
  priority: runFields.priority,
  outside_tools: outsideToolsField,
  answers: is.list,
  via: originFields.via,
};
/** The ids in an answer. */
const answerIds = { taskId: "task", rootTaskId: "task" } as const;
const startIds = {
  task_id: "task",
  session_id: "session",
  answers: answerIds,
  input: answerIds,
} as const;

/** The body that starts or continues a task. */
export interface StartBody {
  readonly agent: string;
  readonly input?: Input;
  readonly session_id?: string;
  readonly task_id?: string;
  readonly stream?: boolean;
  readonly idempotency_key?: string;
  readonly metadata?: Record<string, unknown>;
  readonly on_busy?: "queue" | "fail";
  readonly on_suspended?: "fail" | "deny";
  readonly cancel_on_disconnect?: boolean;
  readonly output?: object;
  readonly budget?: NonNullable<RunOptions["budget"]>;
  readonly model?: string;
  readonly priority?: NonNullable<RunOptions["priority"]>;
  readonly outside_tools?: NonNullable<RunOptions["outsideTools"]>;
  readonly answers?: readonly Answer[];
  readonly via?: Via;
}

const eventsQuery = {
  starting_after: is.integer(-1, Number.MAX_SAFE_INTEGER),
  from: is.oneOf("now"),
  depth: is.integer(0, 64),
  path: is.name,
  include: is.listOf(is.name),
  exclude: is.listOf(is.name),
  until: is.oneOf("root", "tree", "idle"),
  event_names: is.oneOf("on", "off"),
  on_expired: is.oneOf("snapshot", "error"),
};

const answerFields = {
  type: is.oneOf("answer"),
  approvalId: is.name,
  taskId: is.name,
  rootTaskId: is.name,
  decision: is.required(is.oneOf("approve", "deny", "edit", "answer"), '"approve"'),
  input: is.anything,
  output: is.list,
  state: resultState,
  reason: is.text,
  always: is.flag,
};

const taskReturned = { status: 200, description: "The task, with its output." };

/** The routes of tasks. */
export const taskRoutes: readonly Route[] = [
  {
    method: "POST",
    path: "/v1/tasks",
    needs: "write",
    summary: "Start a task, or continue the unfinished task of a session.",
    body: startFields,
    ids: startIds,
    returns: { status: 201, description: "The task. With `stream: true`, a stream of events." },
    handle: start,
  },
  {
    method: "GET",
    path: "/v1/tasks/:id",
    needs: "read",
    summary: "Read a task with its output.",
    returns: taskReturned,
    ids: { id: "task" },
    handle: async (call) => showTask(call, await findTask(call), 200),
  },
  {
    method: "GET",
    path: "/v1/tasks/:id/document",
    needs: "read",
    summary: "Read the document of a task: its output with that of its descendants.",
    query: { seed: is.flag, include: is.listOf(is.oneOf("content")) },
    ids: { id: "task" },
    returns: { status: 200, description: "The document." },
    handle: showDocument,
  },
  {
    method: "GET",
    path: "/v1/tasks/:id/events",
    needs: "read",
    summary: "Follow the events of a task and its descendants.",
    query: eventsQuery,
    ids: { id: "task", path: "path" },
    returns: { status: 200, type: "text/event-stream", description: "Server-sent events." },
    isStream: true,
    handle: followEvents,
  },
  {
    method: "POST",
    path: "/v1/tasks/:id/input",
    needs: "write",
    summary: "Steer a running task.",
    body: { input: is.required(input, '"Be brief."') },
    ids: { id: "task" },
    returns: { status: 202, description: "The task." },
    handle: steer,
  },
  {
    method: "POST",
    path: "/v1/tasks/:id/cancel",
    needs: "write",
    summary: "Cancel a task and its descendants.",
    body: { reason: { ...key, expected: "1 to 256 characters" } },
    ids: { id: "task" },
    returns: { status: 202, description: "The task." },
    handle: cancel,
  },
  {
    method: "POST",
    path: "/v1/tasks/:id/approvals/:approval_id",
    needs: "write",
    summary: "Answer an approval.",
    body: answerFields,
    ids: { id: "task", ...answerIds },
    returns: { status: 202, description: "The task." },
    handle: answer,
  },
];

async function start(call: Call): Promise<Response> {
  const { services, caller } = call;
  const body = call.body as unknown as StartBody;
  const agent = services.agents.get(body.agent);
  if (agent === undefined) throw unknownAgent(body.agent, services.agents);
  if (body.cancel_on_disconnect && !body.stream)
    throw badRequest("`cancel_on_disconnect` needs `stream`.", "Pass `stream: true` as well.");
  const given = inputOf(body);
  const keyed = taskIdOf(body, caller.userId);
  const taskId = body.task_id ?? (keyed && (await call.names.stored("task", keyed)));
  const isText = Array.isArray(given) ? given.some((one) => !isAnswer(one)) : given !== undefined;
  const isKnown = taskId !== undefined && (await services.store.task(taskId)) !== undefined;
  const options = {
    ...optionsOf(body, settingsBehind(agent)?.budget),
    ...(isText && taskId !== undefined && { taskId }),
    ...(await originOf(call, body)),
  };
  const continued = isText ? (isKnown ? taskId : undefined) : (body.answers?.[0]?.rootTaskId ?? "");
  const run = await beginRun(call, agent, given, options, continued);
  const ref = await run.task;
  const found = await findTask({ ...call, params: { id: ref.taskId } });
  if (ref.taskId === taskId) checkBody(found.record, body);
  if (!body.stream)
    return showTask(call, found, isKnown ? 200 : 201, { starting_after: await run.startsAfter });
  return openStream(call, found, { after: -1 }, (isFinal) => {
    if (body.cancel_on_disconnect && !isFinal)
      services.background(run.cancel("The client disconnected."));
  });
}

/** The options of a run that its body names. */
function optionsOf(body: StartBody, own: Budget | undefined) {
  return {
    ...(body.session_id !== undefined && { sessionId: body.session_id }),
    ...(body.metadata && { metadata: body.metadata }),
    ...(body.on_busy && { onBusy: body.on_busy }),
    ...(body.on_suspended && { onSuspended: body.on_suspended }),
    // A client may lower the limits of the agent, not raise them.
    ...(body.budget && { budget: lowerBudget(own, body.budget) }),
    ...(body.model !== undefined && { model: body.model }),
    ...(body.priority !== undefined && { priority: body.priority }),
    ...(body.outside_tools && { outsideTools: body.outside_tools }),
    ...(body.output && { output: jsonSchema(body.output) }),
  };
}

/** Where a new task comes from; throws if a server with the store of this one waits for it. */
async function originOf(
  { services, request }: Call,
  body: StartBody,
): Promise<Pick<RunOptions, "origin">> {
  const { via, input } = body;
  if (via?.stores.includes(await storeIdOf(services.store)))
    throw new RivuletError("remote_loop", "A task on this server waits for this one.", {
      hint: "Declare the agent where it is needed, or give its server a store of its own.",
    });
  const header = request.headers.get("traceparent");
  const isTraced = header !== null && originFields.traceparent.fits(header);
  const origin = {
    ...(isTraced && { traceparent: header }),
    ...(via && { via }),
    ...(body.idempotency_key !== undefined && { bodyHash: hashOf(body) }),
  };
  return input === undefined || Object.keys(origin).length === 0 ? {} : { origin };
}

/** Answers and messages of a body, as `run` takes them. */
function inputOf({ input: given, answers = [] }: StartBody): Input {
  if (answers.length === 0) return given === null ? undefined : given;
  const messages = given === undefined || given === null ? [] : [given].flat();
  return [...answers, ...messages.map(asMessage)] as Input;
}

function asMessage(one: unknown): unknown {
  return typeof one === "string" ? { role: "user", content: one } : one;
}

function isAnswer(one: unknown): boolean {
  return typeof one === "object" && one !== null && "type" in one && one.type === "answer";
}

/** Answers with a task; one that was just started has a `location`. */
export async function showTask(
  call: Call,
  { record, root }: FoundTask,
  status: number,
  more: object = {},
): Promise<Response> {
  const { services, request, headers } = call;
  const { tree, through } = await services.trees.read(root.taskId);
  const at = { sequenceNumber: Math.max(0, through), createdAt: record.createdAt };
  const snapshot = taskOf(tree, record.taskId) && snapshotOf(tree, record.taskId, at);
  const task = snapshot?.task ?? { ...queuedTask(record), output: [] };
  const wait = await waitOf(call, { record, root });
  // A queued task has no event yet, so its state is part of the tag.
  const { reason, left_ms } = wait?.waits ?? {};
  const tag = `"${[through, record.status, reason, left_ms].filter((part) => part !== undefined).join("-")}"`;
  const tagged = { ...headers, etag: tag, "cache-control": "no-cache" };
  if (request.method === "GET" && request.headers.get("if-none-match") === tag)
    return new Response(null, { status: 304, headers: tagged });
  const { pathname } = new URL(request.url);
  const tasks = pathname.slice(0, pathname.lastIndexOf("/v1/tasks"));
  const location: Record<string, string> =
    status === 201 ? { location: `${tasks}/v1/tasks/${record.taskId}` } : {};
  const body = {
    ...task,
    root_task_id: root.taskId,
    last_sequence_number: through,
    ...(record.model !== undefined && { model: record.model }),
    ...wait,
    ...more,
  };
  return Response.json(body, { status, headers: { ...tagged, ...location } });
}

/** A task that has no event yet. */
function queuedTask(record: TaskRecord) {
  const { taskId, status, agentId, sessionId, createdAt, metadata } = record;
  return {
    id: taskId,
    object: "task" as const,
    status,
    agent_id: agentId,
    session_id: sessionId,
    created_at: createdAt,
    ...(metadata && { metadata }),
  };
}

async function showDocument(call: Call): Promise<Response> {
  const { record, root } = await findTask(call);
  const { tree, through } = await call.services.trees.read(root.taskId);
  const isEmpty = taskOf(tree, record.taskId) === undefined;
  const { seed = false, include = [] } = call.query as {
    readonly seed?: boolean;
    readonly include?: readonly "content"[];
  };
  const document = isEmpty
    ? { task_id: record.taskId, output: [] }
    : materialize(tree, record.taskId, { seed, include });
  const headers = { ...call.headers, etag: `"${through}"`, "cache-control": "no-cache" };
  return Response.json(document, { headers });
}

async function followEvents(call: Call): Promise<Response> {
  const found = await findTask(call);
  const { query, request } = call;
  const header = request.headers.get("last-event-id");
  if (header !== null && header !== "" && !/^\d{1,15}$/.test(header))
    throw badRequest(
      `Last-Event-ID must be a number, got ${JSON.stringify(header.slice(0, 100))}.`,
      "Send the id of the last event that you have.",
      "invalid_cursor",
    );
  const after = header ? Number(header) : ((query.starting_after as number | undefined) ?? -1);
  const { starting_after: _, event_names, on_expired, from, ...rest } = query;
  return openStream(call, found, {
    ...(rest as Partial<StreamOptions>),
    after,
    // A reader that comes back has a place in the log.
    ...(from === "now" && !header && { from }),
    eventNames: event_names !== "off",
    ...(on_expired === "error" && { onExpired: "error" as const }),
  });
}

function openStream(
  call: Call,
  found: FoundTask,
  options: StreamOptions,
  onClose: (isFinal: boolean) => void = () => {},
): Promise<Response> {
  if (call.request.method === "HEAD")
    throw badRequest("A stream has no HEAD.", "Use GET.", "method_not_allowed");
  const close = call.openStream();
  return call.services.streams
    .open(call, found, options, (isFinal) => {
      close();
      onClose(isFinal);
    })
    .catch((error: unknown) => {
      close();
      throw error;
    });
}

async function steer(call: Call): Promise<Response> {
  const { services, caller, body } = call;
  const found = await findTask(call);
  const { taskId, status } = found.record;
  if (isTerminal(status)) throw taskEnded(found.record);
  const run = agentOf(call, found).attach?.({ taskId }, ownedBy(caller));
  if (run) services.background(run.result());
  await run?.steer(body.input as string | Message);
  return showTask(call, found, 202);
}

async function cancel(call: Call): Promise<Response> {
  const { services, caller, body } = call;
  const found = await findTask(call);
  const { taskId } = found.record;
  const reason = (body.reason as string | undefined) ?? "cancelled";
  await postCancel(services.store, taskId, reason);
  // Whatever process owns the task reads the row; if none does, this one takes it over.
  const run = agentOf(call, found).attach?.({ taskId }, ownedBy(caller));
  if (run) services.background(Promise.all([run.cancel(reason), run.result()]));
  return showTask(call, found, 202);
}

async function answer(call: Call): Promise<Response> {
  const { services, params, body } = call;
  const found = await findTask(call);
  const { record, root } = found;
  const { approval_id: approvalId = "" } = params;
  const named = { approvalId, taskId: record.taskId, rootTaskId: root.taskId };
  for (const [name, value] of Object.entries(named)) {
    const given = body[name];
    if (given === undefined || given === value) continue;
    throw badRequest(`\`${name}\` is not that of the address.`, "Leave it out.");
  }
  const sent = { ...body, type: "answer", ...named } as Answer;
  const { sessionId } = root;
  try {
    await beginRun(call, agentOf(call, found), sent, { sessionId }, root.taskId);
  } catch (error) {
    if (!(error instanceof RivuletError) || error.code !== "unknown_approval") throw error;
    await checkAnswered(services.store, record, sent, error);
  }
  return showTask(call, found, 202);
}

/** A second answer is fine if it says the same as the first. */
async function checkAnswered(
  store: Store,
  { sessionId }: TaskRecord,
  { approvalId, decision, input, output }: Answer,
  unknown: RivuletError,
): Promise<void> {
  const blocks = (await store.session(sessionId)).flatMap(({ content }) => content);
  const first = blocks.find(
    (block): block is AnswerBlock => block.type === "answer" && block.approvalId === approvalId,
  );
  if (first === undefined)
    throw new RivuletError("not_found", `There is no approval ${approvalId.slice(0, 128)}.`, {
      hint: unknown.hint ?? "List the approvals of the session.",
    });
  const sent = { decision, input, output };
  if (
    isDeepStrictEqual(sent, { decision: first.decision, input: first.input, output: first.output })
  )
    return;
  throw new RivuletError(
    "already_answered",
    `Approval ${approvalId} was answered before with ${first.decision}.`,
    { hint: "List the open approvals of the session." },
  );
}

function taskEnded({ taskId, status }: TaskRecord): RivuletError {
  return new RivuletError("task_ended", `Task ${taskId} has ended as ${status}.`, {
    hint: "Start another task in the same session.",
  });
}
