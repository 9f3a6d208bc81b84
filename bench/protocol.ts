// Cost per event of the fold, beside JSON.parse of the same events. All figures of a row come from one run,
// interleaved, and the claims are ratios: the largest log over the smallest.
import type { LogEvent } from "../src/protocol/index.ts";
import { emptyTree, reduce, TaskTree } from "../src/protocol/reduce.ts";

const sizes = [1_000, 10_000, 100_000] as const;
const rounds = 7;
const limits = { TaskTree: 1.5, reduceOne: 1.5, reduceMany: 4 };

type Draft = Omit<LogEvent, "sequence_number"> & { sequence_number?: number };

/** A log of about `size` events: `messages` of them over `tasks`, all growing at the same time. */
function makeLog(size: number, messages: number, tasks: number): LogEvent[] {
  const perMessage = Math.max(5, Math.floor(size / Math.max(messages, tasks)));
  const perTask = Math.max(1, Math.floor(Math.min(messages, size / perMessage) / tasks));
  const queues = Array.from({ length: tasks }, (_, task) => taskEvents(task, perTask, perMessage));
  const log: LogEvent[] = [];
  for (let row = 0; queues.some((queue) => row < queue.length); row++) {
    for (const queue of queues) {
      const event = queue[row];
      if (event) log.push({ ...event, sequence_number: log.length } as LogEvent);
    }
  }
  return log;
}

function taskEvents(task: number, messages: number, perMessage: number): Draft[] {
  const id = task === 0 ? "task_root" : `call_${task}`;
  const events: Draft[] = [];
  const source = { agentId: "worker", depth: 1, path: "sess/worker" };
  const push = (event: Record<string, unknown>) =>
    events.push({
      ...event,
      task_id: id,
      task_seq: events.length,
      created_at: 1,
      ...(task > 0 && { source }),
    } as unknown as Draft);
  const parent = { parent_task_id: "task_root", parent_call_id: id, parent_item_id: `fco_${task}` };
  push({
    type: "task.created",
    task: { id, object: "task", status: "queued", agent_id: "worker", ...(task > 0 && parent) },
  });
  for (let index = 0; index < messages; index++) {
    const at = { item_id: `msg_${index}`, output_index: index };
    const item = { type: "message", id: at.item_id, role: "assistant" };
    const deltas = perMessage - 4;
    const text = "some words ".repeat(deltas);
    push({
      type: "task.output_item.added",
      output_index: index,
      item: { ...item, status: "in_progress", block_list: [] },
    });
    push({ type: "task.text.added", ...at, block_index: 0, item: { type: "text", text: "" } });
    for (let delta = 0; delta < deltas; delta++) {
      push({ type: "task.text.delta", ...at, block_index: 0, delta: "some words " });
    }
    push({ type: "task.text.done", ...at, block_index: 0, item: { type: "text", text } });
    push({
      type: "task.output_item.done",
      output_index: index,
      item: { ...item, status: "completed" },
    });
  }
  return events;
}

interface Row {
  readonly events: number;
  readonly reduce: number;
  readonly TaskTree: number;
  readonly parse: number;
}

/** The best of several interleaved rounds, in microseconds per event; small logs are folded often enough to be seen. */
function measure(log: readonly LogEvent[]): Row {
  const lines = log.map((event) => JSON.stringify(event));
  const repeat = Math.max(1, Math.floor(100_000 / log.length));
  const work = {
    reduce() {
      let tree = emptyTree();
      for (const event of log) tree = reduce(tree, event);
    },
    TaskTree() {
      const tree = new TaskTree();
      for (const event of log) tree.apply(event);
    },
    parse() {
      for (const line of lines) JSON.parse(line);
    },
  };
  const best = { reduce: Infinity, TaskTree: Infinity, parse: Infinity };
  for (let round = 0; round < rounds; round++) {
    for (const name of ["reduce", "TaskTree", "parse"] as const) {
      const start = performance.now();
      for (let turn = 0; turn < repeat; turn++) work[name]();
      const each = ((performance.now() - start) * 1_000) / (repeat * log.length);
      best[name] = Math.min(best[name], each);
    }
  }
  return { events: log.length, ...best };
}

const cases = [
  { name: "1 message, 1 task", messages: 1, tasks: 1, limit: limits.reduceOne },
  { name: "2,000 messages, 1 task", messages: 2_000, tasks: 1, limit: limits.reduceMany },
  { name: "1 message each, 600 tasks", messages: 600, tasks: 600, limit: limits.reduceOne },
  { name: "2,000 messages, 600 tasks", messages: 2_000, tasks: 600, limit: limits.reduceMany },
];

measure(makeLog(10_000, 10, 1)); // let the engine settle before the first row
console.log("microseconds per event (best of", rounds, "rounds, interleaved)\n");
let held = true;
for (const { name, messages, tasks, limit } of cases) {
  console.log(name);
  const rows = sizes.map((size) => measure(makeLog(size, messages, tasks)));
  for (const row of rows) {
    const perSecond = (each: number) => `${Math.round(1_000 / each).toLocaleString("en")} k/s`;
    console.log(
      `  ${String(row.events).padStart(7)} events` +
        `   reduce ${row.reduce.toFixed(2)} (${perSecond(row.reduce)})` +
        `   TaskTree ${row.TaskTree.toFixed(2)} (${perSecond(row.TaskTree)})` +
        `   JSON.parse ${row.parse.toFixed(2)}`,
    );
  }
  const [first, last] = [rows[0] as Row, rows[rows.length - 1] as Row];
  for (const [what, ratio, most] of [
    ["reduce", last.reduce / first.reduce, limit],
    ["TaskTree", last.TaskTree / first.TaskTree, limits.TaskTree],
  ] as const) {
    const ok = ratio <= most;
    held &&= ok;
    console.log(
      `  ${what}: largest over smallest ${ratio.toFixed(2)} (at most ${most}) ${ok ? "ok" : "TOO MUCH"}`,
    );
  }
  console.log();
}
process.exitCode = held ? 0 : 1;
