import {
  type CallToolResult,
  type ClientCapabilities,
  type McpServer,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { z } from "zod";
import { RivuletError } from "../../base/error.ts";
import type { Approval, TaskRecord } from "../../contract/index.ts";
import { isTerminal, rootTask } from "../../protocol/index.ts";
import { waitingBelow } from "../root-task.ts";
import { answersOf, inputRequestsOf, textOf } from "./questions.ts";
import { capabilitiesOf, failedResult, finalResult } from "./results.ts";
import { answerTask, cancelTask, findRoot, type McpCall, untilRest } from "./runs.ts";

/** The id of the extension. */
const tasksExtension = "io.modelcontextprotocol/tasks";
const pollIntervalMs = 1_000;

/** Whether a client takes a task instead of a result. */
export function wantsTask(capabilities: ClientCapabilities | undefined): boolean {
  const wish = (capabilities as { readonly extensions?: Record<string, unknown> } | undefined)
    ?.extensions?.[tasksExtension];
  return typeof wish === "object" && wish !== null && !Array.isArray(wish);
}

// `failed` is for errors of the protocol: a run that fails has a result with `isError`, as without tasks.
const statuses = {
  queued: "working",
  in_progress: "working",
  suspended: "input_required",
  completed: "completed",
  incomplete: "completed",
  failed: "completed",
  cancelled: "cancelled",
} as const;

function taskOf({ taskId, status, createdAt }: TaskRecord, updatedAt = createdAt) {
  return {
    taskId,
    status: statuses[status],
    createdAt: new Date(createdAt).toISOString(),
    lastUpdatedAt: new Date(updatedAt).toISOString(),
    ttlMs: null,
    pollIntervalMs,
  };
}

/** The result of a call that goes on as a task. */
export function taskResultOf(record: TaskRecord): CallToolResult {
  return { resultType: "task", ...taskOf(record), content: [] };
}

const named = z.looseObject({ taskId: z.string().min(1).max(200) });

/** Adds the methods of the tasks extension, which take the ids of our tasks. */
export function addTasks(mcp: McpServer, callOf: (ctx: ServerContext) => McpCall): void {
  const { server } = mcp;
  server.registerCapabilities({ extensions: { [tasksExtension]: {} } });
  const opened = (ctx: ServerContext): McpCall => {
    if (!wantsTask(capabilitiesOf(mcp, ctx)))
      throw new MissingRequiredClientCapabilityError({
        requiredCapabilities: { extensions: { [tasksExtension]: {} } },
      });
    return callOf(ctx);
  };
  server.setRequestHandler("tasks/get", { params: named }, async ({ taskId }, ctx) => {
    const call = opened(ctx);
    return { ...(await detailOf(call, await rootOf(call, taskId))) };
  });
  server.setRequestHandler("tasks/update", { params: named }, async ({ taskId }, ctx) => {
    const call = opened(ctx);
    const record = await rootOf(call, taskId);
    const answers = await answersOf(
      byId(await waitingBelow(call, record.taskId)),
      ctx.mcpReq.inputResponses,
    );
    await answerTask(call, record, answers);
    return {};
  });
  server.setRequestHandler("tasks/cancel", { params: named }, async ({ taskId }, ctx) => {
    const call = opened(ctx);
    await cancelTask(call, await rootOf(call, taskId), "cancelled");
    return {};
  });
}

async function rootOf(call: McpCall, id: string): Promise<TaskRecord> {
  try {
    return await findRoot(call, id);
  } catch (error) {
    if (!(error instanceof RivuletError)) throw error;
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, error.message);
  }
}

/** The keys of questions are ids, because a name may come again while the task runs. */
function byId(waiting: readonly Approval[]): ReadonlyMap<string, Approval> {
  return new Map(waiting.map((approval) => [approval.id, approval]));
}

async function detailOf(call: McpCall, record: TaskRecord): Promise<object> {
  const { tree } = await call.services.trees.read(record.taskId);
  const task = taskOf(record, rootTask(tree)?.completedAt);
  if (record.status === "suspended") {
    const waiting = await waitingBelow(call, record.taskId);
    const statusMessage = waiting.map(textOf).join("\n");
    return { ...task, statusMessage, inputRequests: inputRequestsOf(byId(waiting)) };
  }
  if (!isTerminal(record.status) || record.status === "cancelled") return task;
  return { ...task, result: { resultType: "complete", ...(await resultOf(call, record)) } };
}

async function resultOf(call: McpCall, record: TaskRecord): Promise<CallToolResult> {
  if (record.status === "failed") return failedResult(call, record);
  const { reply } = await untilRest(call, record);
  return finalResult(call, record, reply);
}
