import fc from "fast-check";
import { expect, it } from "vitest";
import { RivuletError } from "../../src/base/error.ts";
import { checkStream } from "../../src/protocol/check/check.ts";
import type { LogEvent } from "../../src/protocol/event.ts";
import { TaskTree } from "../../src/protocol/reduce.ts";
import { isTerminal } from "../../src/protocol/task.ts";
import { TaskWriter } from "../../src/protocol/writer/writer.ts";
import { type Random, seededRandom } from "../support/random.ts";

const deep = process.env.RIVULET_DEEP === "1";
const numRuns = deep ? 20_000 : 500;

type Items = TaskWriter["items"];

const statuses = ["completed", "failed", "cancelled", "incomplete"] as const;
const texts = ["", "a", "See [^1].", "\ud83d", "\ude00 and", "\ud83d\ude00", "x".repeat(70_000)];
const types = ["message", "reasoning", "tool_call", "tool_result", "note"] as const;
const error = { code: "failed", message: "It failed.", retryable: false };

/** One writer for each task of a log, and its events. */
class Log {
  readonly events: LogEvent[] = [];
  readonly writers: TaskWriter[] = [];
  /** Calls that threw, and those that wrote. */
  refused = 0;
  written = 0;
  #ids = 0;
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
    const root = this.#writer("root");
    root.create({ agent_id: "lead", session_id: "s" });
    root.start();
  }

  #writer(id: string, parent?: { readonly path: string; readonly session: string }): TaskWriter {
    const write = (event: LogEvent) =>
      void this.events.push(structuredClone({ ...event, sequence_number: this.events.length }));
    const path = parent && `${parent.path}/helper`;
    const source = path && {
      ...{ agentKey: "agent:helper:1", agentId: "helper", sessionId: `s-${id}`, taskId: id, path },
      parentSessionId: parent.session,
      depth: path.split("/").length - 1,
    };
    const writer = new TaskWriter(id, { write, now: () => 1, ...(source && { source }) });
    this.writers.push(writer);
    return writer;
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.#random.next() * list.length)] as T;
  }

  /** Continues a task that has started no child with a writer that knows the fold alone. */
  #reopen(writer: TaskWriter): void {
    const ids = new Set(this.writers.map(({ taskId }) => taskId));
    if (writer.items.some(({ callId = "" }) => ids.has(callId))) return;
    const known = new TaskTree().apply(this.events).task(writer.taskId);
    if (known === undefined) throw new Error("no task");
    const write = (event: LogEvent) =>
      void this.events.push(structuredClone({ ...event, sequence_number: this.events.length }));
    this.writers[this.writers.indexOf(writer)] = new TaskWriter(known, { write, now: () => 1 });
  }

  /** Makes a random call, which often makes no sense. */
  step(): void {
    const writer = this.pick(this.writers);
    const before = this.events.length;
    try {
      this.pick(this.#calls(writer))();
    } catch (thrown) {
      if (!(thrown instanceof RivuletError)) throw thrown;
      expect(thrown.code).toBe("invalid_argument");
      this.refused++;
    }
    if (this.events.length > before) this.written++;
  }

  #calls(writer: TaskWriter): readonly (() => unknown)[] {
    const item = this.pick([...writer.items, writer.items.at(-1)]) as Items[number];
    const part = this.pick(item?.parts ?? []);
    const text = this.pick(texts);
    const id = `i${this.#ids++}`;
    const call_id = this.pick([id, item?.callId ?? id]);
    // A writer knows one task: it does not see that a child has ended before `finishChild`.
    const waiting_on = this.writers.every(
      ({ taskId, status }) => taskId !== call_id || !isTerminal(status ?? "queued"),
    )
      ? [call_id]
      : [];
    const image = { type: "image", image_url: { url: this.pick(["", "https://a.test"]) } } as const;
    const status = this.pick([...statuses, "in_progress"] as const);
    const cited = {
      type: "reference_to_block",
      ...{ reference_id: 1, start_index: 4, end_index: 8 },
      target: {
        task_id: writer.taskId,
        item_id: this.pick(writer.items)?.id ?? id,
        block_index: 0,
      },
    } as const;
    const blocks = [
      { type: "text", text: "See [^1].", annotations: [cited] },
      { type: "text", text: "x", reference_id: this.pick([1, 2]) },
      { type: "task", task_id: item?.callId ?? id },
      { type: "file", url: "https://a.test" },
      { ...image, id: "b", status: "in_progress" },
    ] as const;
    const open = () =>
      writer.open({ type: this.pick(types), id, call_id, name: "look", role: "user" } as never);
    const end = { status: this.pick(statuses) };
    const cause = this.pick([{}, { error }, { incomplete_details: { reason: "budget" } as const }]);
    const approval = this.pick(writer.approvals)?.approval_id ?? id;
    return [
      open,
      open,
      open,
      () => writer.delta(item, text),
      () => writer.delta(part as never, text),
      () => writer.delta(part as never, text),
      () => writer.openPart(item, { type: this.pick(["text", "image", "reasoning_text"]), id }),
      () => writer.annotate(part as never, cited),
      () => writer.preview(part as never, image),
      () => writer.block(item, this.pick(blocks)),
      () => writer.closePart(part as never, this.pick([{}, { text }, image])),
      () => writer.progress(item, { progress: this.pick([1, Number.NaN]) }),
      () => writer.reference(item, { id }),
      () => writer.close(item, { status, ...this.pick([{}, { error }]) }),
      () => writer.close(item, { arguments: "{}", summary: [{ type: "text", text }] }),
      () => writer.close(item, { block_list: [this.pick(blocks)] }),
      () => writer.discard(item, this.pick(["recovered", "tool_retry"])),
      () => this.#startChild(writer, item),
      () => this.#endChild(writer, item),
      () => writer.promoteChild(item?.callId ?? id),
      () => writer.ask({ approval_id: id, kind: this.pick(["tool_call", "stop"]), call_id }),
      () => writer.ask({ approval_id: id, kind: "stop" }),
      () => writer.ask({ approval_id: id, kind: "form", call_id, name: "b", arguments: "{}" }),
      () => writer.resolve(approval, { decision: this.pick(["approve", "deny"]), by: "u" }),
      () => writer.suspend(this.pick([{}, { reason: "child", waiting_on } as const])),
      () => writer.resume(this.pick(["approval_resolved", "recovered", "because"])),
      () => writer.resume(),
      () => writer.usage({ input_tokens: 1, output_tokens: 1, total_tokens: this.events.length }),
      () => writer.usage({ input_tokens: 0, output_tokens: 0, total_tokens: 0 }),
      () => writer.hint({ id, text }),
      () => writer.custom("state", { text }),
      () => writer.cancelling({ reason: text }),
      () => writer.create(),
      () => writer.start(),
      () => this.#random.chance(0.2) && writer.end({ ...end, ...cause }),
      () => this.#random.chance(0.2) && this.#reopen(writer),
    ];
  }

  #startChild(writer: TaskWriter, item: Items[number]): void {
    const mode = this.pick(["sync", "background"] as const);
    const agent = { id: "helper", key: "agent:helper:1" };
    writer.startChild(item, { mode, agent });
    const created = this.events.find(({ task_id }) => task_id === this.events.at(-1)?.task_id);
    const id = item.callId as string;
    const session = created?.type === "task.created" ? (created.task.session_id ?? "") : "";
    const child = this.#writer(id, { path: created?.source?.path ?? "s", session });
    child.create({
      ...{ agent_id: "helper", session_id: `s-${id}`, mode, parent_call_id: id },
      parent_task_id: created?.task_id ?? "",
      parent_item_id: item.id,
    });
    child.start();
  }

  /** A parent hears of the end of its child after it. */
  #endChild(writer: TaskWriter, item: Items[number]): void {
    const child = this.writers.find(({ taskId }) => taskId === item?.callId);
    if (child === undefined) throw new RivuletError("invalid_argument", "There is no child.");
    this.#end(child);
    writer.finishChild(item.callId as string, { status: child.status as "completed" });
  }

  /** Ends a task after its children. */
  #end(writer: TaskWriter): void {
    if (writer.status === undefined || isTerminal(writer.status)) return;
    for (const item of writer.items) {
      const child = this.writers.find(({ taskId }) => taskId === item.callId);
      if (child === undefined || item.type !== "tool_result") continue;
      const isAwaited = item.isOpen;
      this.#end(child);
      try {
        if (isAwaited) writer.finishChild(child.taskId, { status: child.status as "completed" });
      } catch (thrown) {
        if (!(thrown instanceof RivuletError)) throw thrown;
      }
    }
    writer.end({ status: "completed" });
  }

  endAll(): void {
    for (const writer of this.writers) this.#end(writer);
  }
}

it("writes a legal stream, which the fold reads in full, for any calls", () => {
  let [refused, written] = [0, 0];
  const property = fc.property(fc.integer(), fc.integer({ min: 1, max: 200 }), (seed, steps) => {
    const log = new Log(seededRandom(seed));
    for (let step = 0; step < steps; step++) log.step();
    expect(checkStream(log.events, { partial: true })).toEqual([]);
    log.endAll();
    expect(checkStream(log.events)).toEqual([]);
    expect(new TaskTree().apply(log.events).tree.ignored).toBe(0);
    refused += log.refused;
    written += log.written;
  });
  fc.assert(property, { numRuns });
  expect(Math.min(refused, written)).toBeGreaterThan(numRuns * 10);
});
