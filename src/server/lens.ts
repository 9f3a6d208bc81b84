import type { TaskRecord } from "../contract/index.ts";
import type { Item, LogEvent, TaskEvent, TaskSnapshot } from "../protocol/index.ts";

/** The part of a log that a reader selects. */
export interface Selection {
  /** The task whose subtree is shown. */
  readonly taskId: string;
  /** Tasks down to this many levels below that task. */
  readonly depth?: number;
  /** The tasks at this path and below it; the path of the root is its session id. */
  readonly path?: string;
  /** Only items of these types; events without an item are always shown. */
  readonly include?: readonly string[];
  /** No items of these types. */
  readonly exclude?: readonly string[];
}

/**
 * Selects events of one log, in order from its beginning. An event that follows omitted ones of its task names the last
 * one that was let through, so that a reader sees no gap.
 */
export class Lens {
  readonly #selection: Selection;
  /** The level of the selected task below the root. */
  readonly #level: number;
  readonly #session: string;
  /** Whether a task is part of the selected subtree. */
  readonly #isBelow = new Map<string, boolean>();
  readonly #itemTypes = new Map<string, string>();
  readonly #passed = new Map<string, number>();

  constructor(selection: Selection, target: TaskRecord, root: TaskRecord) {
    this.#selection = selection;
    this.#level = target.depth;
    this.#session = root.sessionId;
    this.#isBelow.set(target.taskId, true);
    if (target.taskId !== root.taskId) this.#isBelow.set(root.taskId, false);
  }

  /** The event as the reader gets it; undefined if it is left out. `isOld`: the reader had it on an earlier connection. */
  pass(event: TaskEvent, isOld = false): TaskEvent | undefined {
    if (event.type === "error") return undefined;
    if (event.type === "task.created" || event.type === "task.snapshot") this.#link(event);
    if (event.type === "task.snapshot") {
      this.#readItems(event.task_id, event.task.output ?? []);
      // Which events of it an earlier connection let through is not known any more: the next one names none.
      this.#passed.set(event.task_id, isOld ? -1 : event.through_task_seq);
      return this.#isInView(event) ? this.#withWantedItems(event) : undefined;
    }
    if (!this.#isInView(event) || !this.#isWanted(event)) return undefined;
    const last = this.#passed.get(event.task_id) ?? -1;
    this.#passed.set(event.task_id, event.task_seq);
    return event.task_seq === last + 1 ? event : { ...event, prev_task_seq: last };
  }

  #link({ task_id, task }: Extract<TaskEvent, { type: "task.created" | "task.snapshot" }>): void {
    if (this.#isBelow.has(task_id)) return;
    const { parent_task_id: parent } = task;
    this.#isBelow.set(task_id, parent !== undefined && this.#isBelow.get(parent) === true);
  }

  #readItems(taskId: string, output: readonly Item[]): void {
    for (const [index, { type }] of output.entries())
      this.#itemTypes.set(`${taskId} ${index}`, type);
  }

  /** The snapshot as the fold of the selected events gives it: an item of another type is a placeholder. */
  #withWantedItems(event: TaskSnapshot): TaskSnapshot {
    const { include, exclude } = this.#selection;
    const { output } = event.task;
    if (output === undefined || (include === undefined && exclude === undefined)) return event;
    // A discarded item has no content, and its type is not known any more.
    const isShown = ({ type }: Item) => type === "discarded" || this.#isWantedType(type);
    const shown = output.slice(0, output.findLastIndex(isShown) + 1);
    const selected = shown.map(
      (item): Item => (isShown(item) ? item : { type: "omitted", id: "" }),
    );
    return { ...event, task: { ...event.task, output: selected } };
  }

  #isWantedType(type: string): boolean {
    const { include, exclude } = this.#selection;
    return (include === undefined || include.includes(type)) && !exclude?.includes(type);
  }

  #isInView(event: Exclude<TaskEvent, { type: "error" }>): boolean {
    if (this.#isBelow.get(event.task_id) !== true) return false;
    const { depth, path } = this.#selection;
    const { source } = event;
    if (depth !== undefined && (source?.depth ?? 0) - this.#level > depth) return false;
    const own = source?.path ?? this.#session;
    return path === undefined || own === path || own.startsWith(`${path}/`);
  }

  #isWanted(event: LogEvent): boolean {
    if (!isOfItem(event)) return true;
    const place = `${event.task_id} ${event.output_index}`;
    if (event.type === "task.output_item.added") this.#itemTypes.set(place, event.item.type);
    return this.#isWantedType(this.#itemTypes.get(place) ?? "");
  }
}

/** Whether an event belongs to an item; the news of children and approvals are shown in every view. */
function isOfItem(event: LogEvent): event is Extract<LogEvent, { output_index: number }> {
  if (event.type.startsWith("task.child.") || event.type.startsWith("task.approval.")) return false;
  return "output_index" in event;
}
