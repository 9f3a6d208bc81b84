import type { Clock } from "../../base/clock.ts";
import { sha256 } from "../../base/plain.ts";
import type { Message, SessionInfo, Store } from "../../contract/index.ts";
import { messageText } from "../context/message-text.ts";
import type { Filesystem } from "../filesystem/filesystem.ts";
import { memoryPrompts } from "../prompts.ts";
import { type Cursor, readCursor, type StoredCursor, writeCursor } from "./cursor.ts";
import { entryOf, hasFacts, readFacts, withEntry } from "./facts.ts";
import { changeText, dailyPath } from "./memory-files.ts";

/** The surroundings of a distillation. */
export interface Distillery {
  readonly store: Store;
  readonly files: Filesystem;
  readonly agentId: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Calls the model; undefined for an answer that was cut off. */
  ask(systemPrompt: string, text: string): Promise<string | undefined>;
  warn(message: string): void;
}

const pageSize = 100;
const maxPartCharacters = 40_000;
const maxFailures = 3;

/**
 * Writes the facts of the messages after a session's cursor to the daily file, in parts; returns how many entries it
 * wrote. Each part is written in three steps: the entry goes into the cursor, then into the file, then the cursor moves.
 * A crash between two of them neither loses nor doubles the entry, and costs no second model call. Rejects when the
 * model fails; the next distillation continues there.
 */
export async function distill(distillery: Distillery, session: SessionInfo): Promise<number> {
  const { store, agentId, signal } = distillery;
  for (let written = 0; ; ) {
    signal.throwIfAborted();
    const stored = await readCursor(store, agentId, session);
    if (stored.cursor.pending) {
      await writePending(distillery, session, stored);
      written += 1;
      continue;
    }
    const next = await distillPart(distillery, session, stored.cursor);
    if (next === undefined) return written;
    const version = await writeCursor(store, agentId, session.sessionId, next, stored.version);
    if (version === undefined) return written; // another process distils this session
    if (next.failures > 0) return written;
  }
}

/** Distils the messages after a cursor; returns the next cursor, or undefined if there are none. */
async function distillPart(
  { store, clock, ask, warn }: Distillery,
  session: SessionInfo,
  cursor: Cursor,
): Promise<Cursor | undefined> {
  const { sessionId } = session;
  const { distilled: from, hidden } = cursor;
  const part = takePart(await store.session(sessionId, from, pageSize), from, new Set(hidden));
  if (part === undefined) return undefined;
  const { to, text } = part;
  const moved = { ...cursor, distilled: to, failures: 0 };
  if (text === "") return moved;
  const answer = await ask(memoryPrompts.distill, memoryPrompts.conversation(text));
  const facts = answer === undefined ? undefined : readFacts(answer);
  if (facts === undefined) {
    const failures = cursor.failures + 1;
    if (failures < maxFailures) return { ...cursor, failures };
    warn(
      `Messages ${from} to ${to} of session ${sessionId} are not in the memory: the model gave no list of facts ${maxFailures} times.`,
    );
    return moved;
  }
  if (facts.length === 0) return moved;
  const time = clock.now();
  const id = sha256(JSON.stringify([sessionId, session.createdAt, from, to])).slice(0, 12);
  const entry = entryOf(id, facts, { time, sessionId });
  return { ...cursor, failures: 0, pending: { to, path: dailyPath(time), entry } };
}

/** The next messages with their text, as many as fit into one model call; a single one is cut. */
function takePart(
  messages: readonly Message[],
  from: number,
  hidden: ReadonlySet<number>,
): { readonly to: number; readonly text: string } | undefined {
  if (messages.length === 0) return undefined;
  const texts: string[] = [];
  let room = maxPartCharacters;
  let count = 0;
  for (const [index, message] of messages.entries()) {
    const text = hidden.has(from + index) ? "" : (messageText(message) ?? "");
    if (text.length > room && texts.length > 0) break;
    room -= text.length;
    count += 1;
    if (text !== "") texts.push(text.slice(0, maxPartCharacters));
  }
  return { to: from + count, text: texts.join("\n\n") };
}

/** Puts the entry of a cursor into its file and moves the cursor; starts over when the cursor has changed meanwhile. */
async function writePending(
  { store, files, agentId }: Distillery,
  session: SessionInfo,
  stored: StoredCursor,
): Promise<void> {
  const { sessionId } = session;
  for (let current = stored; ; ) {
    const { pending, ...cursor } = current.cursor;
    if (!pending) return;
    const { entry, path, to } = pending;
    const kept = hasFacts(entry) ? entry : undefined; // all of them may be forgotten by now
    await changeText(files, path, (text) => withEntry(text, entry.id, kept));
    const next = { ...cursor, distilled: to, failures: 0 };
    const version = await writeCursor(store, agentId, sessionId, next, current.version);
    if (version !== undefined) return;
    // Another process has moved the cursor, or facts of the entry were forgotten: write it as it is now.
    current = await readCursor(store, agentId, session);
  }
}
