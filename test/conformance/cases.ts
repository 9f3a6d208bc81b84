import type { Options } from "../../conformance/vectors.js";
import { addChildCases } from "./child-cases.ts";
import {
  added,
  begin,
  created,
  custom,
  delta,
  done,
  end,
  message,
  numbered,
  onBlock,
  textBlock,
  withChild,
} from "./events.ts";
import { addItems, addParts } from "./item-cases.ts";
import { type Frame, type Kit, options } from "./kit.ts";
import { addApprovals, addLegacy, addTasks } from "./task-cases.ts";

/** Adds a vector of numbered events. */
export type AddCase = (
  title: string,
  about: string,
  events: readonly Frame[],
  ...names: readonly (keyof Options)[]
) => void;

/** The function that adds vectors to a group. */
function addTo(kit: Kit, group: string): AddCase {
  return (title, about, frames, ...names) =>
    kit.add(group, title, {
      about,
      frames,
      ...(names.length > 0 && { options: options(...names) }),
    });
}

/** Adds the vectors that are written by hand, a group for each part of the rules. */
export function addCases(kit: Kit): void {
  addNumbers(addTo(kit, "numbers"));
  addNulls(addTo(kit, "nulls"));
  addFuture(addTo(kit, "future"));
  addItems(addTo(kit, "items"));
  addParts(addTo(kit, "parts"));
  addTasks(addTo(kit, "tasks"));
  addApprovals(addTo(kit, "approvals"));
  addLegacy(addTo(kit, "legacy"));
  addChildCases(addTo(kit, "children"), addTo(kit, "document"));
}

const open = [...begin, added(0, message())];
const change = (events: readonly Frame[], at: number, more: Frame) =>
  events.map((event, index) => (index === at ? { ...event, ...more } : event));
const without = (event: Frame, name: string): Frame =>
  Object.fromEntries(Object.entries(event).filter(([key]) => key !== name));

function addNumbers(add: AddCase): void {
  const events = numbered(...open, delta("a"), delta("b"), delta("c"), end);
  const lost = "An event whose number does not fit counts as lost: the events after it wait.";
  for (const [title, more] of Object.entries({
    "text-as-number": { task_seq: "3" },
    fraction: { task_seq: 3.5 },
    negative: { task_seq: -1 },
    "too-large": { task_seq: 2 ** 53 },
    null: { task_seq: null },
    "log-number-as-text": { sequence_number: "3" },
    "log-number-below": { sequence_number: -2 },
    "task-id-empty": { task_id: "" },
    "task-id-proto": { task_id: "__proto__" },
    "task-id-long": { task_id: "x".repeat(129) },
    "previous-not-before": { prev_task_seq: 3 },
    "previous-as-text": { prev_task_seq: "2" },
  })) {
    add(title, lost, change(events, 3, more));
  }
  add("no-time", "An event without a time changes nothing, but its number counts as applied.", [
    ...events.slice(0, 3),
    without(events[3] as Frame, "created_at"),
    ...events.slice(4),
  ]);
  add(
    "not-in-a-log",
    "The log number −1 is legal for a reader: the event is not in a log yet.",
    events.map((event) => ({ ...event, sequence_number: -1 })),
  );
  add("whole-fraction", "1.0 is a whole number.", change(events, 3, { created_at: 1.0 }));
  add("not-objects", "A reader counts what is not an event.", [
    ...events.slice(0, 4),
    ...([null, 5, "text", [], {}, { type: 7 }] as unknown as Frame[]),
    ...events.slice(4),
  ]);
  add(
    "previous",
    "A producer may name the event before: nothing is missing between.",
    [
      ...events.slice(0, 3),
      { ...events[3], task_seq: 10, prev_task_seq: 2 },
      { ...events[4], task_seq: 11 },
      { ...events[5], task_seq: 20, prev_task_seq: 11 },
    ],
    "filtered",
  );
  add(
    "previous-lost",
    "The event that an event names as the one before is lost.",
    [
      ...events.slice(0, 3),
      { ...events[4], task_seq: 11, prev_task_seq: 10 },
      { ...events[5], task_seq: 20, prev_task_seq: 11 },
    ],
    "filtered",
  );
  add("ranges", "Ranges of numbers beyond the cursor merge when a number between them arrives.", [
    ...events.slice(0, 1),
    ...[5, 3, 2, 4].map((at) => events[at] as Frame),
  ]);
  add("task-ids", "Ids that are names of properties in some languages are ids.", [
    ...numbered(...["constructor", "toString", "10", "9", "length"].map((id) => created(id))),
  ]);
  const deep = (levels: number) => {
    let value: unknown = 0;
    for (let level = 0; level < levels; level++) value = level % 2 ? [value] : { a: value };
    return value;
  };
  add("deep-200", "A value may nest 200 levels.", numbered(...begin, custom(deep(200)), end));
  add(
    "deep-201",
    "An event with 201 levels changes nothing.",
    numbered(...begin, custom(deep(201)), end),
  );
  const [first, , late] = numbered(...begin, custom(deep(200)));
  add("deep-early", "An event that nests more than 200 levels is not kept for later.", [
    first as Frame,
    late as Frame,
  ]);
}

function addNulls(add: AddCase): void {
  const log = numbered(...withChild);
  const spread = (event: Frame): Frame => ({
    ...event,
    prev_task_seq: null,
    ...(event.source === undefined && { source: null }),
    ...(event.task !== undefined && {
      task: {
        usage: null,
        metadata: null,
        structured: null,
        mode: null,
        output: null,
        incomplete_details: null,
        ...(event.task as Frame),
      },
    }),
    ...((event.item as Frame | undefined)?.id !== undefined && {
      item: {
        references: null,
        error: null,
        content: null,
        message_id: null,
        ...(event.item as Frame),
      },
    }),
  });
  add("optional", "Null on an optional field means that the field is absent.", log.map(spread));
  add(
    "inside",
    "The same in lists and in objects inside of them.",
    numbered(
      ...open,
      onBlock("text.done", 0, 0, {
        item: textBlock("A.[^1]", {
          id: null,
          annotations: [
            {
              type: "reference_to_block",
              reference_id: 1,
              start_index: 2,
              end_index: 6,
              marker: null,
              target: null,
            },
          ],
        }),
      }),
      {
        type: "task.usage",
        cumulative: true,
        usage: { input_tokens: 1, output_tokens: 2, total_tokens: 3, cached_input_tokens: null },
        cost: null,
        by_model: null,
      },
      {
        type: "task.suspended",
        reason: "approval",
        approval_ids: null,
        waiting_on: null,
        expires_at: 5,
      },
    ),
    "partial",
  );
  add(
    "required",
    "Null on a required field does not fit: the event changes nothing.",
    numbered(
      ...open,
      onBlock("text.done", 0, 0, { item: { type: "text", text: null } }),
      delta("a"),
      { ...delta("b"), delta: null },
      { ...delta("c"), item_id: null },
      { type: "task.usage", cumulative: true, usage: null },
    ),
    "partial",
  );
  add(
    "custom",
    "Null is a value of a custom event, and an unknown field keeps its null.",
    numbered(...begin, custom({ step: 1 }), custom(null), added(0, { ...message(), extra: null })),
    "partial",
  );
  add(
    "merge",
    "Null in a closing item keeps the assembled value.",
    numbered(
      ...open,
      delta("kept"),
      done(0, { type: "message", id: "msg_1", block_list: null, role: null }),
      end,
    ),
  );
}

function addFuture(add: AddCase): void {
  add(
    "event",
    "An unknown event counts as applied.",
    numbered(
      ...begin,
      { type: "task.weather.changed", mood: "sunny", nested: { a: [1] } },
      custom(1),
      { type: "somebody.else", a: 1 },
      end,
    ),
  );
  add(
    "fields",
    "Unknown fields of items and blocks are kept, those of events are not.",
    numbered(
      ...begin,
      { ...added(0, { ...message(), color: "blue" }), extra: { a: 1 } },
      onBlock("text.done", 0, 0, { item: textBlock("a", { language: "en", id: "b1" }) }),
      done(0, { type: "message", id: "msg_1", mood: [1, 2] }),
      end,
    ),
    "partial",
  );
  add(
    "item",
    "An item of an unknown type is kept, with the blocks it has.",
    numbered(
      ...begin,
      added(0, { type: "poll", id: "poll_1", question: "Tea?", block_list: [] }),
      { ...delta("Yes"), item_id: "poll_1" },
      done(0, { type: "poll", id: "poll_1", votes: 3 }),
      added(1, { type: "plain", id: "plain_1" }),
      { ...delta("no list"), output_index: 1 },
      end,
    ),
    "partial",
  );
  add(
    "blocks",
    "A block of an unknown type is kept.",
    numbered(
      ...open,
      onBlock("block.done", 0, 0, {
        item: { type: "chart", points: [1, 2, { x: null }], id: "c" },
      }),
      onBlock("block.done", 0, 1, {
        item: { type: "audio", url: "task://task_r/blobs/sha256-77aa", mime_type: "audio/wav" },
      }),
      onBlock("block.done", 0, 2, { item: { type: "", id: "no type" } }),
      onBlock("block.done", 0, 2, {
        item: { type: "file", url: "https://example.com/a.csv", filename: "a.csv" },
      }),
      onBlock("block.done", 0, 3, { item: { type: "file", filename: "no url" } }),
    ),
    "partial",
  );
  add(
    "words",
    "Unknown words are kept.",
    numbered(
      ...open,
      onBlock("text.done", 0, 0, {
        item: textBlock("a", { annotations: [{ type: "footnote", at: 1 }] }),
      }),
      done(0, { ...message(), block_list: [textBlock("a")], status: "paused" }),
      { type: "task.output_item.discarded", output_index: 0, item_id: "msg_1", reason: "boredom" },
      { type: "task.suspended", reason: "lunch", generate_reason: "hungry" },
    ),
    "partial",
  );
}
