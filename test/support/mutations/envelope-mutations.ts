import type { LogEvent } from "../../../src/protocol/event.ts";
import type { Mutation } from "./mutate.ts";
import { edit, find } from "./mutate.ts";

const isChild = ({ source }: LogEvent) => source !== undefined;

/** Numbers and sources that are wrong. */
export const envelopeMutations: readonly Mutation[] = [
  {
    name: "an event is lost",
    rule: "sequence",
    apply: (random, events) =>
      events.length < 2 ? undefined : events.toSpliced(random.int(0, events.length - 2), 1),
  },
  {
    name: "a task loses an event",
    rule: "task_seq",
    apply: (_, events) => {
      const at = events.findIndex((event, index) => event.task_id === events[index + 1]?.task_id);
      return at < 0 ? undefined : events.toSpliced(at, 1);
    },
  },
  {
    name: "two events change places",
    rule: "sequence",
    apply: (random, events) => {
      const at = random.int(0, events.length - 2);
      return events.toSpliced(at, 2, events[at + 1] as LogEvent, events[at] as LogEvent);
    },
  },
  {
    name: "an event comes twice",
    rule: "duplicate",
    apply: (random, events) => {
      const at = random.int(0, events.length - 1);
      return events.toSpliced(random.int(at + 1, events.length), 0, events[at] as LogEvent);
    },
  },
  {
    name: "one number for two events",
    rule: "task_seq",
    apply: edit(["task.in_progress"], () => ({ task_seq: 0 })),
  },
  { name: "no type", rule: "I1", apply: edit(["task.in_progress"], () => ({ type: undefined })) },
  { name: "no task", rule: "I1", apply: edit(["task.in_progress"], () => ({ task_id: 7 })) },
  {
    name: "a number that is no number",
    rule: "shape",
    apply: edit(["task.in_progress"], () => ({ sequence_number: "2" })),
  },
  {
    name: "a delta that is no text",
    rule: "shape",
    apply: edit(["task.text.delta"], () => ({ delta: 7 })),
  },
  {
    name: "a task with an unknown mode",
    rule: "word",
    apply: edit(["task.created"], ({ task }) => ({ task: { ...task, mode: "later" } }), isChild),
  },
  {
    name: "a child without a source",
    rule: "I15",
    apply: edit(
      ["task.in_progress", "task.output_item.added"],
      () => ({ source: undefined }),
      isChild,
    ),
  },
  {
    name: "a root with a source",
    rule: "I15",
    apply: edit(
      ["task.in_progress"],
      () => ({ source: { agentId: "x", depth: 1, path: "s/x" } }),
      (event) => !isChild(event),
    ),
  },
  {
    name: "a depth that the path does not have",
    rule: "I15",
    apply: edit(
      ["task.in_progress"],
      ({ source }) => ({ source: { ...source, depth: 9 } }),
      isChild,
    ),
  },
  {
    name: "a short source where the whole one belongs",
    rule: "I15",
    apply: edit(
      ["task.created"],
      ({ source }) => ({ source: { ...source, agentKey: undefined } }),
      isChild,
    ),
  },
  {
    name: "an ancestor rewrites a source",
    rule: "L6",
    apply: edit(
      ["task.output_item.added"],
      ({ source }) => ({
        source: { ...source, agentId: "x", path: source?.path.replace(/[^/]+$/, "x") },
      }),
      isChild,
    ),
  },
  {
    name: "a path that is not the parent's and itself",
    rule: "L6",
    apply: (random, events) => {
      const found = find(random, events, ["task.created"], isChild);
      return (
        found &&
        events.map((event) => {
          if (event.task_id !== found.event.task_id || event.source === undefined) return event;
          const path = event.source.path.replace(/^[^/]+/, "elsewhere");
          return { ...event, source: { ...event.source, path } };
        })
      );
    },
  },
];
