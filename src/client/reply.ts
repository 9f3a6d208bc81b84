import { RivuletError } from "../base/error.ts";
import {
  approvalIn,
  type Block,
  blockOf,
  contentOf,
  editedReply,
  isOfTurn,
  type Message,
  type Reply,
  replyWith,
  stateOf,
  type TaskRef,
} from "../contract/index.ts";
import {
  type Item,
  noUsage,
  subtreeOf,
  sumOf,
  type Task,
  type Tree,
  taskOf,
  waitingIn,
} from "../protocol/index.ts";

/** The reply of a task that has ended or is suspended, from the tree. */
export function replyIn(tree: Tree, ref: TaskRef, agentName: string): Reply<unknown> {
  const task = taskOf(tree, ref.taskId);
  if (task === undefined) throw new RivuletError("internal", `Task ${ref.taskId} has no events.`);
  const subtree = subtreeOf(tree, task.id);
  const { generateReason = "model_stop", usage = noUsage } = task;
  const name = task.source?.agentName ?? task.source?.agentId ?? agentName;
  const waiting = task.status === "suspended" ? subtree : [];
  return replyWith(messageOf(task, name), {
    approvals: waiting.flatMap((asking) =>
      waitingIn(asking).map((approval) => approvalIn(asking, approval, ref.rootTaskId)),
    ),
    task: ref,
    ...{ usage, total: sumOf(subtree), generateReason, structured: task.structured },
  });
}

/** The message that the loop replies with in each case, as people see it. */
function messageOf(task: Task, name: string): Message {
  const edited = task.metadata?.[editedReply] as Message | undefined;
  if (edited) return edited;
  const { generateReason, status, structured } = task;
  if (generateReason === "acting_stop_requested") {
    const message = lastToolMessage(task, name);
    if (message) return message;
  }
  const turn = lastTurn(task);
  const [first] = turn;
  const id = first && isOfTurn(first) ? (first.message_id ?? first.id) : task.id;
  const message = { id, role: "assistant", name } as const;
  if (generateReason === "structured_output")
    return { ...message, content: [{ type: "text", text: JSON.stringify(structured) }] };
  if (status !== "suspended") return { ...message, content: turn.flatMap(blocksOf) };
  const results = new Set(task.output.flatMap(finishedCall));
  const shown = turn.filter((item) =>
    item.type === "tool_call"
      ? !results.has(item.call_id)
      : generateReason === "reasoning_stop_requested",
  );
  return { ...message, content: shown.flatMap(blocksOf) };
}

/** The blocks of an item, with the provider's id of a call, which a message in a transcript has. */
function blocksOf(item: Item): readonly Block[] {
  const providerCallId = item.type === "tool_call" ? item.provider_call_id : undefined;
  const blocks = contentOf(item);
  if (providerCallId === undefined) return blocks;
  return blocks.map((block) => (block.type === "tool_use" ? { ...block, providerCallId } : block));
}

/** The items of the last message of the model. */
function lastTurn({ output }: Task): readonly Item[] {
  const last = output.findLast(isOfTurn);
  if (last?.message_id === undefined) return last ? [last] : [];
  return output.filter((item) => isOfTurn(item) && item.message_id === last.message_id);
}

function finishedCall(item: Item): string[] {
  return item.type === "tool_result" && item.status !== "in_progress" ? [item.call_id] : [];
}

function lastToolMessage({ output }: Task, name: string): Message | undefined {
  const result = output.findLast((item) => finishedCall(item).length > 0);
  if (result?.type !== "tool_result") return undefined;
  const { call_id: id, id: messageId } = result;
  const call = output.findLast((item) => item.type === "tool_call" && item.call_id === id);
  const block: Block = {
    type: "tool_result",
    id,
    name: call?.type === "tool_call" ? call.name : "",
    output: result.block_list.flatMap(blockOf),
    state: stateOf(result),
  };
  return { id: messageId, role: "tool", name, content: [block] };
}
