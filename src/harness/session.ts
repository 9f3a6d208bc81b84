import { notFound } from "../base/error.ts";
import {
  flag,
  integer,
  invalid,
  name,
  readArgument,
  readOptions,
  required,
} from "../base/options.ts";
import {
  type Block,
  type ListedSession,
  type Message,
  type SearchMatch,
  type SessionInfo,
  type Store,
  sessionIdField,
  type TaskRecord,
  userIdField,
} from "../contract/index.ts";
import { openStoreField } from "../store/index.ts";
import { copyCursor } from "./memory/cursor.ts";

/** The sessions of a store that one user, or the operator, can see. */
export interface Sessions {
  /** Lists sessions, newest first; `limit` defaults to 50, `before` is the last id of the previous page. */
  list(page?: { limit?: number; before?: string }): Promise<readonly ListedSession[]>;
  /** Returns the messages from index `from` on; rejects with `not_found`. */
  read(sessionId: string, part?: { from?: number; limit?: number }): Promise<readonly Message[]>;
  /** Finds messages that have all the words, the best first; `limit` defaults to 20. */
  search(text: string, page?: { readonly limit?: number }): Promise<readonly SearchMatch[]>;
  /**
   * Copies the messages up to the end of a root task into a new session, whose id may be chosen as `as`; files and running
   * tasks are not copied.
   */
  fork(
    sessionId: string,
    from: { readonly taskId: string; readonly as?: string },
  ): Promise<SessionInfo>;
  /** Yields lines of JSON: a `SessionExportHeader`, then the messages; throws `not_found`. */
  export(sessionId: string): AsyncIterable<string>;
}

/** The first line of an exported session; its messages follow, one per line. */
export interface SessionExportHeader {
  readonly format: "rivulet-session";
  readonly version: 1;
  readonly session: ListedSession;
  /** The tasks of the session and of its descendants; export their sessions by id. */
  readonly tasks: readonly TaskRecord[];
}

const index = integer(0);
const pageFields = { limit: index, before: name };
const partFields = { from: index, limit: index };
const scopeFields = { userId: userIdField, allUsers: flag };
const forkFields = { taskId: required(name, '"task_…"'), as: sessionIdField };
const exportPage = 50;

/** Whose sessions: those of a user, those of all users, or those without a user. */
export interface SessionScope {
  readonly userId?: string;
  /** For the operator; not together with `userId`. */
  readonly allUsers?: true;
}

/** Returns the sessions of one user; without a scope, those that were started without a user. */
export function sessionsOf(store: Store, scope: SessionScope = {}): Sessions {
  readArgument("store", store, required(openStoreField, "memoryStore()"));
  const user = userIn(readOptions("sessionsOf()", scope, scopeFields), scope);

  async function find(sessionId: string): Promise<SessionInfo> {
    const [info] = await store.sessions({ ...user, sessionId, limit: 1 });
    if (info === undefined) throw notFound("session", sessionId);
    return info;
  }

  return {
    async list(page = {}) {
      const read = readOptions("list()", page, pageFields);
      const sessions = await store.sessions({ limit: 50, ...read, ...user });
      return Promise.all(sessions.map((info) => withStatus(store, info)));
    },
    async read(sessionId, part = {}) {
      const { from, limit } = readOptions("read()", part, partFields);
      await find(sessionId);
      return (await store.session(sessionId, from, limit)).map(messageWithoutRepeat);
    },
    async search(words, page = {}) {
      const { limit = 20 } = readOptions("search()", page, { limit: index });
      return store.search({ ...user, text: words, limit });
    },
    async fork(sessionId, from) {
      const { taskId, as } = readOptions("fork()", from, forkFields);
      const info = await find(sessionId);
      const { forkSession } = await import("./fork.ts"); // few programs fork, and it loads the writer
      const fork = await find(await forkSession(store, { sessionId, taskId }, as));
      await copyCursor(store, info, fork);
      return fork;
    },
    async *export(sessionId) {
      yield* exportSession(store, await withStatus(store, await find(sessionId)));
    },
  };
}

/** The place that a session was forked from. */
export interface ForkOrigin {
  readonly sessionId: string;
  readonly taskId: string;
}

/** Where a session was forked, by its first task; undefined if it was not. */
export function forkOriginOf(first: TaskRecord | undefined): ForkOrigin | undefined {
  const origin = first?.observes && first.metadata?.forkedFrom;
  return (origin || undefined) as ForkOrigin | undefined;
}

async function withStatus(store: Store, info: SessionInfo): Promise<ListedSession> {
  const { sessionId } = info;
  const [newest] = await store.tasks({ sessionId, newestFirst: true, limit: 1 });
  const [first] = await store.tasks({ sessionId, limit: 1 });
  const forkedFrom = forkOriginOf(first);
  return {
    ...info,
    ...(newest && { status: newest.status }),
    ...(forkedFrom && { forkedFrom }),
  };
}

/** A `userId` that is missing by mistake must not mean another set of sessions. */
function userIn(read: SessionScope, given: SessionScope): { readonly userId?: string | null } {
  const { userId, allUsers } = read;
  if (allUsers && userId === undefined) return {};
  if (!("allUsers" in given) && "userId" in given === (userId !== undefined))
    return { userId: userId ?? null };
  throw invalid(
    "sessionsOf() takes a `userId` or `allUsers: true`.",
    "Pass { userId }, { allUsers: true } to see the sessions of all users, or nothing.",
  );
}

/** Reads the messages in pages, so that a long session does not fill the memory. */
async function* exportSession(store: Store, session: ListedSession): AsyncGenerator<string, void> {
  const { sessionId, messages: count } = session;
  const tasks = await tasksBelow(store, sessionId);
  const header: SessionExportHeader = { format: "rivulet-session", version: 1, session, tasks };
  yield `${JSON.stringify(header)}\n`;
  // Newer messages are left out, because the header has the number of messages.
  for (let from = 0; from < count; from += exportPage) {
    const limit = Math.min(exportPage, count - from);
    const messages = await store.session(sessionId, from, limit);
    if (messages.length < limit) {
      throw notFound("session", sessionId); // it was deleted during the export
    }
    for (const message of messages) yield `${JSON.stringify(messageWithoutRepeat(message))}\n`;
  }
}

/** The message without the counts that the loop keeps with tool results. */
export function messageWithoutRepeat(message: Message): Message {
  const { content } = message;
  const isCounted = (block: Block) => block.type === "tool_result" && block.metadata?.repeat;
  if (!content.some(isCounted)) return message;
  const blocks = content.map((block): Block => {
    if (block.type !== "tool_result" || block.metadata === undefined) return block;
    const { metadata, ...result } = block;
    const { repeat: _, ...rest } = metadata;
    return Object.keys(rest).length === 0 ? result : { ...result, metadata: rest };
  });
  return { ...message, content: blocks };
}

/** The tasks of a session and of its descendants. */
export async function tasksBelow(store: Store, sessionId: string): Promise<readonly TaskRecord[]> {
  const own = await store.tasks({ sessionId });
  const children = await store.tasks({ parentSessionId: sessionId });
  const sessions = new Set(children.map((child) => child.sessionId));
  const below = await Promise.all([...sessions].map((id) => tasksBelow(store, id)));
  return [...own, ...below.flat()];
}
