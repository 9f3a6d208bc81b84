import { endSubtree } from "./cancel.ts";
import type { Actor, Draft, Strand, World } from "./world.ts";
import { charge, emit, hasEnded } from "./world.ts";

/** Plays all strands to their end, one event of a randomly chosen strand at a time. */
export function play(world: World, options: { readonly cancels: boolean }): void {
  const { random } = world;
  while (world.strands.length > 0) {
    if (options.cancels && random.chance(0.01)) {
      const running = world.actors.filter((actor) => !hasEnded(actor));
      if (running.length > 0) {
        endSubtree(world, random.pick(running), random.chance(0.8) ? "cancelled" : "failed");
      }
    }
    const ready = world.strands.filter(isReady);
    const asking = world.strands.filter(({ wait }) => wait?.on === "answer");
    if (ready.length > 0 && !random.chance(asking.length > 0 ? 0.1 : 0)) {
      step(world, random.pick(ready));
      continue;
    }
    const suspendable = world.actors.find((actor) => canSuspend(world, actor));
    if (suspendable !== undefined && random.chance(0.7) && charge(world, 2)) {
      suspend(world, suspendable);
    } else if (asking.length > 0) {
      const answered = random.pick(asking);
      answered.wait = undefined;
      step(world, answered);
    } else if (ready.length === 0) {
      throw new Error("every strand waits, and nobody is asked");
    }
  }
}

function isReady({ wait }: Strand): boolean {
  return wait === undefined || (wait.on !== "answer" && wait.until());
}

function step(world: World, strand: Strand): void {
  strand.wait = undefined;
  const { value, done } = strand.steps.next();
  if (done) {
    world.strands = world.strands.filter((other) => other !== strand);
  } else if ("on" in value) {
    strand.wait = value;
  } else {
    if (!strand.quiet) resumeChain(world, strand.actor, value);
    emit(world, strand.actor, value);
  }
}

/** Work goes on: whatever waited for it is resumed first, from the top down. */
function resumeChain(world: World, actor: Actor, next: Draft): void {
  if (actor.mode === "sync" && actor.parent !== undefined) resumeChain(world, actor.parent, next);
  if (actor.status !== "suspended") return;
  const reason = next.type === "task.approval.resolved" ? "approval_resolved" : "continued";
  emit(world, actor, { type: "task.resumed", reason });
}

/** A task may be suspended when all it does is wait for people, or for children that are suspended themselves. */
function canSuspend(world: World, actor: Actor): boolean {
  if (actor.status !== "in_progress" || actor.ending) return false;
  const waits = world.strands.filter((strand) => strand.actor === actor).map(({ wait }) => wait);
  return (
    waits.some((wait) => wait?.on !== "strands") &&
    waits.every((wait) => {
      if (wait === undefined) return false;
      if (wait.on === "answer") return true;
      if (wait.until()) return false;
      return wait.on === "strands" || wait.on.status === "suspended";
    })
  );
}

function suspend(world: World, actor: Actor): void {
  const own = [...actor.approvals].filter(([, { decision }]) => decision === undefined);
  const waitingOn = actor.children.filter(
    (child) => child.mode === "sync" && child.status === "suspended",
  );
  emit(world, actor, {
    type: "task.suspended",
    reason: own.length > 0 ? "approval" : "child",
    ...(own.length > 0 && { approval_ids: own.map(([id]) => id) }),
    ...(waitingOn.length > 0 && { waiting_on: waitingOn.map(({ id }) => id) }),
    generate_reason: "approval_required",
  });
}
