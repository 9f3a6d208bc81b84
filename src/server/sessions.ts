import { notFound } from "../base/error.ts";
import * as is from "../base/options.ts";
import { type SessionInfo, sessionIdField, type TaskRecord } from "../contract/index.ts";
import {
  deleteSession as deleteStored,
  type ForkOrigin,
  forkOriginOf,
  harnessBehind,
  offerOf,
  type SessionExportHeader,
  sessionsOf,
} from "../harness/index.ts";
import { bytesResponse } from "./blobs.ts";
import { agentOf, ownedBy } from "./found-task.ts";
import { publicMessage } from "./messages.ts";
import type { Call, Route } from "./route.ts";

const limit = is.integer(1, 1_000);

/** The routes of agents and sessions. */
export const sessionRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/v1/agents",
    needs: "read",
    summary:
      "List the agents: their models and workspace, and the tools, subagents and skills that they offer to the model.",
    returns: {
      status: 200,
      description:
        "`{ agents: [{ name, description, model, models, workspace, tools, subagents, skills }], scopes }`; `scopes` are those of the caller.",
    },
    handle: async ({ services, caller: { scopes }, headers }) => {
      const agents = [...services.agents.values()].map(async (agent) => {
        const { name, description } = agent;
        return { name, description, ...(await offerOf(agent)) };
      });
      return Response.json({ agents: await Promise.all(agents), scopes }, { headers });
    },
  },
  {
    method: "GET",
    path: "/v1/sessions",
    needs: "read",
    summary: "List the sessions of the user, newest first.",
    query: { limit, before: is.name },
    ids: { before: "session" },
    returns: { status: 200, description: "`{ sessions: [{ session_id, title, status, … }] }`" },
    handle: async (call) => {
      const sessions = (await own(call).list(call.query)).map((info) => ({
        ...shownSession(call, info),
        status: info.status,
        ...(info.forkedFrom && shownOrigin(info.forkedFrom)),
      }));
      return Response.json({ sessions }, { headers: call.headers });
    },
  },
  {
    method: "GET",
    path: "/v1/search",
    needs: "read",
    summary: "Find messages in the sessions of the user.",
    query: { q: is.required(is.name), limit: is.integer(1, 100) },
    returns: { status: 200, description: "`{ matches: [{ session_id, index, role, excerpt }] }`" },
    handle: async (call) => {
      const { q, ...page } = call.query as { q: string; limit?: number };
      const found = await own(call).search(q.slice(0, 1_000), page);
      const matches = found.map(({ sessionId: session_id, ...rest }) => ({ session_id, ...rest }));
      return Response.json({ matches }, { headers: call.headers });
    },
  },
  {
    method: "GET",
    path: "/v1/sessions/:id",
    needs: "read",
    ids: { id: "session" },
    summary: "Read a session: its messages and its tasks.",
    query: { from: is.integer(0, Number.MAX_SAFE_INTEGER), limit },
    returns: { status: 200, description: "`{ session: { session_id, … }, tasks, messages }`" },
    handle: showSession,
  },
  {
    method: "DELETE",
    path: "/v1/sessions/:id",
    needs: "write",
    ids: { id: "session" },
    summary: "Delete a session with its tasks, logs, blobs and saved tool results.",
    returns: { status: 204, description: "Deleted." },
    handle: async (call) => {
      const { sessionId } = await findSession(call);
      await deleteSession(call, sessionId);
      return new Response(null, { status: 204, headers: call.headers });
    },
  },
  {
    method: "POST",
    path: "/v1/sessions/:id/fork",
    needs: "write",
    ids: { id: "session", task_id: "task", session_id: "session" },
    summary: "Copy a session up to the end of a root task into a new session.",
    body: { task_id: is.required(is.name, '"task_…"'), session_id: sessionIdField },
    returns: { status: 201, description: "`{ session: { session_id, …, forked_from } }`" },
    handle: fork,
  },
  {
    method: "GET",
    path: "/v1/sessions/:id/export",
    needs: "read",
    ids: { id: "session" },
    summary: "Export a session as lines of JSON.",
    returns: { status: 200, type: "application/x-ndjson", description: "Lines of JSON." },
    handle: exportSession,
  },
  {
    method: "GET",
    path: "/v1/sessions/:id/files",
    needs: "read",
    ids: { id: "session" },
    summary: "List a directory of the session's workspace.",
    query: { path: is.text },
    returns: {
      status: 200,
      description: "`{ entries: [{ path, type, size, modified_at }], cut }`",
    },
    handle: listFiles,
  },
  {
    method: "GET",
    path: "/v1/sessions/:id/files/:path{.+}",
    needs: "read",
    ids: { id: "session" },
    summary: "Read a file of the session's workspace.",
    returns: { status: 200, type: "application/octet-stream", description: "The bytes." },
    handle: readFile,
  },
];

function own({ services, caller }: Call) {
  return sessionsOf(services.store, ownedBy(caller));
}

/** The session of a request. */
export async function findSession(call: Call): Promise<SessionInfo> {
  const { id = "" } = call.params;
  const userId = call.caller.userId ?? null;
  const [info] = await call.services.store.sessions({ userId, sessionId: id, limit: 1 });
  if (info === undefined) throw notFound("session", id.slice(0, 128));
  return info;
}

function shownSession({ names }: Call, info: SessionInfo) {
  const { sessionId, agentId, title, messages, createdAt, updatedAt } = info;
  const dates = { created_at: createdAt, updated_at: updatedAt };
  const named = { session_id: sessionId, name: names.given(sessionId) };
  return { ...named, agent_id: agentId, title, messages, ...dates };
}

async function showSession(call: Call): Promise<Response> {
  const info = await findSession(call);
  const { from = 0, limit: most = 100 } = call.query as { from?: number; limit?: number };
  const { store } = call.services;
  const messages = await store.session(info.sessionId, from, most);
  const records = await store.tasks({ sessionId: info.sessionId });
  const tasks = records.map(({ taskId, agentName, status, createdAt, model }) => ({
    id: taskId,
    agent: agentName,
    status,
    created_at: createdAt,
    ...(model !== undefined && { model }),
  }));
  const session = { ...shownSession(call, info), ...forkedFrom(records[0]) };
  const body = { session, tasks, messages: messages.map(publicMessage) };
  return Response.json(body, { headers: call.headers });
}

async function fork(call: Call): Promise<Response> {
  const { id = "" } = call.params;
  const { task_id: taskId, session_id: as } = call.body as { task_id: string; session_id?: string };
  const info = await own(call).fork(id, { taskId, ...(as !== undefined && { as }) });
  const [first] = await call.services.store.tasks({ sessionId: info.sessionId, limit: 1 });
  const session = { ...shownSession(call, info), ...forkedFrom(first) };
  return Response.json({ session }, { status: 201, headers: call.headers });
}

/** Deletes a session of the caller with what its agent keeps for it. */
export async function deleteSession(call: Call, sessionId: string): Promise<void> {
  const { services, caller } = call;
  const [root] = await services.store.tasks({ sessionId, limit: 1 });
  const agent = root && services.agents.get(root.agentName);
  if (!(await deleteStored(services.store, agent, sessionId, caller.userId)))
    throw notFound("session", sessionId.slice(0, 128));
}

/** Copies a session of the caller up to the end of a root task into a session with a chosen id. */
export async function forkSession(
  call: Call,
  { sessionId, taskId }: Pick<TaskRecord, "sessionId" | "taskId">,
  as: string,
): Promise<void> {
  await own(call).fork(sessionId, { taskId, as });
}

function forkedFrom(first: TaskRecord | undefined) {
  const origin = forkOriginOf(first);
  return origin && shownOrigin(origin);
}

function shownOrigin({ sessionId, taskId }: ForkOrigin) {
  return { forked_from: { session_id: sessionId, task_id: taskId } };
}

async function exportSession(call: Call): Promise<Response> {
  const { sessionId } = await findSession(call);
  const lines = own(call).export(sessionId)[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
  let isFirst = true;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await lines.next();
      if (done) return controller.close();
      const line = isFirst
        ? publicHeader(call, value)
        : `${JSON.stringify(publicMessage(JSON.parse(value)))}\n`;
      controller.enqueue(encoder.encode(line));
      isFirst = false;
    },
    async cancel() {
      await lines.return?.();
    },
  });
  const headers = { ...call.headers, "content-type": "application/x-ndjson; charset=utf-8" };
  return new Response(body, { headers });
}

/** The header of an export, with the name that the user has chosen. */
function publicHeader({ names }: Call, line: string): string {
  const header = JSON.parse(line) as SessionExportHeader;
  const session = { ...header.session, name: names.given(header.session.sessionId) };
  const tasks = header.tasks.map((task) => ({
    ...task,
    ...(task.result && { result: publicMessage(task.result) }),
  }));
  return `${JSON.stringify({ ...header, session, tasks })}\n`;
}

/** The files that the session's agent sees. */
async function filesOf(call: Call) {
  const { sessionId } = await findSession(call);
  const [first] = await call.services.store.tasks({ sessionId, limit: 1 });
  const root = first && (await call.services.store.task(first.rootTaskId));
  if (first === undefined || root === undefined) throw notFound("session", sessionId);
  const workspace = harnessBehind(agentOf(call, { root }))?.workspace;
  if (workspace === undefined) throw notFound("session", `${sessionId} with files`);
  const { agentId } = root;
  return workspace.viewOf({ sessionId: root.sessionId, agentId, ...ownedBy(call.caller) }).files;
}

async function listFiles(call: Call): Promise<Response> {
  const files = await filesOf(call);
  const { entries, cut } = await files.list((call.query.path as string | undefined) ?? "");
  const shown = entries.map(({ modifiedAt: modified_at, ...entry }) => ({ ...entry, modified_at }));
  return Response.json({ entries: shown, cut }, { headers: call.headers });
}

async function readFile(call: Call): Promise<Response> {
  const files = await filesOf(call);
  const { path, data } = await files.read(call.params.path ?? "");
  const type = /\.(txt|md|csv|log|ts|js|py|html|css)$/i.test(path) ? "text/plain" : undefined;
  return bytesResponse(call, data, { filename: path, ...(type && { type }) });
}
