import type { TaskEvent } from "../protocol/index.ts";

type Delta = Extract<TaskEvent, { readonly delta: string }>;

/** The fields in which the deltas of one block differ. */
const varying: ReadonlySet<string> = new Set([
  "sequence_number",
  "task_seq",
  "created_at",
  "delta",
]);
/** The numbers of a row: `task_seq`, `created_at` and where the text of a delta ends. */
const columns = 3;

/** Some successive events of a log. The deltas of a block take little more than their text: they share one event. */
export class PackedEvents {
  /** Events as they are, and one delta of each block. */
  readonly #shared: TaskEvent[] = [];
  /** The index in `#shared` of each event. */
  readonly #places: Uint16Array;
  readonly #rows: Float64Array;
  readonly #text: string;
  readonly #first: number;

  /** `first`: the number of the first event. */
  constructor(events: readonly TaskEvent[], first: number) {
    this.#first = first;
    this.#places = new Uint16Array(events.length);
    this.#rows = new Float64Array(events.length * columns);
    const texts: string[] = [];
    let end = 0;
    let row = 0;
    for (const event of events) {
      this.#places[row / columns] = this.#placeOf(event);
      if (isDelta(event)) {
        end += event.delta.length;
        texts.push(event.delta);
        this.#rows[row] = event.task_seq;
        this.#rows[row + 1] = event.created_at;
      }
      this.#rows[row + 2] = end;
      row += columns;
    }
    this.#text = texts.join("");
  }

  /** How many events it keeps as objects. */
  get shared(): number {
    return this.#shared.length;
  }

  get length(): number {
    return this.#places.length;
  }

  /** The event with an index. */
  at(index: number): TaskEvent {
    const shared = this.#shared[this.#places[index] as number] as TaskEvent;
    if (!isDelta(shared)) return shared;
    const row = index * columns;
    const [task_seq = 0, created_at = 0, end] = this.#rows.subarray(row, row + columns);
    const delta = this.#text.slice(this.#rows[row - 1] ?? 0, end);
    const sequence_number = this.#first + index;
    return { ...shared, sequence_number, task_seq, created_at, delta };
  }

  #placeOf(event: TaskEvent): number {
    const index = isDelta(event)
      ? this.#shared.findLastIndex((shared) => isSameBlock(shared, event))
      : -1;
    return index < 0 ? this.#shared.push(event) - 1 : index;
  }
}

/** Whether an event adds text to a block. */
export function isDelta(event: TaskEvent): event is Delta {
  return "delta" in event && typeof event.delta === "string";
}

function isSameBlock(one: TaskEvent, two: TaskEvent): boolean {
  if (one.type !== two.type) return false;
  let more = 0;
  for (const key in two) {
    if (!varying.has(key) && one[key as keyof TaskEvent] !== two[key as keyof TaskEvent])
      return false;
    more += 1;
  }
  for (const _ in one) more -= 1;
  return more === 0;
}
