import { describe, expect, it } from "vitest";
import type { TaskRecord } from "../../contract/index.ts";
import {
  type Answered,
  type Entry,
  type EntryInput,
  type EntrySession,
  planAnswers,
  planEntry,
  planStart,
} from "./entry.ts";

function task(taskId: string, status: TaskRecord["status"]): TaskRecord {
  return {
    ...{ taskId, rootTaskId: taskId, status, sessionId: "s", path: "s" },
    ...{ agentId: "lead", agentName: "lead", agentKey: `agent:lead:${taskId}` },
    ...{ depth: 0, createdAt: 1, mode: "sync", committedOutput: 0 },
  };
}

const roots = {
  none: undefined,
  queued: task("root", "queued"),
  running: task("root", "in_progress"),
  suspended: task("root", "suspended"),
};
type Root = keyof typeof roots;
const allRoots = Object.keys(roots) as Root[];

const inputs = {
  nothing: { hasText: false, hasAnswers: false, compacts: false },
  text: { hasText: true, hasAnswers: false, compacts: false },
  answers: { hasText: false, hasAnswers: true, compacts: false },
  both: { hasText: true, hasAnswers: true, compacts: false },
  compaction: { hasText: false, hasAnswers: false, compacts: true },
} satisfies Record<string, EntryInput>;
type Input = keyof typeof inputs;

/** Sessions without a task have no root. */
const sessions = {
  fresh: { isNamed: false, exists: false },
  missing: { isNamed: true, exists: false },
  named: { isNamed: true, exists: true },
  found: { isNamed: false, exists: true },
};
type Session = keyof typeof sessions;

function session(kind: Session, root: Root, hasInbox = false): EntrySession {
  return { ...sessions[kind], root: roots[root], hasInbox };
}

/** The outcomes of the roots none, queued, running and suspended. */
type Row = readonly [Input, Session, outcomes: readonly Entry[]];

describe("planEntry", () => {
  const rows: readonly Row[] = [
    ["nothing", "fresh", ["resume"]],
    ["nothing", "missing", ["resume", "answer", "answer", "resume"]],
    ["nothing", "named", ["resume", "answer", "answer", "resume"]],
    ["nothing", "found", ["resume", "answer", "answer", "resume"]],
    ["text", "fresh", ["start"]],
    ["text", "missing", ["start", "start", "start", "answer"]],
    ["text", "named", ["start", "start", "start", "answer"]],
    ["text", "found", ["start", "start", "start", "answer"]],
    ["answers", "fresh", ["answer"]],
    ["answers", "missing", ["missing", "missing", "missing", "missing"]],
    ["answers", "named", ["answer", "answer", "answer", "answer"]],
    ["answers", "found", ["answer", "answer", "answer", "answer"]],
    ["both", "fresh", ["answer"]],
    ["both", "missing", ["missing", "missing", "missing", "missing"]],
    ["both", "named", ["answer", "answer", "answer", "answer"]],
    ["both", "found", ["answer", "answer", "answer", "answer"]],
    ["compaction", "fresh", ["missing"]],
    ["compaction", "missing", ["missing", "missing", "missing", "missing"]],
    ["compaction", "named", ["start", "start", "start", "start"]],
    ["compaction", "found", ["start", "start", "start", "start"]],
  ];

  it("lists every input with every session", () => {
    const all = Object.keys(inputs).flatMap((input) =>
      Object.keys(sessions).map((kind) => `${input} ${kind}`),
    );
    expect(rows.map(([input, kind]) => `${input} ${kind}`)).toEqual(all);
  });

  it.each(rows)("plans %s for a %s session", (input, kind, outcomes) => {
    const planned = outcomes.map((_, index) =>
      planEntry(inputs[input], session(kind, allRoots[index] as Root)),
    );
    expect(planned).toEqual(outcomes);
  });
});

describe("planAnswers", () => {
  const child = task("child", "suspended");
  const unheld: Answered = { tops: [], isHeld: false };
  const plan = (
    input: Input,
    root: Root,
    answered: Partial<Answered>,
    at = session("named", root),
  ) => {
    const planned = planAnswers(inputs[input], at, { ...unheld, ...answered });
    return planned.type === "continue" ? `continue ${planned.task.taskId}` : planned.type;
  };
  const planAll = (input: Input, answered: (root: TaskRecord | undefined) => Partial<Answered>) =>
    allRoots.map((root) => plan(input, root, answered(roots[root])));
  const root = "continue root";

  it.each(["text", "both"] as const)("starts a task with %s unless the root waits", (input) => {
    expect(planAll(input, () => ({}))).toEqual(["start", "start", "start", root]);
    expect(planAll(input, () => ({ tops: [child] }))).toEqual(["start", "start", "start", root]);
    expect(planAll(input, () => ({ isHeld: true }))).toEqual(["start", root, root, root]);
  });

  it.each(["nothing", "answers"] as const)("continues the task that %s concerns", (input) => {
    expect(planAll(input, () => ({ tops: [child] }))).toEqual(Array(4).fill("continue child"));
    expect(planAll(input, () => ({}))).toEqual(["idle", root, root, root]);
    const withRoot = planAll(input, (one) => ({ tops: one ? [child, one] : [child] }));
    expect(withRoot).toEqual(["continue child", root, root, root]);
  });

  it("reads the inbox of a session without an unfinished task", () => {
    expect(plan("nothing", "none", {}, session("named", "none", true))).toBe("drain");
    expect(plan("nothing", "none", {}, session("missing", "none", true))).toBe("drain");
    expect(plan("nothing", "running", {}, session("named", "running", true))).toBe(root);
    expect(plan("answers", "none", { tops: [child] }, session("named", "none", true))).toBe(
      "continue child",
    );
  });

  it.each([
    ["fresh", "idle"],
    ["missing", "missing"],
    ["named", "idle"],
    ["found", "idle"],
  ] as const)("fails for an empty %s session: %s", (kind, outcome) => {
    expect(plan("nothing", "none", {}, session(kind, "none"))).toBe(outcome);
  });
});

describe("planStart", () => {
  const live = { context: {} };
  const named = { taskId: "t" };
  const fail = { onBusy: "fail" } as const;

  it.each([
    [{}, "begin", "queue"],
    [named, "queue", "queue"],
    [live, "own", "own"],
    [{ hooks: [] }, "own", "own"],
    [{ ...live, ...named }, "own", "own"],
    [fail, "begin", "busy"],
    [{ ...named, ...fail }, "queue", "busy"],
    [{ ...live, ...fail }, "own", "busy"],
    [{ ...live, ...named, ...fail }, "own", "busy"],
  ] as const)("with %o plans %s in an idle session and %s in a busy one", (options, idle, busy) => {
    expect(planStart(options, undefined)).toBe(idle);
    for (const root of [roots.queued, roots.running, roots.suspended])
      expect(planStart(options, root)).toBe(busy);
  });
});
