import { type Artifact, type StreamResponse, type Task, TaskState } from "@a2a-js/sdk";
import fc from "fast-check";
import { expect, it } from "vitest";
import { checkStream } from "../../protocol/check/check.ts";
import type { LogEvent } from "../../protocol/event.ts";
import { TaskTree } from "../../protocol/reduce.ts";
import type { Task as KnownTask } from "../../protocol/task.ts";
import { ForeignTask } from "../foreign-task.ts";
import { A2aReader } from "./link-events.ts";

const id = "task_1";
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

function artifact(artifactId: string, text: string): Artifact {
  const content = { $case: "text", value: text } as const;
  const parts = [{ content, metadata: undefined, filename: "", mediaType: "" }];
  return { artifactId, name: "", description: "", parts, metadata: undefined, extensions: [] };
}

function statusOf(state: TaskState) {
  return { state, message: undefined, timestamp: undefined };
}

/** The updates of a run, and the task after each of them. */
function runOf(texts: readonly (readonly [artifact: number, text: string])[]) {
  const whole = new Map<string, string>();
  const base = { taskId: "r", contextId: "c", metadata: undefined };
  const tasks: Task[] = [];
  const updates: StreamResponse[] = [];
  const add = (update: StreamResponse, state: TaskState) => {
    updates.push(update);
    const artifacts = [...whole].map(([name, text]) => artifact(name, text));
    const place = { id: "r", contextId: "c", history: [], metadata: undefined };
    tasks.push({ ...place, artifacts, status: statusOf(state) });
  };
  for (const [number, text] of texts) {
    const name = `a${number}`;
    const append = whole.has(name);
    whole.set(name, (whole.get(name) ?? "") + text);
    const value = { ...base, artifact: artifact(name, text), append, lastChunk: false };
    add({ payload: { $case: "artifactUpdate", value } }, TaskState.TASK_STATE_WORKING);
  }
  const status = statusOf(TaskState.TASK_STATE_COMPLETED);
  const value = { ...base, status };
  add({ payload: { $case: "statusUpdate", value } }, TaskState.TASK_STATE_COMPLETED);
  return { updates, tasks };
}

/** Adds updates to the events that were read before. */
function read(before: readonly LogEvent[], updates: readonly StreamResponse[]) {
  const known = new TaskTree().apply(before).task(id) as KnownTask;
  const foreign = new ForeignTask(known, { now: () => 0 });
  const reader = new A2aReader(foreign, id, { answerOf: () => "", wantsValue: false });
  for (const update of updates) reader.take(update);
  return [...before, ...foreign.drain()];
}

function textsOf(events: readonly LogEvent[]) {
  const { output = [] } = new TaskTree().apply(events).task(id) ?? {};
  return output.flatMap((item) => (item.type === "message" ? item.block_list : []));
}

it("continues from a snapshot after a cut at any event, with the text of an uncut stream", () => {
  const step = fc.tuple(
    fc.nat({ max: 2 }),
    fc.string({ unit: "grapheme", minLength: 1, maxLength: 5 }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 6 }), fc.nat(), (texts, ahead) => {
      const { updates, tasks } = runOf(texts);
      const whole = read(begun, updates);
      expect(checkStream(whole)).toEqual([]);
      for (let cut = begun.length; cut < whole.length; cut++) {
        const before = whole.slice(0, cut);
        // The server may have gone on since the cut.
        const shown = updates.findIndex((_, n) => read(begun, updates.slice(0, n)).length >= cut);
        const first = Math.max(0, shown < 0 ? updates.length - 1 : shown);
        const seen = Math.min(updates.length - 1, first + (ahead % 3));
        const value = tasks[seen] as Task;
        const snapshot: StreamResponse = { payload: { $case: "task", value } };
        const resumed = read(before, [snapshot, ...updates.slice(seen + 1)]);
        expect(checkStream(resumed)).toEqual([]);
        expect(textsOf(resumed)).toEqual(textsOf(whole));
      }
    }),
    { numRuns: 60 },
  );
});
