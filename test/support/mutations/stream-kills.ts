import type { CheckRule } from "../../../src/protocol/check/check.ts";
import {
  both,
  type Change,
  canonical,
  each,
  edit,
  type Frame,
  lateJoin,
  lose,
  on,
  rejoined,
  rejoinedNewer,
  rejoinedOlder,
  repeat,
} from "./edit-log.ts";
import type { Kills } from "./kills.ts";

const station = {
  agentId: "weather-station",
  depth: 2,
  path: "sess-paris/researcher/weather-station",
};
const isOfStation = ({ task_id }: Frame) => task_id === "call_station";

/** Changes the items of a snapshot. */
function editOutput(id: string, at: number, fields: object): Change {
  return edit("snapshot", id, ({ task }) => {
    const { output } = task as { readonly output: readonly object[] };
    return { task: { output: output.with(at, { ...output[at], ...fields }) } };
  });
}

type StreamRule = Extract<
  CheckRule,
  | "I1"
  | "shape"
  | "word"
  | "sequence"
  | "task_seq"
  | "duplicate"
  | "I15"
  | "L6"
  | "frame"
  | "snapshot"
>;

/** Mistakes of the envelope, of sources, of the transport and of snapshots. */
export const streamKills: Kills<StreamRule> = {
  I1: {
    "an event without a type": edit("usage", "call_poster", { type: undefined }),
    "an event without a task": edit("usage", "call_poster", { task_id: undefined }),
    "a task id that is a number": edit("usage", "call_poster", { task_id: 7 }),
  },
  shape: {
    "a delta that is a number": edit("text.delta", "msg_start", { delta: 7 }),
    "an event without a time": edit("usage", "call_poster", { created_at: undefined }),
    "a negative index": edit("text.done", "msg_w", { block_index: -1 }),
    "a usage without a total": edit("usage", "call_poster", { usage: { total_tokens: undefined } }),
    "a source without a path": edit("in_progress", "call_station", { source: { path: undefined } }),
    "a depth of 0": edit("in_progress", "call_research", { source: { depth: 0 } }),
    "a child without an agent": edit("child.started", "call_research", { agent: undefined }),
    "a snapshot without its cursor": on(
      lateJoin,
      edit("snapshot", "task_lead", { through_task_seq: undefined }),
    ),
  },
  word: {
    "an unknown reason to suspend": edit("suspended", "call_station", { reason: "tired" }),
    "an unknown reason to discard": edit("output_item.discarded", "msg_broken", { reason: "oops" }),
    "an unknown reason to end early": edit("incomplete", "call_archive", {
      task: { incomplete_details: { reason: "bored" } },
    }),
    "an unknown reason of a reply": edit("completed", "call_station", {
      task: { generate_reason: "done" },
    }),
    "an unknown mode": edit("child.started", "call_archive", { mode: "later" }),
    "an unknown status": edit("output_item.done", "msg_w", { item: { status: "ready" } }),
    "an unknown decision": edit("approval.resolved", "apr_measure", { decision: "maybe" }),
    "an unknown kind of approval": edit("approval.requested", "apr_measure", { kind: "wish" }),
    "an unknown end of a child": edit("child.finished", "call_courier", { status: "gone" }),
    "an unknown reason to close the stream": on(
      lateJoin,
      edit("stream.closed", "terminal", { reason: "tired" }),
    ),
  },
  sequence: {
    "a lost event": lose("task.usage", "call_poster"),
    "two events in the wrong order": (events) => {
      const [first, second] = [events[3] as Frame, events[4] as Frame];
      return events.toSpliced(3, 2, second, first);
    },
    "a number that skips": edit("incomplete", "call_archive", { sequence_number: 999 }),
    "a log that begins at 1": each(
      () => true,
      ({ sequence_number }) => ({ sequence_number: Number(sequence_number) + 1 }),
    ),
    "an event before the oldest one": on(rejoined, (events) =>
      events.with(0, { ...(events[0] as Frame), oldest_sequence_number: 5 }),
    ),
  },
  task_seq: {
    "an event lost within a task": lose("text.delta", "msg_start"),
    "a number for two events": edit("usage", "call_poster", ({ task_seq }) => ({
      task_seq: Number(task_seq) - 1,
    })),
    "an event sent again with another text": repeat("text.delta", "msg_start", {
      delta: "He will",
    }),
    "an end sent again with another usage": repeat("completed", "call_station", {
      task: { usage: { input_tokens: 31, output_tokens: 12, total_tokens: 43 } },
    }),
    "an approval sent again with another decision": repeat("approval.resolved", "apr_measure", {
      decision: "deny",
    }),
    "an event changed on a reconnect": on(rejoinedOlder, (events) => {
      const at = events.findLastIndex(({ type }) => type === "task.approval.requested");
      return events.with(at, { ...(events[at] as Frame), message: "May I?" });
    }),
  },
  duplicate: {
    "an event twice": repeat("text.delta", "msg_start"),
    "an end twice": repeat("completed", "call_station"),
    "an item opened twice": repeat("output_item.added", "msg_w"),
  },
  I15: {
    "a child's event without a source": edit("in_progress", "call_station", { source: undefined }),
    "a child's event with null as its source": edit("usage", "call_station", { source: null }),
    "a root's event with a source": edit("usage", "task_lead", { source: station }),
    "a depth that the path does not have": edit("usage", "call_station", { source: { depth: 1 } }),
    "a path that ends in another agent": edit("created", "call_station", {
      source: { agentId: "researcher" },
    }),
    "the task of another source": edit("created", "call_station", {
      source: { taskId: "call_research" },
    }),
    "a task.created with a short source": edit("created", "call_station", {
      source: { agentKey: undefined, sessionId: undefined, parentSessionId: undefined },
    }),
    "a depth too high on every event": each(isOfStation, () => ({ source: { depth: 3 } })),
    "a snapshot of a child without a source": on(
      lateJoin,
      edit("snapshot", "call_poster", { source: undefined }),
    ),
  },
  L6: {
    "a path that changes": edit("usage", "call_station", {
      source: { path: "sess-paris/courier/weather-station" },
    }),
    "an agent that changes": edit("usage", "call_station", {
      source: { agentId: "station", path: "sess-paris/researcher/station" },
    }),
    "a path that the parent does not have": each(isOfStation, () => ({
      source: { path: "sess-paris/courier/weather-station" },
    })),
    "a path of another root": each(isOfStation, () => ({
      source: { path: "sess-rome/researcher/weather-station" },
    })),
    "a child of the root below another child": each(
      ({ task_id }) => task_id === "call_courier",
      () => ({ source: { depth: 2, path: "sess-paris/researcher/courier" } }),
    ),
    "an agent that the task does not have": edit("created", "call_station", {
      task: { agent_id: "thermometer" },
    }),
    "a session that the task does not have": edit("created", "call_station", {
      source: { sessionId: "sub-other" },
    }),
    "a task with another session than its source": edit("created", "call_courier", {
      task: { session_id: "sub-other" },
    }),
    "the session of a task that is not the parent": edit("created", "call_station", {
      source: { parentSessionId: "sess-paris" },
    }),
    "another parent's session than the siblings": edit("created", "call_poster", {
      source: { parentSessionId: "sess-rome" },
    }),
    "another agent than the parent started": edit("child.started", "call_station", {
      agent: { id: "thermometer" },
    }),
    "another agent's key than the parent started": edit("child.started", "call_station", {
      agent: { key: "agent:weather-station:0" },
    }),
    "another agent's name than the parent started": edit("child.started", "call_station", {
      agent: { name: "Thermometer" },
    }),
    "a later source with another session": edit("usage", "call_station", {
      source: { sessionId: "sub-other" },
    }),
    "a later source with another key": edit("usage", "call_station", {
      source: { agentKey: "agent:other:1" },
    }),
    "a snapshot with another agent": on(
      lateJoin,
      edit("snapshot", "call_poster", { task: { agent_id: "painter" } }),
    ),
    "a snapshot with another path than its parent": on(
      lateJoin,
      each(
        ({ type, task_id }) => type === "task.snapshot" && task_id === "call_poster",
        () => ({ source: { path: "sess-rome/illustrator" } }),
      ),
    ),
  },
  frame: {
    "another version": on(
      lateJoin,
      edit("stream.opened", "task_lead", { protocol: "rivulet.task-stream/2" }),
    ),
    "another protocol": on(lateJoin, edit("stream.opened", "task_lead", { protocol: "ag-ui" })),
    "another root than the snapshots": on(
      lateJoin,
      edit("stream.opened", "task_lead", { root_task_id: "task_other" }),
    ),
    "a child as the root": on(
      rejoined,
      edit("stream.opened", "task_lead", { root_task_id: "call_research" }),
    ),
    "another root at the reconnect": on(rejoined, (events) => {
      const at = events.findLastIndex(({ type }) => type === "stream.opened");
      return events.with(at, { ...(events[at] as Frame), root_task_id: "task_other" });
    }),
    "an end of the log before its last event": on(
      lateJoin,
      edit("stream.closed", "terminal", { last_sequence_number: canonical.length - 10 }),
    ),
    "a final stream that lacks events": on(
      lateJoin,
      edit("stream.closed", "terminal", { last_sequence_number: 999 }),
    ),
    "a heartbeat that knows fewer events": on(lateJoin, (events) => {
      const at = events.findIndex(({ type }) => type === "stream.heartbeat");
      return events.with(at, { ...(events[at] as Frame), last_sequence_number: 100 });
    }),
    "a range that ends before it begins": on(
      lateJoin,
      edit("stream.opened", "task_lead", { oldest_sequence_number: canonical.length + 9 }),
    ),
    "a final close that can be resumed": on(
      lateJoin,
      edit("stream.closed", "terminal", { reason: "slow_consumer" }),
    ),
    "a terminal close that is not final": on(
      lateJoin,
      edit("stream.closed", "terminal", { final: false }),
    ),
    "a final close before the last end": on(lateJoin, (events) => [
      ...events.slice(0, -2),
      { ...(events.at(-1) as Frame), last_sequence_number: canonical.length - 2 },
    ]),
    "an event after the close": on(lateJoin, (events) => [
      ...events.slice(0, -2),
      events.at(-1) as Frame,
      events.at(-2) as Frame,
    ]),
  },
  snapshot: {
    "another status than the events": on(
      rejoined,
      edit("snapshot", "call_research", { task: { status: "queued" } }),
    ),
    "an end that the events do not have": on(
      rejoined,
      edit("snapshot", "call_archive", { task: { status: "completed", output: [] } }),
    ),
    "another text than the events": on(
      rejoined,
      editOutput("task_lead", 2, { block_list: [{ type: "text", text: "No." }] }),
    ),
    "an item less than the events": on(
      rejoined,
      edit("snapshot", "task_lead", ({ task }) => ({
        task: { output: (task as { output: readonly object[] }).output.slice(0, -1) },
      })),
    ),
    "another call than the events": on(rejoined, editOutput("task_lead", 3, { name: "rm" })),
    "another usage than the events": on(
      rejoined,
      edit("snapshot", "call_station", { task: { usage: { total_tokens: 50 } } }),
    ),
    "another mode than the events": on(
      rejoined,
      edit("snapshot", "call_research", { task: { mode: "background" } }),
    ),
    "another title than the events": on(
      rejoined,
      edit("snapshot", "task_lead", { task: { metadata: { title: "Rome" } } }),
    ),
    "an approval without its decision": on(
      rejoined,
      edit("snapshot", "call_station", ({ task }) => {
        const { approvals } = task as { approvals: readonly object[] };
        return { task: { approvals: approvals.map((one) => ({ ...one, decision: undefined })) } };
      }),
    ),
    "no approval at all": on(
      rejoined,
      edit("snapshot", "call_station", { task: { approvals: undefined } }),
    ),
    "another parent than the events": on(
      rejoined,
      edit("snapshot", "call_archive", { task: { agent_id: "lead" } }),
    ),
    "a cursor of the task that is too low": on(
      rejoined,
      edit("snapshot", "call_research", ({ through_task_seq }) => ({
        through_task_seq: Number(through_task_seq) - 1,
      })),
    ),
    "a cursor of the task that is too high": on(
      rejoined,
      edit("snapshot", "call_research", ({ through_task_seq }) => ({
        through_task_seq: Number(through_task_seq) + 1,
      })),
    ),
    "snapshots of two moments": on(
      lateJoin,
      edit("snapshot", "call_poster", ({ through_sequence_number: through }) => ({
        through_sequence_number: Number(through) - 1,
      })),
    ),
    "two different snapshots of one moment": on(
      lateJoin,
      repeat("snapshot", "call_poster", { task: { metadata: { a: 1 } } }),
    ),
    "two snapshots of one moment with other texts": on(
      lateJoin,
      both(repeat("snapshot", "task_lead"), editOutput("task_lead", 2, { block_list: [] })),
    ),
    "an older snapshot that has ended": on(
      rejoinedOlder,
      edit("snapshot", "call_research", { task: { status: "completed", output: [] } }),
    ),
    "an older snapshot with another item": on(
      rejoinedOlder,
      editOutput("call_research", 0, { id: "rs_other" }),
    ),
    "an older snapshot with another text": on(
      rejoinedOlder,
      editOutput("call_research", 0, { summary: [{ type: "text", text: "No." }] }),
    ),
    "an older snapshot with a call that has other arguments": on(
      rejoinedOlder,
      editOutput("call_research", 1, { arguments: "{}" }),
    ),
    "an older snapshot with a higher usage": on(
      rejoinedOlder,
      edit("snapshot", "call_research", {
        task: { usage: { input_tokens: 900, output_tokens: 1, total_tokens: 901 } },
      }),
    ),
    "an older snapshot with another session": on(
      rejoinedOlder,
      edit("snapshot", "call_research", { task: { session_id: "sub-other" } }),
    ),
    "an older snapshot with an unknown approval": on(
      rejoinedOlder,
      edit("snapshot", "call_research", {
        task: { approvals: [{ approval_id: "apr_other", kind: "tool_call" }] },
      }),
    ),
    "a newer snapshot that forgets an item": on(
      rejoinedNewer,
      edit("snapshot", "call_research", ({ task }) => ({
        task: { output: (task as { output: readonly object[] }).output.slice(1) },
      })),
    ),
    "a newer snapshot that changes a finished item": on(
      rejoinedNewer,
      editOutput("call_research", 1, { arguments: "{}" }),
    ),
    "a newer snapshot that opens a finished item": on(
      rejoinedNewer,
      editOutput("call_research", 0, { status: "in_progress" }),
    ),
    "a newer snapshot that starts an ended task": on(
      rejoinedNewer,
      edit("snapshot", "call_courier", ({ through_task_seq: seq }) => ({
        through_task_seq: Number(seq) + 1,
        task: { status: "in_progress" },
      })),
    ),
    "a newer snapshot with a lower usage": on(
      rejoinedNewer,
      edit("snapshot", "call_station", { task: { usage: { total_tokens: 1 } } }),
    ),
  },
};
