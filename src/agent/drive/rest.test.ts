import { describe, expect, it, vi } from "vitest";
import { RivuletError } from "../../base/error.ts";
import type { WaitReason } from "../../contract/agent.ts";
import { userMessage } from "../../contract/message.ts";
import type { Commit, Lease, Post, Store, TaskRecord } from "../../contract/store.ts";
import { memoryStore } from "../../store/memory.ts";
import { commitOnce, record } from "../../testing/store-contract/samples.ts";
import { ManualClock, type Script, scriptedModel } from "../../testing.ts";
import { settingsOf } from "../loop/settings.ts";
import { rootRecord } from "./plan.ts";
import { processOf } from "./process.ts";
import { taskReached, untilRest } from "./rest.ts";

const conversation = "s";
const leaseMs = 10_000;
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A store, a process that follows tasks on it, and another process that has the lease when it asks for it. */
function setUp(script: Script = () => "Done.", store?: Store) {
  const clock = new ManualClock(1_000_000);
  const shared = store ?? memoryStore({ clock });
  const own: Store = { ...shared };
  const agent = (name: string) =>
    settingsOf({ name, model: scriptedModel(script), store: own, clock, leaseMs });
  const settings = agent("lead");
  const process = processOf(own);
  const waits: WaitReason[] = [];
  return {
    ...{ clock, shared, own, settings, process, waits },
    /** Stores a root task in this status, as another process has left it. */
    async stored(status: TaskRecord["status"], name = "lead"): Promise<TaskRecord> {
      const record = { ...rootRecord(agent(name), conversation, {}), status };
      if (status === "queued") return shared.enqueue({ ...record, input: [userMessage("Go.")] });
      const lease = await acquire(shared);
      await shared.commit({ lease, ...created(record) });
      await shared.release(lease);
      return record;
    },
    follow(taskId: string) {
      const onWait = (reason: WaitReason) => void waits.push(reason);
      return untilRest(process, { settings, conversation, taskId, onWait });
    },
  };
}

async function acquire(store: Store): Promise<Lease> {
  const lease = await store.acquire(conversation, "another process", leaseMs);
  if (lease === undefined) throw new Error("The lease is taken.");
  return lease;
}

/** The events that begin a task in its log. */
function created(record: TaskRecord): Omit<Commit, "lease"> {
  const { taskId, agentId, sessionId, createdAt, status } = record;
  const at = { task_id: taskId, created_at: createdAt } as const;
  const task = { id: taskId, object: "task" } as const;
  const origin = { agent_id: agentId, session_id: sessionId, created_at: createdAt } as const;
  return {
    log: taskId,
    tasks: [record],
    events: [
      {
        ...{ type: "task.created", sequence_number: -1, task_seq: 0, ...at },
        task: { ...task, ...origin, status: "queued" },
      },
      {
        ...{ type: "task.in_progress", sequence_number: -1, task_seq: 1, ...at },
        task: { ...task, status: "in_progress" },
      },
    ],
    appends: [{ sessionId, at: 0, messages: [{ ...userMessage("Go."), metadata: { taskId } }] }],
    ...(status === "queued" && { events: [], appends: [] }),
  };
}

function answerTo({ taskId, sessionId, rootTaskId }: TaskRecord): Post {
  return { id: "answer:1", kind: "answer", sessionId, rootTaskId, taskId };
}

describe("untilRest", () => {
  it("returns a task that has ended, and takes no lease", async () => {
    const { own, process, settings, stored } = setUp();
    const { taskId } = await stored("completed");
    const acquired = vi.spyOn(own, "acquire");
    const rest = await untilRest(process, { settings, conversation, taskId });
    expect(rest).toMatchObject({ record: { taskId, status: "completed" } });
    expect(acquired).not.toHaveBeenCalled();
  });

  it("throws not_found for a task that does not exist", async () => {
    await expect(setUp().follow("none")).rejects.toMatchObject({ code: "not_found" });
  });

  it("runs a queued task when no process owns the conversation", async () => {
    const { follow, stored, shared } = setUp();
    const { taskId } = await stored("queued");
    const { record, drive } = await follow(taskId);
    expect(record.status).toBe("completed");
    expect(drive?.record.taskId).toBe(taskId);
    expect(await shared.owner(conversation)).toBeUndefined();
  });

  it("follows a task that another process drives", async () => {
    const { follow, stored, shared } = setUp();
    const record = await stored("in_progress");
    const lease = await acquire(shared);
    const following = follow(record.taskId);
    await turn();
    const tasks = [{ ...record, status: "completed" as const }];
    await shared.commit({ lease, log: record.taskId, tasks });
    expect(await following).toEqual({ record: tasks[0] });
    expect(await shared.owner(conversation)).toBeDefined();
  });

  it("throws the error of a store that fails under the drive of this process", async () => {
    const store = memoryStore();
    const broken = { ...store, commit: () => Promise.reject(new Error("gone")) };
    const { follow, stored } = setUp(undefined, broken);
    const { taskId } = await stored("queued");
    await expect(follow(taskId)).rejects.toMatchObject({ code: "store_failed", message: "gone" });
  });
});

describe("a suspended task", () => {
  it("rests when no row waits for it", async () => {
    const { follow, stored } = setUp();
    const { taskId } = await stored("suspended");
    expect(await follow(taskId)).toMatchObject({ record: { status: "suspended" } });
  });

  it("does not rest between the taking of its answer and its next record", async () => {
    const { own, follow, shared, stored } = setUp();
    const record = await stored("suspended");
    await shared.post([answerTo(record)]);
    const lease = await acquire(shared);
    // The owner takes the answer between the two reads of the follower, whichever comes first.
    let reads = 0;
    const takeBeforeSecond = async () => {
      reads += 1;
      if (reads !== 2) return;
      const tasks = [{ ...record, status: "in_progress" as const }];
      await shared.commit({ lease, log: record.taskId, tasks, taken: ["answer:1"] });
    };
    for (const name of ["posts", "tasks"] as const) {
      const read = own[name] as (query: object) => Promise<never>;
      own[name] = async (query: object) => {
        await takeBeforeSecond();
        return read(query);
      };
    }
    const following = follow(record.taskId);
    await vi.waitFor(() => expect(reads).toBeGreaterThan(3));
    const tasks = [{ ...record, status: "completed" as const }];
    await shared.commit({ lease, log: record.taskId, tasks });
    expect((await following).record.status).toBe("completed");
  });

  it("tells a follower of a later task that it blocks it", async () => {
    const { process, settings, shared, stored } = setUp();
    const first = await stored("suspended");
    const { taskId } = await stored("queued");
    const blocked = Promise.withResolvers<string | undefined>();
    void untilRest(process, {
      ...{ settings, conversation, taskId },
      async onBlocked(workload) {
        blocked.resolve(workload.first(conversation)?.taskId);
      },
    });
    expect(await blocked.promise).toBe(first.taskId);
    expect(await shared.owner(conversation)).toBeUndefined();
  });
});

describe("a whole tree", () => {
  it("rests when every task of it rests", async () => {
    const { clock, process, settings, shared, stored } = setUp();
    const root = await stored("completed");
    const { taskId } = root;
    const child: TaskRecord = {
      ...{ ...root, taskId: "call_1", rootTaskId: taskId, parentTaskId: taskId, depth: 1 },
      ...{ sessionId: "sub-1", parentSessionId: conversation, mode: "background" },
      status: "in_progress",
    };
    const lease = await acquire(shared);
    await shared.commit({ lease, log: taskId, tasks: [child] });
    let isOver = false;
    const tree = { settings, conversation, taskId, isTree: true };
    const following = untilRest(process, tree).then((rest) => {
      isOver = true;
      return rest;
    });
    for (let n = 0; n < 5; n++) await turn();
    expect(isOver).toBe(false);
    await shared.commit({ lease, log: taskId, tasks: [{ ...child, status: "suspended" }] });
    await clock.advance(1_100);
    expect((await following).record.taskId).toBe(taskId);
  });
});

describe("a follower", () => {
  it("reports a busy session after a second, and again every second", async () => {
    const { clock, follow, shared, stored, waits } = setUp();
    const first = await stored("in_progress");
    const second = await stored("queued");
    const lease = await acquire(shared);
    const following = follow(second.taskId);
    await clock.advance(900);
    expect(waits).toEqual([]);
    await clock.advance(200);
    expect(waits).toEqual([{ reason: "busy" }]);
    await shared.renew([lease], leaseMs);
    await clock.advance(1_100);
    expect(waits).toEqual([{ reason: "busy" }, { reason: "busy" }]);
    const tasks = [first, second].map((record) => ({ ...record, status: "completed" as const }));
    await shared.commit({ lease, log: first.taskId, tasks });
    await following;
  });

  it("reports nothing while a live owner runs the task", async () => {
    const { clock, follow, shared, stored, waits } = setUp();
    const record = await stored("in_progress");
    let lease = await acquire(shared);
    const following = follow(record.taskId);
    for (let n = 0; n < 8; n++) {
      await clock.advance(1_000);
      [lease = lease] = await shared.renew([lease], leaseMs);
    }
    expect(waits).toEqual([]);
    const tasks = [{ ...record, status: "completed" as const }];
    await shared.commit({ lease, log: record.taskId, tasks });
    await following;
  });

  it("reports a silent owner, and takes over when its lease expires", async () => {
    const { clock, follow, shared, stored, waits } = setUp();
    const { taskId } = await stored("in_progress");
    await acquire(shared);
    const following = follow(taskId);
    await clock.advance(5_000);
    expect(waits).toEqual([]);
    await clock.advance(4_900);
    expect(new Set(waits.map(({ reason }) => reason))).toEqual(new Set(["owner_silent"]));
    const [{ leftMs = 0 } = {}] = waits;
    expect(leftMs).toBeGreaterThan(3_800);
    expect(leftMs).toBeLessThan(5_000);
    await clock.advance(200);
    const { record } = await following;
    expect(record.status).toBe("completed");
    const events = await shared.read(taskId, -1, 100);
    expect(events).toContainEqual(
      expect.objectContaining({ type: "task.resumed", reason: "recovered" }),
    );
  });

  it("reports an unknown agent, and takes no lease for it", async () => {
    const { clock, own, follow, stored, waits } = setUp();
    const { taskId } = await stored("queued", "stranger");
    const acquired = vi.spyOn(own, "acquire");
    void follow(taskId).catch(() => {});
    await clock.advance(2_500);
    expect(waits.length).toBeGreaterThan(0);
    expect(waits).toEqual(waits.map(() => ({ reason: "unknown_agent" })));
    expect(acquired).not.toHaveBeenCalled();
  });

  it("runs a queued task as soon as the owner has released the conversation", async () => {
    const { follow, shared, stored } = setUp();
    const { taskId } = await stored("queued");
    const lease = await acquire(shared);
    const following = follow(taskId);
    for (let n = 0; n < 5; n++) await turn();
    await shared.release(lease); // its clock stands still: only the release can wake it
    expect((await following).record.status).toBe("completed");
  });

  it("keeps following when another process takes over its own drive", async () => {
    const hold = Promise.withResolvers<string>();
    const { clock, follow, process, shared, stored } = setUp(() => hold.promise);
    const { taskId } = await stored("queued");
    const following = follow(taskId);
    await vi.waitFor(async () => {
      expect((await shared.task(taskId))?.status).toBe("in_progress");
    });
    await clock.advance(leaseMs + 1);
    const lease = await acquire(shared);
    process.owned(conversation)?.lose(new RivuletError("fenced", "too late"));
    hold.resolve("Done.");
    const record = (await shared.task(taskId)) as TaskRecord;
    const tasks = [{ ...record, status: "cancelled" as const }];
    await shared.commit({ lease, log: taskId, tasks });
    expect(await following).toEqual({ record: tasks[0] });
  });
});

describe("taskReached", () => {
  const isDone = ({ status }: TaskRecord) => status === "completed";
  const never = new AbortController().signal;

  it("waits until a task is as wanted", async () => {
    const store = memoryStore();
    await commitOnce(store, { tasks: [record()] });
    const reached = vi.fn();
    const waiting = taskReached(store, "task_1", isDone, never).then(reached);
    await commitOnce(store, { tasks: [record({ committedOutput: 1 })] });
    expect(reached).not.toHaveBeenCalled();
    await commitOnce(store, { tasks: [record({ status: "completed" })] });
    await waiting;
  });

  it("ends when there is no such task, when it is aborted, and with what the store throws", async () => {
    const store = memoryStore();
    await taskReached(store, "none", isDone, never);
    await commitOnce(store, { tasks: [record()] });
    const stop = new AbortController();
    const waiting = taskReached(store, "task_1", isDone, stop.signal);
    stop.abort();
    await waiting;
    const other = taskReached(store, "task_1", isDone, never);
    await store.close();
    await expect(other).rejects.toThrow();
  });
});
