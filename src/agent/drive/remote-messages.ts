import { editedReply } from "../../protocol/agent-events.ts";
import { blockOf, isOfTurn, stateOf, type TurnItem, turnsIn } from "../../protocol/item-content.ts";
import type { Block, Message } from "../../protocol/message.ts";
import { messageProblem } from "../../protocol/message-rules.ts";
import type { TaskTree } from "../../protocol/reduce.ts";
import type { ReferenceEntry } from "../../protocol/references.ts";
import type { Item, TaskObject, ToolResultItem } from "../../protocol/task.ts";
import { controlMessage, type TaskRun } from "../loop/task-run.ts";
import { iterationOf, messagesOf, referencesIn } from "../loop/transcript.ts";
import { blocksOf } from "./mirror.ts";

/** The messages of a remote task that its transcript does not hold yet, and how many items it holds with them. */
export interface NewMessages {
  readonly messages: readonly Message[];
  readonly committedOutput: number;
}

/** Converts the closed items of a remote task to messages. The items of a turn wait until all of them are closed. */
export function newMessages(run: TaskRun, tree: TaskTree): NewMessages {
  const { committedOutput } = run.record;
  const output = tree.task(run.ref.taskId)?.output ?? [];
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
    committedOutput: isOpen ? committedOutput : output.length,
  };
}

function turnMessage(run: TaskRun, tree: TaskTree, items: readonly TurnItem[]): Message {
  const { settings, ref } = run;
  const references = newReferences(run, tree, items);
  return {
    id: items[0]?.message_id ?? settings.ids.next("msg"),
    role: "assistant",
    name: settings.name,
    content: items.flatMap(contentOf),
    metadata: {
      taskId: ref.taskId,
      iteration: iterationOf(run) + 1,
      ...(references.length > 0 && { references }),
    },
  };
}

function contentOf(item: TurnItem): readonly Block[] {
  const { provider_call_id: providerCallId } = item.type === "tool_call" ? item : {};
  const blocks = blocksOf(item);
  if (providerCallId === undefined) return blocks;
  return blocks.map((block) => (block.type === "tool_use" ? { ...block, providerCallId } : block));
}

/** The results that a message cites for the first time; the parent numbers them anew. */
function newReferences(
  run: TaskRun,
  tree: TaskTree,
  items: readonly Item[],
): readonly ReferenceEntry[] {
  const known = new Set(referencesIn(run.messages).map(({ referenceId }) => referenceId));
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
