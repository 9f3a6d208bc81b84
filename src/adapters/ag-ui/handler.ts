import { createHash } from "node:crypto";
import type { Event as AguiEvent } from "@ag-ui/core";
import { RivuletError } from "../../base/error.ts";
import { isObject } from "../../base/plain.ts";
import type {
  Agent,
  Answer,
  Approval,
  Block,
  Input,
  InputMessage,
  OutsideTool,
  TaskRecord,
} from "../../contract/index.ts";
import { isTerminal, type TaskEvent, type Tree } from "../../protocol/index.ts";
import { badRequest, beginRun, type Call } from "../../server/index.ts";
import { eventsUntil, Waiting } from "../event-stream.ts";
import { mediaBlock, publicAddress } from "../foreign-media.ts";
import { agentNamed, cancelRoot, eventsOf, lastRootOf, waitingBelow } from "../root-task.ts";
import { AguiEvents, type RunIds } from "./events.ts";

type Fields = Readonly<Record<string, unknown>>;

interface RunBody extends RunIds {
  readonly messages: readonly Fields[];
  readonly tools?: readonly Fields[];
  readonly resume?: readonly Fields[];
}

/** A run of the client: a task, and the number of the last event before it. */
interface Started {
  readonly taskId: string;
  readonly events: AsyncIterable<TaskEvent>;
  readonly after: number;
  /** The state of a run that the client joins, and the messages to start anew with. */
  readonly joins?: { readonly tree: Tree; readonly messages: readonly Fields[] };
}

const wholeLog = { after: -1, until: "root" } as const;

/** Runs an agent for a request of `HttpAgent`. */
export async function runAgent(call: Call): Promise<Response> {
  const body = call.body as unknown as RunBody;
  const { threadId, runId } = body;
  const agent = agentNamed(call, call.params.agent);
  const sessionId = await call.names.stored("session", threadId);
  const last = await lastRootOf(call, sessionId);
  const started = await start(call, agent, sessionId, last, body);
  const waiting = new Waiting(call);
  const { origin, pathname } = new URL(call.request.url);
  const [mount = ""] = pathname.split("/agui/", 1);
  const base = call.services.publicUrl?.replace(/\/+$/, "") ?? `${origin}${mount}`;
  const events = new AguiEvents(started.taskId, { threadId, runId }, (url) =>
    publicAddress(base, url),
  );
  return waiting.stream(frames(events, started, waiting.signal));
}

async function start(
  call: Call,
  agent: Agent,
  sessionId: string,
  last: TaskRecord | undefined,
  body: RunBody,
): Promise<Started> {
  // The id of a run is the client's: a request that is sent again joins the run.
  const text = JSON.stringify(["ag-ui", sessionId, body.runId]);
  const hash = createHash("sha256").update(text).digest("base64url").slice(0, 40);
  const taskId = await call.names.stored("task", `task_${hash}`);
  if (last?.taskId === taskId && last.status !== "suspended") return join(call, agent, last, body);
  if (last?.status === "suspended") {
    const answers = answersIn(body, await waitingBelow(call, last.taskId));
    if (answers.length === 0 && last.taskId === taskId) return join(call, agent, last, body);
    if (answers.length === 0)
      throw new RivuletError("session_suspended", "The thread waits for interrupts or tools.", {
        hint: "Send `resume` for its interrupts, or tool messages for its pending calls.",
      });
    const run = await beginRun(call, agent, answers, { sessionId }, last.taskId);
    const after = await run.startsAfter;
    return { taskId: last.taskId, events: run.events(wholeLog), after };
  }
  const input = inputOf(last === undefined ? body.messages : lastMessages(body.messages));
  // A request that answered the task already, and was sent again.
  const hasAnswered = (body.resume?.length ?? 0) > 0;
  if (last && (hasAnswered || (input.length === 0 && !isTerminal(last.status))))
    return join(call, agent, last, body);
  if (input.length === 0)
    throw badRequest("`messages` has no message of the user.", "Send at least one.");
  const tools = toolsOf(body.tools);
  const options = { taskId, sessionId, ...(tools.length > 0 && { outsideTools: tools }) };
  const run = await beginRun(call, agent, input as Input, options);
  return { taskId, events: run.events(wholeLog), after: -1 };
}

/** Joins a run as it stands: AG-UI has no cursor. */
async function join(
  call: Call,
  agent: Agent,
  { taskId }: TaskRecord,
  { messages }: RunBody,
): Promise<Started> {
  const { tree, through } = await call.services.trees.read(taskId);
  const events = eventsOf(call, agent, taskId, through);
  return { taskId, events, after: through, joins: { tree, messages } };
}

/** Cancels the run of a thread with its subagents; closing its stream does not. */
export async function stopRun(call: Call): Promise<Response> {
  const sessionId = await call.names.stored("session", String(call.body.threadId));
  const last = await lastRootOf(call, sessionId);
  const isAgents = last?.agentName === agentNamed(call, call.params.agent).name;
  const stopped = isAgents && (await cancelRoot(call, last));
  return Response.json({ stopped }, { headers: call.headers });
}

/** The messages after the last answer: a session of ours has the others. */
function lastMessages(messages: readonly Fields[]): readonly Fields[] {
  const isOfAgent = ({ role }: Fields) => role === "assistant" || role === "tool";
  return messages.slice(messages.findLastIndex(isOfAgent) + 1);
}

const roles = {
  user: "user",
  assistant: "assistant",
  system: "system",
  developer: "system",
} as const;

function inputOf(messages: readonly Fields[]): readonly InputMessage[] {
  return messages.flatMap(({ role, content }): readonly InputMessage[] => {
    const ours = Object.hasOwn(roles, String(role)) ? roles[role as keyof typeof roles] : undefined;
    const blocks = blocksOf(content);
    return ours === undefined || blocks.length === 0 ? [] : [{ role: ours, content: blocks }];
  });
}

function blocksOf(content: unknown): readonly Block[] {
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", text: content }];
  if (!Array.isArray(content)) return [];
  return content.flatMap((part: unknown): readonly Block[] => {
    if (!isObject(part)) return [];
    const { type, text, source } = part;
    if (type === "text" && typeof text === "string") return [{ type: "text", text }];
    if (!isObject(source) || typeof source.value !== "string") return [];
    const mimeType = typeof source.mimeType === "string" ? source.mimeType : "";
    const isData = source.type === "data";
    const url = isData ? `data:${mimeType};base64,${source.value}` : source.value;
    return [mediaBlock(url, mimeType)];
  });
}

function toolsOf(tools: readonly Fields[] = []): readonly OutsideTool[] {
  return tools.map(({ name, description, parameters }, index) => {
    if (typeof name !== "string" || name === "")
      throw badRequest(`\`tools[${index}].name\` must be a non-empty string.`, "Name the tool.");
    return {
      name,
      ...(typeof description === "string" && { description }),
      ...(isObject(parameters) && { parameters }),
    };
  });
}

/** The decisions of `resume`, and the results of tools that the client has run. */
function answersIn(
  { resume = [], messages }: RunBody,
  waiting: readonly Approval[],
): readonly Answer[] {
  const decisions = resume.flatMap(({ interruptId, status, payload }) => {
    const asked = waiting.find(({ id }) => id === interruptId);
    return asked ? [decisionOf(asked, status, payload)] : [];
  });
  const results = messages.flatMap(({ role, toolCallId, content, error }) => {
    const asked = waiting.find(({ kind, call }) => kind === "external" && call.id === toolCallId);
    if (role !== "tool" || asked === undefined) return [];
    const answer = asked.answer(blocksOf(content));
    return [typeof error === "string" ? { ...answer, state: "error" as const } : answer];
  });
  return [...decisions, ...results];
}

function decisionOf(asked: Approval, status: unknown, payload: unknown): Answer {
  const given = isObject(payload) ? payload : {};
  const reason = typeof given.reason === "string" ? given.reason : undefined;
  if (status === "cancelled" || given.approved === false || payload === false)
    return asked.deny(reason);
  if (asked.kind === "question")
    return asked.answer(typeof payload === "string" ? payload : JSON.stringify(payload ?? ""));
  return given.input === undefined ? asked.approve() : asked.edit(given.input);
}

async function* frames(
  events: AguiEvents,
  { events: log, after, joins }: Started,
  signal: AbortSignal,
): AsyncGenerator<string, void> {
  let isBegun = after < 0 || joins !== undefined;
  if (joins) yield encode(events.join(joins.tree, joins.messages));
  else if (isBegun) yield encode(events.begin());
  if (events.isOver) return;
  for await (const event of eventsUntil(log, signal)) {
    const isNew = !("sequence_number" in event) || event.sequence_number > after;
    if (isNew && !isBegun) {
      isBegun = true;
      yield encode(events.begin());
    }
    const translated = events.translate(event);
    if (translated.length > 0) yield encode(translated);
    if (events.isOver) return;
  }
}

function encode(events: readonly AguiEvent[]): string {
  return events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
}
