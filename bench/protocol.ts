// Cost per event of the fold, beside JSON.parse of the same events. All figures of a row come from one run,
// interleaved, and the claims are ratios: the largest log over the smallest.

import { emptyTree, reduce, TaskTree } from "../src/protocol/reduce.ts";
import type { LogEvent } from "../src/protocol.ts";

const sizes = [1_000, 10_000, 100_000] as const;
const rounds = 7;
/** A plain event that costs less, in microseconds of CPU time, counts as much: noise would decide the ratio. */
const leastCost = 0.5;
const limits = { TaskTree: 1.5, reduceOne: 1.5, reduceMany: 4, trouble: 2 };

type Draft = Omit<LogEvent, "sequence_number"> & { sequence_number?: number };

/**
 * A log of `size` events: `messages` over `tasks`, all growing at the same time. What does not fit is cut off, so a
 * small log may hold only the beginning of its messages.
 */
function makeLog(size: number, messages: number, tasks: number): LogEvent[] {
  const perMessage = Math.max(5, Math.ceil(size / Math.max(messages, tasks)));
  const queues = Array.from({ length: tasks }, (_, task) =>
    taskEvents(task, Math.ceil((messages - task) / tasks), perMessage),
  );
  const log: LogEvent[] = [];
  for (let row = 0; log.length < size && queues.some((queue) => row < queue.length); row++) {
    for (const queue of queues) {
      const event = queue[row];
      if (event) log.push({ ...event, sequence_number: log.length } as LogEvent);
    }
  }
  return log.slice(0, size);
}

/** A log of a parent whose calls each start a child: both sides tell of it, and the child says a few words. */
function makeFamily(children: number): LogEvent[] {
  const log: LogEvent[] = [];
  const counts = new Map<string, number>();
  const push = (task_id: string, event: Record<string, unknown>) => {
    const task_seq = counts.get(task_id) ?? 0;
    counts.set(task_id, task_seq + 1);
    const source = { agentId: "worker", depth: 1, path: "sess/worker" };
    const from = task_id === "task_root" ? {} : { source };
    log.push({
      ...event,
      ...from,
      task_id,
      task_seq,
      sequence_number: log.length,
      created_at: 1,
    } as unknown as LogEvent);
  };
  push("task_root", created("task_root"));
  // Ten children at a time: they begin together, speak in turn and end together.
  for (let first = 0; first < children; first += 10) {
    const calls = Array.from({ length: 10 }, (_, at) => first + at);
    const each = (tell: (id: string, index: number, on: Record<string, unknown>) => void) => {
      for (const index of calls) {
        const on = { call_id: `call_${index}`, item_id: `fco_${index}`, output_index: index };
        tell(`call_${index}`, index, { child_task_id: `call_${index}`, ...on });
      }
    };
    each((id, index, on) => {
      const item = { type: "tool_result", id: on.item_id, call_id: id, block_list: [] };
      push("task_root", { type: "task.output_item.added", output_index: index, item });
      push("task_root", {
        type: "task.child.started",
        ...on,
        mode: "sync",
        agent: { id: "worker", key: `agent:worker:${index}` },
      });
      push(id, created(id, { parent_task_id: "task_root", parent_call_id: id }));
    });
    const words = taskEvents(0, 1, 12).slice(1);
    for (const word of words) each((id) => push(id, word));
    each((id, index, on) => {
      push(id, { type: "task.completed", task: { id, object: "task", status: "completed" } });
      push("task_root", { type: "task.child.finished", ...on, status: "completed" });
      const item = { type: "tool_result", id: on.item_id, call_id: id, status: "completed" };
      push("task_root", { type: "task.output_item.done", output_index: index, item });
    });
  }
  return log;
}

function created(id: string, more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    type: "task.created",
    task: { id, object: "task", status: "queued", agent_id: "worker", ...more },
  };
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
  push(created(id, task > 0 ? parent : {}));
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

/** An event of a log; the numbers are those of its place in it. */
const event = (task_id: string, task_seq: number, sequence_number: number, body: object) =>
  ({ task_id, task_seq, sequence_number, created_at: 1, ...body }) as unknown as LogEvent;

/**
 * Logs that a reader must not slow down on, each beside a plain log of the same events: the same number of them, without
 * the trouble.
 */
const troubles: Readonly<
  Record<string, (size: number) => Readonly<Record<"plain" | "hard", LogEvent[]>>>
> = {
  "distinct task.custom names"(size) {
    const log = (name: (at: number) => string) => [
      event("r", 0, 0, created("r")),
      ...Array.from({ length: size }, (_, at) =>
        event("r", at + 1, at + 1, { type: "task.custom", name: name(at), value: at }),
      ),
    ];
    return { plain: log(() => "app"), hard: log((at) => `app.${at}`) };
  },
  "tasks with a gap"(size) {
    const log = (skip: number) =>
      Array.from({ length: size }, (_, at) => {
        const id = `t${at}`;
        const body = { type: "task.resumed", reason: "x" };
        const first = 3 * at + (skip > 0 ? 1 : 0);
        return [event(id, 0, 3 * at, created(id)), event(id, 1 + skip, first + 1, body)];
      }).flat();
    return { plain: log(0), hard: log(1) };
  },
  "children before their parent"(size) {
    const links = (id: string) => ({ parent_task_id: "r", parent_call_id: id });
    const children = Array.from({ length: size }, (_, at) => (number: number) => {
      const id = `call_${(at * 7_919) % size}`;
      return event(id, 0, number, created(id, links(id)));
    });
    const parent = Array.from({ length: size }, (_, at) => (number: number) => {
      const item = { type: "tool_result", id: `fco_${at}`, call_id: `call_${at}`, block_list: [] };
      const body = { type: "task.output_item.added", output_index: at, item };
      return event("r", at + 1, number, body);
    });
    const root = (number: number) => event("r", 0, number, created("r"));
    const log = (makers: readonly ((number: number) => LogEvent)[]) =>
      makers.map((make, at) => make(at));
    return {
      plain: log([root, ...parent, ...children]),
      hard: log([...children, root, ...parent]),
    };
  },
  "parked events"(size) {
    const plain = makeLog(size, 1, 1);
    return { plain, hard: [...plain.slice(1), plain[0] as LogEvent] };
  },
  "children of one task"(size) {
    const log = (parentOf: (at: number) => number) => {
      const numbers = new Map<string, number>();
      const events: LogEvent[] = [];
      const push = (id: string, body: object) => {
        const seq = numbers.get(id) ?? 0;
        numbers.set(id, seq + 1);
        events.push(event(id, seq, events.length, body));
      };
      for (let at = 0; at < size; at++) {
        const [parent, id] = [`p${parentOf(at)}`, `call_${at}`];
        if (!numbers.has(parent)) push(parent, created(parent));
        const output_index =
          at % 100 && parentOf(size) > 0 ? at % 100 : parentOf(size) > 0 ? 0 : at;
        const on = { call_id: id, item_id: `fco_${at}`, output_index };
        const item = { type: "tool_result", id: on.item_id, call_id: id, block_list: [] };
        push(parent, { type: "task.output_item.added", output_index, item });
        const agent = { id: "worker", key: "k" };
        push(parent, { type: "task.child.started", child_task_id: id, ...on, mode: "sync", agent });
        push(id, created(id, { parent_task_id: parent, parent_call_id: id }));
      }
      return events;
    };
    return { plain: log((at) => Math.floor(at / 100)), hard: log(() => 0) };
  },
};

interface Row {
  readonly events: number;
  readonly reduce: number;
  readonly TaskTree: number;
  readonly parse: number;
}

/** How many times more an event of the hard log costs than one of the plain log. */
function compare(
  logs: Readonly<Record<"plain" | "hard", LogEvent[]>>,
): Readonly<Record<"reduce" | "TaskTree", number>> {
  const best = {
    plain: { reduce: Infinity, TaskTree: Infinity },
    hard: { reduce: Infinity, TaskTree: Infinity },
  };
  const repeat = Math.max(1, Math.floor(50_000 / logs.plain.length));
  const work = {
    reduce(log: readonly LogEvent[]) {
      let tree = emptyTree();
      for (const event of log) tree = reduce(tree, event);
      return tree;
    },
    TaskTree: (log: readonly LogEvent[]) => {
      const tree = new TaskTree();
      for (const event of log) tree.apply(event);
      return tree.tree;
    },
  };
  for (let round = 0; round < 3; round++) {
    for (const fold of ["reduce", "TaskTree"] as const) {
      for (const name of ["plain", "hard"] as const) {
        const start = process.threadCpuUsage();
        for (let turn = 0; turn < repeat; turn++) {
          if (work[fold](logs[name]).ignored > 0) throw new Error("The fold ignored an event.");
        }
        const { user, system } = process.threadCpuUsage(start);
        const each = (user + system) / (repeat * logs[name].length);
        best[name][fold] = Math.min(best[name][fold], each);
      }
    }
  }
  const ratio = (fold: "reduce" | "TaskTree") =>
    best.hard[fold] / Math.max(best.plain[fold], leastCost);
  return { reduce: ratio("reduce"), TaskTree: ratio("TaskTree") };
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

/** How many of a log's events do what, in words: openings cost more than deltas, and a small log has more of them. */
function describe(log: readonly LogEvent[]): string {
  const share = (type: string) => log.filter((event) => event.type === type).length;
  const tasks = share("task.created");
  const messages = log.filter(
    (event) => event.type === "task.output_item.added" && event.item.type === "message",
  ).length;
  const deltas = Math.round((share("task.text.delta") * 100) / log.length);
  return `${messages} messages, ${tasks} tasks, ${deltas} % deltas`;
}

const logs = (messages: number, tasks: number) =>
  sizes.map((size) => makeLog(size, messages, tasks));
const cases = [
  { name: "1 message, 1 task", logs: logs(1, 1), limit: limits.reduceOne },
  { name: "2,000 messages, 1 task", logs: logs(2_000, 1), limit: limits.reduceMany },
  { name: "1 message each, 600 tasks", logs: logs(600, 600), limit: limits.reduceOne },
  { name: "2,000 messages, 600 tasks", logs: logs(2_000, 600), limit: limits.reduceMany },
  {
    name: "a child per call, 300 and 3,000 children",
    logs: [300, 3_000].map(makeFamily),
    limit: limits.reduceMany,
  },
];

measure(makeLog(10_000, 10, 1)); // let the engine settle before the first row
console.log("microseconds per event (best of", rounds, "rounds, interleaved)");
console.log(
  "A log of 1,000 events has no room for 2,000 messages or for the messages of 600 tasks: it holds the beginning of\n" +
    "each. Beginnings cost more than deltas, so that a ratio over such a row looks better than it is. The second ratio\n" +
    "begins with the first log that holds everything; its share of deltas is still smaller. Only the first and the last\n" +
    "row have the same mix in all their logs.\n",
);
let held = true;
for (const { name, logs, limit } of cases) {
  console.log(name);
  const rows = logs.map(measure);
  for (const [at, row] of rows.entries()) {
    const perSecond = (each: number) => `${Math.round(1_000 / each).toLocaleString("en")} k/s`;
    console.log(
      `  ${String(row.events).padStart(7)} events` +
        `   reduce ${row.reduce.toFixed(2)} (${perSecond(row.reduce)})` +
        `   TaskTree ${row.TaskTree.toFixed(2)} (${perSecond(row.TaskTree)})` +
        `   JSON.parse ${row.parse.toFixed(2)}   (${describe(logs[at] as LogEvent[])})`,
    );
  }
  const [first, second, last] = [rows[0] as Row, rows[1] as Row, rows[rows.length - 1] as Row];
  for (const [what, one, other, most] of [
    ["reduce", last.reduce / first.reduce, last.reduce / second.reduce, limit],
    ["TaskTree", last.TaskTree / first.TaskTree, last.TaskTree / second.TaskTree, limits.TaskTree],
  ] as const) {
    const ratios = second === last ? [one] : [one, other];
    const ok = ratios.every((ratio) => ratio <= most);
    held &&= ok;
    const shown = ratios.map((ratio) => ratio.toFixed(2)).join(" and ");
    console.log(
      `  ${what}: largest over smallest ${shown} (at most ${most}) ${ok ? "ok" : "TOO MUCH"}`,
    );
  }
  console.log();
}
console.log(
  `CPU time per event over that of a plain log of the same events (at most ${limits.trouble};` +
    ` a plain event counts as ${leastCost} microseconds or more)`,
);
for (const [name, logs] of Object.entries(troubles)) {
  for (const size of name.startsWith("parked") ? [10_000, 100_000] : [10_000, 30_000]) {
    const ratio = compare(logs(size));
    const ok = Math.max(ratio.reduce, ratio.TaskTree) <= limits.trouble;
    held &&= ok;
    console.log(
      `  ${size.toLocaleString("en")} ${name}: reduce ${ratio.reduce.toFixed(2)}` +
        `, TaskTree ${ratio.TaskTree.toFixed(2)} ${ok ? "ok" : "TOO MUCH"}`,
    );
  }
}
process.exitCode = held ? 0 : 1;
