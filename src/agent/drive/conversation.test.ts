import { describe, expect, it, vi } from "vitest";
import { userMessage } from "../../contract/message.ts";
import type { Store, TaskRecord } from "../../contract/store.ts";
import type { LogEvent } from "../../protocol/event.ts";
import { isTerminal } from "../../protocol/task.ts";
import { memoryStore } from "../../store/memory.ts";
import { type Script, scriptedModel } from "../../testing.ts";
import { type AgentSettings, settingsOf } from "../loop/settings.ts";
import { tool } from "../tool/tool.ts";
import type { Conversation } from "./conversation.ts";
import { drive } from "./drive.ts";
import { cancelRow, rootRecord } from "./plan.ts";
import { processOf } from "./process.ts";
import { taskReached } from "./rest.ts";

const sessionId = "s";
const never = new AbortController().signal;
const event = (name: string) =>
  ({ type: "task.custom", task_id: "t", name }) as unknown as LogEvent;
const isEnded = ({ status }: TaskRecord) => isTerminal(status);

const settingsOn = (store: Store, script: Script = () => "Done.", name = "lead") =>
  settingsOf({ name, model: scriptedModel(script), store });

const startTask = (conversation: Conversation, record: TaskRecord, settings: AgentSettings) =>
  drive(conversation, record, { settings, isNew: true });

async function enter(store: Store, settings = settingsOn(store)): Promise<Conversation> {
  const conversation = await processOf(store).enter(sessionId, settings);
  if (conversation === undefined) throw new Error("Another process owns the conversation.");
  return conversation;
}

/** The record of a root task that has not begun, as a door stores it. */
function queued(store: Store, text: string, settings = settingsOn(store)): TaskRecord {
  return { ...rootRecord(settings, sessionId, {}), input: [userMessage(text)] };
}

async function statuses(store: Store): Promise<readonly string[]> {
  return (await store.tasks({ sessionId })).map(({ status }) => status);
}

describe("a conversation", () => {
  it("has one writer per log, and writes what is left before it releases the lease", async () => {
    const store = memoryStore();
    const conversation = await enter(store);
    expect(conversation.log("t")).toBe(conversation.log("t"));
    conversation.log("t").append(event("a"));
    await conversation.leave();
    expect(await store.last("t")).toBe(0);
    expect(await store.owner(sessionId)).toBeUndefined();
  });

  it("keeps its lease until the tasks that it drives rest", async () => {
    const store = memoryStore();
    const hold = Promise.withResolvers<string>();
    const settings = settingsOn(store, () => hold.promise);
    const conversation = await enter(store, settings);
    const { begun, ended } = startTask(conversation, queued(store, "Go."), settings);
    await begun;
    await conversation.leave();
    expect(await store.owner(sessionId)).toBeDefined();
    hold.resolve("Done.");
    await ended;
    await conversation.closed;
    expect(await store.owner(sessionId)).toBeUndefined();
    expect(await statuses(store)).toEqual(["completed"]);
  });

  it("reads its workload when it is entered and when it is released, and not in between", async () => {
    const inner = memoryStore();
    const read = vi.fn(inner.posts);
    const store: Store = { ...inner, posts: read };
    const settings = settingsOn(store);
    const conversation = await enter(store, settings);
    const { begun, ended } = startTask(conversation, queued(store, "Hello."), settings);
    await begun;
    await conversation.leave();
    await ended;
    await conversation.closed;
    await vi.waitFor(() => {
      const looks = read.mock.calls.filter(([query]) => query.conversation === sessionId);
      expect(looks).toHaveLength(2);
    });
    expect(await statuses(store)).toEqual(["completed"]);
  });

  it("drops a late row that was posted after its last look", async () => {
    const inner = memoryStore();
    let row: ReturnType<typeof cancelRow> | undefined;
    const store: Store = {
      ...inner,
      async release(lease) {
        if (row) await inner.post([row]);
        row = undefined;
        await inner.release(lease);
      },
    };
    const settings = settingsOn(store);
    const conversation = await enter(store, settings);
    const record = queued(store, "Go.");
    row = cancelRow(record, "Too late.");
    await startTask(conversation, record, settings).ended;
    await conversation.leave();
    await vi.waitFor(async () => {
      expect(row).toBeUndefined();
      expect(await store.posts({ conversation: sessionId })).toEqual([]);
    });
    expect(await statuses(store)).toEqual(["completed"]);
  });

  it("is lost when the store refuses a commit, and leaving it throws nothing", async () => {
    const store: Store = {
      ...memoryStore(),
      commit: () => Promise.reject(new Error("gone")),
      release: () => Promise.reject(new Error("gone")),
    };
    const conversation = await enter(store);
    await expect(conversation.log("t").commit({})).rejects.toThrow("gone");
    expect(conversation.lost.signal.reason).toMatchObject({ code: "store_failed" });
    expect(conversation.isOpen).toBe(false);
    await conversation.leave();
  });

  it("is lost when a store does not say how many commits it has written", async () => {
    const inner = memoryStore();
    const commit = async (...commits: Parameters<Store["commit"]>) => void inner.commit(...commits);
    const conversation = await enter({ ...inner, commit: commit as unknown as Store["commit"] });
    await expect(conversation.log("t").commit({})).rejects.toMatchObject({
      code: "store_failed",
      message: "The store's commit() returned undefined.",
    });
    await conversation.leave();
  });

  it("keeps what other tasks write before and after a refused beginning", async () => {
    const store = memoryStore();
    const conversation = await enter(store);
    const [first, second] = [queued(store, "One."), queued(store, "Two.")];
    const running = { ...first, status: "in_progress" as const };
    const [log, refused] = [conversation.log(first.taskId), conversation.log(second.taskId)];
    const outcomes = await Promise.allSettled([
      log.commit({ tasks: [running], begins: first.taskId }),
      refused.commit({ posts: [cancelRow(first, "enough")] }),
      refused.commit({ tasks: [second], begins: second.taskId }),
      refused.commit({}),
      log.commit({ tasks: [{ ...running, committedOutput: 1 }] }),
    ]);
    const wrote = { status: "fulfilled" };
    const isRefused = { status: "rejected", reason: { code: "agent_busy" } };
    expect(outcomes).toMatchObject([wrote, wrote, isRefused, isRefused, wrote]);
    expect(await store.task(first.taskId)).toMatchObject({ committedOutput: 1 });
    expect(await store.task(second.taskId)).toBeUndefined();
    expect(await store.posts({ sessionId })).toHaveLength(1);
    expect(conversation.isOpen).toBe(true);
    expect(conversation.log(second.taskId)).not.toBe(refused);
    conversation.lose(new Error("over"));
    await conversation.leave();
  });

  it("aborts the tasks that it drives when it is lost", async () => {
    const store = memoryStore();
    const settings = settingsOn(store, () => [{ hang: true }]);
    const conversation = await enter(store, settings);
    const started = startTask(conversation, queued(store, "Go."), settings);
    await started.begun;
    const error = new Error("gone");
    conversation.lose(error);
    await expect(started.ended).rejects.toMatchObject({ code: "store_failed", message: "gone" });
    expect(started.controller.signal.aborted).toBe(true);
    await conversation.leave();
    expect(await statuses(store)).toEqual(["in_progress"]);
  });

  it("stays open when the store refuses to begin a task before an earlier one", async () => {
    const store = memoryStore();
    await store.enqueue(queued(store, "first", settingsOn(store, [], "stranger")));
    const settings = settingsOn(store);
    const conversation = await enter(store, settings);
    const started = startTask(conversation, queued(store, "second"), settings);
    await expect(started.ended).rejects.toMatchObject({ code: "agent_busy" });
    expect(conversation.isOpen).toBe(true);
    expect(await statuses(store)).toEqual(["queued"]);
    await conversation.leave();
  });
});

describe("the scheduler", () => {
  it("begins queued tasks in the order of their insertion, one at a time", async () => {
    const store = memoryStore();
    for (const text of ["one", "two", "three"]) await store.enqueue(queued(store, text));
    const conversation = await enter(store);
    await conversation.leave();
    await conversation.closed;
    expect(await statuses(store)).toEqual(["completed", "completed", "completed"]);
    const texts = (await store.session(sessionId)).map(({ content: [block] }) =>
      block?.type === "text" ? block.text : undefined,
    );
    expect(texts).toEqual(["one", "Done.", "two", "Done.", "three", "Done."]);
  });

  it("starts what another process posts while it owns the conversation", async () => {
    const store = memoryStore();
    const conversation = await enter(store);
    const { taskId } = await store.enqueue(queued(store, "Go."));
    await taskReached(store, taskId, isEnded, never);
    expect(await statuses(store)).toEqual(["completed"]);
    await conversation.leave();
  });

  it("drives a task once, however often it looks", async () => {
    const store = memoryStore();
    const model = vi.fn(() => "Done.");
    const settings = settingsOn(store, model);
    await store.enqueue(queued(store, "Go."));
    const conversation = await enter(store, settings);
    await Promise.all([conversation.look(), conversation.look(), conversation.look()]);
    await conversation.leave();
    await conversation.closed;
    expect(model).toHaveBeenCalledTimes(1);
  });

  it("leaves the tasks of unknown agents queued, and those behind them", async () => {
    const store = memoryStore();
    const stranger = settingsOn(store, [], "stranger");
    await store.enqueue(queued(store, "first", stranger));
    await store.enqueue(queued(store, "second"));
    const conversation = await enter(store);
    await conversation.leave();
    expect(await statuses(store)).toEqual(["queued", "queued"]);
    expect(await store.owner(sessionId)).toBeUndefined();
    const informed = await enter(store, stranger);
    informed.addAgent(settingsOn(store));
    await informed.leave();
    await informed.closed;
    // The stranger's script is empty, so its task fails; the next one runs.
    expect(await statuses(store)).toEqual(["failed", "completed"]);
  });

  it("cancels a queued task in one commit and takes the row", async () => {
    const store = memoryStore();
    const record = await store.enqueue(queued(store, "Go."));
    await store.post([cancelRow(record, "enough")]);
    const commits: unknown[] = [];
    const counted: Store = {
      ...store,
      async commit(commit) {
        commits.push(commit.events?.map(({ type }) => type));
        return store.commit(commit);
      },
    };
    const conversation = await enter(counted);
    await conversation.leave();
    await conversation.closed;
    expect(commits).toEqual([["task.created", "task.cancelling", "task.cancelled"]]);
    expect(await statuses(store)).toEqual(["cancelled"]);
    expect(await store.posts({ sessionId })).toEqual([]);
  });

  it("aborts a running task when its cancel is posted", async () => {
    const store = memoryStore();
    const settings = settingsOn(store, () => [{ hang: true }]);
    const conversation = await enter(store, settings);
    const record = queued(store, "Go.");
    const { begun, ended } = startTask(conversation, record, settings);
    await begun;
    await store.post([cancelRow(record, "enough")]);
    await ended;
    expect(await statuses(store)).toEqual(["cancelled"]);
    await conversation.leave();
    expect(await store.posts({ sessionId })).toEqual([]);
  });

  it("takes rows that come too late, so that they do not list the conversation as expired", async () => {
    const store = memoryStore();
    const settings = settingsOn(store);
    const conversation = await enter(store, settings);
    const record = queued(store, "Go.");
    await startTask(conversation, record, settings).ended;
    await conversation.leave();
    await store.post([cancelRow(record, "enough"), cancelRow(record, "enough", true)]);
    expect(await store.expired(10)).toEqual([sessionId]);
    await (await enter(store, settings)).leave();
    expect(await store.posts({ sessionId })).toEqual([]);
    expect(await store.expired(10)).toEqual([]);
    expect(await statuses(store)).toEqual(["completed"]);
  });

  it("starts a task for input that was posted to the idle session", async () => {
    const store = memoryStore();
    const settings = settingsOn(store);
    const conversation = await enter(store, settings);
    await startTask(conversation, queued(store, "Go."), settings).ended;
    const message = userMessage("And now?");
    await store.post([{ id: "p", kind: "input", sessionId, message }]);
    await vi.waitFor(async () => expect(await statuses(store)).toEqual(["completed", "completed"]));
    await conversation.leave();
    expect(await store.posts({ sessionId })).toEqual([]);
    expect(await store.session(sessionId)).toContainEqual(
      expect.objectContaining({ content: message.content }),
    );
  });
});

describe("release, then look", () => {
  /** A store that runs `post` when the last look is over, right before the lease is released. */
  function postingAtRelease(store: Store, post: () => Promise<unknown>): Store {
    let isPosted = false;
    return {
      ...store,
      async release(lease) {
        if (!isPosted) {
          isPosted = true;
          await post();
        }
        await store.release(lease);
      },
    };
  }

  it("runs a task that was queued after the owner's last look", async () => {
    const inner = memoryStore();
    const record = queued(inner, "Go.");
    const store = postingAtRelease(inner, () => inner.enqueue(record));
    const conversation = await enter(store);
    await conversation.leave();
    await taskReached(inner, record.taskId, isEnded, never);
    expect(await statuses(inner)).toEqual(["completed"]);
    await vi.waitFor(async () => expect(await inner.owner(sessionId)).toBeUndefined());
  });

  it("ends a task whose cancel was posted after the owner's last look", async () => {
    const inner = memoryStore();
    const ask = tool({ name: "ask", description: "Asks.", needsApproval: true, execute: () => "" });
    const model = scriptedModel(() => ({ call: "ask" }));
    const settings = settingsOf({ name: "lead", model, store: inner, tools: [ask] });
    const record = queued(inner, "Go.");
    const conversation = await enter(inner, settings);
    await startTask(conversation, record, settings).ended;
    await conversation.leave();
    expect(await statuses(inner)).toEqual(["suspended"]);
    const store = postingAtRelease(inner, () => inner.post([cancelRow(record, "enough")]));
    await (await enter(store, settings)).leave();
    await taskReached(inner, record.taskId, isEnded, never);
    expect(await statuses(inner)).toEqual(["cancelled"]);
  });

  it("leaves the task to a process that has taken the lease meanwhile", async () => {
    const inner = memoryStore();
    const record = queued(inner, "Go.");
    const store: Store = {
      ...postingAtRelease(inner, () => inner.enqueue(record)),
      async release(lease) {
        await inner.enqueue(record);
        await inner.release(lease);
        await inner.acquire(sessionId, "another process", 60_000);
      },
    };
    const conversation = await enter(store);
    await conversation.leave();
    await conversation.closed;
    await new Promise((resolve) => setImmediate(resolve)); // another look would have begun by then
    expect(await statuses(inner)).toEqual(["queued"]);
    expect(processOf(store).owned(sessionId)).toBeUndefined();
  });
});
