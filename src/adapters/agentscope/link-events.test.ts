import fc from "fast-check";
import { expect, it } from "vitest";
import { checkStream } from "../../protocol/check/check.ts";
import type { LogEvent } from "../../protocol/event.ts";
import { TaskTree } from "../../protocol/reduce.ts";
import type { Task } from "../../protocol/task.ts";
import { ForeignTask } from "../foreign-task.ts";
import { AgentScopeReader, type RemoteEvent } from "./link-events.ts";

const id = "task_1";
const clock = { now: () => 0 };
const at = { task_id: id, created_at: 0 };
const task = { id, object: "task", agent_id: "a", session_id: "s" } as const;
const begun: readonly LogEvent[] = [
  {
    ...{ type: "task.created", ...at, sequence_number: 0, task_seq: 0 },
    task: { ...task, status: "queued", created_at: 0 },
  },
  {
    ...{ type: "task.in_progress", ...at, sequence_number: 1, task_seq: 1 },
    task: { ...task, status: "in_progress" },
  },
];

/** Reads a stream from where a reader that has these events must begin. */
function read(before: readonly LogEvent[], stream: readonly RemoteEvent[], result: string) {
  const foreign = new ForeignTask(new TaskTree().apply(before).task(id) as Task, clock);
  const reader = new AgentScopeReader(foreign);
  const from = reader.fromSeq;
  for (const event of stream) if (Number(event.seq) > from) reader.take(event);
  reader.conclude(result);
  foreign.end({ status: "completed" });
  return [...before, ...foreign.drain()];
}

function outputOf(events: readonly LogEvent[]) {
  return new TaskTree().apply(events).task(id)?.output;
}

const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 6 });
const turn = fc.record({
  thinking: fc.array(text, { maxLength: 3 }),
  texts: fc.array(text, { maxLength: 4 }),
  calls: fc.nat({ max: 2 }),
});

/** A run as a server streams it. */
function streamOf(turns: readonly { thinking: string[]; texts: string[]; calls: number }[]) {
  const events: RemoteEvent[] = [];
  const add = (event: RemoteEvent) => events.push({ ...event, seq: events.length + 1 });
  add({ type: "RUN_STARTED" });
  let result = "";
  for (const [index, { thinking, texts, calls }] of turns.entries()) {
    for (const delta of thinking) add({ type: "THINKING_DELTA", text: delta });
    for (const delta of texts) add({ type: "TEXT_DELTA", text: delta });
    result = texts.join("");
    const isLastTurn = index === turns.length - 1;
    const ids = Array.from({ length: isLastTurn ? calls : calls + 1 }, (_, n) => `t${index}-${n}`);
    for (const toolCallId of ids) {
      add({ type: "TOOL_CALL_START", toolCallId, toolName: "look" });
      add({ type: "TOOL_CALL_END", toolCallId, toolInput: '{"a":1}' });
    }
    for (const toolCallId of ids)
      add({ type: "TOOL_RESULT", toolCallId, status: "SUCCESS", text: "seen" });
    if (ids.length > 0) result = "";
  }
  return { events, result };
}

it("continues after a cut at any event with the items of an uncut stream", () => {
  fc.assert(
    fc.property(fc.array(turn, { minLength: 1, maxLength: 3 }), (turns) => {
      const { events, result } = streamOf(turns);
      const whole = read(begun, events, result);
      expect(checkStream(whole)).toEqual([]);
      for (let cut = begun.length; cut < whole.length; cut++) {
        const resumed = read(whole.slice(0, cut), events, result);
        expect(checkStream(resumed)).toEqual([]);
        expect(outputOf(resumed)).toEqual(outputOf(whole));
      }
    }),
    { numRuns: 40 },
  );
});

it("ignores events that make no sense, and ends with the result", () => {
  const strange = [
    { type: "TEXT_DELTA", seq: 1 },
    { type: "TEXT_DELTA", seq: "x", text: 7 },
    { type: "TOOL_RESULT", seq: 3, toolCallId: "t", status: "???", text: "odd" },
    { type: "TOOL_RESULT", seq: 3, toolCallId: "t", status: "ERROR", text: "again" },
    { type: "TOOL_CALL_END", seq: 5, toolCallId: "unknown" },
    { type: "TOOL_CALL_START", seq: 6, toolCallId: "u", toolName: "" },
    { type: "TEXT_DELTA", seq: 7, text: "half \uD83D" },
    { type: "TEXT_DELTA", seq: 8, text: "\uDE00" },
    { type: "SOMETHING_NEW", seq: 9 },
    { type: "TEXT_DELTA", seq: 2, text: "late" },
  ] as const;
  const events = read(begun, strange, "The result.");
  expect(checkStream(events)).toEqual([]);
  const messages = outputOf(events)?.filter(({ type }) => type === "message");
  expect(messages?.at(-1)).toMatchObject({ block_list: [{ text: "The result." }] });
});
