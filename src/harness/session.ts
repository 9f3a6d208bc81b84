import { RivuletError } from "../protocol/error.ts";
import type { Message } from "../protocol/message.ts";
import { integer, name, readArgument, readOptions, required } from "../protocol/options.ts";
import type { SearchMatch, SessionInfo, Store, TaskRecord } from "../protocol/store.ts";
import { openStoreField } from "../store/index.ts";

/** The sessions of a store that one user, or the operator, can see. */
export interface Sessions {
  /** Lists sessions, newest first; `limit` defaults to 50, `before` is the last id of the previous page. */
  list(page?: { limit?: number; before?: string }): Promise<readonly SessionInfo[]>;
  /** Returns the messages from index `from` on; rejects with `session_not_found`. */
  read(sessionId: string, part?: { from?: number; limit?: number }): Promise<readonly Message[]>;
  /** Finds messages that have all the words, the best first; `limit` defaults to 20. */
  search(text: string, page?: { readonly limit?: number }): Promise<readonly SearchMatch[]>;
  /** Deletes a session and its children's; resolves to false if it does not exist, rejects with `conflict` while it runs. */
  delete(sessionId: string): Promise<boolean>;
  /** Yields lines of JSON: a `SessionExportHeader`, then the messages; throws `session_not_found`. */
  export(sessionId: string): AsyncIterable<string>;
}

/** The first line of an exported session; its messages follow, one per line. */
export interface SessionExportHeader {
  readonly format: "rivulet-session";
  readonly version: 1;
  readonly session: SessionInfo;
  /** The tasks of the session and of its descendants; export their sessions by id. */
  readonly tasks: readonly TaskRecord[];
}

const index = integer(0);
const pageFields = { limit: index, before: name };
const partFields = { from: index, limit: index };
const scopeFields = {
  userId: required(name, '"user-1", or omit the second argument to see the sessions of all users'),
};
const exportPage = 50;

/** Returns the sessions of one user, or of all users without `scope`. */
export function sessionsOf(store: Store, scope?: { readonly userId: string }): Sessions {
  readArgument("store", store, required(openStoreField, "memoryStore()"));
  const user = scope === undefined ? undefined : readOptions("sessionsOf()", scope, scopeFields);

  async function find(sessionId: string): Promise<SessionInfo | undefined> {
    const [info] = await store.sessions({ ...user, sessionId, limit: 1 });
    return info;
  }

  return {
    async list(page = {}) {
      return store.sessions({ limit: 50, ...readOptions("list()", page, pageFields), ...user });
    },
    async read(sessionId, part = {}) {
      const { from, limit } = readOptions("read()", part, partFields);
      if ((await find(sessionId)) === undefined) throw sessionNotFound(sessionId);
      return store.session(sessionId, from, limit);
    },
    async search(words, page = {}) {
      const { limit = 20 } = readOptions("search()", page, { limit: index });
      return store.search({ ...user, text: words, limit });
    },
    async delete(sessionId) {
      if ((await find(sessionId)) === undefined) return false;
      return store.deleteSession(sessionId);
    },
    async *export(sessionId) {
      const info = await find(sessionId);
      if (info === undefined) throw sessionNotFound(sessionId);
      yield* exportSession(store, info);
    },
  };
}

function sessionNotFound(sessionId: string): RivuletError<"session_not_found"> {
  return new RivuletError("session_not_found", `There is no session ${sessionId}.`, {
    hint: "Call list() for the ids of all sessions.",
  });
}

/** Reads the messages in pages, so that a long session does not fill the memory. */
async function* exportSession(store: Store, session: SessionInfo): AsyncGenerator<string, void> {
  const { sessionId, messages: count } = session;
  const tasks = await tasksBelow(store, sessionId);
  const header: SessionExportHeader = { format: "rivulet-session", version: 1, session, tasks };
  yield `${JSON.stringify(header)}\n`;
  // Newer messages are left out, because the header has the number of messages.
  for (let from = 0; from < count; from += exportPage) {
    const limit = Math.min(exportPage, count - from);
    const messages = await store.session(sessionId, from, limit);
    if (messages.length < limit) {
      const message = `Session ${sessionId} was deleted during the export.`;
      throw new RivuletError("session_not_found", message);
    }
    for (const message of messages) yield `${JSON.stringify(message)}\n`;
  }
}

async function tasksBelow(store: Store, sessionId: string): Promise<readonly TaskRecord[]> {
  const own = await store.tasks({ sessionId });
  const children = await store.tasks({ parentSessionId: sessionId });
  const sessions = new Set(children.map((child) => child.sessionId));
  const below = await Promise.all([...sessions].map((id) => tasksBelow(store, id)));
  return [...own, ...below.flat()];
}
