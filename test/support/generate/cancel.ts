import { cancelledDraft, createdDraft, failedDraft } from "./actor.ts";
import { closeDraft } from "./open-item.ts";
import { closeChild, finishedDraft } from "./tool-batch.ts";
import type { Actor, Step, World } from "./world.ts";
import { charge, hasEnded, startStrand } from "./world.ts";

/** Ends a subtree from outside: a person cancels it, or its executor is lost and all of it fails. */
export function endSubtree(world: World, top: Actor, outcome: "cancelled" | "failed"): void {
  const affected = descendants(top).filter((actor) => !hasEnded(actor) && !actor.ending);
  if (!charge(world, affected.length)) return;
  world.strands = world.strands.filter(({ actor }) => !affected.includes(actor));
  for (const actor of affected) {
    actor.ending = true;
    startStrand(world, actor, wind(world, actor, outcome), true);
  }
}

function descendants(actor: Actor): Actor[] {
  return [actor, ...actor.children.flatMap(descendants)];
}

/** Winds a task down: its waited-for children first, then its approvals and open items, then itself. */
function* wind(
  world: World,
  actor: Actor,
  outcome: "cancelled" | "failed",
): Generator<Step, void, void> {
  if (actor.status === undefined) yield createdDraft(world, actor);
  if (outcome === "cancelled") {
    yield { type: "task.cancelling", requested_by: "user", reason: "stop button" };
  }
  const awaited = actor.children.filter(({ mode }) => mode === "sync");
  yield { on: "strands", until: () => awaited.every(hasEnded) };
  for (const [approval_id, answer] of actor.approvals) {
    if (answer.decision !== undefined) continue;
    answer.decision = "cancel";
    yield { type: "task.approval.resolved", approval_id, decision: "cancel" };
  }
  const status = outcome === "cancelled" ? "cancelled" : "incomplete";
  for (const item of [...actor.open.values()]) {
    const { child } = item;
    if (child?.mode === "sync") {
      if (!actor.finished.has(child)) yield finishedDraft(actor, item, child);
      yield closeChild(actor, item, child);
    } else {
      yield closeDraft(actor, item, status);
    }
  }
  yield outcome === "cancelled"
    ? cancelledDraft(world, actor)
    : failedDraft(world, actor, "executor_lost");
}
