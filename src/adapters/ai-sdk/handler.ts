import type { UIMessageChunk } from "ai";
import type { Agent, Approval, Input, TaskRecord } from "../../contract/index.ts";
import type { TaskEvent } from "../../protocol/index.ts";
import { badRequest, beginRun, type Call, forkSession, ownedBy } from "../../server/index.ts";
import { eventsUntil, Waiting } from "../event-stream.ts";
import { publicAddress } from "../foreign-media.ts";
import { agentNamed, cancelRoot, eventsOf, lastRootOf, waitingBelow } from "../root-task.ts";
import { UiChunks } from "./link-chunks.ts";
import { answersIn, inputOf, readMessages, type UiMessage } from "./link-messages.ts";

const streamHeaders = { "x-vercel-ai-ui-message-stream": "v1" };
const lastFrame = "data: [DONE]\n\n";

/** The session that holds a chat, with its last root task. */
interface Chat {
  /** How often an answer of the chat was regenerated: each time it continues in another session. */
  readonly branch: number;
  readonly sessionId: string;
  readonly last: TaskRecord | undefined;
}

/** Answers a POST of `useChat`: what the last message says decides what it does. */
export async function sendMessages(call: Call): Promise<Response> {
  const { id, messages: given, trigger, agent: name, model } = call.body as unknown as ChatBody;
  const messages = readMessages(given);
  const message = messages.at(-1);
  if (message === undefined) throw badRequest("`messages` is empty.", "Send at least one message.");
  const chat = await findChat(call, id);
  const agent = agentNamed(call, name, chat.last);
  const options = model === undefined ? {} : { model };
  if (trigger === "regenerate-message") return regenerate(call, id, chat, agent, messages, options);
  if (message.role === "assistant") return answer(call, chat, agent, message);
  if (chat.last && isAtWork(chat.last)) return steer(call, chat.last, agent, message);
  const input = chat.last === undefined ? inputOf(messages) : inputOf([message]);
  return begin(call, agent, input, { ...options, sessionId: chat.sessionId });
}

interface ChatBody {
  readonly id: string;
  readonly messages: readonly Readonly<Record<string, unknown>>[];
  readonly trigger?: "submit-message" | "regenerate-message";
  readonly agent?: string;
  readonly model?: string;
}

function isAtWork({ status }: TaskRecord): boolean {
  return status === "queued" || status === "in_progress";
}

/** Finds the session of a chat: the newest of its branches. */
async function findChat(call: Call, chatId: string): Promise<Chat> {
  let found: Chat | undefined;
  for (let branch = 0; ; branch++) {
    const sessionId = await branchOf(call, chatId, branch);
    const last = await lastRootOf(call, sessionId);
    if (last === undefined) return found ?? { branch, sessionId, last };
    found = { branch, sessionId, last };
  }
}

function branchOf({ names }: Call, chatId: string, branch: number): Promise<string> {
  return names.stored("session", branch === 0 ? chatId : `${chatId}.${branch}`);
}

async function begin(
  call: Call,
  agent: Agent,
  input: readonly object[],
  options: { readonly sessionId: string; readonly model?: string },
): Promise<Response> {
  if (input.length === 0)
    throw badRequest("The last message has neither a text nor a file.", "Send one of them.");
  const run = await beginRun(call, agent, input as unknown as Input, options);
  return respond(call, await run.task, run.events({ after: -1, until: "root" }), -1);
}

/** Answers what the task waits for, and continues its message. */
async function answer(
  call: Call,
  { sessionId, last }: Chat,
  agent: Agent,
  message: UiMessage,
): Promise<Response> {
  const waiting: readonly Approval[] =
    last?.status === "suspended" ? await waitingBelow(call, last.taskId) : [];
  const answers = answersIn(message, waiting);
  if (last === undefined || answers.length === 0)
    throw badRequest(
      "The last message is the assistant's, and has no answer that the chat waits for.",
      "Send a message of the user, or answer an approval that is open.",
    );
  const run = await beginRun(call, agent, answers, { sessionId }, last.taskId);
  const after = await run.startsAfter;
  return respond(call, last, run.events({ after: -1, until: "root" }), after);
}

/** Repeats the last message of the user in a branch that does not have the answer. */
async function regenerate(
  call: Call,
  chatId: string,
  chat: Chat,
  agent: Agent,
  messages: readonly UiMessage[],
  options: { readonly model?: string },
): Promise<Response> {
  const end = messages.findLastIndex(({ role }) => role === "user") + 1;
  const question = messages[end - 1];
  if (question === undefined)
    throw badRequest("`messages` has no message of the user.", "Send the messages of the chat.");
  const sessionId = await branchOf(call, chatId, chat.branch + 1);
  const before = messages.slice(0, end).findLast(({ role }) => role === "assistant");
  const origin = before && (await call.services.store.task(before.id));
  const isKept = origin !== undefined && origin.userId === call.caller.userId;
  if (!isKept)
    return begin(call, agent, inputOf(messages.slice(0, end)), { ...options, sessionId });
  await forkSession(call, origin, sessionId);
  return begin(call, agent, inputOf([question]), { ...options, sessionId });
}

/** Adds a message to the answer that is being written, whose stream shows it; this response only waits for its end. */
async function steer(
  call: Call,
  { taskId }: TaskRecord,
  agent: Agent,
  message: UiMessage,
): Promise<Response> {
  const run = agent.attach?.({ taskId }, { ...ownedBy(call.caller), until: "root" });
  const [input] = inputOf([message]);
  if (run === undefined || input === undefined)
    throw badRequest("The message has no text.", "Send a text.");
  await run.steer({ ...input, id: call.services.ids.next("msg") });
  call.services.background(run.result());
  const waiting = waitingFor(call);
  const events = eventsUntil(run.events({ until: "root" }), waiting.signal);
  return waiting.stream(untilOver(events));
}

async function* untilOver(events: AsyncIterable<TaskEvent>): AsyncGenerator<string, void> {
  for await (const _ of events);
  yield encode({ type: "finish" }) + lastFrame;
}

/** Answers a GET of `resumeStream`: the message from its beginning, because the page starts it anew. */
export async function resumeStream(call: Call): Promise<Response> {
  const { last } = await findChat(call, call.params.id ?? "");
  if (call.request.method === "HEAD")
    throw badRequest("A stream has no HEAD.", "Use GET.", "method_not_allowed");
  if (last === undefined || !isAtWork(last))
    return new Response(null, { status: 204, headers: call.headers });
  const agent = agentNamed(call, last.agentName);
  return respond(call, last, eventsOf(call, agent, last.taskId), -1);
}

/** Cancels the answer that is being written; closing its stream does not. */
export async function stop(call: Call): Promise<Response> {
  const { last } = await findChat(call, call.params.id ?? "");
  return Response.json({ stopped: await cancelRoot(call, last) }, { headers: call.headers });
}

function waitingFor(call: Call): Waiting {
  return new Waiting({ ...call, headers: { ...call.headers, ...streamHeaders } });
}

/** Streams the message of a task: the chunks for its events after a number. */
function respond(
  call: Call,
  task: Pick<TaskRecord, "taskId" | "sessionId">,
  events: AsyncIterable<TaskEvent>,
  after: number,
): Response {
  const waiting = waitingFor(call);
  const { services, request } = call;
  const { origin, pathname } = new URL(request.url);
  const [mount = ""] = pathname.split("/api/chat", 1);
  const base = services.publicUrl?.replace(/\/+$/, "") ?? `${origin}${mount}`;
  const chunks = new UiChunks(task, (url) => publicAddress(base, url));
  return waiting.stream(frames(chunks, eventsUntil(events, waiting.signal), after));
}

async function* frames(
  chunks: UiChunks,
  events: AsyncIterable<TaskEvent>,
  after: number,
): AsyncGenerator<string, void> {
  yield encode(chunks.start);
  for await (const event of events) {
    const translated = chunks.translate(event);
    const isNew = !("sequence_number" in event) || event.sequence_number > after;
    if (isNew && translated.length > 0) yield translated.map(encode).join("");
  }
  yield lastFrame;
}

function encode(chunk: UIMessageChunk): string {
  return `data: ${JSON.stringify(chunk)}\n\n`;
}
