import { isTerminal } from "../protocol/task.ts";
import type { Conversation } from "./conversation.ts";
import { abortTree, cancelReason, isFor } from "./drive.ts";
import { driverOf, unfinished } from "./drivers.ts";
import { isControl } from "./inbox.ts";
import { isSlotTaken } from "./slot.ts";
import { reviveChild } from "./undriven.ts";

/**
 * Looks after a conversation that this process owns: cancels reach what is driven, and tasks that nobody drives are
 * taken up when their process was lost or somebody has answered them.
 */
export async function attend(conversation: Conversation): Promise<void> {
  const { store, sessionId, drives } = conversation;
  const records = await store.tasks({ conversation: sessionId, status: unfinished });
  for (const rootTaskId of new Set(records.map((record) => record.rootTaskId))) {
    const tree = records.filter((record) => record.rootTaskId === rootTaskId);
    const posts = (await store.posts({ rootTaskId })).filter(isControl);
    for (const post of posts) {
      if (post.kind !== "cancel") continue;
      const target = tree.find((record) => isFor(post, record));
      if (target) abortTree(conversation, target.taskId, cancelReason(post), true);
    }
    const asked = new Set(posts.map((post) => driverOf(tree, post.sessionId)?.taskId));
    for (const { taskId, mode, depth } of tree) {
      const isOnItsOwn = depth === 0 || mode === "background";
      if (!isOnItsOwn || drives.has(taskId)) continue;
      const record = await store.task(taskId);
      // Not driven before and after this look, so nobody has ended it in between.
      if (record === undefined || isTerminal(record.status) || drives.has(taskId)) continue;
      if (record.status === "suspended" && !asked.has(taskId)) continue;
      if (depth > 0) await reviveChild(conversation, record);
      else if (!isSlotTaken(store, record.sessionId)) conversation.onRootWaiting?.(taskId);
    }
  }
}
