import {
  type Block,
  blockOf,
  contentOf,
  editedReply,
  invalidEvent,
  isOfTurn,
  type Message,
  messageProblem,
  type ReferenceEntry,
  stateOf,
  type TaskRecord,
  type TurnItem,
  turnsIn,
} from "../../contract/index.ts";
import type {
  Item,
  LogEvent,
  TaskEvent,
  TaskObject,
  TaskTree,
  TaskWriter,
  ToolResultItem,
  WrittenItem,
} from "../../protocol/index.ts";
import { controlMessage, type TaskRun } from "../loop/task-run.ts";
import { iterationOf, messagesOf, referencesIn } from "../loop/transcript.ts";
import { parseToolInput } from "../model/collect.ts";

/** The messages of a remote task that its transcript does not hold yet, and how many items it holds with them. */
interface NewMessages {
  readonly messages: readonly Message[];
  readonly record: Pick<TaskRecord, "committedOutput">;
}

/** Converts the closed items of a remote task to messages. The items of a turn wait until all of them are closed. */
export function newMessages(run: TaskRun, tree: TaskTree): NewMessages {
  const { committedOutput } = run.state.record;
  const output = tree.task(run.identity.ref.taskId)?.output ?? [];
  const fresh = output.slice(committedOutput).filter(isOfTurn);
  const isOpen = fresh.some(({ status }) => status === "in_progress");
  const turns = isOpen ? [] : turnsIn(fresh).map((items) => turnMessage(run, tree, items));
  const blocks = messagesOf(run).flatMap(({ content }) => content);
  const stored = new Set(blocks.flatMap((block) => (block.type === "tool_result" ? block.id : [])));
  const results = output.filter(
    (item): item is ToolResultItem =>
      item.type === "tool_result" && item.status !== "in_progress" && !stored.has(item.call_id),
  );
  return {
    messages: [...turns, ...results.map((item) => resultMessage(run, output, item))],
    record: { committedOutput: isOpen ? committedOutput : output.length },
  };
}

function turnMessage(run: TaskRun, tree: TaskTree, items: readonly TurnItem[]): Message {
  const { settings } = run;
  const { ref } = run.identity;
  const references = newReferences(run, tree, items);
  return {
    id: items[0]?.message_id ?? settings.ids.next("msg"),
    role: "assistant",
    name: settings.name,
    content: items.flatMap(blocksOf),
    metadata: {
      taskId: ref.taskId,
      iteration: iterationOf(run) + 1,
      ...(references.length > 0 && { references }),
    },
  };
}

function blocksOf(item: TurnItem): readonly Block[] {
  if (item.type !== "tool_call") return contentOf(item);
  const { call_id: id, name, provider_call_id: providerCallId } = item;
  const provider = providerCallId !== undefined && { providerCallId };
  // Arguments that are not JSON stay as they are.
  return [{ type: "tool_use", id, name, ...parseToolInput(item.arguments), ...provider }];
}

/** The results that a message cites for the first time; the parent numbers them anew. */
function newReferences(
  run: TaskRun,
  tree: TaskTree,
  items: readonly Item[],
): readonly ReferenceEntry[] {
  const known = new Set(
    referencesIn(run.transcript.messages).map(({ referenceId }) => referenceId),
  );
  const blocks = items.flatMap((item) => (item.type === "message" ? item.block_list : []));
  const annotations = blocks.flatMap((block) => (block.type === "text" ? block.annotations : []));
  return annotations.flatMap((annotation): readonly ReferenceEntry[] => {
    if (annotation?.type !== "reference_to_block") return [];
    const { reference_id: referenceId, target } = annotation;
    if (target === undefined || known.has(referenceId) || !(referenceId >= 1)) return [];
    const cited = tree.task(target.task_id)?.output.find(({ id }) => id === target.item_id);
    if (cited?.type !== "tool_result") return [];
    known.add(referenceId);
    return [{ referenceId, target, content: cited.block_list.flatMap(blockOf) }];
  });
}

function resultMessage(run: TaskRun, output: readonly Item[], item: ToolResultItem): Message {
  const { call_id: id, block_list } = item;
  const call = output.findLast((other) => other.type === "tool_call" && other.call_id === id);
  const name = call?.type === "tool_call" ? call.name : "";
  const result = { type: "tool_result", id, name, output: block_list.flatMap(blockOf) } as const;
  return { ...controlMessage(run, { ...result, state: stateOf(item) }), id };
}

/** The message that a hook of the remote agent has put in the place of its last one. */
export function editedMessage({ metadata }: TaskObject): Message | undefined {
  const edited = metadata?.[editedReply];
  return messageProblem(edited, "reply") === undefined ? (edited as Message) : undefined;
}

/** Closes what a remote task has open; the results of its calls stay open, for their ends. */
export function closeItems(run: TaskRun, writer: TaskWriter): void {
  const status = run.control.controller.signal.aborted ? "cancelled" : "incomplete";
  for (const item of writer.items) {
    if (!item.isOpen) continue;
    if (item.type === "tool_result")
      run.output.openResults.set(item.callId ?? "", item as WrittenItem);
    else if (item.type === "tool_call") writer.discard(item, "recovered");
    else writer.close(item, { status });
  }
}

/** The size of an event that a server sent; throws for one that cannot be written. */
export function sizeOf(event: TaskEvent): number {
  try {
    return "delta" in event ? event.delta.length + 256 : JSON.stringify(event).length;
  } catch {
    throw invalidEvent(event as LogEvent, "it cannot be read");
  }
}

/** Whether the transcript of a task has the answer to an approval. */
export function isAnswered(run: TaskRun, approvalId: string): boolean {
  return messagesOf(run).some(({ content }) =>
    content.some((block) => block.type === "answer" && block.approvalId === approvalId),
  );
}
