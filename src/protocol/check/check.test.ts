import { describe, expect, it } from "vitest";
import {
  begin,
  block,
  end,
  type Fields,
  found,
  log,
  message,
  numbered,
  open,
  task,
  text,
  withChild,
} from "../../../test/support/hand-log.ts";
import { checkStream } from "./check.ts";

describe("checkStream", () => {
  it("finds no problem in a correct log, in any iterable", () => {
    const events = log(
      ...begin,
      open,
      ["text.done", { ...block, item: text("Hi") }],
      ["output_item.done", message("completed", text("Hi"))],
      end,
    );
    expect(checkStream(events)).toEqual([]);
    expect(checkStream(new Set(events))).toEqual([]);
    expect(checkStream(log(...withChild("call_1")))).toEqual([]);
    expect(checkStream([])).toEqual([]);
  });

  it("reports events and rules in the order of the events", () => {
    const events = log(
      ...begin,
      open,
      ["text.added", { ...block, item: text("") }],
      ["text.delta", { ...block, delta: "Hello" }],
      [
        "text.annotation.added",
        {
          ...block,
          annotation_index: 0,
          annotation: { type: "reference_to_block", reference_id: 1, start_index: 0, end_index: 4 },
        },
      ],
      ["text.done", { ...block, item: text("Hell") }],
      end,
    );
    expect(checkStream(events)).toEqual([
      { index: 5, rule: "A1", message: '0..4 is "Hell", not "[^1]"' },
      { index: 6, rule: "I5", message: 'the deltas make "Hello", done says "Hell"' },
      { index: 6, rule: "A20", message: "done has 0 annotations, 1 were added" },
      { index: 7, rule: "L3", message: 'the task ends while "msg_1" is open' },
    ]);
  });

  it("keeps messages short for long values", () => {
    const long = "x".repeat(1_000_000);
    const events = log(
      ...begin,
      open,
      ["text.done", { ...block, item: text(long) }],
      [
        "output_item.done",
        {
          ...message("completed", text("y")),
          item: { ...message("completed", text("y")).item, id: long },
        },
      ],
      end,
    );
    for (const { message } of checkStream(events)) expect(message.length).toBeLessThan(200);
  });

  it("accepts unknown types and checks their numbers", () => {
    expect(found(log(...begin, ["news", { anything: 1 }], end))).toEqual([]);
    expect(found(log(...begin, ["news"], end).toSpliced(2, 1))).toEqual([
      [2, "sequence"],
      [2, "task_seq"],
    ]);
    expect(
      found([...log(...begin, end), { type: "constructor", task_id: "toString" }]),
    ).toContainEqual([3, "edge"]);
    expect(
      found([...log(...begin, end), { type: "constructor", task_id: "__proto__" }]),
    ).toContainEqual([3, "I1"]);
  });

  it("distinguishes a repeated event from a number that is used twice", () => {
    const events = log(...begin, ["custom", { name: "a", value: 1 }], end);
    expect(found(events.toSpliced(3, 0, events[1] as Fields))).toEqual([[3, "duplicate"]]);
    expect(found(events.with(2, { ...events[2], sequence_number: 1, task_seq: 1 }))).toEqual([
      [2, "sequence"],
      [2, "task_seq"],
      [3, "sequence"],
      [3, "task_seq"],
    ]);
  });

  it("reports illegal status changes", () => {
    const waiting = [...begin, ["suspended", { reason: "stop_requested" }]] as const;
    const resumed = ["resumed", { reason: "approval_resolved" }] as const;
    expect(found(log(...waiting, resumed, end))).toEqual([]);
    expect(found(log(...waiting, end))).toEqual([[3, "edge"]]);
    expect(found(log(...waiting, ["cancelled", task("cancelled")]))).toEqual([]);
    expect(found(log(...begin, resumed, end))).toEqual([[2, "edge"]]);
    expect(found(log(...begin, ["resumed", { reason: "recovered" }], end))).toEqual([]);
    expect(found(log(begin[0], end))).toEqual([[1, "edge"]]);
    expect(found(log(begin[0], ["cancelled", task("cancelled")]))).toEqual([]);
    expect(found(log(begin[0], open))).toContainEqual([1, "edge"]);
  });

  it("accepts open parts in an interrupted item", () => {
    const started = [...begin, open, ["text.added", { ...block, item: text("") }]] as const;
    const delta = ["text.delta", { ...block, delta: "Hel" }] as const;
    const done = (status: string, value: string) =>
      ["output_item.done", message(status, text(value))] as const;
    expect(found(log(...started, delta, done("cancelled", "Hel"), end))).toEqual([]);
    expect(found(log(...started, delta, done("cancelled", "Hello"), end))).toEqual([[5, "I6"]]);
    expect(found(log(...started, delta, done("completed", "Hel"), end))).toEqual([[5, "L3"]]);
  });

  it("counts annotations in UTF-16 code units", () => {
    const item = text("👩‍🚀[^1]", {
      annotations: [
        {
          type: "reference_to_block",
          reference_id: 1,
          start_index: 5,
          end_index: 9,
          marker: "[^1]",
        },
      ],
    });
    const events = log(
      ...begin,
      open,
      ["text.done", { ...block, item }],
      ["output_item.done", message("completed", item)],
      end,
    );
    expect(found(events)).toEqual([]);
  });

  it("reports a split surrogate pair, but not a lone surrogate", () => {
    const deltas = (...parts: string[]) => {
      const whole = parts.join("");
      return found(
        log(
          ...begin,
          open,
          ["text.added", { ...block, item: text("") }],
          ...parts.map((delta) => ["text.delta", { ...block, delta }] as const),
          ["text.done", { ...block, item: text(whole) }],
          ["output_item.done", message("completed", text(whole))],
          end,
        ),
      );
    };
    expect(deltas("a\ud83d", "\ude00b")).toEqual([[5, "surrogate"]]);
    expect(deltas("a\ud83d", "", "\ude00b")).toEqual([[6, "surrogate"]]);
    expect(deltas("a\ud83d", "b", "\ude00")).toEqual([]);
  });

  it("reports links to itself, cycles and unknown parents", () => {
    expect(found(log(...withChild("call_1", { parent_task_id: "call_1" })))).toContainEqual([
      6,
      "link",
    ]);
    expect(found(log(...withChild("call_1", { parent_task_id: "task_x" })))).toContainEqual([
      6,
      "link",
    ]);
    expect(found(log(...withChild("call_1", { parent_call_id: "call_2" })))).toContainEqual([
      6,
      "link",
    ]);
    const lonely = (id: string, parent: string) => ({
      id,
      object: "task",
      status: "queued",
      parent_task_id: parent,
    });
    const circle = [
      { type: "task.created", task_id: "a", task: lonely("a", "b") },
      { type: "task.created", task_id: "b", task: lonely("b", "a") },
    ];
    expect(checkStream(circle).map(({ message }) => message)).toContain('"a" is its own ancestor');
  });
});

describe("checkStream's options", () => {
  it("partial: accepts open tasks and items at the end", () => {
    const events = log(...withChild("call_1")).slice(0, 8);
    expect(checkStream(events, { partial: true })).toEqual([]);
    expect(found(events)).toEqual([
      [5, "L3"],
      [7, "L3"],
    ]);
  });

  it("filtered: accepts missing numbers that `prev_task_seq` announces", () => {
    const events = log(
      ...begin,
      [
        "usage",
        { cumulative: true, usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 } },
      ],
      end,
    ).toSpliced(2, 1);
    expect(found(events, { filtered: true })).toEqual([[2, "task_seq"]]);
    const told = events.with(2, { ...events[2], prev_task_seq: 1 });
    expect(found(told, { filtered: true })).toEqual([]);
    expect(found(told)).toEqual([
      [2, "sequence"],
      [2, "task_seq"],
    ]);
    expect(found(events.with(2, { ...events[2], prev_task_seq: 9 }), { filtered: true })).toEqual([
      [2, "task_seq"],
    ]);
  });

  it("legacy: checks order, texts and closing without numbers, lifecycle and sources", () => {
    const item = { ...message("x").item, status: undefined };
    const events = [
      { type: "task.output_item.added", task_id: "t", output_index: 0, item },
      { type: "task.text.done", task_id: "t", ...block, item: text("Hi", { id: 1 }) },
      {
        type: "task.output_item.done",
        task_id: "t",
        output_index: 0,
        item: { ...item, block_list: [text("Hi")] },
      },
    ];
    expect(checkStream(events, { legacy: true })).toEqual([]);
    expect(found(events.slice(0, 2), { legacy: true })).toEqual([[0, "L3"]]);
    expect(found(events.slice(1), { legacy: true })).toEqual([
      [0, "I4"],
      [1, "I4"],
    ]);
    expect(found([...events, events[1]], { legacy: true })).toEqual([[3, "I4"]]);
  });
});

describe("checkStream with malformed and large input", () => {
  it("never throws and never changes a prototype", () => {
    const cyclic: Record<string, unknown> = { type: "task.created", task_id: "t" };
    cyclic.task = cyclic;
    cyclic.source = cyclic;
    const garbage = [
      null,
      1,
      "x",
      [],
      {},
      { type: 1 },
      cyclic,
      { type: "__proto__", task_id: "t" },
    ];
    const events = [
      ...garbage,
      ...log([
        "created",
        { task_id: "__proto__", task: { id: "__proto__", object: "task", status: "queued" } },
      ]),
      ...log([
        "output_item.added",
        { output_index: 0, item: { type: "constructor", id: "toString" } },
      ]),
    ];
    expect(checkStream(events).length).toBeGreaterThan(garbage.length);
    expect(Object.keys(Object.prototype)).toEqual([]);
    const endless = () => Object.assign(cyclic, { sequence_number: 0, task_seq: 0 });
    expect(found([endless(), { ...endless(), task: { ...cyclic } }])).toContainEqual([
      1,
      "task_seq",
    ]);
  });

  it("takes time proportional to the number of events", () => {
    const deltas = Array.from(
      { length: 200_000 },
      () => ["text.delta", { ...block, delta: "ab" }] as const,
    );
    const item = text("ab".repeat(200_000));
    const events = numbered([
      ...begin,
      open,
      ["text.added", { ...block, item: text("") }],
      ...deltas,
      ["text.done", { ...block, item }],
      ["output_item.done", message("completed", item)],
      end,
    ]);
    const chain = Array.from({ length: 50_000 }, (_, nth) => ({
      type: "task.created",
      task_id: `t${nth}`,
      task: {
        id: `t${nth}`,
        object: "task",
        status: "queued",
        parent_task_id: `t${nth + 1}`,
      },
    }));
    const before = performance.now();
    expect(checkStream(events)).toEqual([]);
    checkStream(chain);
    // Anything worse than linear takes minutes here.
    expect(performance.now() - before).toBeLessThan(20_000);
  });
});
