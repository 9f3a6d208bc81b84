import type { Source, SourceRef } from "../../../src/protocol/source.ts";
import { prependSource } from "../../../src/protocol/source.ts";
import type { TaskMode, Usage } from "../../../src/protocol/task.ts";
import type { OpenItem } from "./open-item.ts";
import type { Actor, Draft, World } from "./world.ts";
import { hasEnded, mint } from "./world.ts";

const agentIds = ["researcher", "reviewer", "general-purpose", "WeatherAgent"] as const;

/** The root of a tree. */
export function newRoot(world: World): Actor {
  return add(world, {
    id: mint(world, "task"),
    agentId: "lead",
    sessionId: mint(world, "sess"),
    depth: 0,
    parent: undefined,
    place: undefined,
    remote: false,
    source: undefined,
    mode: undefined,
  });
}

/** A child, hung on the tool result of the call that started it. */
export function newChild(
  world: World,
  parent: Actor,
  item: OpenItem,
  callId: string,
  mode: TaskMode,
): Actor {
  const agentId = world.random.pick(agentIds);
  const identity = {
    id: callId,
    agentId,
    sessionId: mint(world, "sub"),
    depth: parent.depth + 1,
    parent,
    remote: world.random.chance(0.15),
  };
  const child = add(world, {
    ...identity,
    place: { itemId: item.id, outputIndex: item.index },
    source: bornSource(world, identity),
    mode,
  });
  item.child = child;
  parent.children.push(child);
  return child;
}

type Identity = Pick<Actor, "id" | "agentId" | "sessionId" | "depth" | "remote"> & {
  readonly parent: Actor;
};

/**
 * The source as it is born and forwarded: what runs below a remote child is born in that server's own tree, where the
 * remote child is the root, and gets its place in this tree from the forwarder.
 */
function bornSource(world: World, child: Identity): Source {
  const { parent } = child;
  const origin = nearestServer(parent);
  const own: Source = {
    agentKey: `agent:${child.agentId}:${mint(world, "key")}`,
    agentId: child.agentId,
    agentName: child.agentId,
    sessionId: child.sessionId,
    parentSessionId: parent.sessionId,
    taskId: child.id,
    depth: child.depth - origin.depth,
    path: [...pathBelow(origin, parent), child.agentId].join("/"),
  };
  return origin.source === undefined
    ? own
    : (prependSource(own, origin.source as SourceRef) as Source);
}

function nearestServer(actor: Actor): Actor {
  return actor.remote || actor.parent === undefined ? actor : nearestServer(actor.parent);
}

function pathBelow(origin: Actor, actor: Actor): string[] {
  if (actor === origin || actor.parent === undefined) return [origin.sessionId];
  return [...pathBelow(origin, actor.parent), actor.agentId];
}

function add(
  world: World,
  of: Omit<
    Actor,
    | "status"
    | "sent"
    | "output"
    | "open"
    | "nextIndex"
    | "children"
    | "finished"
    | "pool"
    | "numbers"
    | "approvals"
    | "usage"
    | "ending"
  >,
): Actor {
  const actor: Actor = {
    ...of,
    status: undefined,
    sent: 0,
    output: [],
    open: new Map(),
    nextIndex: 0,
    children: [],
    finished: new Set(),
    pool: [],
    numbers: 0,
    approvals: new Map(),
    usage: undefined,
    ending: false,
  };
  world.actors.push(actor);
  return actor;
}

/** A task's first event. */
export function createdDraft(world: World, actor: Actor): Draft {
  const { parent, place } = actor;
  return {
    type: "task.created",
    task: {
      id: actor.id,
      object: "task",
      status: "queued",
      agent_id: actor.agentId,
      session_id: actor.sessionId,
      ...(parent !== undefined &&
        place !== undefined && {
          parent_task_id: parent.id,
          parent_call_id: actor.id,
          parent_item_id: place.itemId,
          mode: actor.mode ?? "sync",
        }),
      ...(actor.remote && { remote: true }),
      created_at: world.now,
    },
  };
}

/** A task's last event: it completed. */
export function completedDraft(world: World, actor: Actor): Draft {
  const end = {
    ...endOf(world, actor),
    status: "completed",
    generate_reason: "model_stop",
  } as const;
  return { type: "task.completed", task: end };
}

/** A task's last event: it failed. */
export function failedDraft(world: World, actor: Actor, code: string): Draft {
  const error = { code, message: "upstream 529", retryable: true };
  return { type: "task.failed", task: { ...endOf(world, actor), status: "failed", error } };
}

/** A task's last event: somebody cancelled it. */
export function cancelledDraft(world: World, actor: Actor): Draft {
  const reasons = { reason: "user", generate_reason: "interrupted" } as const;
  return {
    type: "task.cancelled",
    task: { ...endOf(world, actor), status: "cancelled", ...reasons },
  };
}

/** A task's last event: it ran out of iterations. */
export function incompleteDraft(world: World, actor: Actor): Draft {
  return {
    type: "task.incomplete",
    task: {
      ...endOf(world, actor),
      status: "incomplete",
      incomplete_details: { reason: "max_iterations" },
      generate_reason: "max_iterations",
    },
  };
}

function endOf(world: World, actor: Actor) {
  const below = subtreeUsage(actor);
  return {
    id: actor.id,
    object: "task",
    completed_at: world.now,
    ...(actor.usage !== undefined && { usage: actor.usage }),
    ...(below !== undefined && { subtree_usage: below }),
  } as const;
}

/** What the descendants that have ended used, together. */
function subtreeUsage(actor: Actor): Usage | undefined {
  let sum: Usage | undefined;
  for (const child of actor.children) {
    const own = hasEnded(child) ? child.usage : undefined;
    for (const usage of [own, subtreeUsage(child)]) if (usage !== undefined) sum = plus(sum, usage);
  }
  return sum;
}

/** Two usages together. */
export function plus(one: Usage | undefined, other: Usage): Usage {
  return {
    input_tokens: (one?.input_tokens ?? 0) + other.input_tokens,
    output_tokens: (one?.output_tokens ?? 0) + other.output_tokens,
    total_tokens: (one?.total_tokens ?? 0) + other.total_tokens,
  };
}
