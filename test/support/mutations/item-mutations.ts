import type { LogEvent, OutputItemAdded } from "../../../src/protocol/event.ts";
import type { Log, Mutation } from "./mutate.ts";
import { drop, edit, find, insertAfter, renumber } from "./mutate.ts";

type OnItem = LogEvent & { readonly output_index: number };

/** The events of the same item, of one of these types. */
function ofSameItem(events: Log, { task_id, output_index }: OnItem, ...types: string[]): Log {
  return events.filter(
    (event) =>
      types.includes(event.type) &&
      event.task_id === task_id &&
      (event as OnItem).output_index === output_index,
  );
}

const partDone = [
  "task.text.done",
  "task.image.done",
  "task.block.done",
  "task.reasoning_summary_item.done",
  "task.reasoning_text.done",
  "task.tool_call_arguments.done",
];

const splitCharacter: Mutation["apply"] = (random, events) => {
  const pair = /[\ud800-\udbff][\udc00-\udfff]/;
  const found = find(random, events, ["task.text.delta"], ({ delta }) => pair.test(delta));
  if (found === undefined) return undefined;
  const { event, at } = found;
  const cut = event.delta.search(pair) + 1;
  const halves = [event.delta.slice(0, cut), event.delta.slice(cut)];
  return renumber(events.toSpliced(at, 1, ...halves.map((delta) => ({ ...event, delta }))));
};

/** Gives an item the id of one before it in the same task. */
function repeat(
  field: "id" | "call_id",
  fits: (event: OutputItemAdded) => boolean,
): Mutation["apply"] {
  return (random, events) => {
    const second = find(random, events, ["task.output_item.added"], fits);
    if (second === undefined) return undefined;
    const { at, event } = second;
    const first = find(
      random,
      events.slice(0, at),
      ["task.output_item.added"],
      (other) => other.task_id === event.task_id && fits(other),
    );
    if (first === undefined) return undefined;
    const item = { ...event.item, [field]: Reflect.get(first.event.item, field) };
    return events.with(at, { ...event, item });
  };
}

/** Items and their parts in a wrong order, or with wrong contents. */
export const itemMutations: readonly Mutation[] = [
  {
    name: "a hole in the output",
    rule: "I2",
    apply: edit(["task.output_item.added"], ({ output_index }) => ({
      output_index: output_index + 1,
    })),
  },
  {
    name: "a discarded index is used again",
    rule: "I2",
    apply: insertAfter(["task.output_item.discarded"], ({ output_index }) => ({
      type: "task.output_item.added",
      output_index,
      item: {
        type: "message",
        id: "msg_x",
        role: "assistant",
        status: "in_progress",
        block_list: [],
      },
    })),
  },
  {
    name: "a hole between blocks",
    rule: "I2",
    apply: edit(["task.text.added", "task.block.done"], ({ block_index }) => ({
      block_index: block_index + 1,
    })),
  },
  {
    name: "another item's id",
    rule: "I3",
    apply: edit(["task.text.delta", "task.text.done", "task.output_item.discarded"], () => ({
      item_id: "msg_other",
    })),
  },
  {
    name: "an item goes on after its end",
    rule: "I4",
    apply: insertAfter(["task.output_item.done"], ({ type, output_index, item }) => ({
      type,
      output_index,
      item,
    })),
  },
  { name: "an item that was never opened", rule: "I4", apply: drop(["task.output_item.added"]) },
  {
    name: "a delta is changed",
    rule: "I5",
    apply: edit(
      [
        "task.text.delta",
        "task.reasoning_summary_text.delta",
        "task.reasoning_text.delta",
        "task.tool_call_arguments.delta",
      ],
      ({ delta }) => ({ delta: `${delta}!` }),
      (event, at, events) =>
        ofSameItem(events.slice(at), event, ...partDone).some(
          (done) => done.type.split(".")[1] === event.type.split(".")[1]?.replace("_text", "_item"),
        ),
    ),
  },
  {
    name: "an item's end tells another story",
    rule: "I6",
    apply: edit(
      ["task.output_item.done"],
      ({ item }) => ({ item: { ...item, block_list: [{ type: "text", text: "another" }] } }),
      (event, at, events) =>
        event.item.type !== "reasoning" &&
        ofSameItem(events.slice(0, at), event, "task.text.done").length > 0,
    ),
  },
  {
    name: "an item's end says nothing",
    rule: "I6",
    apply: edit(
      ["task.output_item.done"],
      ({ item: { type, id, status } }) => ({ item: { type, id, status } }),
      ({ item }) => item.type === "message" || item.type === "reasoning",
    ),
  },
  {
    name: "a delta for a block that was not opened",
    rule: "I8",
    apply: drop(["task.text.added"], (event, at, events) => {
      const next = events[at + 1];
      const isItsDelta = next?.type === "task.text.delta" && next.item_id === event.item_id;
      return isItsDelta && isLastPart(events, event);
    }),
  },
  {
    name: "previews go backwards",
    rule: "I9",
    apply: edit(
      ["task.image.delta"],
      () => ({ partial_image_index: 0 }),
      ({ partial_image_index }) => partial_image_index > 0,
    ),
  },
  {
    name: "an image without a url",
    rule: "I9",
    apply: edit(["task.image.done"], ({ item }) => ({ item: { ...item, image_url: { url: "" } } })),
  },
  {
    name: "the model's side on the wire",
    rule: "I10",
    apply: edit(
      ["task.output_item.done"],
      ({ item }) => ({ item: { ...item, content: [{ type: "text", text: "secret" }] } }),
      ({ item }) => item.type === "message" || item.type === "tool_result",
    ),
  },
  {
    name: "an item that is never closed",
    rule: "L3",
    apply: drop(
      ["task.output_item.done"],
      (event, _, events) => ofSameItem(events, event, "task.output_item.discarded").length === 0,
    ),
  },
  {
    name: "a block that is never closed",
    rule: "L3",
    apply: drop(
      ["task.text.done", "task.image.done"],
      (event, _, events) =>
        ofSameItem(events, event, "task.text.added", "task.image.added").some(
          (added) => (added as typeof event).block_index === event.block_index,
        ) && ofSameItem(events, event, "task.output_item.done").some(isCompleted),
    ),
  },
  {
    name: "a block is opened again",
    rule: "A5",
    apply: insertAfter(["task.text.done"], (event) => ({ ...event, type: "task.text.added" })),
  },
  {
    name: "a block is closed again",
    rule: "A5",
    apply: insertAfter(["task.image.done", "task.block.done"], (event) => ({ ...event })),
  },
  {
    name: "the first form's name of an image",
    rule: "A3",
    apply: edit(["task.image.done"], ({ item }) => ({ item: { ...item, type: "image_url" } })),
  },
  {
    name: "the first form's number of a block",
    rule: "A16",
    apply: edit(["task.image.done", "task.text.done"], ({ item }) => ({
      item: { ...item, id: 1 },
    })),
  },
  { name: "two items of one id", rule: "A9", apply: repeat("id", () => true) },
  {
    name: "two calls of one id",
    rule: "A9",
    apply: repeat("call_id", ({ item }) => item.type === "tool_call"),
  },
  {
    name: "an item that opens as completed",
    rule: "A23",
    apply: edit(["task.output_item.added"], ({ item }) => ({
      item: { ...item, status: "completed" },
    })),
  },
  { name: "half a character", rule: "surrogate", apply: splitCharacter },
];

function isCompleted(event: LogEvent): boolean {
  return event.type === "task.output_item.done" && event.item.status === "completed";
}

function isLastPart(events: Log, event: OnItem & { readonly block_index: number }): boolean {
  return !ofSameItem(events, event, "task.text.added", "task.text.done").some(
    (other) => (other as typeof event).block_index > event.block_index,
  );
}
