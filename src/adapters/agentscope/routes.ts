import { runFields } from "../../agent/index.ts";
import * as is from "../../base/options.ts";
import type { Route } from "../../server/index.ts";

const submitFields = {
  task_id: is.required(runFields.taskId, '"task-1"'),
  agent_id: is.required(is.name, '"assistant"'),
  input: is.text,
  context: is.record,
};
const found = { status: 200, description: "`{ task_id, status, result?, error?, … }`" };
const handler = () => import("./handler.ts");

/**
 * The routes of the AgentScope task protocol. The user is the caller's: `context.user_id` is ignored. The session of a
 * task has the id of the task, as in AgentScope.
 */
export const agentScopeRoutes: readonly Route[] = [
  {
    method: "POST",
    path: "/tasks",
    needs: "write",
    summary: "AgentScope: submit a task.",
    body: submitFields,
    ids: { task_id: "task" },
    ignoresUnknown: true,
    returns: { status: 200, description: '`{ task_id, status: "pending" }`' },
    handle: async (call) => (await handler()).submit(call),
  },
  {
    method: "GET",
    path: "/tasks/:id",
    needs: "read",
    ids: { id: "task" },
    summary: "AgentScope: read the status and the result of a task.",
    ignoresUnknown: true,
    returns: found,
    handle: async (call) => (await handler()).show(call),
  },
  {
    method: "GET",
    path: "/tasks/:id/wait",
    needs: "read",
    ids: { id: "task" },
    summary: "AgentScope: wait until a task ends or asks for a confirmation.",
    query: { timeout_seconds: is.integer(0, Number.MAX_SAFE_INTEGER) },
    ignoresUnknown: true,
    returns: found,
    handle: async (call) => (await handler()).wait(call),
  },
  {
    method: "GET",
    path: "/tasks/:id/events",
    needs: "read",
    ids: { id: "task" },
    summary: "AgentScope: follow the events of a task.",
    query: { from_seq: is.integer(0, Number.MAX_SAFE_INTEGER) },
    ignoresUnknown: true,
    returns: { status: 200, type: "text/event-stream", description: "Server-sent events." },
    isStream: true,
    handle: async (call) => (await handler()).follow(call),
  },
  {
    method: "POST",
    path: "/tasks/:id/cancel",
    needs: "write",
    ids: { id: "task" },
    summary: "AgentScope: cancel a task and its descendants.",
    body: {},
    ignoresUnknown: true,
    returns: found,
    handle: async (call) => (await handler()).cancel(call),
  },
  {
    method: "POST",
    path: "/tasks/:id/resume",
    needs: "write",
    ids: { id: "task" },
    summary: "AgentScope: confirm or refuse the calls that a task waits for.",
    body: { decisions: is.required(is.listOf(is.record), '[{ toolCallId: "…", approved: true }]') },
    ignoresUnknown: true,
    returns: { status: 200, description: '`{ task_id, status: "running" }`' },
    handle: async (call) => (await handler()).resume(call),
  },
];
