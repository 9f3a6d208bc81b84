import type { ServerContext } from "@modelcontextprotocol/server";
import { type TaskEvent, TaskTree } from "../../protocol/index.ts";

/**
 * The reports of a tree to a client that has asked for progress: each tool call and each subagent counts one. A tool that
 * a client calls itself (`ownCall`) reports its own numbers.
 */
export function progressOf(
  { mcpReq }: ServerContext,
  rootId: string,
  ownCall: boolean,
): ((event: TaskEvent) => void) | undefined {
  const token = mcpReq._meta?.progressToken;
  if (token === undefined) return undefined;
  const tree = new TaskTree();
  let count = -1;
  const send = (progress: number, message: string | undefined, total?: number) => {
    if (progress <= count) return; // progress only grows
    count = progress;
    const params = {
      progressToken: token,
      progress,
      ...(message !== undefined && { message }),
      ...(total !== undefined && { total }),
    };
    // A client that has left gets no more reports.
    mcpReq.notify({ method: "notifications/progress", params }).catch(() => {});
  };
  return (event) => {
    if (event.type === "error") return;
    tree.apply(event);
    const { path = "" } = tree.task(event.task_id)?.source ?? {};
    const place = path.split("/").slice(1).join("/");
    const at = (words: string) => (place === "" ? words : `${place}: ${words}`);
    if (ownCall) {
      if (event.type === "task.tool_result.progress" && event.task_id === rootId)
        send(event.progress, event.message, event.total);
      return;
    }
    switch (event.type) {
      case "task.created":
        if (event.task_id !== rootId) send(count + 1, at("started"));
        break;
      case "task.output_item.added":
        if (event.item.type === "tool_call") send(count + 1, at(event.item.name));
        break;
      case "task.tool_result.progress":
        send(count + 1, at(event.message ?? `${event.progress}`));
        break;
      case "task.approval.requested":
        send(count + 1, at("waits for an answer"));
        break;
      default:
    }
  };
}
