import { notFound, RivuletError } from "../base/error.ts";
import { agentKeyOf, createIds } from "../base/id.ts";
import type { Block, Message, Store, TaskRecord } from "../contract/index.ts";
import { isTerminal, type TaskEvent, TaskWriter } from "../protocol/index.ts";
import type { ForkOrigin } from "./session.ts";
import { withChildSessions } from "./subagents/children.ts";

const leaseMs = 10_000;

/** Copies the transcript of a session up to the end of a root task into a new session, and returns its id. */
export async function forkSession(
  store: Store,
  { sessionId, taskId }: ForkOrigin,
  chosenId?: string,
): Promise<string> {
  const origin = await store.task(taskId);
  if (origin === undefined || origin.sessionId !== sessionId || origin.taskId !== origin.rootTaskId)
    throw notFound("task", taskId);
  if (!isTerminal(origin.status)) throw unfinishedTask(origin);
  const ids = createIds();
  const whole = await store.session(sessionId);
  const end = whole.findLastIndex(({ metadata }) => metadata?.taskId === taskId) + 1;
  const messages = whole
    .slice(0, end)
    .map((message) => ownCopy(message, () => `sub-${ids.uuid()}`));
  const created = Date.now();
  const newSession = chosenId ?? ids.next("sess");
  const isTaken = (await store.sessions({ sessionId: newSession, limit: 1 })).length > 0;
  if (isTaken) throw sessionExists(newSession);
  const record = forkRecord(origin, ids.next("task"), newSession, ids.uuid(), created);
  const lease = await store.acquire(newSession, `fork:${ids.uuid()}`, leaseMs);
  if (lease === undefined) throw sessionExists(newSession);
  const log = record.taskId;
  const appends = messages.length > 0 ? [{ sessionId: newSession, at: 0, messages }] : [];
  await store.commit({ lease, log, tasks: [record], events: eventsOf(record), appends });
  await store.release(lease);
  return newSession;
}

/** The first task of a fork only adds the copied messages. */
function forkRecord(
  origin: TaskRecord,
  taskId: string,
  sessionId: string,
  uuid: string,
  createdAt: number,
): TaskRecord {
  const { agentId, agentName, userId } = origin;
  return {
    ...{ taskId, rootTaskId: taskId, sessionId, agentId, agentName },
    agentKey: agentKeyOf(agentId, uuid),
    ...(userId !== undefined && { userId }),
    ...{ depth: 0, path: sessionId, createdAt, mode: "sync", status: "completed" },
    ...{ committedOutput: 0, observes: true, generateReason: "model_stop" },
    metadata: { forkedFrom: { sessionId: origin.sessionId, taskId: origin.taskId } },
  };
}

function eventsOf({ taskId, agentId, sessionId, createdAt, metadata }: TaskRecord): TaskEvent[] {
  const events: TaskEvent[] = [];
  const write = (event: TaskEvent) => void events.push(event);
  const writer = new TaskWriter(taskId, { write, now: () => createdAt });
  const named = { agent_id: agentId, session_id: sessionId, created_at: createdAt };
  writer.create({ ...named, ...(metadata && { metadata }) });
  writer.start();
  writer.end({ status: "completed" });
  return events;
}

/** A child that exists only in the transcript gets its own session in the fork. */
function ownCopy(message: Message, newId: () => string): Message {
  const content = message.content.map((block: Block) => withChildSessions(block, newId));
  return content.every((block, index) => block === message.content[index])
    ? message
    : { ...message, content };
}

function sessionExists(sessionId: string): RivuletError {
  return new RivuletError("conflict", `Session ${sessionId} exists already.`, {
    hint: "Choose another id for the new session.",
  });
}

function unfinishedTask({ taskId, status }: TaskRecord): RivuletError {
  const code = status === "suspended" ? "session_suspended" : "agent_busy";
  return new RivuletError(code, `Task ${taskId} is ${status}.`, {
    hint: "Fork at a task that has ended, or wait until this one ends.",
  });
}
