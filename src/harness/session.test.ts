import { describe, expect, it } from "vitest";
import { agentTool, ReActAgent, tool } from "../agent/index.ts";
import type { Message } from "../contract/message.ts";
import type { Store } from "../contract/store.ts";
import { memoryStore } from "../store/memory.ts";
import {
  acquire,
  childRecord,
  commitOnce,
  message,
  range,
  record,
} from "../testing/store-contract/samples.ts";
import { scriptedModel } from "../testing.ts";
import { deleteSession } from "./delete-session.ts";
import { messageWithoutRepeat, type SessionExportHeader, sessionsOf } from "./session.ts";

async function begin(
  store: Store,
  sessionId: string,
  userId: string | undefined,
  texts: readonly string[],
) {
  const user = userId === undefined ? {} : { userId };
  const tasks = [record({ taskId: `task_${sessionId}`, sessionId, ...user })];
  const messages = texts.map((text, i) => message(text, `msg_${i}`));
  const commit = { log: `task_${sessionId}`, tasks, appends: [{ sessionId, at: 0, messages }] };
  await commitOnce(store, commit, sessionId);
}

async function linesOf(lines: AsyncIterable<string>): Promise<readonly unknown[]> {
  const read: unknown[] = [];
  for await (const line of lines) {
    expect(line).toMatch(/^[^\n]+\n$/);
    read.push(JSON.parse(line));
  }
  return read;
}

async function twoUsers(): Promise<Store> {
  const store = memoryStore();
  await begin(store, "sess_1", "ann", ["The river of Ann.", "more"]);
  await begin(store, "sess_2", "bob", ["The river of Bob."]);
  await begin(store, "sess_3", "ann", ["A lake."]);
  return store;
}

describe("the sessions of all users", () => {
  it("are listed page by page, searched, read and deleted", async () => {
    const store = await twoUsers();
    const sessions = sessionsOf(store, { allUsers: true });
    const first = await sessions.list({ limit: 2 });
    expect(first.map(({ sessionId }) => sessionId)).toEqual(["sess_3", "sess_2"]);
    const second = await sessions.list({ limit: 2, before: "sess_2" });
    expect(second.map(({ sessionId }) => sessionId)).toEqual(["sess_1"]);
    expect(await sessions.search("river")).toHaveLength(2);
    expect(await sessions.search("river", { limit: 1 })).toHaveLength(1);
    expect(await sessions.read("sess_1", { from: 1 })).toEqual([message("more", "msg_1")]);
    expect(await sessions.read("sess_1", { limit: 1 })).toHaveLength(1);
    expect(await deleteSession(store, undefined, "sess_1", "ann")).toBe(true);
    expect(await deleteSession(store, undefined, "sess_1", "ann")).toBe(false);
    await expect(sessions.read("sess_1")).rejects.toMatchObject({ code: "not_found" });
  });

  it("cannot be deleted while they run", async () => {
    const store = await twoUsers();
    await acquire(store, "sess_1");
    await expect(deleteSession(store, undefined, "sess_1", "ann")).rejects.toMatchObject({
      code: "conflict",
    });
    expect(await store.session("sess_1")).toHaveLength(2);
  });
});

describe("the sessions of one user", () => {
  it("are the only ones that the user sees", async () => {
    const store = await twoUsers();
    const sessions = sessionsOf(store, { userId: "ann" });
    const listed = await sessions.list();
    expect(listed.map(({ sessionId }) => sessionId)).toEqual(["sess_3", "sess_1"]);
    const found = await sessions.search("river");
    expect(found.map(({ sessionId }) => sessionId)).toEqual(["sess_1"]);
  });

  it("hide the existence of another user's session", async () => {
    const store = await twoUsers();
    const sessions = sessionsOf(store, { userId: "ann" });
    for (const id of ["sess_2", "sess_none"]) {
      const notFound = { code: "not_found", message: `There is no session ${id}.` };
      await expect(sessions.read(id)).rejects.toMatchObject(notFound);
      await expect(linesOf(sessions.export(id))).rejects.toMatchObject(notFound);
      await expect(sessions.list({ before: id })).rejects.toMatchObject({ code: "invalid_cursor" });
      expect(await deleteSession(store, undefined, id, "ann")).toBe(false);
    }
    expect(await store.session("sess_2")).toHaveLength(1);
  });

  it("are none without a scope, except those that were started without a user", async () => {
    const store = await twoUsers();
    await begin(store, "sess_4", undefined, ["The river of nobody."]);
    const sessions = sessionsOf(store);
    expect((await sessions.list()).map(({ sessionId }) => sessionId)).toEqual(["sess_4"]);
    const found = await sessions.search("river");
    expect(found.map(({ sessionId }) => sessionId)).toEqual(["sess_4"]);
    await expect(sessions.read("sess_1")).rejects.toMatchObject({ code: "not_found" });
    expect(await deleteSession(store, undefined, "sess_1", undefined)).toBe(false);
  });

  it.each([
    { userId: undefined },
    { userID: "ann" },
    { allUsers: false },
    { allUsers: undefined },
    { allUsers: true, userId: "ann" },
  ])("cannot be had with the scope %j", (scope) => {
    expect(() => sessionsOf(memoryStore(), scope as never)).toThrow(
      expect.objectContaining({ code: "invalid_settings" }),
    );
  });
});

describe("an exported session", () => {
  it("has a header and a line for each message", async () => {
    const store = memoryStore();
    const look = tool({ name: "look", description: "Looks.", execute: () => "seen" });
    const helper = new ReActAgent({
      name: "helper",
      model: scriptedModel([{ call: "look" }, "helped"]),
      tools: [look],
    });
    const agent = new ReActAgent({
      name: "lead",
      model: scriptedModel([{ call: "helper", input: { prompt: "Help." } }, "line\nline"]),
      tools: [agentTool(helper)],
      store,
    });
    const { task } = await agent.call("Go.", { sessionId: "s", userId: "ann" });
    const sessions = sessionsOf(store, { userId: "ann" });
    const [header, ...messages] = await linesOf(sessions.export("s"));
    const { tasks, ...rest } = header as SessionExportHeader;
    const [session] = await sessions.list();
    expect(rest).toEqual({ format: "rivulet-session", version: 1, session });
    expect(tasks).toEqual(await store.tasks({ rootTaskId: task.taskId }));
    expect(tasks.map(({ agentName }) => agentName)).toEqual(["lead", "helper"]);
    expect(messages).toEqual((await store.session("s")).map(messageWithoutRepeat));
    expect(JSON.stringify(messages)).not.toContain("fingerprint");

    const child = tasks[1]?.sessionId ?? "";
    const [childHeader, ...said] = await linesOf(sessions.export(child));
    expect((childHeader as SessionExportHeader).tasks).toEqual(tasks.slice(1));
    expect(said).toEqual((await store.session(child)).map(messageWithoutRepeat));
  });

  it("has every descendant task once, also of children with several tasks", async () => {
    const store = memoryStore();
    const tasks = [
      record(),
      childRecord(),
      childRecord({ taskId: "call_2" }),
      childRecord({ taskId: "call_3", sessionId: "sub-2", parentSessionId: "sub-1", depth: 2 }),
    ];
    await commitOnce(store, { tasks });
    const [header] = await linesOf(sessionsOf(store, { allUsers: true }).export("sess_1"));
    expect((header as SessionExportHeader).tasks).toEqual(tasks);
  });

  it("is read in pages while it is consumed", async () => {
    const store = memoryStore();
    const texts = range(0, 1_000).map((n) => `message ${n}`);
    await begin(store, "sess_1", "ann", texts);
    let most = 0;
    let read = 0;
    const counting: Store = {
      ...store,
      async session(id, from, limit) {
        const messages = await store.session(id, from, limit);
        most = Math.max(most, messages.length);
        read += messages.length;
        return messages;
      },
    };
    let taken = 0;
    for await (const line of sessionsOf(counting, { allUsers: true }).export("sess_1")) {
      if (taken > 0) expect((JSON.parse(line) as Message).id).toBe(`msg_${taken - 1}`);
      expect(read - taken).toBeLessThan(100);
      taken += 1;
    }
    expect(taken).toBe(1_001);
    expect(most).toBeLessThan(100);
  });

  it("has the number of messages in its header, even if more arrive", async () => {
    const store = memoryStore();
    await begin(store, "sess_1", "ann", range(0, 120).map(String));
    let lines = 0;
    for await (const _ of sessionsOf(store, { allUsers: true }).export("sess_1")) {
      if (lines++ > 0) continue;
      const appends = [{ sessionId: "sess_1", at: 120, messages: [message("late")] }];
      await commitOnce(store, { appends });
    }
    expect(lines).toBe(121);
  });

  it("throws when the session is deleted during the export", async () => {
    const store = memoryStore();
    await begin(store, "sess_1", "ann", range(0, 120).map(String));
    const lines = sessionsOf(store, { allUsers: true }).export("sess_1")[Symbol.asyncIterator]();
    await lines.next();
    await lines.next();
    await store.deleteSession("sess_1");
    const rest = async () => {
      while (!(await lines.next()).done);
    };
    await expect(rest()).rejects.toMatchObject({ code: "not_found" });
  });
});
