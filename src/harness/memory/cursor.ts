import { isObject } from "../../base/plain.ts";
import type { SessionInfo, Store } from "../../contract/index.ts";
import type { Entry } from "./facts.ts";
import { isConflict } from "./memory-files.ts";

/** How far a session has been distilled. */
export interface Cursor {
  /** When the session was created: a new session can have the id of a deleted one. */
  readonly createdAt: number;
  /** How many of its messages have been distilled. */
  readonly distilled: number;
  /** How many answers in a row were useless. */
  readonly failures: number;
  /** The indexes of messages that contain something forgotten. */
  readonly hidden: readonly number[];
  /** An entry that is being written; the cursor moves to `to` when it is in its file. */
  readonly pending?: { readonly to: number; readonly path: string; readonly entry: Entry };
}

/** A cursor as it was read. */
export interface StoredCursor {
  readonly cursor: Cursor;
  /** For a conditional write; 0 when there is none. */
  readonly version: number;
}

function keyOf(agentId: string, sessionId: string): string {
  return `memory/${encodeURIComponent(agentId)}/${encodeURIComponent(sessionId)}.json`;
}

/** Reads the cursor of a session; one of an earlier session with the same id does not count. */
export async function readCursor(
  store: Store,
  agentId: string,
  { sessionId, createdAt }: Pick<SessionInfo, "sessionId" | "createdAt">,
): Promise<StoredCursor> {
  const file = await store.files.get(keyOf(agentId, sessionId));
  const fresh: Cursor = { createdAt, distilled: 0, failures: 0, hidden: [] };
  const version = file?.version ?? 0;
  const stored: unknown = file ? JSON.parse(new TextDecoder().decode(file.data)) : undefined;
  const isSame = isObject(stored) && stored.createdAt === createdAt;
  return { version, cursor: isSame ? { ...fresh, ...(stored as Partial<Cursor>) } : fresh };
}

/** Writes a cursor; returns its new version, or undefined if another process was faster. */
export async function writeCursor(
  store: Store,
  agentId: string,
  sessionId: string,
  cursor: Cursor,
  ifVersion: number,
): Promise<number | undefined> {
  const data = new TextEncoder().encode(JSON.stringify(cursor));
  try {
    return await store.files.put(keyOf(agentId, sessionId), data, { ifVersion });
  } catch (error) {
    if (isConflict(error)) return undefined;
    throw error;
  }
}

/** Deletes the cursor of a session that was deleted. */
export async function deleteCursor(
  store: Store,
  { agentId, sessionId }: Pick<SessionInfo, "agentId" | "sessionId">,
): Promise<void> {
  if (agentId !== undefined) await store.files.delete(keyOf(agentId, sessionId));
}

/** Gives a fork the cursor of its session: what both have in common is not distilled twice, and stays forgotten. */
export async function copyCursor(store: Store, from: SessionInfo, to: SessionInfo): Promise<void> {
  const { agentId } = from;
  if (agentId === undefined) return;
  const { cursor, version } = await readCursor(store, agentId, from);
  if (version === 0) return;
  const { pending, createdAt: _, ...rest } = cursor;
  const distilled = Math.min(pending?.to ?? cursor.distilled, to.messages);
  const copy = { ...rest, createdAt: to.createdAt, distilled };
  await writeCursor(store, agentId, to.sessionId, copy, 0);
}
