import { completedDraft, createdDraft, failedDraft, incompleteDraft, plus } from "./actor.ts";
import type { ItemPlan } from "./item-plan.ts";
import { itemOf, messagePlan, reasoningPlan, toolCallPlan } from "./item-plan.ts";
import { closeDraft, discardDraft } from "./open-item.ts";
import { randomText } from "./text.ts";
import { toolBatch } from "./tool-batch.ts";
import type { Actor, Draft, Step, World } from "./world.ts";
import { charge, mint } from "./world.ts";

/** A task from its creation to its end; whoever starts it has set its first two events and its last aside. */
export function* work(world: World, actor: Actor): Generator<Step, void, void> {
  const { random } = world;
  yield createdDraft(world, actor);
  if (random.chance(0.03)) {
    yield failedDraft(world, actor, "agent_busy");
    return;
  }
  yield {
    type: "task.in_progress",
    task: { id: actor.id, object: "task", status: "in_progress" },
  };
  for (let turns = random.int(actor.parent === undefined ? 1 : 0, 4); turns > 0; turns--)
    yield* turn(world, actor);
  yield* end(world, actor);
}

/** One model call, what goes wrong on the way, and the tools it asks for. */
function* turn(world: World, actor: Actor): Generator<Step, void, void> {
  const { random, temper } = world;
  if (random.chance(0.2 * temper.talks)) yield* aside(world, actor);
  if (random.chance(0.25 * temper.talks)) yield* retractedTurn(world, actor);
  if (random.chance(0.5 * temper.talks)) yield* whole(world, reasoningPlan(world, actor));
  if (random.chance(0.3 * temper.talks)) yield* whole(world, messagePlan(world, actor));
  if (random.chance(0.7)) yield* toolBatch(world, actor);
  if (random.chance(0.4) && charge(world, 1)) yield usageDraft(world, actor);
  if (random.chance(0.05) && charge(world, 2)) {
    yield { type: "task.suspended", reason: "stop_requested" };
    yield { on: "answer" };
  }
}

function* whole(world: World, plan: ItemPlan): Generator<Step, void, void> {
  if (!charge(world, plan.moves.length)) return;
  for (const move of plan.moves) yield move();
}

/** Something that is not output: an application's own event, or a hint. */
function* aside(world: World, actor: Actor): Generator<Step, void, void> {
  if (!charge(world, 1)) return;
  const text = randomText(world.random, 3);
  yield world.random.chance(0.5)
    ? { type: "task.custom", name: "app.metric", value: { k: actor.sent, deep: [text, null] } }
    : { type: "task.hint.added", hint: { id: `hint_${actor.sent}`, text } };
}

function usageDraft(world: World, actor: Actor): Draft {
  const input = world.random.int(1, 99);
  const output = world.random.int(0, 40);
  const used = { input_tokens: input, output_tokens: output, total_tokens: input + output };
  actor.usage = plus(actor.usage, used);
  return { type: "task.usage", cumulative: true, usage: actor.usage };
}

/** A model turn that was shown, in part or in full, and then taken back. */
function* retractedTurn(world: World, actor: Actor): Generator<Step, void, void> {
  const { random } = world;
  const reason = random.pick(["provider_retry", "fallback", "recovered"] as const);
  const plans = [
    reasoningPlan(world, actor),
    random.chance(0.5)
      ? messagePlan(world, actor)
      : toolCallPlan(world, actor, mint(world, "call"), "get_weather"),
  ].slice(0, random.int(1, 2));
  const last = plans.at(-1) as ItemPlan;
  const shown = random.int(1, last.moves.length);
  const before = plans.slice(0, -1).flatMap((plan) => plan.moves);
  const moves = [...before, ...last.moves.slice(0, shown)];
  if (!charge(world, moves.length + plans.length + (reason === "recovered" ? 1 : 0))) return;
  for (const move of moves) yield move();
  if (reason === "recovered") yield { type: "task.resumed", reason: "recovered" };
  for (const plan of plans) yield discardDraft(actor, itemOf(plan), reason);
}

/** The last words, and how it ended. */
function* end(world: World, actor: Actor): Generator<Step, void, void> {
  const { random } = world;
  const outcome = random.next();
  if (outcome < 0.1) {
    const plan = messagePlan(world, actor);
    const shown = random.int(1, plan.moves.length - 1);
    if (charge(world, shown + 1)) {
      for (const move of plan.moves.slice(0, shown)) yield move();
      yield closeDraft(actor, itemOf(plan), "incomplete");
    }
    yield failedDraft(world, actor, "provider_error");
    return;
  }
  if (outcome < 0.2) {
    yield* whole(world, messagePlan(world, actor, "summary"));
    yield incompleteDraft(world, actor);
    return;
  }
  yield* whole(world, messagePlan(world, actor));
  yield completedDraft(world, actor);
}
