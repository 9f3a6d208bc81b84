import { keptFor, type TaskRun, wholeTranscript } from "../../agent/index.ts";
import type { Block, Message, TaskRecord } from "../../contract/index.ts";

/** A child of a session. */
export interface Child {
  readonly agentKey: string;
  readonly agentId: string;
  readonly sessionId: string;
  readonly label?: string;
  /** Its latest task; absent when it has had none. */
  readonly task?: TaskRecord;
}

/** A label on one line without spaces around it; undefined if nothing is left. */
export function labelOf(given: unknown): string | undefined {
  if (typeof given !== "string") return undefined;
  return given.replaceAll(/[\s\p{Cc}]+/gu, " ").trim() || undefined;
}

/** Returns the children of a session: those with tasks, and those that its transcript says were created without one. */
export async function childrenOf(parent: TaskRun): Promise<readonly Child[]> {
  const children = new Map<string, Child>();
  for (const child of createdIn(await wholeTranscript(parent))) children.set(child.agentKey, child);
  const { conversation } = parent;
  const { ref } = parent.identity;
  for (const task of await conversation.store.tasks({ parentSessionId: ref.sessionId })) {
    children.set(task.agentKey, childOf(task, children));
  }
  return [...children.values()];
}

function childOf(task: TaskRecord, known: ReadonlyMap<string, Child>): Child {
  const { agentKey, agentId, sessionId } = task;
  const label = task.label ?? known.get(agentKey)?.label;
  return { agentKey, agentId, sessionId, ...(label !== undefined && { label }), task };
}

/** The children of a session, by key and by label. */
interface ChildIndex {
  readonly byKey: ReadonlyMap<string, Child>;
  readonly byLabel: ReadonlyMap<string, Child>;
}

/** An index, and how much of the transcript and of the task's calls it has. */
interface GrowingIndex {
  readonly byKey: Map<string, Child>;
  readonly byLabel: Map<string, Child>;
  messages: number;
  calls: number;
  /** The calls whose children were about to be stored. */
  unstored: string[];
}

const indexKey = Symbol("index");

/**
 * Returns the children of a session without the state of their tasks. Only the running task of a session adds children,
 * so all but the first call read what this task has added since.
 */
export function childIndexOf(parent: TaskRun): Promise<ChildIndex> {
  const kept = keptFor<{ index?: Promise<GrowingIndex> | undefined }>(parent, indexKey, () => ({}));
  const index = kept.index?.then((last) => extend(parent, last)) ?? readIndex(parent);
  kept.index = index;
  index.catch(() => {
    kept.index = undefined;
  });
  return index;
}

async function readIndex(parent: TaskRun): Promise<GrowingIndex> {
  const { offset, messages } = parent.transcript;
  const { childCalls, openResults } = parent.output;
  const index: GrowingIndex = {
    byKey: new Map(),
    byLabel: new Map(),
    messages: offset + messages.length,
    calls: childCalls.size,
    unstored: [...childCalls].filter((id) => openResults.has(id)),
  };
  for (const child of await childrenOf(parent)) add(index, child);
  return index;
}

async function extend(parent: TaskRun, index: GrowingIndex): Promise<GrowingIndex> {
  const { conversation } = parent;
  const { offset, messages } = parent.transcript;
  const { childCalls } = parent.output;
  const added = messages.slice(index.messages - offset);
  const calls = [...index.unstored, ...[...childCalls].slice(index.calls)];
  index.messages += added.length;
  index.calls = childCalls.size;
  index.unstored = [];
  for (const child of createdIn(added)) add(index, child);
  for (const callId of calls) {
    const task = await conversation.store.task(callId);
    if (task === undefined) index.unstored.push(callId);
    else if (task.parentSessionId === parent.identity.ref.sessionId)
      add(index, childOf(task, index.byKey));
  }
  return index;
}

function add({ byKey, byLabel }: GrowingIndex, child: Child): void {
  byKey.set(child.agentKey, child);
  if (child.label !== undefined) byLabel.set(child.label, child);
}

/** What `describeChild` writes about a child without a task. */
const description =
  /^agent_key: (?<agentKey>\S+)\nagent_id: (?<agentId>\S+)\nsession_id: (?<sessionId>\S+)\nstatus: ok(?:\nlabel: (?<label>[^\n]+))?$/;

/** The block with a new session for the child that it created without a task, which two sessions must not share. */
export function withChildSessions(block: Block, newId: () => string): Block {
  if (block.type !== "tool_result" || block.name !== "agent_spawn") return block;
  const output = block.output.map((part) =>
    part.type === "text" && description.test(part.text)
      ? { ...part, text: part.text.replace(/^session_id: .*$/m, `session_id: ${newId()}`) }
      : part,
  );
  return { ...block, output };
}

/** A child without a task exists only in the result of the call that created it. */
function createdIn(messages: readonly Message[]): readonly Child[] {
  return messages.flatMap(({ content }) =>
    content.flatMap((block) => {
      if (block.type !== "tool_result" || block.name !== "agent_spawn") return [];
      const [first] = block.output;
      const found = first?.type === "text" ? description.exec(first.text)?.groups : undefined;
      if (found === undefined) return [];
      const { agentKey = "", agentId = "", sessionId = "", label } = found;
      return [{ agentKey, agentId, sessionId, ...(label !== undefined && { label }) }];
    }),
  );
}
