import { readInput } from "../../base/argument.ts";
import type { LogEvent } from "../event.ts";
import { isId, isTime } from "../shape.ts";
import type { Source } from "../source.ts";
import type { Annotation, ApprovalState, Task, TaskStatus, Usage, WireBlock } from "../task.ts";
import type { EventBody } from "./delta.ts";
import { WrittenItem, WrittenPart } from "./item.ts";
import { checkBlockType, checkImage, checkRange, copyOf, readBody, refuse } from "./rules.ts";
import { type StreamStart, TaskStream } from "./stream.ts";

/** The options of a `TaskWriter`. */
export interface TaskWriterOptions {
  /** Gets every event, in order. The log replaces its `sequence_number`, which is −1. */
  readonly write: (event: LogEvent) => void;
  /** The time in milliseconds since 1970; `Date.now` by default. */
  readonly now?: () => number;
  /** Where a child runs; absent for a root. */
  readonly source?: Source;
}

function readFunction<T>(place: string, value: T): T {
  return readInput(place, "a function", value, () => typeof value === "function" && value);
}

function startOf(task: Task | undefined, options: TaskWriterOptions): StreamStart {
  const { now = Date.now, source = task?.source as Source | undefined } = options;
  readFunction("options.now", now);
  return {
    now: () => {
      const time = now();
      if (!isTime(time, {})) refuse("`now` must return a time.", "Return whole milliseconds.");
      return time;
    },
    source,
    taskSeq: (task?.appliedSeq ?? -1) + 1,
    outputIndex: task?.output.length ?? 0,
  };
}

/** A child of the task; `unknown`: an earlier writer has started it, and the task does not tell whether it runs. */
export interface WrittenChild {
  readonly item: WrittenItem;
  state: "sync" | "background" | "finished" | "unknown";
}

/** The stream of a writer, and what was written to it: events that do not fit are refused. */
export class WriterState extends TaskStream {
  readonly items: WrittenItem[] = [];
  readonly byId = new Map<string, WrittenItem>();
  /** The calls and the results that were not discarded, by call id. */
  readonly calls = new Map<string, WrittenItem>();
  readonly results = new Map<string, WrittenItem>();
  readonly approvals = new Map<string, ApprovalState>();
  readonly children = new Map<string, WrittenChild>();
  status: TaskStatus | undefined;
  usage: Usage | undefined;
  readonly #write: TaskWriterOptions["write"];

  constructor(task: string | Task, options: TaskWriterOptions) {
    const given = copyOf("options", options);
    const known = typeof task === "string" ? undefined : task;
    const read = <T>(reader: () => T | false) =>
      readInput("task", "an id or a task of a tree", task, reader);
    const id = read(() => {
      const taskId = typeof task === "string" ? task : task.id;
      return isId(taskId) && taskId;
    });
    const start = read(() => startOf(known, given));
    super(id, start);
    this.#write = readFunction("options.write", given.write);
    if (known) read(() => this.#continue(known));
  }

  #continue({ status, output, approvals, children, usage }: Task): void {
    this.status = status === "unknown" ? undefined : status;
    this.usage = usage;
    for (const item of output) this.add(WrittenItem.from(item, this.items.length));
    for (const approval of approvals) this.approvals.set(approval.approval_id, approval);
    for (const childId of children) {
      const item = this.results.get(childId);
      if (item) this.addChild(item, "unknown");
    }
  }

  add(item: WrittenItem): WrittenItem {
    this.items.push(item);
    this.byId.set(item.id, item);
    if (item.type === "tool_call") this.calls.set(item.callId ?? "", item);
    if (item.type === "tool_result") this.results.set(item.callId ?? "", item);
    return item;
  }

  /** The result of a call holds the child that the call has started. */
  addChild(item: WrittenItem, state: WrittenChild["state"]): void {
    item.hasChild = true;
    this.children.set(item.callId ?? "", { item, state });
  }

  protected override delta(part: WrittenPart, text: string): void {
    const wellFormed = text.toWellFormed();
    part.text += wellFormed;
    super.delta(part, wellFormed);
  }

  protected override write(event: LogEvent): void {
    this.#write(event);
  }

  override form<Body extends EventBody>(body: Body): Body {
    const read = readBody(body);
    const isBlock = read.type === "task.text.done" || read.type === "task.block.done";
    if (read.type === "task.image.done") checkImage(read.item);
    if (isBlock) this.checkBlock(this.items[read.output_index] as WrittenItem, read.item);
    return read;
  }

  /** Throws unless the task has one of the statuses. */
  expect(...statuses: readonly TaskStatus[]): void {
    const { status } = this;
    if (status === undefined) refuse("The task does not exist yet.", "Call `create` first.");
    else if (!statuses.includes(status))
      refuse(`The task is ${status}, not ${statuses.join(" or ")}.`, "Write its events in order.");
  }

  own(place: Readonly<WrittenItem>): WrittenItem {
    const isOwn = place instanceof WrittenItem && this.items[place.index] === place;
    return isOwn ? place : refuse("The item is not of this task.", "Pass what `open` returns.");
  }

  open(place: Readonly<WrittenItem>): WrittenItem {
    const item = this.own(place);
    return item.isOpen
      ? item
      : refuse(`${item.id} is ${item.status ?? item.type}.`, "Pass an open item.");
  }

  openedPart(place: Readonly<WrittenPart>): WrittenPart {
    if (!(place instanceof WrittenPart))
      return refuse("The part is not of this task.", "Pass what `openPart` returns.");
    this.open(place.item);
    if (!place.isOpen) refuse(`A part of ${place.item.id} is closed.`, "Pass an open part.");
    return place;
  }

  /** Refuses a block that does not belong into an item. */
  checkBlock(item: WrittenItem, block: WireBlock): void {
    checkBlockType(block);
    if (block.type === "text")
      for (const annotation of block.annotations ?? []) this.checkCitation(block.text, annotation);
    if (block.type !== "task") return;
    const { task_id: childId } = block;
    if (!this.children.has(childId) || (item.callId ?? childId) !== childId)
      refuse(`${childId} is not a child of ${item.id}.`, "Name a child that the task has started.");
  }

  /** Refuses a citation that is not in the text, or whose target is not in the task that it names. */
  checkCitation(text: string, annotation: Annotation): void {
    checkRange(text, annotation);
    const { target, reference_id } = annotation;
    if (target?.task_id !== this.taskId) return;
    const item = this.byId.get(target.item_id);
    const block = item?.blocks[target.block_index];
    if (block?.reference_id !== reference_id)
      refuse(`The citation [^${reference_id}] has no target.`, "Pass a block with that number.");
  }

  /** Refuses to close or discard an item whose child runs. */
  checkChildEnded(item: WrittenItem): void {
    const child = this.children.get(item.callId ?? "");
    if (child?.item === item && child.state === "sync")
      refuse(`The child of ${item.id} has not ended.`, "Finish or promote it first.");
  }
}
