import type { Message } from "../protocol/message.ts";
import type { SessionInfo, SessionQuery, TaskRecord } from "../protocol/store.ts";
import { sessionTitle } from "./session-title.ts";
import { invalidCursor } from "./store-error.ts";

/** A session in memory. */
export interface MemorySession {
  readonly messages: Message[];
  readonly createdAt: number;
  updatedAt: number;
  /** The first task on this session: whose it is, and whether it is a child's. */
  task?: TaskRecord;
}

/** The latest created first; a child's session is part of its conversation and not listed. */
export function listSessions(
  sessions: ReadonlyMap<string, MemorySession>,
  query: SessionQuery,
): SessionInfo[] {
  const listed = [...sessions]
    .filter(([, { task }]) => task?.parentSessionId === undefined)
    .filter(([, { task }]) => query.userId === undefined || task?.userId === query.userId)
    .reverse();
  let start = 0;
  if (query.before !== undefined) {
    start = listed.findIndex(([id]) => id === query.before) + 1;
    if (start === 0) throw invalidCursor(query.before);
  }
  return listed
    .slice(start, start + query.limit)
    .map(([sessionId, { task, messages, createdAt, updatedAt }]) => {
      const title = sessionTitle(messages);
      return {
        sessionId,
        ...(task?.userId !== undefined && { userId: task.userId }),
        ...(task && { agentId: task.agentId }),
        ...(title !== undefined && { title }),
        messages: messages.length,
        createdAt,
        updatedAt,
      };
    });
}
