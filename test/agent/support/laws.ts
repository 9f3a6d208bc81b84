import { expect } from "vitest";
import type { Message } from "../../../src/contract/message.ts";
import type { Store, TaskRecord } from "../../../src/contract/store.ts";
import { checkStream } from "../../../src/protocol/check/check.ts";
import type { TaskEvent } from "../../../src/protocol/event.ts";
import { isTerminal } from "../../../src/protocol/task.ts";
import { logTranscriptProblems } from "../../support/log-matches-transcript.ts";

/** The whole log of a root task. */
export async function readLog(store: Store, rootTaskId: string): Promise<readonly TaskEvent[]> {
  const events: TaskEvent[] = [];
  for (;;) {
    const more = await store.read(rootTaskId, events.length - 1, 1_000);
    if (more.length === 0) return events;
    events.push(...more);
  }
}

/** Expects that everything a conversation has left behind obeys the laws that a log and its transcripts can break. */
export async function expectLawful(store: Store, rootTaskId: string, hint = ""): Promise<void> {
  expect({ hint, problems: await lawProblems(store, rootTaskId) }).toEqual({ hint, problems: [] });
}

/** The breaches of "one end", "one result" and "log matches transcript" in the tree of a root task that rests. */
export async function lawProblems(store: Store, rootTaskId: string): Promise<readonly string[]> {
  const events = await readLog(store, rootTaskId);
  const records = await store.tasks({ rootTaskId });
  const partial = records.some(({ status }) => status === "suspended");
  const problems = checkStream(events, { partial }).map(
    ({ index, rule, message }) => `${rule} at ${index}: ${message}`,
  );
  problems.push(...oneEndProblems(events, records));
  for (const record of records) {
    const messages = await store.session(record.sessionId);
    problems.push(...oneResultProblems(record, messages, records));
  }
  problems.push(...(await logTranscriptProblems(store, rootTaskId)));
  return problems;
}

/** "One end", without the code that `checkStream` has for it. */
function oneEndProblems(
  events: readonly TaskEvent[],
  records: readonly TaskRecord[],
): readonly string[] {
  const problems: string[] = [];
  for (const { taskId, status } of records) {
    const own = events.filter((event) => event.task_id === taskId);
    const ends = own.flatMap((event, index) => (isEnd(event) ? [index] : []));
    if (ends.length !== (isTerminal(status) ? 1 : 0)) {
      problems.push(`one end: ${taskId} is ${status} and has ${ends.length} terminal events`);
    }
    if (ends.length > 0 && ends[0] !== own.length - 1) {
      problems.push(`one end: ${own.at(-1)?.type} comes after the end of ${taskId}`);
    }
    const open = new Set<number>();
    const texts = new Map<string, string>();
    for (const event of own) {
      if (event.type === "task.output_item.added") open.add(event.output_index);
      else if (event.type === "task.output_item.done") open.delete(event.output_index);
      else if (event.type === "task.output_item.discarded") open.delete(event.output_index);
      else if (event.type === "task.text.delta") {
        const place = `${event.output_index} ${event.block_index}`;
        texts.set(place, (texts.get(place) ?? "") + event.delta);
      } else if (event.type === "task.text.done") {
        const place = `${event.output_index} ${event.block_index}`;
        const told = texts.get(place);
        if (told !== undefined && told !== event.item.text) {
          problems.push(`one end: the deltas of ${taskId} at ${place} are not its text`);
        }
      }
    }
    if (isTerminal(status) && open.size > 0) {
      problems.push(`one end: ${taskId} has ended with ${open.size} items open`);
    }
  }
  return problems;
}

/** "One result": every call has one result, or is what its task waits for. */
function oneResultProblems(
  record: TaskRecord,
  messages: readonly Message[],
  records: readonly TaskRecord[],
): readonly string[] {
  const own = messages.filter((message) => message.metadata?.taskId === record.taskId);
  const blocks = own.flatMap((message) => message.content);
  return blocks.flatMap((call) => {
    if (call.type !== "tool_use") return [];
    const results = blocks.filter((block) => block.type === "tool_result" && block.id === call.id);
    if (results.length === 1) return [];
    const problem = `one result: ${call.name} ${call.id} has ${results.length} results`;
    if (results.length > 1 || record.status !== "suspended") return [problem];
    const answers = new Set(blocks.flatMap((b) => (b.type === "answer" ? [b.approvalId] : [])));
    const waits = blocks.some(
      (block) =>
        block.type === "suspension" &&
        (block.callId === call.id || block.kind === "stop") &&
        !answers.has(block.approvalId),
    );
    const child = records.find(({ taskId }) => taskId === call.id);
    return waits || child?.status === "suspended" ? [] : [`${problem} and waits for nobody`];
  });
}

function isEnd(event: TaskEvent): boolean {
  return (
    event.type === "task.completed" ||
    event.type === "task.failed" ||
    event.type === "task.cancelled" ||
    event.type === "task.incomplete"
  );
}
