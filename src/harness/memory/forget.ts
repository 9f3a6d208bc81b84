import type { Message, SessionInfo, Store } from "../../contract/index.ts";
import type { Filesystem } from "../filesystem/filesystem.ts";
import { withdrawPending } from "./consolidate.ts";
import { readCursor, writeCursor } from "./cursor.ts";
import { containing, withoutText } from "./facts.ts";
import { changeText, dailyFiles, memoryFile, versionFiles } from "./memory-files.ts";

/** What `forget` has removed. */
export interface Forgotten {
  /** How many facts were removed, from all files together. */
  readonly removed: number;
  /** The sessions whose transcripts contain the text; delete them to remove it from the store. */
  readonly sessions: readonly string[];
}

/** Where to forget. */
export interface Forgetting {
  readonly store: Store;
  readonly agentId: string;
  readonly files: Filesystem;
  readonly scope: string;
  /** The sessions from which the memory is distilled. */
  sessions(): AsyncIterable<SessionInfo>;
}

const pageSize = 200;

/**
 * Removes every fact that contains a text from the memory file, the daily files and the old versions, and hides the
 * messages with the text from the tools of the agent and from later distillations. Sessions come first: a distillation
 * that runs elsewhere then fails to move its cursor.
 */
export async function forget(forgetting: Forgetting, text: string): Promise<Forgotten> {
  const { store, files, scope } = forgetting;
  const isForgotten = containing(text);
  const sessions: string[] = [];
  for await (const session of forgetting.sessions()) {
    const found = await messagesWith(store, session.sessionId, isForgotten);
    if (found.length > 0) sessions.push(session.sessionId);
    await hideMessages(forgetting, session, found, text);
  }
  await withdrawPending({ files, scope }, isForgotten);
  let removed = 0;
  for (const path of [memoryFile, ...(await dailyFiles(files)), ...(await versionFiles(files))]) {
    let count = 0;
    await changeText(files, path, (current) => {
      const rest = withoutText(current, text);
      count = rest.removed;
      return rest.text;
    });
    removed += count;
  }
  return { removed, sessions };
}

async function messagesWith(
  store: Store,
  sessionId: string,
  isForgotten: (text: string) => boolean,
): Promise<readonly number[]> {
  const found: number[] = [];
  for (let from = 0; ; from += pageSize) {
    const messages = await store.session(sessionId, from, pageSize);
    for (const [index, { content }] of messages.entries()) {
      if (isForgotten(stringsIn(content).join("\n"))) found.push(from + index);
    }
    if (messages.length < pageSize) return found;
  }
}

function stringsIn(value: unknown): readonly string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value ? Object.values(value).flatMap(stringsIn) : [];
}

async function hideMessages(
  { store, agentId }: Forgetting,
  session: SessionInfo,
  found: readonly number[],
  text: string,
): Promise<void> {
  for (;;) {
    const { cursor, version } = await readCursor(store, agentId, session);
    const { pending } = cursor;
    const rest = pending && withoutText(pending.entry.text, text);
    const hidden = [...new Set([...cursor.hidden, ...found])].toSorted((a, b) => a - b);
    if (hidden.length === cursor.hidden.length && !rest?.removed) return;
    const next = {
      ...{ ...cursor, hidden },
      ...(pending &&
        rest && { pending: { ...pending, entry: { ...pending.entry, text: rest.text } } }),
    };
    const { sessionId } = session;
    if ((await writeCursor(store, agentId, sessionId, next, version)) !== undefined) return;
  }
}

/** The message as the tools of the agent show it. */
export function withoutContent(message: Message): Message {
  return { ...message, content: [{ type: "text", text: "[forgotten]" }] };
}
