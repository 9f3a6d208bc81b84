import { RivuletError } from "../protocol/error.ts";
import type { SessionInfo, Store, TaskRecord } from "../protocol/store.ts";

/** The first line of an exported session; as many lines follow as it has messages, one for each. */
export interface SessionExportHeader {
  readonly format: "rivulet-session";
  readonly version: 1;
  readonly session: SessionInfo;
  /** The tasks of the session and of its agents' children, whose sessions can be exported by their ids. */
  readonly tasks: readonly TaskRecord[];
}

const page = 50;

/** A session as lines of JSON, read while they are taken: however long it is, little of it is in memory. */
export async function* exportSession(
  store: Store,
  session: SessionInfo,
): AsyncGenerator<string, void> {
  const { sessionId, messages: count } = session;
  const tasks = await tasksBelow(store, sessionId);
  const header: SessionExportHeader = { format: "rivulet-session", version: 1, session, tasks };
  yield lineOf(header);
  // What comes in meanwhile is not in it: the header has said how many there are.
  for (let from = 0; from < count; from += page) {
    const limit = Math.min(page, count - from);
    const messages = await store.session(sessionId, from, limit);
    if (messages.length < limit) {
      throw new RivuletError("session_not_found", `Session ${sessionId} was deleted meanwhile.`);
    }
    for (const message of messages) yield lineOf(message);
  }
}

async function tasksBelow(store: Store, sessionId: string): Promise<readonly TaskRecord[]> {
  const own = await store.tasks({ sessionId });
  const children = await store.tasks({ parentSessionId: sessionId });
  const sessions = new Set(children.map((child) => child.sessionId));
  const below = await Promise.all([...sessions].map((id) => tasksBelow(store, id)));
  return [...own, ...below.flat()];
}

function lineOf(value: object): string {
  return `${JSON.stringify(value)}\n`;
}
