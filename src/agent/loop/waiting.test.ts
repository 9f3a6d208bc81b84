import { expect, it } from "vitest";
import type { Block, Message } from "../../contract/message.ts";
import type { TaskRecord } from "../../contract/store.ts";
import { memoryStore } from "../../store/memory.ts";
import { stopCallId } from "./next.ts";
import { waitingTasks } from "./waiting.ts";

const record = (taskId: string, status: TaskRecord["status"], depth: number): TaskRecord => ({
  taskId,
  rootTaskId: "root",
  agentId: "lead",
  agentName: "lead",
  agentKey: `agent:lead:${taskId}`,
  sessionId: `s-${taskId}`,
  depth,
  path: depth === 0 ? "s" : "s/lead",
  createdAt: 0,
  mode: "sync",
  status,
  committedOutput: 0,
});
const message = (role: Message["role"], ...content: Block[]): Message => ({
  id: "m",
  role,
  content,
  ...(role === "assistant" && { name: "lead" }),
});
const call = (id: string): Block => ({ type: "tool_use", id, name: "tool", input: { id } });
const suspension = (callId: string, approvalId: string, kind: "approval" | "stop" = "approval") =>
  message("tool", { type: "suspension", callId, kind, approvalId, reason: "Why?" });
const answer = (callId: string, approvalId: string) =>
  message("user", { type: "answer", callId, approvalId, decision: "approve" });

it("finds what waits in every task of a tree that has not ended", async () => {
  const store = memoryStore();
  const lease = await store.acquire("s-root", "me", 1_000);
  if (lease === undefined) throw new Error("taken");
  const sessions = {
    root: [message("assistant", call("a"), call("b")), suspension("a", "1"), answer("a", "1")],
    child: [message("assistant", call("c")), suspension("c", "2")],
    stopped: [message("assistant", call("d")), suspension(stopCallId, "3", "stop")],
    ended: [message("assistant", call("e")), suspension("e", "4")],
  };
  await store.commit({
    lease,
    log: "root",
    tasks: [
      record("root", "in_progress", 0),
      record("child", "suspended", 1),
      record("stopped", "suspended", 1),
      record("ended", "cancelled", 1),
    ],
    appends: Object.entries(sessions).map(([id, messages]) => ({
      sessionId: `s-${id}`,
      at: 0,
      messages,
    })),
  });
  const waiting = await waitingTasks(store, { rootTaskId: "root" });
  expect(waiting.map(({ record: { taskId } }) => taskId)).toEqual(["root", "child", "stopped"]);
  expect(waiting.flatMap(({ approvals }) => approvals)).toMatchObject([
    { id: "2", taskId: "child", path: "s/lead", call: { id: "c", input: { id: "c" } } },
    { id: "3", taskId: "stopped", kind: "stop", call: { id: "", name: "", input: {} } },
  ]);
});
