import type { Message } from "../protocol/message.ts";
import { textOf } from "../protocol/message.ts";
import { type ReferenceEntry, ReferencePool } from "../protocol/references.ts";
import type { TaskRecord } from "../protocol/store.ts";
import type { TaskRun } from "./task-run.ts";
import type { ChildOutcome } from "./tool/context.ts";

/** The row that tells a parent of a background child's end. */
export function deliveryId(taskId: string): string {
  return `done:${taskId}`;
}

/** Where a child stands that has not ended. */
export function standing({
  taskId,
  sessionId,
  agentKey,
  agentId,
  label,
  ...record
}: TaskRecord): ChildOutcome {
  const { status, mode } = record;
  const named = label !== undefined && { label };
  return { status, mode, taskId, sessionId, agentKey, agentId, ...named, cited: [] };
}

/**
 * What a child that has ended came to, with what it cites taken into the parent's pool. Who reads it by a call need not
 * be told again: the row that tells of it is taken with that call's result.
 */
export async function outcomeOf(
  parent: TaskRun,
  record: TaskRecord,
  callId?: string,
): Promise<ChildOutcome> {
  const { result, structured, error, usage } = record;
  if (callId !== undefined && record.mode === "background") await claim(parent, record, callId);
  const messages = result ? await parent.conversation.store.session(record.sessionId) : [];
  const embedded = result && parent.pool.embed(poolOf(record.taskId, messages), result.content);
  const content = embedded?.message ?? [];
  return {
    ...standing(record),
    cited: embedded?.pool ?? [],
    ...(usage && { usage }),
    ...(result && { reply: { ...result, content, text: textOf(content) } }),
    ...(structured !== undefined && { structured }),
    ...(error && { error }),
  };
}

/** The references that a transcript holds. */
function poolOf(taskId: string, messages: readonly Message[]): ReferencePool {
  return ReferencePool.from({ taskId, entries: referencesIn(messages) });
}

/** The entries of a pool, as results and hints keep them. */
export function referencesIn(messages: readonly Message[]): readonly ReferenceEntry[] {
  return messages.flatMap((message) =>
    message.content.flatMap((block) =>
      block.type === "tool_result" || block.type === "hint"
        ? ((block.metadata?.references as readonly ReferenceEntry[] | undefined) ?? [])
        : [],
    ),
  );
}

/** Marks the row as one that this call's result takes; of two calls that read the same, the first does. */
async function claim(parent: TaskRun, { taskId }: TaskRecord, callId: string): Promise<void> {
  const id = deliveryId(taskId);
  const { store } = parent.conversation;
  const posts = await store.posts({ sessionId: parent.ref.sessionId });
  const isThere = posts.some((post) => post.id === id);
  if (isThere && !parent.claims.has(id)) parent.claims.set(id, callId);
}
