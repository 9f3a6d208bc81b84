import { isPlainObject, sha256 } from "../../base/plain.ts";
import { nextTurn } from "../../base/time.ts";
import type { ToolCall } from "../../contract/index.ts";
import {
  type Block,
  type Message,
  type ReferenceEntry,
  ReferencePool,
  type Store,
  type TaskRecord,
} from "../../contract/index.ts";
import type { TaskRun, TaskWords } from "./task-run.ts";

/** The end of a session's messages. */
export interface Transcript {
  readonly messages: Message[];
  /** The index of the first of them in the session. */
  readonly offset: number;
}

const firstPage = 64;
/** How many messages one turn of the event loop reads. */
const maxPage = 2_000;

/** Reads all messages, or those that a model sees and all of a task that has begun. */
export async function readTranscript(
  store: Store,
  { sessionId, taskId, status }: TaskRecord,
  isWhole = false,
): Promise<Transcript> {
  const [session] = await store.sessions({ sessionId, limit: 1 });
  let offset = isWhole ? 0 : (session?.visibleFrom ?? 0);
  let messages = await readFrom(store, sessionId, offset, session?.messages ?? 0);
  const hasBegun = status !== "queued";
  for (let page = firstPage; hasBegun && offset > 0; page *= 2) {
    if (messages.some((message) => isReplyOfOther(message, taskId))) break;
    const from = Math.max(0, offset - page);
    messages = [...(await store.session(sessionId, from, offset - from)), ...messages];
    offset = from;
  }
  return { messages, offset };
}

/** Reads the messages from `offset` on, the last page first, because a store keeps the end of a session. */
async function readFrom(
  store: Store,
  sessionId: string,
  offset: number,
  count: number,
): Promise<Message[]> {
  let from = Math.max(offset, count - maxPage);
  const pages = [await store.session(sessionId, from)];
  while (from > offset) {
    await nextTurn();
    const end = from;
    from = Math.max(offset, end - maxPage);
    pages.unshift(await store.session(sessionId, from, end - from));
  }
  const [only] = pages;
  return pages.length === 1 ? (only as Message[]) : pages.flat(); // a store returns a new array
}

/** All messages of a task's session. */
export function wholeTranscript(task: TaskRun): Promise<readonly Message[]> {
  return wholeSession(task.conversation.store, task.identity.ref, task.transcript);
}

async function wholeSession(
  store: Store,
  { sessionId }: Pick<TaskRecord, "sessionId">,
  { messages, offset }: Transcript,
): Promise<readonly Message[]> {
  if (offset === 0) return messages;
  return [...(await store.session(sessionId, 0, offset)), ...messages];
}

/** The messages of a task: tasks of a session do not overlap, so a reply of another task ends the search. */
export function messagesOf({ transcript: { messages }, identity: { ref } }: TaskWords) {
  const before = messages.findLastIndex((message) => isReplyOfOther(message, ref.taskId));
  return messages.slice(before + 1).filter(({ metadata }) => metadata?.taskId === ref.taskId);
}

/** The number of model calls of this task in the transcript. */
export function iterationOf({ transcript, identity }: TaskWords): number {
  const { taskId } = identity.ref;
  const last = findLastOwn(
    transcript.messages,
    taskId,
    ({ role, metadata }) =>
      role === "assistant" && metadata?.taskId === taskId && metadata.iteration !== undefined,
  );
  return last?.metadata?.iteration ?? 0;
}

/** Like `findLast`, but ends at a reply of another task. */
function findLastOwn(
  messages: readonly Message[],
  taskId: string,
  fits: (message: Message) => boolean,
): Message | undefined {
  const last = messages.findLast((one) => fits(one) || isReplyOfOther(one, taskId));
  return last && fits(last) ? last : undefined;
}

function isReplyOfOther({ role, metadata }: Message, taskId: string): boolean {
  return role === "assistant" && metadata?.taskId !== undefined && metadata.taskId !== taskId;
}

/** The references in the beginning of a transcript, by its first message. */
const knownReferences = new WeakMap<
  Message,
  { readonly until: Message; readonly at: number; readonly references: readonly ReferenceEntry[] }
>();

/** The entries of a pool, as results and hints keep them. */
export function referencesIn(messages: readonly Message[]): readonly ReferenceEntry[] {
  const [first, until] = [messages[0], messages.at(-1)];
  if (first === undefined || until === undefined) return [];
  // A message is never changed or moved, so the same first and last one have the same messages between them.
  const stored = knownReferences.get(first);
  const known = stored && messages[stored.at] === stored.until ? stored : undefined;
  const added = messages.slice(known ? known.at + 1 : 0).flatMap(referencesOf);
  const references = [...(known?.references ?? []), ...added];
  // Short transcripts are read faster than remembered.
  const at = messages.length - 1;
  if (at > firstPage) knownReferences.set(first, { until, at, references });
  return references;
}

function referencesOf({ content, metadata }: Message): readonly ReferenceEntry[] {
  // The messages of a remote task hold what they cite.
  if (metadata?.references) return metadata.references as readonly ReferenceEntry[];
  return content.flatMap((block) =>
    block.type === "tool_result" || block.type === "hint"
      ? ((block.metadata?.references as readonly ReferenceEntry[] | undefined) ?? [])
      : [],
  );
}

/** Adds the references from before the task's messages; a task gives numbers only after that, so that none repeats. */
export function loadReferences(task: TaskRun): Promise<void> {
  const { transcript } = task;
  transcript.earlierReferences ??= addEarlier(task);
  return transcript.earlierReferences;
}

async function addEarlier({ transcript, output, identity, conversation }: TaskRun): Promise<void> {
  if (transcript.offset === 0) return;
  const entries = referencesIn(await wholeSession(conversation.store, identity.ref, transcript));
  output.pool = ReferencePool.from({ taskId: identity.ref.taskId, entries });
  transcript.storedReferences = entries.length;
}

/** The references that a task continues with; those from before its messages only if the messages may cite them. */
export async function readReferences(
  store: Store,
  record: TaskRecord,
  transcript: Transcript,
): Promise<{ readonly entries: readonly ReferenceEntry[]; readonly isWhole: boolean }> {
  const { messages, offset } = transcript;
  const isWhole = offset > 0 && messages.some(isCiting);
  const read = isWhole ? await wholeSession(store, record, transcript) : messages;
  return { entries: referencesIn(read), isWhole };
}

/** The entries of the reference pool that the transcript does not hold; the caller stores them. */
export function newReferences(task: TaskRun): { readonly references?: readonly ReferenceEntry[] } {
  if (task.output.pool.isEmpty) return {};
  const references = task.output.pool.toJSON().entries.slice(task.transcript.storedReferences);
  task.transcript.storedReferences += references.length;
  return references.length > 0 ? { references } : {};
}

/** Whether a message may cite by number. */
function isCiting({ content }: Message): boolean {
  return content.some((block) => {
    if (block.type === "compaction") return block.summary.includes("[^");
    return (block.type === "text" || block.type === "hint") && block.text.includes("[^");
  });
}

/** How many times in a row a call has had the same result. */
export interface Repeat {
  readonly fingerprint: string;
  readonly times: number;
}

const minHashed = 200;

/** Counts equal results in a row; those of one reply count once, because the model had read none of them. */
export function repeatOf(
  messages: readonly Message[],
  taskId: string,
  call: Pick<ToolCall, "name" | "input">,
  output: readonly Block[],
): Repeat {
  const fingerprint = fingerprintOf(call, output);
  const last = lastRepeat(messages, taskId);
  if (last?.fingerprint !== fingerprint) return { fingerprint, times: 1 };
  // One search for both, because the results of a reply can be thousands.
  const end = messages.findLast((message) => message.role === "assistant" || isResult(message));
  return { fingerprint, times: end?.role === "assistant" ? last.times + 1 : last.times };
}

/** The count of the last tool result, if it belongs to this task. */
export function lastRepeat(messages: readonly Message[], taskId: string): Repeat | undefined {
  const last = findLastOwn(messages, taskId, isResult);
  const block = last?.metadata?.taskId === taskId ? last.content[0] : undefined;
  return block?.type === "tool_result" ? (block.metadata?.repeat as Repeat | undefined) : undefined;
}

function isResult({ content: [first] }: Message): boolean {
  return first?.type === "tool_result";
}

/** Identifies a call and its result; long texts are hashed first, because that is cheaper than encoding them as JSON. */
function fingerprintOf(call: Pick<ToolCall, "name" | "input">, output: readonly Block[]): string {
  const blocks = output.map((block) =>
    block.type === "text" ? shorten(block.text) : sorted(block),
  );
  return shorten(JSON.stringify([call.name, sorted(call.input), blocks]));
}

function shorten(text: string): string {
  return text.length < minHashed ? text : `sha256:${sha256(text, "base64url")}`;
}

/** Sorts the keys of objects, because their order makes no difference. */
function sorted(value: unknown): unknown {
  if (typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(sorted);
  if (!isPlainObject(value)) return value;
  return Object.keys(value)
    .sort()
    .map((name) => [name, sorted(value[name])]);
}
