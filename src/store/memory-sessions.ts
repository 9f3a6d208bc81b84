import type {
  Message,
  SearchMatch,
  SearchQuery,
  SessionInfo,
  SessionQuery,
  TaskRecord,
} from "../contract/index.ts";
import { bestMatches, phrasesOf, type SearchCandidate } from "./search.ts";
import { sessionTitle } from "./session-facts.ts";
import { invalidCursor } from "./store-error.ts";

/** A session in memory. */
export interface MemorySession {
  messages: Message[];
  visibleFrom?: number | undefined;
  readonly createdAt: number;
  updatedAt: number;
  /** The first task of the session: it tells the user, and whether the session is a child's. */
  task: TaskRecord | undefined;
}

/** Appends in place; a short list is copied, because one that grows (a spread too) reserves room for 16 more entries. */
export function appended(messages: Message[], added: readonly Message[]): Message[] {
  if (messages.length < 8) return messages.concat(added);
  for (const message of added) messages.push(message);
  return messages;
}

/** Newest first; a child's session is listed only by its id. */
export function listSessions(
  sessions: ReadonlyMap<string, MemorySession>,
  query: SessionQuery,
): SessionInfo[] {
  const listed = listedSessions(sessions, query);
  let start = 0;
  if (query.before !== undefined) {
    start = listed.findIndex(([id]) => id === query.before) + 1;
    if (start === 0) throw invalidCursor(query.before);
  }
  return listed
    .slice(start, start + query.limit)
    .map(([sessionId, { task, messages, visibleFrom, createdAt, updatedAt }]) => {
      const title = sessionTitle(messages);
      return {
        sessionId,
        ...(task?.userId !== undefined && { userId: task.userId }),
        ...(task && { agentId: task.agentId }),
        ...(title !== undefined && { title }),
        messages: messages.length,
        ...(visibleFrom && { visibleFrom }),
        createdAt,
        updatedAt,
      };
    });
}

/** Scans all messages: a memory store is small. */
export function searchMessages(
  sessions: ReadonlyMap<string, MemorySession>,
  { text, userId, limit }: SearchQuery,
): SearchMatch[] {
  const candidates = listedSessions(sessions, { ...(userId !== undefined && { userId }) }).flatMap(
    ([sessionId, { messages }]) =>
      messages.map((message, index): SearchCandidate => ({ sessionId, index, message })).reverse(),
  );
  return bestMatches(candidates, phrasesOf(text), limit);
}

function listedSessions(
  sessions: ReadonlyMap<string, MemorySession>,
  { sessionId, userId }: Pick<SessionQuery, "sessionId" | "userId">,
): [string, MemorySession][] {
  const isOfUser = ({ task }: MemorySession) =>
    userId === undefined || (task?.userId ?? null) === userId;
  if (sessionId !== undefined) {
    const session = sessions.get(sessionId);
    return session && isOfUser(session) ? [[sessionId, session]] : [];
  }
  return [...sessions]
    .filter(([, one]) => one.task?.parentSessionId === undefined && isOfUser(one))
    .reverse();
}

/** Whether two records of a task say the same of its session. */
export function isOfSameSession(first: TaskRecord, second: TaskRecord): boolean {
  return (
    first.userId === second.userId &&
    first.agentId === second.agentId &&
    first.parentSessionId === second.parentSessionId
  );
}
