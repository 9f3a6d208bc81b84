import type { ResponseStreamEvent } from "openai/resources/responses/responses";
import { jsonSchema, postCancel } from "../../agent/index.ts";
import { RivuletError } from "../../base/error.ts";
import { isObject } from "../../base/plain.ts";
import type { Agent, Input, RunOptions, StandardSchema, TaskRecord } from "../../contract/index.ts";
import { isTerminal, type TaskEvent } from "../../protocol/index.ts";
import {
  badRequest,
  beginRun,
  type Call,
  deleteSession,
  findTask,
  forkSession,
  ownedBy,
} from "../../server/index.ts";
import { eventsUntil, Waiting } from "../event-stream.ts";
import { agentNamed, eventsOf, lastRootOf, waitingBelow } from "../root-task.ts";
import { ResponseEvents } from "./events.ts";
import { answersIn, isAnswer, messagesIn, readItems, schemaIn, toolsIn } from "./input.ts";
import { partOf, responseId, type Settings, settingsKey } from "./resource.ts";

interface CreateBody {
  readonly model: string;
  readonly input?: unknown;
  readonly instructions?: string;
  readonly previous_response_id?: string;
  readonly conversation?: string | Readonly<Record<string, unknown>>;
  readonly stream?: boolean;
  readonly background?: boolean;
  readonly tools?: readonly Readonly<Record<string, unknown>>[];
  readonly text?: Readonly<Record<string, unknown>>;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Lists the agents. */
export function listModels({ services, headers }: Call): Response {
  const data = [...services.agents.keys()].map((id) => ({
    id,
    object: "model",
    created: 0,
    owned_by: "rivulet",
  }));
  return Response.json({ object: "list", data }, { headers });
}

/** Starts a task, or continues the one that waits for the items of the request. */
export async function createResponse(call: Call): Promise<Response> {
  const body = call.body as unknown as CreateBody;
  const agent = call.services.agents.get(body.model);
  if (agent === undefined)
    throw new RivuletError(
      "not_found",
      `There is no model ${JSON.stringify(body.model.slice(0, 128))}.`,
      {
        hint: "A model is the name of an agent; list them with GET /openai/v1/models.",
      },
    );
  const items = readItems(body.input);
  const previous = await previousOf(call, body);
  const started = await (previous?.last.status === "suspended"
    ? answer(call, agent, previous.last, items)
    : begin(call, agent, body, items, previous));
  if (body.stream) return stream(call, started, -1);
  if (!body.background) await untilOver(call, started);
  return show(call, started);
}

/** The session that a request continues, its last root task, and the task that the request names. */
interface Previous {
  readonly sessionId: string;
  readonly last: TaskRecord;
  readonly named: TaskRecord;
}

async function previousOf(call: Call, body: CreateBody): Promise<Previous | undefined> {
  const { previous_response_id: id } = body;
  if (id !== undefined && body.conversation !== undefined)
    throw badRequest(
      "A request has `previous_response_id` or `conversation`.",
      "Send one of them.",
    );
  if (id !== undefined) {
    const { record: named } = await findResponse(call, id);
    const last = (await lastRootOf(call, named.sessionId)) ?? named;
    return { sessionId: named.sessionId, last, named };
  }
  const sessionId = await conversationOf(call, body);
  const last = sessionId === undefined ? undefined : await lastRootOf(call, sessionId);
  return sessionId !== undefined && last ? { sessionId, last, named: last } : undefined;
}

async function conversationOf(call: Call, { conversation }: CreateBody) {
  if (conversation === undefined) return undefined;
  const id = isObject(conversation) ? conversation.id : conversation;
  if (typeof id !== "string" || id === "")
    throw badRequest("`conversation.id` must be a non-empty string.", "Send the id.");
  return call.names.stored("session", id);
}

/** A part of a task, and the events of the task from its beginning to its next rest. */
interface Started {
  readonly record: TaskRecord;
  readonly part: number;
  readonly events: AsyncIterable<TaskEvent>;
}

const wholeLog = { after: -1, until: "root" } as const;

async function begin(
  call: Call,
  agent: Agent,
  body: CreateBody,
  items: readonly Readonly<Record<string, unknown>>[],
  previous: Previous | undefined,
): Promise<Started> {
  const { instructions, previous_response_id: previousId } = body;
  // A session of ours has the calls and results of its own tasks.
  const fresh = previous === undefined ? items : items.filter((item) => !isAnswer(item));
  const messages = messagesIn(instructions, fresh);
  if (!messages.some(({ role }) => role !== "system"))
    throw badRequest("`input` has no message.", "Send a text, or at least one message.");
  const sessionId = previous
    ? await sessionAfter(call, previous)
    : await conversationOf(call, body);
  const schema = schemaIn(body.text);
  const settings: Settings = {
    model: body.model,
    ...(instructions !== undefined && instructions.length <= 4_096 && { instructions }),
    ...(body.metadata && { metadata: body.metadata }),
    ...(schema === undefined && body.text && { text: body.text }),
    ...(body.background !== undefined && { background: body.background }),
    ...(previousId !== undefined && { previous: previousId }),
  };
  const tools = toolsIn(body.tools);
  const options: RunOptions<StandardSchema | undefined> = {
    metadata: { [settingsKey]: settings },
    ...(sessionId !== undefined && { sessionId }),
    ...(tools.length > 0 && { outsideTools: tools }),
    ...(schema && { output: jsonSchema(schema) }),
  };
  const run = await beginRun(call, agent, messages as Input, options);
  const { taskId } = await run.task;
  const { record } = await findTask({ ...call, params: { id: taskId } });
  return { record, part: 0, events: run.events(wholeLog) };
}

/** The session of the next task: a response that is not the last of its session continues in a copy. */
async function sessionAfter(call: Call, { last, named, sessionId }: Previous): Promise<string> {
  if (last.taskId === named.taskId) return sessionId;
  const fork = call.services.ids.next("sess");
  await forkSession(call, named, fork);
  return fork;
}

/** Passes the results and decisions of the client to the task that waits for them. */
async function answer(
  call: Call,
  agent: Agent,
  record: TaskRecord,
  items: readonly Readonly<Record<string, unknown>>[],
): Promise<Started> {
  const { taskId, sessionId } = record;
  const answers = answersIn(items, await waitingBelow(call, taskId));
  if (answers.length === 0)
    throw new RivuletError("session_suspended", "The response waits for results or approvals.", {
      hint: "Send function_call_output or mcp_approval_response items for what it waits for.",
    });
  const part = (await partsOf(call, agent, record)) + 1;
  const run = await beginRun(call, agent, answers, { sessionId }, taskId);
  return { record, part, events: run.events(wholeLog) };
}

/** How often the client has answered a task. */
async function partsOf(call: Call, agent: Agent, record: TaskRecord): Promise<number> {
  let parts = 0;
  let isWaiting = false;
  for await (const event of eventsOf(call, agent, record.taskId)) {
    if (event.type === "error" || event.task_id !== record.taskId) continue;
    if (event.type === "task.suspended") isWaiting = true;
    if (event.type === "task.resumed" && isWaiting) {
      isWaiting = false;
      parts += 1;
    }
  }
  return parts;
}

/** A response of the caller. */
async function findResponse(call: Call, id: string): Promise<Started> {
  const found = partOf(id);
  if (found === undefined) throw noResponse(id);
  const { record } = await findTask({ ...call, params: { id: found.taskId } }).catch(() => {
    throw noResponse(id);
  });
  if (record.depth > 0) throw noResponse(id);
  const events = eventsOf(call, agentNamed(call, record.agentName), record.taskId);
  return { record, part: found.part, events };
}

function noResponse(id: string): RivuletError {
  return new RivuletError(
    "not_found",
    `There is no response ${JSON.stringify(id.slice(0, 128))}.`,
    {
      hint: "Responses exist until their session is deleted.",
    },
  );
}

/** Shows a response, or follows its events. */
export async function retrieveResponse(call: Call): Promise<Response> {
  const found = await findResponse(call, call.params.id ?? "");
  const { stream: isStream, starting_after: after = -1 } = call.query as {
    stream?: boolean;
    starting_after?: number;
  };
  return isStream ? stream(call, found, after) : show(call, found);
}

/** Cancels a response with its subagents, and shows it once it has ended. */
export async function cancelResponse(call: Call): Promise<Response> {
  const { services, caller } = call;
  const found = await findResponse(call, call.params.id ?? "");
  const { taskId, status, agentName } = found.record;
  if (!isTerminal(status)) {
    await postCancel(services.store, taskId, "cancelled");
    const run = agentNamed(call, agentName).attach?.({ taskId }, ownedBy(caller));
    if (run) services.background(Promise.all([run.cancel("cancelled"), run.result()]));
    await untilOver(call, found);
  }
  return show(call, await findResponse(call, call.params.id ?? ""));
}

/** Lists the messages that a task was started with. */
export async function listInput(call: Call): Promise<Response> {
  const { record } = await findResponse(call, call.params.id ?? "");
  const { store } = call.services;
  const stored = record.input ?? (await store.session(record.sessionId));
  const own = stored.filter(
    ({ metadata }) => record.input || (metadata?.taskId === record.taskId && metadata.input),
  );
  const data = own.map(({ id, role, content }) => ({
    id,
    type: "message",
    role,
    status: "completed",
    content: content.flatMap((block) =>
      block.type === "text" ? [{ type: "input_text", text: block.text }] : [],
    ),
  }));
  const [first, last] = [data[0]?.id ?? null, data.at(-1)?.id ?? null];
  const body = { object: "list", data, first_id: first, last_id: last, has_more: false };
  return Response.json(body, { headers: call.headers });
}

/** Deletes the session of a response that is its only task. */
export async function deleteResponse(call: Call): Promise<Response> {
  const { id = "" } = call.params;
  const { record } = await findResponse(call, id);
  const { sessionId } = record;
  const tasks = await call.services.store.tasks({ sessionId, limit: 2 });
  if (tasks.length > 1)
    throw new RivuletError("conflict", "Other responses of the conversation follow this one.", {
      hint: "Delete the session: DELETE /v1/sessions/{id}.",
    });
  await deleteSession(call, sessionId);
  return Response.json({ id, object: "response", deleted: true }, { headers: call.headers });
}

/** Translates a response up to where the log stands. */
async function show(call: Call, { record, part, events: log }: Started): Promise<Response> {
  const { taskId } = record;
  const last = await call.services.store.last(taskId);
  const events = new ResponseEvents(record, part);
  for await (const event of last < 0 ? [] : log) {
    events.translate(event);
    if ("sequence_number" in event && event.sequence_number >= last) break;
  }
  if (!events.isReached) throw noResponse(responseId(taskId, part));
  return Response.json(events.resource(), { headers: call.headers });
}

/** Waits until the response is over, or the caller has left. */
async function untilOver(call: Call, { record, part, events: log }: Started): Promise<void> {
  const waiting = new Waiting(call);
  const events = new ResponseEvents(record, part);
  try {
    for await (const event of eventsUntil(log, waiting.signal)) {
      events.translate(event);
      if (events.isReached && events.isOver) return;
    }
  } finally {
    waiting.end();
  }
}

function stream(call: Call, { record, part, events: log }: Started, after: number): Response {
  const waiting = new Waiting(call);
  const events = new ResponseEvents(record, part);
  return waiting.stream(frames(events, eventsUntil(log, waiting.signal), after));
}

async function* frames(
  events: ResponseEvents,
  log: AsyncIterable<TaskEvent>,
  after: number,
): AsyncGenerator<string, void> {
  for await (const event of log) {
    const news = events.translate(event).filter(({ sequence_number }) => sequence_number > after);
    if (news.length > 0) yield news.map(encode).join("");
    if (events.isReached && events.isOver) break;
  }
  yield "data: [DONE]\n\n";
}

function encode(event: ResponseStreamEvent): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}
