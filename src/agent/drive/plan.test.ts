import { describe, expect, it } from "vitest";
import type { Post, TaskRecord } from "../../contract/store.ts";
import { memoryStore } from "../../store/memory.ts";
import { type Capacity, plan, unfinishedBelow, Workload } from "./plan.ts";

const conversation = "s";

function root(taskId: string, status: TaskRecord["status"], changes: Partial<TaskRecord> = {}) {
  const record: TaskRecord = {
    ...{ taskId, rootTaskId: taskId, status, sessionId: conversation, path: conversation },
    ...{ agentId: "lead", agentName: "lead", agentKey: `agent:lead:${taskId}` },
    ...{ depth: 0, createdAt: 1, mode: "sync", committedOutput: 0 },
    ...changes,
  };
  return record;
}

/** A sync child in a session of its own. */
function child(
  parent: TaskRecord,
  taskId: string,
  status: TaskRecord["status"],
  changes: Partial<TaskRecord> = {},
) {
  const { rootTaskId, sessionId: parentSessionId } = parent;
  return root(taskId, status, {
    ...{ rootTaskId, parentTaskId: parent.taskId, parentSessionId, sessionId: `sub-${taskId}` },
    ...{ depth: parent.depth + 1, path: `${parent.path}/worker` },
    ...{ agentId: "worker", agentName: "worker", agentKey: `agent:worker:${taskId}` },
    ...changes,
  });
}

const background = { mode: "background" } as const;

function row(kind: Post["kind"], to: TaskRecord | undefined, changes: Partial<Post> = {}): Post {
  const target = to && {
    ...{ taskId: to.taskId, sessionId: to.sessionId, rootTaskId: to.rootTaskId },
  };
  return {
    id: `${kind}:${to?.taskId ?? ""}`,
    kind,
    sessionId: conversation,
    ...target,
    ...changes,
  };
}

/** The plan of a process that drives nothing and has every agent, in short. */
function planOf(
  records: readonly TaskRecord[],
  posts: readonly Post[] = [],
  capacity: Partial<Capacity> = {},
) {
  const all = { isDriven: () => false, hasAgent: () => true, ...capacity };
  const { tasks, stale, wakes } = plan(new Workload(records, posts), conversation, all);
  return { tasks: tasks.map(({ taskId }) => taskId), stale: stale.map(({ id }) => id), wakes };
}

const nothing = { tasks: [], stale: [], wakes: false };

describe("plan", () => {
  it("starts nothing when nothing is unfinished", () => {
    expect(planOf([])).toEqual(nothing);
  });

  it("begins the first unfinished task of a session, and no later one", () => {
    expect(planOf([root("a", "queued"), root("b", "queued")]).tasks).toEqual(["a"]);
    for (const first of ["in_progress", "suspended"] as const)
      expect(planOf([root("a", first), root("b", "queued")]).tasks).not.toContain("b");
  });

  it("recovers a running task that no drive runs", () => {
    expect(planOf([root("a", "in_progress")]).tasks).toEqual(["a"]);
    expect(planOf([root("a", "in_progress")], [], { isDriven: () => true })).toEqual(nothing);
  });

  it("leaves a suspended task alone until it gets an answer or a cancel", () => {
    const task = root("a", "suspended");
    expect(planOf([task])).toEqual(nothing);
    for (const kind of ["hint", "input"] as const)
      expect(planOf([task], [row(kind, task)])).toEqual(nothing);
    for (const kind of ["answer", "cancel"] as const)
      expect(planOf([task], [row(kind, task)])).toEqual({ ...nothing, tasks: ["a"] });
  });

  it("ends a cancelled task before its turn", () => {
    const later = root("b", "queued");
    const { tasks } = planOf([root("a", "suspended"), later], [row("cancel", later)]);
    expect(tasks).toEqual(["b"]);
  });

  it("finds the target of a row by its taskId, its message or its session", () => {
    const task = root("a", "suspended");
    const { id, sessionId } = row("answer", task);
    const message = { id: "m", role: "user", content: [], metadata: { taskId: "a" } } as const;
    for (const post of [
      { id, kind: "answer", sessionId, message },
      { id, kind: "cancel", sessionId },
      { id, kind: "cancel", sessionId, rootTaskId: "a" },
    ] as const)
      expect(planOf([task], [post]).tasks).toEqual(["a"]);
    const other = { id, kind: "cancel", sessionId, rootTaskId: "b" } as const;
    expect(planOf([task], [other])).toEqual(nothing);
    const ended = new Workload([task], [other], [root("b", "completed")]);
    expect(ended.isStale(other)).toBe(true);
  });

  describe("a row without effect", () => {
    it("is stale when its task has ended", () => {
      const ended = root("a", "completed");
      const rows = [row("answer", ended), row("cancel", ended)];
      expect(planOf([], rows)).toEqual({ ...nothing, stale: ["answer:a", "cancel:a"] });
      expect(planOf([root("b", "suspended")], rows).tasks).toEqual([]);
    });

    it("is not stale when it is a hint or an input", () => {
      const ended = root("a", "completed");
      expect(planOf([], [row("hint", ended), row("input", ended)])).toEqual(nothing);
    });

    it("is stale when it withdraws a task that has begun", () => {
      const ifQueued = { ifQueued: true } as const;
      for (const status of ["in_progress", "suspended"] as const) {
        const task = root("a", status);
        const { stale, tasks } = planOf([task], [row("cancel", task, ifQueued)], {
          isDriven: () => status === "in_progress",
        });
        expect({ stale, tasks }).toEqual({ stale: ["cancel:a"], tasks: [] });
      }
      const queued = root("b", "queued");
      expect(planOf([root("a", "suspended"), queued], [row("cancel", queued, ifQueued)])).toEqual({
        ...nothing,
        tasks: ["b"],
      });
    });

    it("is ignored when an earlier drive saw and left it", () => {
      const task = root("a", "suspended");
      const isTried = (postId: string) => postId === "answer:a";
      expect(planOf([task], [row("answer", task)], { isTried })).toEqual(nothing);
      const rows = [row("answer", task), row("cancel", task)];
      expect(planOf([task], rows, { isTried }).tasks).toEqual(["a"]);
    });
  });

  describe("a sync child", () => {
    const lead = root("a", "suspended");
    const helper = child(lead, "b", "suspended");
    const clerk = child(helper, "c", "suspended");

    it("moves through the topmost task whose call waits for it", () => {
      const { tasks } = planOf([lead, helper, clerk], [row("answer", clerk)]);
      expect(tasks).toEqual(["a"]);
    });

    it("does not move while its top is driven", () => {
      const isDriven = (taskId: string) => taskId === "a";
      const rows = [row("answer", clerk)];
      expect(planOf([lead, helper, clerk], rows, { isDriven })).toEqual(nothing);
    });

    it("is recovered by the call of its parent", () => {
      const running = root("a", "in_progress");
      const { tasks } = planOf([running, child(running, "b", "in_progress")]);
      expect(tasks).toEqual(["a"]);
    });

    it("is queued, and then begun, by the call of its parent", () => {
      const running = root("a", "in_progress");
      const isDriven = (taskId: string) => taskId === "a";
      expect(planOf([running, child(running, "b", "queued")], [], { isDriven })).toEqual(nothing);
    });

    it("moves by itself when its parent has ended", () => {
      const ended = root("a", "completed");
      for (const status of ["queued", "in_progress"] as const)
        expect(planOf([child(ended, "b", status)]).tasks).toEqual(["b"]);
      const orphan = child(ended, "b", "suspended");
      expect(planOf([orphan])).toEqual(nothing);
      expect(planOf([orphan], [row("answer", orphan)]).tasks).toEqual(["b"]);
    });

    it("moves through the orphan above it", () => {
      const orphan = child(root("a", "cancelled"), "b", "suspended");
      const below = child(orphan, "c", "suspended");
      expect(planOf([orphan, below], [row("answer", below)]).tasks).toEqual(["b"]);
    });
  });

  describe("a background child", () => {
    it("moves by itself, whatever its parent does", () => {
      for (const status of ["in_progress", "suspended"] as const) {
        const lead = root("a", status);
        const isDriven = (taskId: string) => taskId === "a";
        const work = child(lead, "b", "in_progress", background);
        expect(planOf([lead, work], [], { isDriven }).tasks).toEqual(["b"]);
      }
    });

    it("is the top of the sync children below it", () => {
      const work = child(root("a", "completed"), "b", "suspended", background);
      const below = child(work, "c", "suspended");
      expect(planOf([work, below], [row("answer", below)]).tasks).toEqual(["b"]);
    });

    it("waits for the earlier tasks of its own session only", () => {
      const lead = root("a", "completed");
      const session = { ...background, sessionId: "sub-shared" };
      const records = [
        child(lead, "b", "in_progress", session),
        child(lead, "c", "queued", session),
        child(lead, "d", "queued", background),
      ];
      expect(planOf(records).tasks).toEqual(["b", "d"]);
    });

    it("does not hold up the next root task", () => {
      const work = child(root("a", "completed"), "b", "in_progress", background);
      const stuck = child(root("a", "completed"), "c", "suspended", background);
      const next = root("d", "queued");
      expect(planOf([work, stuck, next]).tasks).toEqual(["b", "d"]);
    });
  });

  describe("a task of an unknown agent", () => {
    const first = root("a", "queued", { agentName: "stranger" });
    const second = root("b", "queued");
    const hasAgent = ({ agentName }: TaskRecord) => agentName === "lead";

    it("does not move and is not overtaken", () => {
      expect(planOf([first, second], [], { hasAgent })).toEqual(nothing);
      const cancel = row("cancel", first);
      expect(planOf([first, second], [cancel], { hasAgent })).toEqual(nothing);
    });

    it("does not keep other sessions from moving", () => {
      const work = child(root("c", "completed"), "d", "in_progress", background);
      const knows = ({ rootTaskId }: TaskRecord) => rootTaskId === "c";
      expect(planOf([first, work], [], { hasAgent: knows }).tasks).toEqual(["d"]);
    });
  });

  describe("an input for no task in particular", () => {
    const input = row("input", undefined);

    it("wakes an idle session", () => {
      expect(planOf([], [input])).toEqual({ ...nothing, wakes: true });
    });

    it("waits for the unfinished task of its session", () => {
      for (const status of ["queued", "in_progress", "suspended"] as const)
        expect(planOf([root("a", status)], [input]).wakes).toBe(false);
    });

    it("wakes a session whose background children run", () => {
      const work = child(root("a", "completed"), "b", "in_progress", background);
      expect(planOf([work], [input]).wakes).toBe(true);
    });

    it("wakes nothing when it is a hint, has a target or is in a child's session", () => {
      const ended = root("a", "completed");
      for (const post of [
        row("hint", undefined),
        row("input", ended),
        { ...input, sessionId: "sub-b" },
      ])
        expect(planOf([], [post]).wakes).toBe(false);
    });
  });
});

describe("Workload", () => {
  it("reads the rows before the records", async () => {
    const reads: string[] = [];
    const store = memoryStore();
    const workload = await Workload.read(
      {
        ...store,
        posts: (query) => {
          reads.push("posts");
          return store.posts(query);
        },
        tasks: (query) => {
          reads.push("tasks");
          return store.tasks(query);
        },
      },
      conversation,
    );
    expect(reads).toEqual(["posts", "tasks"]);
    expect(workload.records).toEqual([]);
  });

  it("lists the rows of a task and of the sync children below it", () => {
    const lead = root("a", "suspended");
    const helper = child(lead, "b", "suspended");
    const clerk = child(helper, "c", "suspended");
    const work = child(lead, "d", "suspended", background);
    const rows = [
      row("answer", clerk),
      row("answer", work),
      row("cancel", helper),
      row("hint", lead),
      row("cancel", root("e", "completed")),
    ];
    const workload = new Workload([lead, helper, clerk, work], rows);
    const rowsFor = (taskId: string) => workload.rowsFor(taskId).map(({ id }) => id);
    expect(rowsFor("a")).toEqual(["answer:c", "cancel:b"]);
    expect(rowsFor("b")).toEqual(["answer:c", "cancel:b"]);
    expect(rowsFor("c")).toEqual(["answer:c"]);
    expect(rowsFor("d")).toEqual(["answer:d"]);
  });
});

describe("unfinishedBelow", () => {
  it("lists the topmost unfinished descendants of a task", () => {
    const lead = root("a", "completed");
    const ended = child(lead, "b", "completed");
    const below = child(ended, "c", "suspended");
    const work = child(lead, "d", "in_progress", background);
    const tree = [lead, ended, below, work, child(work, "e", "queued"), root("f", "queued")];
    expect(unfinishedBelow(tree, "a").map(({ taskId }) => taskId)).toEqual(["c", "d"]);
    expect(unfinishedBelow(tree, "c")).toEqual([]);
  });
});
