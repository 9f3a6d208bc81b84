import type { Decision, TaskMode } from "../../../src/protocol/task.ts";
import { newChild } from "./actor.ts";
import { blockMoves } from "./block-moves.ts";
import { itemOf, toolCallPlan } from "./item-plan.ts";
import { addedDraft, at, closeDraft, type OpenItem, openItem } from "./open-item.ts";
import { work } from "./task-script.ts";
import {
  type Actor,
  charge,
  hasEnded,
  type Move,
  mint,
  type Step,
  startStrand,
  type World,
} from "./world.ts";

/** What comes of a call. */
type Outcome = (item: OpenItem) => Generator<Step, void, void>;

/** Calls tools and children, opens their results in the order of the calls, and lets them all run at once. */
export function* toolBatch(world: World, actor: Actor): Generator<Step, void, void> {
  const { random } = world;
  const calls: { readonly callId: string; readonly outcome: Outcome }[] = [];
  const wanted = Math.min(world.maxFanOut, random.pick([1, 1, 1, 2, 2, 3, 8]));
  for (let nth = 0; nth < wanted; nth++) {
    const callId = mint(world, "call");
    const child = actor.depth < world.maxDepth && random.chance(world.temper.delegates);
    const call = toolCallPlan(world, actor, callId, child ? "agent_spawn" : "get_weather");
    const outcome = child
      ? childOutcome(world, actor, callId, call.moves.length + 1)
      : toolOutcome(world, actor, callId, call.moves.length + 1, () => itemOf(call));
    if (outcome === undefined) continue;
    calls.push({ callId, outcome });
    for (const move of call.moves) yield move();
  }
  let running = calls.length;
  for (const { callId, outcome } of calls) {
    const item = openItem(world, actor, "tool_result", { call_id: callId, block_list: [] });
    yield addedDraft(item);
    startStrand(
      world,
      actor,
      (function* () {
        yield* outcome(item);
        running--;
      })(),
    );
  }
  if (running > 0) yield { until: () => running === 0, on: "strands" };
}

/** An ordinary tool: progress, blocks, perhaps an approval before it, perhaps an error in place of a result. */
function toolOutcome(
  world: World,
  actor: Actor,
  callId: string,
  before: number,
  call: () => OpenItem,
): Outcome | undefined {
  const { random } = world;
  const reference = random.chance(0.7) ? ++actor.numbers : undefined;
  const holder: { item: OpenItem | undefined } = { item: undefined };
  const item = () => holder.item as OpenItem;
  const moves: Move[] = [];
  const blocks = random.pick([0, 1, 1, 2]);
  for (let index = 0; index < blocks; index++) {
    if (random.chance(0.3)) moves.push(() => progressDraft(item(), callId, index, blocks));
    moves.push(...blockMoves(world, actor, item, index, { reference }));
  }
  const asks = random.chance(0.4);
  if (!charge(world, before + moves.length + 1 + (asks ? 2 : 0))) return undefined;
  return function* (opened) {
    holder.item = opened;
    const decision = asks ? yield* approval(world, actor, callId, call()) : "approve";
    if (decision === "deny" || decision === "expire") {
      const error = { code: "denied", message: "Not that one.", retryable: false };
      yield closeDraft(actor, opened, "failed", { error });
      return;
    }
    for (const move of moves) yield move();
    if (random.chance(0.15)) {
      const error = { code: "tool_error", message: "timeout after 30s", retryable: false };
      yield closeDraft(actor, opened, "failed", { error });
      return;
    }
    yield closeDraft(actor, opened, "completed");
    if (reference === undefined) return;
    for (let block_index = 0; block_index < blocks; block_index++) {
      const target = { task_id: actor.id, item_id: opened.id, block_index };
      actor.pool.push({ number: reference, target });
    }
  };
}

function progressDraft(item: OpenItem, callId: string, progress: number, total: number) {
  return {
    type: "task.tool_result.progress",
    ...at(item),
    call_id: callId,
    progress,
    total,
    message: "querying station",
  } as const;
}

/** Asks, waits for the answer, and says what it was. */
function* approval(
  world: World,
  actor: Actor,
  callId: string,
  call: OpenItem,
): Generator<Step, Decision, void> {
  const id = mint(world, "apr");
  const answer: { decision: Decision | undefined } = { decision: undefined };
  const external = world.random.chance(0.2);
  actor.approvals.set(id, answer);
  yield {
    type: "task.approval.requested",
    approval_id: id,
    kind: external ? "external" : "tool_call",
    call_id: callId,
    ...at(call),
    name: String(call.shown.name),
    arguments: call.shown.arguments ?? "",
    message: "Allow it?",
    options: external ? ["answer"] : ["approve", "deny", "edit"],
  };
  yield { on: "answer" };
  const decision = external
    ? "answer"
    : world.random.pick<Decision>(["approve", "approve", "edit", "deny", "expire"]);
  answer.decision = decision;
  yield { type: "task.approval.resolved", approval_id: id, decision, by: "user:42" };
  return decision;
}

/** A child: waited for, sent to the background at once, or promoted when the wait runs out. */
function childOutcome(
  world: World,
  actor: Actor,
  callId: string,
  before: number,
): Outcome | undefined {
  const { random } = world;
  const mode: TaskMode = random.chance(0.3) ? "background" : "sync";
  const placed = random.chance(0.2);
  const talks = random.chance(0.2);
  // child.started, the child's created, in_progress and end, child.finished or promoted, the result's end
  if (!charge(world, before + 6 + (placed ? 1 : 0) + (talks ? 1 : 0))) return undefined;
  return function* (item) {
    const child = newChild(world, actor, item, callId, mode);
    const link = { child_task_id: child.id, call_id: callId, ...at(item) };
    startStrand(world, child, work(world, child));
    yield {
      type: "task.child.started",
      ...link,
      mode,
      ...(child.remote && { remote: true }),
      agent: { id: child.agentId, name: child.agentId, key: String(child.source?.agentKey) },
    };
    if (talks) yield progressDraft(item, callId, 0, 1);
    if (placed) {
      const block = { type: "task", task_id: child.id } as const;
      item.shown.block_list?.push({ ...block });
      yield { type: "task.block.done", ...at(item), block_index: 0, item: block };
    }
    if (mode === "background") {
      yield closeDraft(actor, item, "completed");
      return;
    }
    const patience = random.chance(0.3) ? random.int(1, 12) : Number.POSITIVE_INFINITY;
    const outOfPatience = () =>
      child.sent >= patience && (child.status === "in_progress" || child.status === "queued");
    yield { until: () => hasEnded(child) || outOfPatience(), on: child };
    if (!hasEnded(child)) {
      child.mode = "background";
      yield { type: "task.child.promoted", ...link, mode: "background", reason: "sync_timeout" };
      yield closeDraft(actor, item, "completed");
      return;
    }
    for (const { target } of child.pool) {
      actor.pool.push({ number: ++actor.numbers, target });
    }
    yield finishedDraft(actor, item, child);
    yield closeChild(actor, item, child);
  };
}

/** The parent's word that a synchronous child has ended. */
export function finishedDraft(actor: Actor, item: OpenItem, child: Actor) {
  actor.finished.add(child);
  return {
    type: "task.child.finished",
    child_task_id: child.id,
    call_id: child.id,
    ...at(item),
    status: child.status as "completed",
    ...(child.usage !== undefined && { usage: child.usage }),
  } as const;
}

/** Closes the result of a child that has ended, with the child's own outcome. */
export function closeChild(actor: Actor, item: OpenItem, child: Actor) {
  const status = child.status as "completed" | "failed" | "cancelled" | "incomplete";
  const error = { code: "child_failed", message: "upstream 529", retryable: true };
  return closeDraft(actor, item, status, status === "failed" ? { error } : {});
}
