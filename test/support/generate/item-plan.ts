import type { ItemStatus } from "../../../src/protocol/task.ts";
import { blockMoves } from "./block-moves.ts";
import type { OpenItem } from "./open-item.ts";
import { addedDraft, at, closeDraft, openItem } from "./open-item.ts";
import { chunks, citingText, randomText } from "./text.ts";
import type { Actor, Move, World } from "./world.ts";
import { mint } from "./world.ts";

/** An item from `added` to `done`, event by event; `opened` is set by the first of its moves. */
export interface ItemPlan {
  readonly moves: Move[];
  opened: OpenItem | undefined;
}

/** A plan whose first move opens the item. */
function startPlan(
  world: World,
  actor: Actor,
  type: OpenItem["type"],
  fields: OpenItem["shown"],
): ItemPlan {
  const plan: ItemPlan = { moves: [], opened: undefined };
  plan.moves.push(() => {
    plan.opened = openItem(world, actor, type, fields);
    return addedDraft(plan.opened);
  });
  return plan;
}

/** The item of a plan that has begun. */
export function itemOf(plan: ItemPlan): OpenItem {
  if (plan.opened === undefined) throw new Error("the plan has not begun");
  return plan.opened;
}

function endPlan(
  actor: Actor,
  plan: ItemPlan,
  status: Exclude<ItemStatus, "in_progress"> = "completed",
  extra: Record<string, unknown> = {},
): ItemPlan {
  plan.moves.push(() => closeDraft(actor, itemOf(plan), status, extra));
  return plan;
}

/** Thinking: summaries in pieces, whole or only at the end, and sometimes the raw text. */
export function reasoningPlan(world: World, actor: Actor): ItemPlan {
  const { random } = world;
  const plan = startPlan(world, actor, "reasoning", { summary: [] });
  const paragraphs = Array.from({ length: random.int(0, 2) }, () => randomText(random, 6));
  const onlyAtTheEnd = random.chance(0.15);
  for (const [summary_index, text] of onlyAtTheEnd ? [] : paragraphs.entries()) {
    plan.moves.push(...paragraphMoves(world, plan, summary_index, text));
  }
  if (random.chance(0.25)) plan.moves.push(...rawMoves(world, plan));
  if (onlyAtTheEnd) {
    plan.moves.push(() => {
      const item = itemOf(plan);
      item.shown.summary = paragraphs.map((text) => ({ type: "text", text }));
      return closeDraft(actor, item, "completed");
    });
    return plan;
  }
  return endPlan(
    actor,
    plan,
    "completed",
    random.chance(0.2) ? { encrypted_content: mint(world, "sig") } : {},
  );
}

function paragraphMoves(world: World, plan: ItemPlan, summary_index: number, text: string): Move[] {
  const entry = { type: "text" as const, text: "" };
  const show = () => itemOf(plan).shown.summary?.push(entry);
  const done: Move = () => {
    entry.text = text;
    return {
      type: "task.reasoning_summary_item.done",
      ...at(itemOf(plan)),
      summary_index,
      item: { type: "text", text },
    };
  };
  if (world.random.chance(0.3)) {
    return [
      () => {
        show();
        return done();
      },
    ];
  }
  const added: Move = () => {
    show();
    const item = { type: "text", text: "" } as const;
    return { type: "task.reasoning_summary_item.added", ...at(itemOf(plan)), summary_index, item };
  };
  const deltas = chunks(world.random, text).map(
    (delta): Move =>
      () => {
        entry.text += delta;
        return {
          type: "task.reasoning_summary_text.delta",
          ...at(itemOf(plan)),
          summary_index,
          delta,
        };
      },
  );
  return [added, ...deltas, done];
}

function rawMoves(world: World, plan: ItemPlan): Move[] {
  const text = randomText(world.random, 6);
  const entry = { type: "reasoning_text" as const, text: "" };
  const content_index = 0;
  const deltas = chunks(world.random, text).map(
    (delta, nth): Move =>
      () => {
        if (nth === 0) itemOf(plan).shown.content = [entry];
        entry.text += delta;
        return { type: "task.reasoning_text.delta", ...at(itemOf(plan)), content_index, delta };
      },
  );
  const done: Move = () => ({
    type: "task.reasoning_text.done",
    ...at(itemOf(plan)),
    content_index,
    text,
  });
  return [...deltas, done];
}

/** A call: its arguments in pieces, whole or only at the end. */
export function toolCallPlan(world: World, actor: Actor, callId: string, name: string): ItemPlan {
  const { random } = world;
  const plan = startPlan(world, actor, "tool_call", {
    call_id: callId,
    name,
    arguments: "",
    ...(random.chance(0.3) && { provider_call_id: mint(world, "toolu") }),
  });
  const text = JSON.stringify({ q: randomText(random, 4) });
  if (random.chance(0.7 * world.temper.talks)) {
    for (const delta of chunks(random, text)) {
      plan.moves.push(() => {
        const { shown } = itemOf(plan);
        shown.arguments = (shown.arguments ?? "") + delta;
        return { type: "task.tool_call_arguments.delta", ...at(itemOf(plan)), delta };
      });
    }
  }
  if (plan.moves.length > 1 || random.chance(0.5)) {
    plan.moves.push(() => {
      itemOf(plan).shown.arguments = text;
      return { type: "task.tool_call_arguments.done", ...at(itemOf(plan)), arguments: text };
    });
  }
  plan.moves.push(() => {
    itemOf(plan).shown.arguments = text;
    return closeDraft(actor, itemOf(plan), "completed");
  });
  return plan;
}

/** What the agent says, with what it cites. */
export function messagePlan(world: World, actor: Actor, purpose?: "summary"): ItemPlan {
  const { random } = world;
  const plan = startPlan(world, actor, "message", {
    role: "assistant",
    block_list: [],
    ...(purpose !== undefined && { purpose }),
  });
  if (random.chance(0.1)) {
    const { text, annotations } = citingText(random, actor.pool);
    plan.moves.push(() => {
      itemOf(plan).shown.block_list = [{ type: "text", text, annotations: [...annotations] }];
      return closeDraft(actor, itemOf(plan), "completed");
    });
    return plan;
  }
  const blocks = random.pick([1, 1, 1, 2, 3]);
  for (let index = 0; index < blocks; index++) {
    plan.moves.push(...blockMoves(world, actor, () => itemOf(plan), index, { cites: actor.pool }));
  }
  if (random.chance(0.1)) {
    plan.moves.push(() => {
      const reference = { id: mint(world, "src"), url: "https://example.com/source" };
      const { shown } = itemOf(plan);
      shown.references = [...((shown.references as object[] | undefined) ?? []), reference];
      return { type: "task.reference.added", ...at(itemOf(plan)), reference };
    });
  }
  return endPlan(actor, plan);
}
