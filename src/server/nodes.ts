import { moveConversation } from "../agent/index.ts";
import { notFound } from "../base/error.ts";
import * as is from "../base/options.ts";
import type { NodeState, TaskRecord } from "../contract/index.ts";
import { overviewOf, type WaitingSession } from "../harness/index.ts";
import { badRequest } from "./errors.ts";
import type { Route } from "./route.ts";

const label: is.Field = { ...is.text, schema: { type: "string", maxLength: 256 } };

/** The routes with which an operator sees the processes on a store, and moves what waits. */
export const nodeRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/v1/nodes",
    needs: "operator",
    summary: "List the processes on the store, what waits for one, and what was judged poison.",
    returns: { status: 200, description: "`{ nodes, waiting, poisoned }`" },
    handle: async ({ services, headers }) => {
      const { nodes, waiting, poisoned } = await overviewOf(services.store);
      const body = {
        nodes: nodes.map(shownNode),
        waiting: waiting.map(shownWaiting),
        poisoned: poisoned.map(shownPoisoned),
      };
      return Response.json(body, { headers });
    },
  },
  {
    method: "POST",
    path: "/v1/sessions/:id/move",
    needs: "operator",
    summary:
      "Let another place or version continue a session of any user that no process runs; empty texts are any.",
    body: { place: label, version: label },
    returns: { status: 200, description: "`{ moved: true }`" },
    handle: async ({ services, params, body, headers }) => {
      const { id = "" } = params;
      const { place, version } = body as { readonly place?: string; readonly version?: string };
      if (place === undefined && version === undefined)
        throw badRequest(
          "The body names no `place` and no `version`.",
          'Send `place: ""` for any.',
        );
      const ties = {
        ...(place !== undefined && { place }),
        ...(version !== undefined && { agentVersion: version }),
      };
      const isFound = (await services.store.sessions({ sessionId: id, limit: 1 })).length > 0;
      if (!isFound || !(await moveConversation(services.store, id, ties)))
        throw notFound("session", id.slice(0, 128));
      return Response.json({ moved: true }, { headers });
    },
  },
];

function shownNode({ nodeId, name, startedAt, isLive, silentMs, ...has }: NodeState) {
  return {
    ...{ id: nodeId, name, started_at: startedAt, is_live: isLive, silent_ms: silentMs },
    agents: has.agents.map(({ agentId, ...version }) => ({ agent_id: agentId, ...version })),
    ...{ places: has.places, sessions: has.conversations },
    ...(has.maxPerUser !== undefined && { max_per_user: has.maxPerUser }),
  };
}

function shownWaiting({ sessionId, root, reason }: WaitingSession) {
  return {
    session_id: sessionId,
    ...(root && { task_id: root.taskId, agent: root.agentName, created_at: root.createdAt }),
    ...(root?.agentVersion && { version: root.agentVersion }),
    ...(root?.place && { place: root.place }),
    ...(root?.priority && { priority: root.priority }),
    ...(reason && { reason }),
  };
}

function shownPoisoned({ sessionId, taskId, agentName, createdAt, error }: TaskRecord) {
  return {
    ...{ session_id: sessionId, task_id: taskId, agent: agentName, created_at: createdAt },
    message: error?.message ?? "",
  };
}
