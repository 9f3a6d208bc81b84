import type { TaskRun } from "../../agent/loop/task-run.ts";
import { wholeTranscript } from "../../agent/loop/transcript.ts";
import type { Block, Message } from "../../protocol/message.ts";
import type { TaskRecord } from "../../protocol/store.ts";

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
  const { conversation, ref } = parent;
  for (const task of await conversation.store.tasks({ parentSessionId: ref.sessionId })) {
    const { agentKey, agentId, sessionId: own } = task;
    const label = task.label ?? children.get(agentKey)?.label;
    children.set(agentKey, {
      agentKey,
      agentId,
      sessionId: own,
      ...(label !== undefined && { label }),
      task,
    });
  }
  return [...children.values()];
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
