import { describe, expect } from "vitest";
import type { Message } from "../../protocol/message.ts";
import type { Store } from "../../protocol/store.ts";
import type { ContractTest } from "./fixture.ts";
import {
  acquire,
  awkwardTexts,
  childRecord,
  commitOnce,
  ids,
  message,
  range,
  record,
} from "./samples.ts";

async function append(store: Store, sessionId: string, messages: readonly Message[]) {
  const at = (await store.session(sessionId)).length;
  await commitOnce(store, { appends: [{ sessionId, at, messages }] }, sessionId);
}

/** A session with one message and, when it is given, a user. */
async function begin(store: Store, sessionId: string, userId?: string) {
  const tasks = [
    record({ taskId: `task_${sessionId}`, sessionId, ...(userId !== undefined && { userId }) }),
  ];
  const appends = [{ sessionId, at: 0, messages: [message(`hello from ${sessionId}`)] }];
  await commitOnce(store, { log: `task_${sessionId}`, tasks, appends }, sessionId);
}

/** Transcripts that only grow, and the list of them. */
export function sessionCases(it: ContractTest): void {
  describe("sessions", () => {
    it("are empty at first", async ({ store }) => {
      expect(await store.session("sess_1")).toEqual([]);
      expect(await store.sessions({ limit: 10 })).toEqual([]);
    });

    it("grow at their end", async ({ store }) => {
      await append(store, "sess_1", [message("a"), message("b")]);
      await append(store, "sess_1", [message("c")]);
      expect(await store.session("sess_1")).toEqual([message("a"), message("b"), message("c")]);
    });

    it("are read from any index", async ({ store }) => {
      await append(
        store,
        "sess_1",
        range(0, 5).map((i) => message(String(i))),
      );
      for (const from of range(0, 7)) {
        const expected = range(from, 5).map((i) => `msg_${i}`);
        expect(ids(await store.session("sess_1", from))).toEqual(expected);
        expect(ids(await store.session("sess_1", from, 2))).toEqual(expected.slice(0, 2));
      }
      expect(await store.session("sess_1", 0, 0)).toEqual([]);
    });

    it("keep messages of every shape as they were", async ({ store }) => {
      const messages: Message[] = [
        { id: "msg_1", role: "system", content: [] },
        {
          id: "msg_2",
          role: "assistant",
          name: "assistant",
          content: [
            { type: "thinking", text: "hm", signature: "s" },
            { type: "tool_use", id: "call_1", name: "f", input: { a: [null, 1.5, { b: "" }] } },
            { type: "suspension", callId: "call_1", kind: "approval", approvalId: "apr_1" },
            { type: "compaction", summary: "…", keepFrom: 0 },
          ],
          metadata: { taskId: "task_1", iteration: 1, extra: { deep: [true] } },
          usage: { input_tokens: 1, output_tokens: 2, total_tokens: 3 },
        },
        {
          id: "msg_3",
          role: "tool",
          content: [
            {
              type: "tool_result",
              id: "call_1",
              name: "f",
              state: "success",
              output: [{ type: "image", source: { data: "AAAA", mimeType: "image/png" } }],
            },
          ],
        },
      ];
      await append(store, "sess_1", structuredClone(messages));
      expect(await store.session("sess_1")).toEqual(messages);
    });

    it("keep every text as it was", async ({ store }) => {
      const messages = awkwardTexts.map((text, i) => message(text, `msg_${i}`));
      await append(store, "sess_1", messages);
      expect(await store.session("sess_1")).toEqual(messages);
    });

    it("keep messages of a megabyte", async ({ store }) => {
      const messages = range(0, 4).map((i) => message(String(i).repeat(1_000_000), `msg_${i}`));
      await append(store, "sess_1", messages);
      expect(await store.session("sess_1")).toEqual(messages);
    });

    it("keep a thousand messages", async ({ store }) => {
      for (const block of range(0, 10)) {
        await append(
          store,
          "sess_1",
          range(block * 100, block * 100 + 100).map((i) => message(String(i))),
        );
      }
      expect(ids(await store.session("sess_1", 990))).toEqual(
        range(990, 1000).map((i) => `msg_${i}`),
      );
      expect(await store.session("sess_1")).toHaveLength(1000);
    });

    it("do not see each other", async ({ store }) => {
      await append(store, "sess_1", [message("a")]);
      await append(store, "sess_2", [message("b")]);
      await append(store, "SESS_1", [message("c")]);
      expect(ids(await store.session("sess_1"))).toEqual(["msg_a"]);
      expect(ids(await store.session("sess_2"))).toEqual(["msg_b"]);
      expect(ids(await store.session("SESS_1"))).toEqual(["msg_c"]);
    });

    it("may hold the same message as another", async ({ store }) => {
      await append(store, "sess_1", [message("a")]);
      await append(store, "sess_2", [message("a")]);
      expect(await store.session("sess_1")).toEqual(await store.session("sess_2"));
    });

    it("do not change with the lists that went in and came out", async ({ store }) => {
      const messages = [message("a"), message("b")];
      await append(store, "sess_1", messages);
      messages.pop();
      ((await store.session("sess_1")) as Message[]).reverse();
      expect(ids(await store.session("sess_1"))).toEqual(["msg_a", "msg_b"]);
    });
  });

  describe("the list of sessions", () => {
    it("says whose a session is, how long, since when and of what", async ({ store, clock }) => {
      const createdAt = clock.now();
      await begin(store, "sess_1", "ann");
      clock.advance(1000);
      await append(store, "sess_1", [message("more"), message("and more")]);
      expect(await store.sessions({ limit: 10 })).toEqual([
        {
          sessionId: "sess_1",
          userId: "ann",
          agentId: "assistant",
          title: "hello from sess_1",
          messages: 3,
          createdAt,
          updatedAt: createdAt + 1000,
        },
      ]);
    });

    it("has a session as soon as it has a task", async ({ store }) => {
      await commitOnce(store, { tasks: [record({ status: "queued", userId: "ann" })] });
      expect(await store.sessions({ limit: 10 })).toMatchObject([
        { sessionId: "sess_1", userId: "ann", messages: 0 },
      ]);
    });

    it("has no session for a lease or a post", async ({ store }) => {
      await acquire(store, "sess_1");
      await store.post({ id: "post_1", kind: "input", sessionId: "sess_2" });
      expect(await store.sessions({ limit: 10 })).toEqual([]);
    });

    it("is newest first and no longer than asked for", async ({ store, clock }) => {
      for (const i of range(0, 5)) {
        await begin(store, `sess_${i}`);
        clock.advance(10);
      }
      await append(store, "sess_0", [message("still the oldest")]);
      const listed = await store.sessions({ limit: 3 });
      expect(listed.map((info) => info.sessionId)).toEqual(["sess_4", "sess_3", "sess_2"]);
      expect(await store.sessions({ limit: 0 })).toEqual([]);
    });

    it("is the same list page by page, also for sessions of one millisecond", async ({ store }) => {
      for (const i of range(0, 25)) await begin(store, `sess_${(i * 7) % 25}`);
      const whole = (await store.sessions({ limit: 100 })).map((info) => info.sessionId);
      expect(whole).toHaveLength(25);
      const pages: string[] = [];
      for (let before: string | undefined; ; ) {
        const page = await store.sessions({ limit: 4, ...(before !== undefined && { before }) });
        if (page.length === 0) break;
        pages.push(...page.map((info) => info.sessionId));
        before = pages.at(-1);
      }
      expect(pages).toEqual(whole);
    });

    it("goes on after the cursor when newer sessions have come", async ({ store }) => {
      for (const i of range(0, 4)) await begin(store, `sess_${i}`);
      await begin(store, "sess_new");
      const listed = await store.sessions({ limit: 10, before: "sess_2" });
      expect(listed.map((info) => info.sessionId)).toEqual(["sess_1", "sess_0"]);
    });

    it("shows a user only that user's", async ({ store }) => {
      await begin(store, "sess_1", "ann");
      await begin(store, "sess_2", "bob");
      await begin(store, "sess_3", "ann");
      await begin(store, "sess_4");
      const listOf = async (userId: string) =>
        (await store.sessions({ userId, limit: 10 })).map((info) => info.sessionId);
      expect(await listOf("ann")).toEqual(["sess_3", "sess_1"]);
      expect(await listOf("bob")).toEqual(["sess_2"]);
      expect(await listOf("ANN")).toEqual([]);
      expect(await listOf("")).toEqual([]);
      expect(await store.sessions({ limit: 10 })).toHaveLength(4);
    });

    it("leaves a session with the user who began it", async ({ store }) => {
      await begin(store, "sess_1", "ann");
      await commitOnce(store, { tasks: [record({ taskId: "task_2", userId: "bob" })] });
      expect(await store.sessions({ userId: "bob", limit: 10 })).toEqual([]);
      expect(await store.sessions({ userId: "ann", limit: 10 })).toHaveLength(1);
    });

    it("refuses a cursor that is not in it", async ({ store }) => {
      await begin(store, "sess_1", "ann");
      await expect(store.sessions({ limit: 10, before: "sess_9" })).rejects.toMatchObject({
        code: "invalid_cursor",
      });
    });

    it("does not tell a user's session from none as another user's cursor", async ({ store }) => {
      await begin(store, "sess_1", "ann");
      await begin(store, "sess_2", "bob");
      const query = { userId: "ann", limit: 10 };
      const outcome = (before: string) =>
        store.sessions({ ...query, before }).catch((error) => error.code);
      expect(await outcome("sess_2")).toEqual(await outcome("sess_none"));
    });

    it("leaves out the sessions of children", async ({ store }) => {
      await commitOnce(store, {
        tasks: [record(), childRecord()],
        appends: [
          { sessionId: "sub-1", at: 0, messages: [message("do this")] },
          { sessionId: "sess_1", at: 0, messages: [message("a")] },
        ],
      });
      const listed = await store.sessions({ limit: 10 });
      expect(listed.map((info) => info.sessionId)).toEqual(["sess_1"]);
      expect(await store.session("sub-1")).toHaveLength(1);
    });

    it("shows one session by its id, a child's too, to the user whose it is", async ({ store }) => {
      await begin(store, "sess_2", "bob");
      await commitOnce(store, {
        tasks: [record({ userId: "ann" }), childRecord({ userId: "ann" })],
      });
      const one = async (sessionId: string, userId?: string) =>
        (await store.sessions({ sessionId, limit: 10, ...(userId && { userId }) })).map(
          (info) => info.sessionId,
        );
      for (const id of ["sess_1", "sub-1"]) {
        expect(await one(id)).toEqual([id]);
        expect(await one(id, "ann")).toEqual([id]);
        expect(await one(id, "bob")).toEqual([]);
      }
      expect(await one("sess_none")).toEqual([]);
    });

    it("is titled by the beginning of what a user said first", async ({ store }) => {
      const long = `  The ${"very ".repeat(40)}long\n\nstory`;
      await append(store, "sess_1", [
        { id: "msg_0", role: "system", content: [{ type: "text", text: "You help." }] },
        { id: "msg_1", role: "user", content: [] },
        message(long, "msg_2"),
        message("another", "msg_3"),
      ]);
      const [info] = await store.sessions({ limit: 10 });
      expect(info?.title).toMatch(/^The very very .*…$/);
      expect(info?.title?.length).toBeLessThanOrEqual(80);
    });

    it("is titled whatever was said first", async ({ store }) => {
      for (const [i, text] of awkwardTexts.entries()) {
        await append(store, `sess_${i}`, [message(text, "msg_1"), message("then", "msg_2")]);
      }
      const listed = await store.sessions({ limit: 100 });
      expect(listed).toHaveLength(awkwardTexts.length);
      for (const { title } of listed) expect(title?.isWellFormed()).toBe(true);
      expect(listed.find(({ sessionId }) => sessionId === "sess_2")?.title).toBe("NUL inside");
    });

    it("is not titled with half a letter", async ({ store }) => {
      for (const length of range(70, 82)) {
        await append(store, `sess_${length}`, [message(`${"x".repeat(length)}${"😀".repeat(20)}`)]);
      }
      const listed = await store.sessions({ limit: 100 });
      expect(listed).toHaveLength(12);
      for (const { title } of listed) expect(title?.isWellFormed()).toBe(true);
    });
  });
}
