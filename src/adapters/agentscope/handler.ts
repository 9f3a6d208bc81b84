import { postCancel } from "../../agent/index.ts";
import { RivuletError } from "../../base/error.ts";
import * as is from "../../base/options.ts";
import { replyIn } from "../../client/index.ts";
import { type Answer, approvalIn } from "../../contract/index.ts";
import { isTerminal, subtreeOf, taskOf, waitingIn } from "../../protocol/index.ts";
import {
  agentOf,
  badRequest,
  beginRun,
  type Call,
  type FoundTask,
  findTask,
  ownedBy,
  unknownAgent,
} from "../../server/index.ts";
import { eventsUntil, untilTrue, Waiting } from "../event-stream.ts";
import { AgentScopeEvents, type Detail, pendingConfirm, problemOf, statusWord } from "./events.ts";

const detail = is.oneOf("status", "full", "verbose");
/** The key of the task's metadata that keeps how much its client wants to see. */
const detailKey = "agentscope.detail";
const maxWaitSeconds = 600;
/** How long a resume waits for the process that runs the task. */
const maxResumeMs = 5_000;

const decisionFields = { toolCallId: is.required(is.name), approved: is.flag, reason: is.text };

interface Submission {
  readonly task_id: string;
  readonly agent_id: string;
  readonly input?: string;
  readonly context?: { readonly detail?: unknown; readonly deny_rules?: unknown };
}

/** Starts a task, or finds the one that was submitted before. */
export async function submit(call: Call): Promise<Response> {
  const { services, headers } = call;
  const { task_id, agent_id, input = "", context = {} } = call.body as unknown as Submission;
  const agent = services.agents.get(agent_id);
  if (agent === undefined) throw unknownAgent(agent_id, services.agents);
  // A rule that is dropped would allow what the caller has forbidden.
  if (Array.isArray(context.deny_rules) && context.deny_rules.length > 0)
    throw badRequest(
      "`context.deny_rules` cannot be enforced here.",
      "Remove them, and give the agent `permissions` on its own server.",
    );
  const before = await services.store.task(task_id);
  if (before !== undefined) {
    const { record } = await findTask({ ...call, params: { id: task_id } });
    if (isTerminal(record.status))
      throw new RivuletError("task_ended", `Task ${task_id} has ended as ${record.status}.`, {
        hint: "Submit the input with another task_id.",
      });
    return Response.json({ task_id, status: statusWord(record.status) }, { headers });
  }
  const wanted: Detail = detail.fits(context.detail) ? (context.detail as Detail) : "status";
  const metadata = { [detailKey]: wanted };
  await beginRun(call, agent, input, { taskId: task_id, sessionId: task_id, metadata });
  return Response.json({ task_id, status: "pending" }, { headers });
}

/** A task that the protocol can show: children have no routes in it. */
async function findRoot(call: Call): Promise<FoundTask> {
  const task = await findTask(call);
  if (task.record.taskId === task.root.taskId) return task;
  throw badRequest(`Task ${task.record.taskId} is a child.`, "Pass the id of its root task.");
}

/** Shows a task as it stands. */
export async function show(call: Call): Promise<Response> {
  return showTask(call, await findRoot(call));
}

async function showTask(call: Call, { record }: FoundTask): Promise<Response> {
  const { services, headers } = call;
  const { taskId, status: recorded } = record;
  const { tree } = await services.trees.read(taskId);
  const task = taskOf(tree, taskId);
  const status = task === undefined || task.status === "unknown" ? recorded : task.status;
  const problem = task && problemOf(task);
  const body = {
    task_id: taskId,
    status: statusWord(status),
    ...(status === "completed" && {
      result: replyIn(tree, { taskId, rootTaskId: taskId, sessionId: record.sessionId }, "").text,
    }),
    ...(isTerminal(status) && problem !== undefined && { error: problem }),
    ...(status === "suspended" && {
      pending_confirms: subtreeOf(tree, taskId).flatMap(waitingIn).map(pendingConfirm),
    }),
  };
  return Response.json(body, { headers });
}

/** A wait that runs out shows the task as it is; `running` is no failure. */
/** Waits until a task rests, and shows it. */
export async function wait(call: Call): Promise<Response> {
  const { services, query } = call;
  const task = await findRoot(call);
  const { taskId } = task.record;
  const seconds = Math.min((query.timeout_seconds as number | undefined) ?? 60, maxWaitSeconds);
  const waiting = new Waiting(call, seconds * 1_000);
  const isResting = async () => {
    const record = await services.store.task(taskId);
    return record === undefined || isTerminal(record.status) || record.status === "suspended";
  };
  try {
    await untilTrue(services.store, { task: taskId }, waiting.signal, isResting);
  } finally {
    waiting.end();
  }
  return showTask(call, task);
}

/** Follows the events of a task. */
export async function follow(call: Call): Promise<Response> {
  const task = await findRoot(call);
  const header = call.request.headers.get("last-event-id") ?? "";
  const seq = /^\d{1,15}$/.test(header)
    ? Number(header)
    : ((call.query.from_seq as number | undefined) ?? 0);
  if (call.request.method === "HEAD")
    throw badRequest("A stream has no HEAD.", "Use GET.", "method_not_allowed");
  const waiting = new Waiting(call);
  return waiting.stream(frames(call, task, seq, waiting.signal));
}

/** The frames after `seq`, until the task ends: a stream stays open while the task waits for a confirmation. */
async function* frames(
  call: Call,
  task: FoundTask,
  seq: number,
  signal: AbortSignal,
): AsyncGenerator<string, void, undefined> {
  const { taskId, agentName, metadata } = task.record;
  const wanted = (metadata?.[detailKey] ?? "full") as Detail;
  const translator = new AgentScopeEvents(taskId, agentName, wanted);
  const { store } = call.services;
  let after = -1;
  while (!signal.aborted) {
    const run = agentOf(call, task).attach?.(
      { taskId },
      { ...ownedBy(call.caller), until: "root" },
    );
    if (run === undefined) return;
    call.services.background(run.result());
    for await (const event of eventsUntil(run.events({ after, until: "root" }), signal)) {
      if ("sequence_number" in event) after = event.sequence_number;
      const news = translator.translate(event).filter((one) => one.seq > seq);
      if (news.length > 0) yield news.map(encode).join("");
    }
    const record = await store.task(taskId);
    if (record === undefined || isTerminal(record.status)) return;
    const hasMore = async () => (await store.last(taskId)) > after;
    await untilTrue(store, { log: taskId }, signal, hasMore);
  }
}

function encode(event: { readonly seq: number; readonly type: string }): string {
  return `id: ${event.seq}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** Cancels a task with its descendants, and shows it. */
export async function cancel(call: Call): Promise<Response> {
  const { services, caller } = call;
  const task = await findRoot(call);
  const { taskId } = task.record;
  await postCancel(services.store, taskId, "cancelled");
  const run = agentOf(call, task).attach?.({ taskId }, ownedBy(caller));
  if (run) services.background(Promise.all([run.cancel("cancelled"), run.result()]));
  return showTask(call, task);
}

/** A call without a decision is refused, as in AgentScope. */
/** Answers the approvals that a task waits for. */
export async function resume(call: Call): Promise<Response> {
  const { services, headers } = call;
  const task = await findRoot(call);
  const { taskId, sessionId } = task.record;
  const decisions = new Map<string, Decision>();
  for (const given of call.body.decisions as readonly object[]) {
    const decision = readDecision(given);
    decisions.set(decision.toolCallId, decision);
  }
  const { tree, through } = await services.trees.read(taskId);
  const isWaiting = taskOf(tree, taskId)?.status === "suspended";
  const approvals = subtreeOf(tree, taskId).flatMap((asking) =>
    waitingIn(asking).map((state) => ({ state, approval: approvalIn(asking, state, taskId) })),
  );
  if (!isWaiting || approvals.length === 0)
    throw new RivuletError("conflict", `Task ${taskId} does not wait for a confirmation.`, {
      hint: "Read its status first.",
    });
  const known = new Set(approvals.map(({ state }) => pendingConfirm(state).toolCallId));
  const unknown = [...decisions.keys()].find((id) => !known.has(id));
  if (unknown !== undefined)
    throw badRequest(
      `The call ${JSON.stringify(unknown.slice(0, 128))} does not wait for a confirmation.`,
      "Pass the toolCallId of a pending confirm.",
    );
  const answers = approvals.map(({ state, approval }): Answer => {
    const decision = decisions.get(pendingConfirm(state).toolCallId);
    return decision?.approved ? approval.approve() : approval.deny(decision?.reason);
  });
  await beginRun(call, agentOf(call, task), answers, { sessionId }, taskId);
  // A client that waits at once must not find the confirmation that it has just given.
  const waiting = new Waiting(call, maxResumeMs);
  const isTaken = async () => (await services.store.last(taskId)) > through;
  try {
    await untilTrue(services.store, { log: taskId }, waiting.signal, isTaken);
  } finally {
    waiting.end();
  }
  return Response.json({ task_id: taskId, status: "running" }, { headers });
}

interface Decision {
  readonly toolCallId: string;
  readonly approved?: boolean;
  readonly reason?: string;
}

/** A decision of a body; fields that this server does not know are ignored. */
function readDecision(given: object): Decision {
  const entries = Object.entries(given).filter(
    ([name, value]) => value !== null && Object.hasOwn(decisionFields, name),
  );
  const decision = Object.fromEntries(entries) as unknown as Decision;
  try {
    return is.readOptions("A decision", decision, decisionFields);
  } catch (error) {
    const { message, hint = "" } = error as RivuletError;
    throw badRequest(message, hint);
  }
}
