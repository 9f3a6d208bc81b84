import type { Message, SessionInfo, SessionQuery, TaskRecord } from "../../contract/index.ts";
import {
  type ApprovalChange,
  approvalChanges,
  sessionTitle,
  visibleFrom,
} from "../session-facts.ts";
import { conflict, invalidCursor } from "../store-error.ts";
import {
  assertIntact,
  type Checked,
  checksumAt,
  checksumOf,
  onlyIntact,
  parseRow,
  storeCorrupt,
} from "./damage.ts";
import type { Database, Value } from "./database.ts";
import { changeDue } from "./due.ts";
import type { KeptMessages, ParsedMessage } from "./kept-messages.ts";
import { indexAgain } from "./search-index.ts";

/** An append with encoded messages. */
export interface EncodedAppend {
  readonly sessionId: string;
  readonly at: number;
  readonly messages: readonly {
    readonly message: Message;
    readonly text: string;
  }[];
  /** The title of the session, unless it has one already. */
  readonly title: string | undefined;
  /** Where a model's view begins after the append, if the append has a compaction. */
  readonly visibleFrom: number | undefined;
  readonly approvals: readonly ApprovalChange[];
}

/** A session; the fields from `rootTaskId` on come from its first task. */
interface SessionRow {
  number?: number;
  readonly sessionId: string;
  readonly createdAt: number;
  updatedAt: number;
  messages: number;
  visibleFrom: number;
  title: string | null;
  rootTaskId: string | null;
  parentSessionId: string | null;
  userId: string | null;
  agentId: string | null;
}

const sessionColumns = `number, session_id AS sessionId, created_at AS createdAt, updated_at AS updatedAt,
  messages, visible_from AS visibleFrom, title, root_task_id AS rootTaskId, parent_session_id AS parentSessionId,
  user_id AS userId, agent_id AS agentId, checksum`;

/** The sessions that one write changes: each is read once and written once. */
export interface OpenSessions {
  append(append: EncodedAppend): void;
  /** Assigns a session to its first task; returns true for that task. */
  assign(record: TaskRecord): boolean;
  /** Writes the changes that are not written yet. */
  save(): void;
}

/** Encodes the messages of an append. */
export function encodeAppend(append: {
  readonly sessionId: string;
  readonly at: number;
  readonly messages: readonly Message[];
}): EncodedAppend {
  const { sessionId, at, messages } = append;
  const encoded = messages.map((message) => ({
    message,
    text: JSON.stringify(message),
  }));
  const title = sessionTitle(messages);
  return {
    sessionId,
    at,
    messages: encoded,
    title,
    visibleFrom: visibleFrom(messages, at),
    approvals: approvalChanges(messages),
  };
}

/** Opens sessions for one write. */
export function openSessions(database: Database, now: number): OpenSessions {
  const open = new Map<string, SessionRow>();
  const unsaved = new Set<SessionRow>();

  function opened(sessionId: string): SessionRow {
    let row = open.get(sessionId);
    if (row === undefined) {
      row = readRow(database, sessionId) ?? newSession(sessionId, now);
      row.updatedAt = now;
      open.set(sessionId, row);
      unsaved.add(row);
    }
    return row;
  }

  /** In the order of their first change, which is the order in which sessions are listed. */
  function save(): void {
    for (const row of unsaved) row.number = saveSession(database, row);
    unsaved.clear();
  }

  return {
    append({ sessionId, at, messages, title, visibleFrom, approvals }) {
      const row = opened(sessionId);
      if (at !== row.messages) {
        throw conflict(`Session ${sessionId} has ${row.messages} messages, not ${at}.`);
      }
      if (messages.length === 0) return;
      row.messages += messages.length;
      row.title ??= title ?? null;
      row.visibleFrom = visibleFrom ?? row.visibleFrom;
      unsaved.add(row);
      save();
      const number = row.number as number;
      for (const [index, { text }] of messages.entries()) {
        const position = at + index;
        database.run(
          "INSERT INTO messages (session, position, message, checksum) VALUES (?, ?, ?, ?)",
          number,
          position,
          text,
          checksumAt(number, position, text),
        );
      }
      changeDue(database, sessionId, approvals);
    },
    assign(record) {
      const row = opened(record.sessionId);
      if (row.rootTaskId !== null) return false;
      row.rootTaskId = record.rootTaskId;
      row.parentSessionId = record.parentSessionId ?? null;
      row.userId = record.userId ?? null;
      row.agentId = record.agentId;
      unsaved.add(row);
      if (row.number === undefined) return true;
      database.run(
        `UPDATE sessions SET root_task_id = ?, parent_session_id = ?, user_id = ?, agent_id = ?
         WHERE number = ?`,
        row.rootTaskId,
        row.parentSessionId,
        row.userId,
        row.agentId,
        row.number,
      );
      save(); // the checksum, because a later task of the same commit reads the row
      // The search index needs the user, who is unknown before the first task.
      if (row.messages > 0) indexAgain(database, row.number);
      return true;
    },
    save,
  };
}

function newSession(sessionId: string, now: number): SessionRow {
  const task = { rootTaskId: null, parentSessionId: null, userId: null, agentId: null };
  const empty = { messages: 0, visibleFrom: 0, title: null };
  return { sessionId, createdAt: now, updatedAt: now, ...empty, ...task };
}

/** Adds a row, or updates what every write may change; returns its number. */
function saveSession(database: Database, row: SessionRow): number {
  const { number, updatedAt, messages, title, visibleFrom } = row;
  const checksum = checksumOfSession(row);
  if (number === undefined) {
    return database.insert(
      `INSERT INTO sessions (session_id, created_at, updated_at, messages, visible_from, title,
         root_task_id, parent_session_id, user_id, agent_id, checksum)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...valuesOf(row),
      checksum,
    );
  }
  database.run(
    `UPDATE sessions SET updated_at = ?, messages = ?, visible_from = ?, title = ?, checksum = ?
     WHERE number = ?`,
    updatedAt,
    messages,
    visibleFrom,
    title,
    checksum,
    number,
  );
  return number;
}

function valuesOf(row: SessionRow): readonly Value[] {
  const { sessionId, createdAt, updatedAt, messages, visibleFrom, title } = row;
  const { rootTaskId, parentSessionId, userId, agentId } = row;
  return [
    ...[sessionId, createdAt, updatedAt, messages, visibleFrom, title],
    ...[rootTaskId, parentSessionId, userId, agentId],
  ];
}

function checksumOfSession(row: SessionRow): number {
  return checksumOf(valuesOf(row));
}

/** The row of a session. */
export function readRow(database: Database, sessionId: string): SessionRow | undefined {
  const row = database.get<SessionRow & Checked>(
    `SELECT ${sessionColumns} FROM sessions WHERE session_id = ?`,
    sessionId,
  );
  return row && intact(row);
}

function intact(row: SessionRow & Checked): SessionRow {
  assertIntact(row, checksumOfSession(row), () => `session ${row.sessionId}`);
  return row;
}

/** The user of a session's first task; undefined while the session has no task. */
export function userOf(
  database: Database,
  sessionId: string,
): { readonly userId?: string } | undefined {
  const row = readRow(database, sessionId);
  if (row === undefined || row.rootTaskId === null) return undefined;
  return row.userId === null ? {} : { userId: row.userId };
}

/** The messages of a session from index `from` on; a limit of -1 means all. */
export function readSession(
  database: Database,
  kept: KeptMessages,
  sessionId: string,
  from: number,
  limit: number,
): Message[] {
  const session = database.get<{ number: number; messages: number }>(
    "SELECT number, messages FROM sessions WHERE session_id = ?",
    sessionId,
  );
  const missing = (what: string) => storeCorrupt(`${what} of session ${sessionId} is missing.`);
  if (session === undefined) {
    if (database.get("SELECT 1 FROM tasks WHERE session_id = ?", sessionId)) throw missing("a row");
    return [];
  }
  const { number, messages: count } = session;
  const start = Math.min(Math.max(0, from), count);
  const end = limit < 0 ? count : Math.min(count, start + limit);
  return kept.read({ sessionId, number, messages: count }, start, end, (first, last) => {
    if (first >= last) return [];
    const rows = database.tuples<[message: string, checksum: number]>(
      `SELECT message, checksum FROM messages WHERE session = ? AND position >= ?
       ORDER BY position LIMIT ?`,
      number,
      first,
      last - first,
    );
    const parsed: ParsedMessage[] = [];
    let next = first;
    const name = () => `message ${next} of session ${sessionId}`;
    for (const [text, checksum] of rows) {
      assertIntact({ checksum }, checksumAt(number, next, text), name);
      parsed.push({ message: parseRow(text, name), length: text.length });
      next += 1;
    }
    if (next < last) throw missing("a message");
    return parsed;
  });
}

/** Newest first; a child's session is listed only by its id. */
export function listSessions(database: Database, query: SessionQuery): readonly SessionInfo[] {
  const { userId, sessionId, before, limit } = query;
  let listed = "FROM sessions WHERE parent_session_id IS NULL";
  const values: Value[] = [];
  if (sessionId !== undefined) {
    listed = "FROM sessions WHERE session_id = ?";
    values.push(sessionId);
  }
  if (userId !== undefined) {
    listed += " AND user_id IS ?";
    values.push(userId);
  }
  if (before !== undefined) {
    const cursor = database.get<{ number: number }>(
      `SELECT number ${listed} AND session_id = ?`,
      ...values,
      before,
    );
    if (cursor === undefined) throw invalidCursor(before);
    listed += " AND number < ?";
    values.push(cursor.number);
  }
  const rows = database.all<SessionRow & Checked>(
    `SELECT ${sessionColumns} ${listed} ORDER BY number DESC LIMIT ?`,
    ...values,
    limit,
  );
  const infoOf = (row: SessionRow & Checked) => toInfo(intact(row));
  return sessionId === undefined ? onlyIntact(rows, infoOf) : rows.map(infoOf);
}

function toInfo(row: SessionRow): SessionInfo {
  return {
    sessionId: row.sessionId,
    ...(row.userId !== null && { userId: row.userId }),
    ...(row.agentId !== null && { agentId: row.agentId }),
    ...(row.title !== null && { title: row.title }),
    messages: row.messages,
    ...(row.visibleFrom > 0 && { visibleFrom: row.visibleFrom }),
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
  };
}
