import { describe, expect, it, vi } from "vitest";
import { userMessage } from "../../contract/message.ts";
import type { Store, TaskRecord } from "../../contract/store.ts";
import { memoryStore } from "../../store/memory.ts";
import { ManualClock, scriptedModel } from "../../testing.ts";
import { type AgentSettings, settingsOf } from "../loop/settings.ts";
import type { Conversation } from "./conversation.ts";
import { cancelRow, rootRecord } from "./plan.ts";
import { processOf } from "./process.ts";
import { SuspectQueue } from "./suspects.ts";

const leaseMs = 1_000;

function setUp(answer: () => string | Promise<string> = () => "Done.") {
  const clock = new ManualClock(1_000_000);
  const store = memoryStore({ clock });
  const script = vi.fn(answer);
  const model = scriptedModel(script);
  const settings = settingsOf({ name: "lead", model, store, clock, leaseMs });
  return { clock, store, settings, script };
}

type World = ReturnType<typeof setUp>;

/** A conversation with a running task whose owners were all lost. */
async function lost(world: World, losses: number, sessionId = "s"): Promise<TaskRecord> {
  const { clock, store, settings } = world;
  const record: TaskRecord = { ...rootRecord(settings, sessionId, {}), status: "in_progress" };
  for (let n = 0; n < losses; n++) {
    const lease = await store.acquire(sessionId, "a process that dies", leaseMs);
    if (lease === undefined) throw new Error("The lease is live.");
    if (n === 0) {
      const message = { ...userMessage("Go."), metadata: { taskId: record.taskId } };
      const appends = [{ sessionId, at: 0, messages: [message] }];
      await store.commit({ lease, log: record.taskId, tasks: [record], appends });
    }
    await clock.advance(leaseMs);
  }
  return record;
}

const enter = ({ store, settings }: World, sessionId = "s", by: AgentSettings = settings) =>
  processOf(store).enter(sessionId, by);

/** Leaves a conversation and waits until its tasks rest. */
async function finish(conversation: Conversation | undefined): Promise<void> {
  await conversation?.leave();
  await conversation?.closed;
}

const stateOf = async (store: Store, { taskId }: TaskRecord) => {
  const { status, error } = (await store.task(taskId)) ?? {};
  return { status, code: error?.code };
};

describe("a conversation that loses its owners", () => {
  it("continues after one loss", async () => {
    const world = setUp();
    const record = await lost(world, 1);
    await finish(await enter(world));
    expect(await stateOf(world.store, record)).toEqual({ status: "completed" });
  });

  it("fails its running tasks after five losses, with the losses and the step in the error", async () => {
    const world = setUp();
    const record = await lost(world, 5);
    await finish(await enter(world));
    expect((await world.store.task(record.taskId))?.error).toMatchObject({
      code: "poison",
      message: "The task took down 5 processes in a row before its next reply was stored.",
    });
    expect(world.script).not.toHaveBeenCalled();
  });

  it("keeps queued tasks and takes new messages after its running tasks failed", async () => {
    const world = setUp();
    const { store, settings } = world;
    const record = await lost(world, 5);
    const next = { ...rootRecord(settings, "s", {}), input: [userMessage("And now?")] };
    await store.enqueue(next);
    await finish(await enter(world));
    expect(await stateOf(store, record)).toEqual({ status: "failed", code: "poison" });
    expect(await stateOf(store, next)).toEqual({ status: "completed" });
    expect((await store.acquire("s", "p", leaseMs))?.losses).toBe(0);
  });

  it("fails a queued task whose beginning took the processes down", async () => {
    const world = setUp();
    const { store, settings, clock } = world;
    const record = { ...rootRecord(settings, "s", {}), input: [userMessage("Go.")] };
    await store.enqueue(record);
    for (let n = 0; n < 5; n++) {
      await store.acquire("s", "a process that dies", leaseMs);
      await clock.advance(leaseMs);
    }
    await finish(await enter(world));
    expect(await stateOf(store, record)).toEqual({ status: "failed", code: "poison" });
  });

  it("fails in a process that does not have its agent", async () => {
    const world = setUp();
    const { store, clock } = world;
    const record = await lost(world, 5);
    const model = scriptedModel([]);
    const other = settingsOf({ name: "other", model, store, clock, leaseMs });
    await finish(await enter(world, "s", other));
    expect(await stateOf(store, record)).toEqual({ status: "failed", code: "poison" });
  });

  it("is refused when not even the end of its tasks could be written", async () => {
    const world = setUp();
    await lost(world, 11);
    await expect(enter(world)).rejects.toMatchObject({ code: "poison" });
    expect(await world.store.owner("s")).toBeUndefined();
  });

  it.each([2, 4])("is cancelled without running after %i losses", async (losses) => {
    const hook = vi.fn();
    const world = setUp();
    const settings = {
      ...world.settings,
      hooks: [{ name: "spy", preReasoning: hook, postCall: hook }],
    };
    const record = await lost(world, losses);
    await world.store.post([cancelRow(record, "enough")]);
    await finish(await enter(world, "s", settings));
    expect(await stateOf(world.store, record)).toEqual({ status: "cancelled" });
    expect(world.script).not.toHaveBeenCalled();
    expect(hook).not.toHaveBeenCalled();
  });
});

describe("suspects of one process", () => {
  /** Lets everything run that does not wait for time. */
  const settle = async () => {
    for (let n = 0; n < 50; n++) await new Promise((resolve) => setImmediate(resolve));
  };

  it("run one at a time, and the next one after progress", async () => {
    const answer = Promise.withResolvers<string>();
    const world = setUp(() => answer.promise);
    const { store } = world;
    await lost(world, 2, "a");
    await lost(world, 2, "b");
    const first = await enter(world, "a");
    const second = enter(world, "b");
    await first?.leave();
    await settle();
    expect(await store.owner("a")).toBeDefined();
    expect(await store.owner("b")).toBeUndefined();
    answer.resolve("Done.");
    await first?.closed;
    await finish(await second);
    expect((await store.tasks({})).map(({ status }) => status)).toEqual(["completed", "completed"]);
  });

  it("do not keep other conversations waiting", async () => {
    const world = setUp(() => new Promise(() => {}));
    await lost(world, 2, "a");
    await enter(world, "a");
    expect(await enter(world, "innocent")).toBeDefined();
  });

  it("give way after 30 seconds", async () => {
    const world = setUp(() => new Promise(() => {}));
    const { clock, store } = world;
    await lost(world, 2, "a");
    await lost(world, 2, "b");
    await enter(world, "a");
    const second = enter(world, "b");
    await settle();
    expect(await store.owner("b")).toBeUndefined();
    await clock.advance(30_000);
    expect(await second).toBeDefined();
  });

  it("do not delay a shutdown", async () => {
    const world = setUp(() => new Promise(() => {}));
    await lost(world, 2, "a");
    await lost(world, 2, "b");
    await (await enter(world, "a"))?.leave();
    const second = enter(world, "b");
    const refused = expect(second).rejects.toMatchObject({ code: "shutting_down" });
    await settle();
    await processOf(world.store).shutDown();
    await refused;
    expect(await world.store.owner("a")).toBeUndefined();
  });
});

describe("a queue of suspects", () => {
  const never = new AbortController().signal;

  it("serves callers in order, and an ended turn once", async () => {
    const queue = new SuspectQueue();
    const clock = new ManualClock(0);
    const order: string[] = [];
    const endFirst = await queue.turn(clock, never);
    const turns = ["b", "c"].map(async (name) => {
      const end = await queue.turn(clock, never);
      order.push(name);
      return end;
    });
    endFirst();
    endFirst();
    const endSecond = await turns[0];
    expect(order).toEqual(["b"]);
    endSecond?.();
    await turns[1];
    expect(order).toEqual(["b", "c"]);
  });

  it("skips a caller that stopped waiting", async () => {
    const queue = new SuspectQueue();
    const clock = new ManualClock(0);
    const end = await queue.turn(clock, never);
    const stop = new AbortController();
    const stopped = queue.turn(clock, stop.signal);
    const last = queue.turn(clock, never);
    stop.abort("stopped");
    await expect(stopped).rejects.toBe("stopped");
    end();
    expect(await last).toBeTypeOf("function");
  });
});
