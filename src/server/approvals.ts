import * as is from "../base/options.ts";
import type { Approval } from "../contract/index.ts";
import { listApprovals, type SessionApproval } from "../harness/index.ts";
import { forbidden } from "./auth.ts";
import { ownedBy } from "./found-task.ts";
import type { Call, Route } from "./route.ts";
import { findSession } from "./sessions.ts";

/** The routes that list what waits for a person. */
export const approvalRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/v1/approvals",
    needs: "read",
    summary:
      "List the approvals that wait in all sessions of the user; for operators with `all=true`, who waits in those of all users.",
    query: { limit: is.integer(1, 200), before: is.name, all: is.flag },
    returns: {
      status: 200,
      description: "`{ approvals: [{ approval_id, session_id, … }], next }`",
    },
    handle: listAll,
  },
  {
    method: "GET",
    path: "/v1/sessions/:id/approvals",
    needs: "read",
    ids: { id: "session" },
    summary: "List the approvals that wait in a session, at any depth.",
    returns: { status: 200, description: "`{ approvals: [{ approval_id, … }] }`" },
    handle: listInSession,
  },
];

async function listInSession(call: Call): Promise<Response> {
  const { sessionId } = await findSession(call);
  const [agent] = call.services.agents.values();
  const query = { sessionId, ...ownedBy(call.caller) };
  const approvals = (await agent?.approvals(query)) ?? [];
  return Response.json({ approvals: approvals.map(shownApproval) }, { headers: call.headers });
}

async function listAll({ services, caller, query, names, headers }: Call): Promise<Response> {
  const { limit = 50, before, all } = query as { limit?: number; before?: string; all?: boolean };
  if (all && !caller.scopes.includes("operator"))
    throw forbidden(
      "This credential has no `operator` scope, which `all` needs.",
      "Leave `all` out for your own approvals.",
    );
  const { found, next } = await listApprovals(services.store, {
    limit,
    ...(before !== undefined && { before: all ? before : await names.stored("session", before) }),
    ...(!all && { userId: caller.userId ?? null }),
  });
  const approvals = found.map(({ approval, session }) => ({
    ...(all ? shownToOperator({ approval, session }) : shownApproval(approval)),
    ...{ session_id: session.sessionId, agent: session.agentId },
    ...(!all && { name: names.given(session.sessionId), title: session.title }),
  }));
  return Response.json({ approvals, next }, { headers });
}

function shownApproval(approval: Approval) {
  const { id, kind, taskId, rootTaskId, path, call, message } = approval;
  return {
    ...{ approval_id: id, kind, task_id: taskId, root_task_id: rootTaskId, path, call, message },
    ...{ response_schema: approval.responseSchema, expires_at: approval.expiresAt },
  };
}

/** An approval for operators: its user and its call, without what users and agents wrote. */
function shownToOperator({ approval, session }: SessionApproval) {
  const { call, message: _, response_schema: __, ...shown } = shownApproval(approval);
  return { ...shown, call: { id: call.id, name: call.name }, user: session.userId };
}
