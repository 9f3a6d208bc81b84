import { taskEventTypes } from "../../src/protocol/grammar/index.ts";
import type { Random } from "./random.ts";

type Place = Record<string, unknown>;

/** How many levels are more than any stack carries. */
const tooDeep = 20_000;

/** Values that do not belong where they are put; made anew each time, because streams are frozen. */
const misfits: readonly (() => unknown)[] = [
  () => null,
  () => 5,
  () => -5,
  () => 0.5,
  () => 2_000_000_000,
  () => "",
  () => "abc",
  () => "in_progress",
  () => "constructor",
  () => "toString",
  () => "__proto__",
  () => true,
  () => ({}),
  () => [],
  () => [null],
  () => ["a"],
  () => [{ type: "text", status: "in_progress" }],
  () => [{ type: "message", id: "m" }],
  () => ({ type: "task", task_id: "constructor" }),
  () => ({ type: "text", text: "a", status: "in_progress", annotations: [] }),
  () => ({ type: "reasoning", id: "m", status: "in_progress" }),
  () => ({ type: "from_the_future", id: "m", status: "in_progress", block_list: [null] }),
  () => JSON.parse('{"__proto__":{"evil":1},"constructor":{"prototype":{"evil":1}}}'),
  () => nested((inside) => [inside]),
  () => nested((inside) => ({ inside })),
];

/** Fields that somewhere mean something. */
const fields = [
  ["__proto__", "annotations", "approval_ids", "approvals", "arguments", "block_list", "call_id"],
  [
    "content",
    "error",
    "hints",
    "id",
    "incomplete_details",
    "item_id",
    "metadata",
    "output",
    "output_index",
  ],
  ["parent_item_id", "parent_output_index", "parent_task_id", "prev_task_seq", "reason", "source"],
  [
    "state",
    "status",
    "subtree_usage",
    "summary",
    "suspension",
    "task",
    "task_id",
    "text",
    "type",
    "usage",
  ],
].flat();

/** Damages a stream in some places, in place: often one event more than once, since faults like company. */
export function damageSome(random: Random, frames: readonly object[], times: number): void {
  let frame = random.pick(frames);
  for (let left = times; left > 0; left--) {
    damage(random, frame);
    if (random.chance(0.5)) frame = random.pick(frames);
  }
}

/** Replaces, adds or takes away one field somewhere inside an event. */
function damage(random: Random, event: object): void {
  const places: Place[] = [];
  const pending: unknown[] = [event];
  for (let inside = pending.pop(); pending.length > 0 || inside; inside = pending.pop()) {
    if (typeof inside !== "object" || inside === null || places.length > 100) continue;
    places.push(inside as Place);
    pending.push(...Object.values(inside));
  }
  const place = random.pick(places);
  const misfit = random.pick(misfits)();
  if (Array.isArray(place)) {
    place.splice(
      random.int(0, place.length),
      random.int(0, 1),
      ...(random.chance(0.9) ? [misfit] : []),
    );
    return;
  }
  const present = Object.keys(place);
  const key = present.length > 0 && random.chance(0.7) ? random.pick(present) : random.pick(fields);
  if (random.chance(0.1))
    place.status = "in_progress"; // What is closed claims to be open.
  else if (random.chance(0.2)) delete place[key];
  else if (place === event && key === "type") place[key] = random.pick(taskEventTypes);
  else define(place, key, misfit);
}

/** Makes a value unchangeable all the way down, however deep that is. */
export function freeze<T>(value: T): T {
  const pending: unknown[] = [value];
  for (let inside = pending.pop(); inside !== undefined; inside = pending.pop()) {
    if (typeof inside !== "object" || inside === null || Object.isFrozen(inside)) continue;
    Object.freeze(inside);
    for (const key of Object.keys(inside)) {
      const below = (inside as Place)[key];
      if (typeof below === "object" && below !== null) pending.push(below);
    }
  }
  return value;
}

/** As a parser of JSON does it: a key is a key, whatever its name. */
function define(place: Place, key: string, value: unknown): void {
  Object.defineProperty(place, key, {
    value,
    enumerable: true,
    writable: true,
    configurable: true,
  });
}

function nested(around: (inside: unknown) => unknown): unknown {
  let value: unknown = "the end";
  for (let level = 0; level < tooDeep; level++) value = around(value);
  return value;
}
