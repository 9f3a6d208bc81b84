import type { LogEvent } from "../../../src/protocol/event.ts";
import type { Log, Mutation } from "./mutate.ts";
import { drop, edit, ends, find, insertAfter, renumber } from "./mutate.ts";

const isChild = ({ source }: LogEvent) => source !== undefined;
const isContainer = ({ item }: Extract<LogEvent, { type: "task.output_item.done" }>) =>
  "child_task_id" in item;

/** Where a task stands right after one of its events. */
function statusAfter(events: Log, at: number): string | undefined {
  const { task_id } = events[at] as LogEvent;
  const own = events.slice(0, at + 1).filter((event) => event.task_id === task_id);
  const last = own.findLast(
    (event) => "task" in event || event.type === "task.suspended" || event.type === "task.resumed",
  );
  if (last?.type === "task.suspended") return "suspended";
  return last !== undefined && "task" in last ? last.task.status : last && "in_progress";
}

/** Puts the end of a container before the end of the child in it. */
const closeTooEarly: Mutation["apply"] = (random, events) => {
  const found = find(random, events, ["task.child.finished"]);
  if (found === undefined) return undefined;
  const { child_task_id, task_id, output_index } = found.event;
  const from = events.findIndex(
    (event) =>
      event.type === "task.output_item.done" &&
      event.task_id === task_id &&
      event.output_index === output_index,
  );
  const to = events.findLastIndex((event) => event.task_id === child_task_id);
  const done = events[from] as LogEvent;
  return renumber(events.toSpliced(from, 1).toSpliced(to, 0, done));
};

/** Makes a child its parent's parent. */
const closeCircle: Mutation["apply"] = (random, events) => {
  const child = find(random, events, ["task.created"], ({ source }) => source?.depth === 2)?.event;
  const parentId = child?.task.parent_task_id;
  const parent = find(random, events, ["task.created"], ({ task_id }) => task_id === parentId);
  if (child === undefined || parent === undefined) return undefined;
  const task = { ...parent.event.task, parent_task_id: child.task_id };
  return events.with(parent.at, { ...parent.event, task });
};

/** Tasks that begin, end, wait or hang together in a way they must not. */
export const taskMutations: readonly Mutation[] = [
  {
    name: "a second end",
    rule: "L3",
    apply: insertAfter([...ends], ({ type, task }) => ({ type, task })),
  },
  {
    name: "a word after the end",
    rule: "L3",
    apply: insertAfter([...ends], () => ({ type: "task.custom", name: "app.late", value: 1 })),
  },
  { name: "no end", rule: "L3", apply: drop([...ends]) },
  {
    name: "resumed while it runs",
    rule: "edge",
    apply: insertAfter(
      ["task.in_progress", "task.usage"],
      () => ({ type: "task.resumed", reason: "approval_resolved" }),
      (_, at, events) => statusAfter(events, at) === "in_progress",
    ),
  },
  {
    name: "suspended twice",
    rule: "edge",
    apply: insertAfter(["task.suspended"], ({ type }) => ({ type, reason: "external" })),
  },
  {
    name: "completed before it began",
    rule: "edge",
    apply: drop(["task.in_progress"], ({ task_id }, _, events) =>
      events.some((event) => event.task_id === task_id && event.type === "task.completed"),
    ),
  },
  { name: "never created", rule: "edge", apply: drop(["task.created"]) },
  {
    name: "created twice",
    rule: "edge",
    apply: insertAfter(["task.in_progress"], ({ task }) => ({
      type: "task.created",
      task: { ...task, status: "queued" },
    })),
  },
  {
    name: "a child without its links",
    rule: "link",
    apply: edit(
      ["task.created"],
      ({ task }) => ({ task: { ...task, parent_item_id: undefined } }),
      isChild,
    ),
  },
  {
    name: "its own parent",
    rule: "link",
    apply: edit(
      ["task.created"],
      ({ task }) => ({ task: { ...task, parent_task_id: task.id } }),
      isChild,
    ),
  },
  { name: "each other's parents", rule: "link", apply: closeCircle },
  { name: "a child that nobody started", rule: "link", apply: drop(["task.child.started"]) },
  {
    name: "a second root",
    rule: "link",
    apply: (_, events) => {
      const [first] = events;
      if (first?.type !== "task.created") return undefined;
      const second = { ...first, task_id: "task_two", task: { ...first.task, id: "task_two" } };
      return renumber([...events, second]);
    },
  },
  {
    name: "a wrong word on a child's end",
    rule: "child",
    apply: edit(["task.child.finished"], ({ status }) => ({
      status: status === "failed" ? "completed" : "failed",
    })),
  },
  {
    name: "a background child is said to have finished",
    rule: "child",
    apply: insertAfter(
      ["task.child.started"],
      (event) => ({ ...event, type: "task.child.finished", status: "completed" }),
      ({ mode }) => mode === "background",
    ),
  },
  {
    name: "a child is started twice",
    rule: "child",
    apply: insertAfter(["task.child.started"], (event) => ({ ...event })),
  },
  {
    name: "a container repeats its child",
    rule: "I11",
    apply: edit(
      ["task.output_item.done"],
      ({ item }) => ({ item: { ...item, block_list: [{ type: "message", id: "msg_c" }] } }),
      isContainer,
    ),
  },
  {
    name: "a container forgets its child",
    rule: "I11",
    apply: edit(
      ["task.output_item.done"],
      ({ item }) => ({ item: { ...item, child_task_id: undefined } }),
      isContainer,
    ),
  },
  {
    name: "a block stands for a stranger",
    rule: "I12",
    apply: edit(
      ["task.block.done"],
      () => ({ item: { type: "task", task_id: "call_stranger" } }),
      ({ item }) => item.type === "task",
    ),
  },
  {
    name: "two children in one container",
    rule: "I12",
    apply: insertAfter(["task.child.started"], (event) => ({
      ...event,
      child_task_id: "call_two",
    })),
  },
  { name: "a container closes too early", rule: "I14", apply: closeTooEarly },
  {
    name: "resolved twice",
    rule: "approval",
    apply: insertAfter(["task.approval.resolved"], (event) => ({ ...event, decision: "deny" })),
  },
  {
    name: "resolved without a request",
    rule: "approval",
    apply: drop(["task.approval.requested"]),
  },
  {
    name: "usage that shrinks",
    rule: "usage",
    apply: insertAfter(["task.usage"], (event) => ({
      ...event,
      usage: { input_tokens: 0, output_tokens: 0, total_tokens: 0 },
    })),
  },
];
