import { notFound, RivuletError } from "../base/error.ts";
import { type Field, listOf, name, readArgument, required } from "../base/options.ts";
import { isObject } from "../base/plain.ts";
import type { LogSnapshot, Message, Post, Store, TaskRecord } from "../contract/index.ts";
import type { LogEvent, TaskEvent } from "../protocol/index.ts";
import { openStoreField } from "./arguments.ts";
import { conflict } from "./store-error.ts";

const header = { format: "rivulet-conversations", version: 1 } as const;
/** The events, messages or files of one line. */
const pageSize = 500;
const leaseMs = 60_000;

/** A line after the header. The tasks of a conversation come last, because they make it visible. */
type Line =
  | { readonly file: string; readonly data: string }
  | { readonly conversation: string; readonly log: string; readonly snapshot: LogSnapshot }
  | { readonly conversation: string; readonly log: string; readonly events: readonly TaskEvent[] }
  | {
      readonly conversation: string;
      readonly session: string;
      readonly at: number;
      readonly messages: readonly Message[];
    }
  | {
      readonly conversation: string;
      readonly tasks: readonly TaskRecord[];
      readonly posts: readonly Post[];
    };

/** The sessions that an import has written, and those that the store already had. */
export interface Imported {
  /** The ids of the imported root sessions. */
  readonly sessions: readonly string[];
  /** The ids and paths of sessions and files that exist already; they are left as they are. */
  readonly skipped: readonly string[];
}

/**
 * Yields conversations as lines of JSON, the oldest first: transcripts, tasks, events and inboxes of the given root
 * sessions and their descendants. Without ids, all conversations and all files of the store. Throws `conflict` for a
 * conversation that is running.
 */
export async function* exportConversations(
  store: Store,
  sessionIds?: readonly string[],
): AsyncGenerator<string, void> {
  readArgument("store", store, required(openStoreField, "memoryStore()"));
  readArgument("sessionIds", sessionIds, listOf(name));
  yield lineOf(header);
  if (sessionIds === undefined)
    for await (const path of pathsIn(store, "")) yield fileLine(store, path);
  for (const sessionId of sessionIds ?? (await allSessions(store))) {
    for await (const line of conversationLines(store, sessionId, sessionIds !== undefined)) {
      yield lineOf(line);
    }
  }
}

/** Writes exported conversations. An interrupted import can be repeated. */
export async function importConversations(
  store: Store,
  lines: AsyncIterable<string> | Iterable<string>,
): Promise<Imported> {
  readArgument("store", store, required(openStoreField, "memoryStore()"));
  readArgument("lines", lines, required(linesField, "exportConversations(store)"));
  const sessions: string[] = [];
  const skipped = new Set<string>();
  let number = 0;
  for await (const text of lines) {
    number += 1;
    if (number === 1) assertHeader(parse(text, number));
    else if (text.trim() !== "") {
      const line = parse(text, number) as Line;
      if ("file" in line) {
        if (!(await importFile(store, line))) skipped.add(line.file);
      } else if (!skipped.has(line.conversation)) {
        const outcome = await importLine(store, line);
        if (outcome === "exists") skipped.add(line.conversation);
        if (outcome === "complete") sessions.push(line.conversation);
      }
    }
  }
  if (number === 0) assertHeader(undefined);
  return { sessions, skipped: [...skipped] };
}

function lineOf(line: unknown): string {
  return `${JSON.stringify(line)}\n`;
}

async function allSessions(store: Store): Promise<readonly string[]> {
  const ids: string[] = [];
  for (;;) {
    const before = ids.at(-1);
    const page = await store.sessions({ limit: pageSize, ...(before !== undefined && { before }) });
    ids.push(...page.map(({ sessionId }) => sessionId));
    if (page.length < pageSize) return ids.reverse();
  }
}

async function* pathsIn(store: Store, prefix: string): AsyncGenerator<string> {
  for (let after = ""; ; ) {
    const page = await store.files.list(prefix, { limit: pageSize, after });
    for (const { path } of page) yield path;
    if (page.length < pageSize) return;
    after = page.at(-1)?.path ?? "";
  }
}

async function fileLine(store: Store, path: string): Promise<string> {
  const file = await store.files.get(path);
  const data = Buffer.from(file?.data ?? []).toString("base64");
  return lineOf({ file: path, data } satisfies Line);
}

async function* conversationLines(
  store: Store,
  conversation: string,
  hasBlobs: boolean,
): AsyncGenerator<Line> {
  if (await store.owner(conversation)) {
    throw conflict(
      `Session ${conversation} is running. Stop its process, or export another session.`,
    );
  }
  const tasks = await store.tasks({ conversation });
  if (tasks.length === 0) throw notFound("session", conversation);
  for (const { taskId, depth } of tasks) {
    if (depth === 0) yield* logLines(store, conversation, taskId);
    if (!hasBlobs) continue;
    for await (const path of pathsIn(store, `blobs/${taskId}/`)) {
      yield JSON.parse(await fileLine(store, path)) as Line;
    }
  }
  for (const session of new Set([conversation, ...tasks.map(({ sessionId }) => sessionId)])) {
    for (let at = 0; ; at += pageSize) {
      const messages = await store.session(session, at, pageSize);
      if (messages.length > 0) yield { conversation, session, at, messages };
      if (messages.length < pageSize) break;
    }
  }
  yield { conversation, tasks, posts: await store.posts({ conversation }) };
}

async function* logLines(store: Store, conversation: string, log: string): AsyncGenerator<Line> {
  const snapshot = await store.snapshot(log);
  if (snapshot) yield { conversation, log, snapshot };
  for (let after = snapshot?.through ?? -1; ; after += pageSize) {
    const events = await store.read(log, after, pageSize);
    if (events.length > 0) yield { conversation, log, events };
    if (events.length < pageSize) return;
  }
}

async function importFile(store: Store, { file, data }: { file: string; data: string }) {
  const bytes = Buffer.from(data, "base64");
  const existing = await store.files.get(file);
  if (existing) return bytes.equals(existing.data);
  await store.files.put(file, new Uint8Array(bytes), { ifVersion: 0 });
  return true;
}

/** Writes a line; a conversation that has tasks was complete before. */
async function importLine(
  store: Store,
  line: Exclude<Line, { readonly file: string }>,
): Promise<"exists" | "complete" | "partial"> {
  const { conversation } = line;
  const [known] = await store.tasks({ conversation, limit: 1 });
  if (known) return "exists";
  const lease = await store.acquire(conversation, "import", leaseMs);
  if (lease === undefined) throw conflict(`Session ${conversation} is being written.`);
  try {
    // An interrupted import has written whole lines.
    if ("session" in line) {
      const { session: sessionId, at, messages } = line;
      const written = await store.session(sessionId, at, 1);
      const appends = [{ sessionId, at, messages }];
      if (written.length === 0) await store.commit({ lease, log: conversation, appends });
    } else if ("events" in line) {
      const { log, events } = line;
      const { sequence_number: first } = events[0] as LogEvent;
      if ((await store.last(log)) < first) await store.commit({ lease, log, events });
    } else if ("snapshot" in line) {
      const { log, snapshot } = line;
      await reserveNumbers(snapshot.through - (await store.last(log)), (events) =>
        store.commit({ lease, log, events }),
      );
      await store.trim(log, snapshot);
    } else {
      const { tasks, posts } = line;
      await store.commit({ lease, log: conversation, tasks, posts });
      return "complete";
    }
    return "partial";
  } finally {
    await store.release(lease);
  }
}

/** Writes events in place of those that the snapshot replaces, so that later events keep their numbers. */
async function reserveNumbers(
  count: number,
  write: (events: readonly TaskEvent[]) => Promise<unknown>,
): Promise<void> {
  for (let left = count; left > 0; left -= pageSize) {
    const events = Array.from({ length: Math.min(left, pageSize) }, () => ({
      type: "task.custom" as const,
      task_id: "",
      sequence_number: 0,
      task_seq: 0,
      created_at: 0,
      name: "reserved",
    }));
    await write(events as unknown as readonly TaskEvent[]);
  }
}

const linesField: Field = {
  fits: (value) =>
    typeof value === "object" &&
    value !== null &&
    (Symbol.asyncIterator in value || Symbol.iterator in value),
  expected: "an iterable of lines",
};

function parse(text: unknown, number: number): object {
  let line: unknown;
  try {
    line = JSON.parse(text as string);
  } catch (cause) {
    throw invalidExport(`Line ${number} is not JSON.`, cause);
  }
  if (isObject(line)) return line;
  throw invalidExport(`Line ${number} is not an object.`);
}

function assertHeader(first: unknown): void {
  const { format, version } = (first ?? {}) as Partial<typeof header>;
  if (format !== header.format)
    throw invalidExport("The first line is not the header of an export.");
  if (version !== header.version) {
    throw invalidExport(
      `The export has version ${version}; this version of Rivulet reads ${header.version}.`,
    );
  }
}

function invalidExport(message: string, cause?: unknown): RivuletError {
  return new RivuletError("invalid_export", message, {
    hint: "Pass the whole output of rivulet export.",
    ...(cause !== undefined && { cause }),
  });
}
