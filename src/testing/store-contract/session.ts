import { deepEqual, equal, match, ok, rejects } from "node:assert/strict";
import type { Message, Store } from "../../contract/index.ts";
import { assertMatches } from "../contract.ts";
import type { StoreSuite } from "./fixture.ts";
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

/** Creates a session with one message and an optional user. */
async function begin(store: Store, sessionId: string, userId?: string) {
  const tasks = [
    record({ taskId: `task_${sessionId}`, sessionId, ...(userId !== undefined && { userId }) }),
  ];
  const appends = [{ sessionId, at: 0, messages: [message(`hello from ${sessionId}`)] }];
  await commitOnce(store, { log: `task_${sessionId}`, tasks, appends }, sessionId);
}

/** Transcripts, and the list of sessions. */
export function sessionCases({ describe, it }: StoreSuite): void {
  describe("session", () => {
    it("is empty before the first append", async ({ store }) => {
      deepEqual(await store.session("sess_1"), []);
      deepEqual(await store.sessions({ limit: 10 }), []);
    });

    it("appends at the end", async ({ store }) => {
      await append(store, "sess_1", [message("a"), message("b")]);
      await append(store, "sess_1", [message("c")]);
      deepEqual(await store.session("sess_1"), [message("a"), message("b"), message("c")]);
    });

    it("reads from any index", async ({ store }) => {
      await append(
        store,
        "sess_1",
        range(0, 5).map((i) => message(String(i))),
      );
      for (const from of range(0, 7)) {
        const expected = range(from, 5).map((i) => `msg_${i}`);
        deepEqual(ids(await store.session("sess_1", from)), expected);
        deepEqual(ids(await store.session("sess_1", from, 2)), expected.slice(0, 2));
      }
      deepEqual(await store.session("sess_1", 0, 0), []);
    });

    it("keeps messages of every type unchanged", async ({ store }) => {
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
      deepEqual(await store.session("sess_1"), messages);
    });

    it("keeps every text unchanged", async ({ store }) => {
      const messages = awkwardTexts.map((text, i) => message(text, `msg_${i}`));
      await append(store, "sess_1", messages);
      deepEqual(await store.session("sess_1"), messages);
    });

    it("keeps a message of a megabyte", async ({ store }) => {
      const messages = range(0, 4).map((i) => message(String(i).repeat(1_000_000), `msg_${i}`));
      await append(store, "sess_1", messages);
      deepEqual(await store.session("sess_1"), messages);
    });

    it("keeps a thousand messages", async ({ store }) => {
      for (const block of range(0, 10)) {
        await append(
          store,
          "sess_1",
          range(block * 100, block * 100 + 100).map((i) => message(String(i))),
        );
      }
      deepEqual(
        ids(await store.session("sess_1", 990)),
        range(990, 1000).map((i) => `msg_${i}`),
      );
      equal((await store.session("sess_1")).length, 1000);
    });

    it("keeps sessions separate", async ({ store }) => {
      await append(store, "sess_1", [message("a")]);
      await append(store, "sess_2", [message("b")]);
      await append(store, "SESS_1", [message("c")]);
      deepEqual(ids(await store.session("sess_1")), ["msg_a"]);
      deepEqual(ids(await store.session("sess_2")), ["msg_b"]);
      deepEqual(ids(await store.session("SESS_1")), ["msg_c"]);
    });

    it("accepts one message in two sessions", async ({ store }) => {
      await append(store, "sess_1", [message("a")]);
      await append(store, "sess_2", [message("a")]);
      deepEqual(await store.session("sess_1"), await store.session("sess_2"));
    });

    it("copies arrays on append and on read", async ({ store }) => {
      const messages = [message("a"), message("b")];
      await append(store, "sess_1", messages);
      messages.pop();
      ((await store.session("sess_1")) as Message[]).reverse();
      deepEqual(ids(await store.session("sess_1")), ["msg_a", "msg_b"]);
    });
  });

  describe("sessions", () => {
    it("returns user, agent, title, length and times", async ({ store, clock }) => {
      const createdAt = clock.now();
      await begin(store, "sess_1", "ann");
      clock.advance(1000);
      await append(store, "sess_1", [message("more"), message("and more")]);
      deepEqual(await store.sessions({ limit: 10 }), [
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

    it("tells where a model's view begins after the last compaction", async ({ store }) => {
      const visibleFrom = async () =>
        (await store.sessions({ sessionId: "sess_1", limit: 1 }))[0]?.visibleFrom;
      const compaction = (keepFrom: number): Message => ({
        ...message("compaction"),
        content: [{ type: "compaction", summary: "…", keepFrom }],
      });
      await begin(store, "sess_1");
      await append(store, "sess_1", [message("a"), message("b")]);
      equal(await visibleFrom(), undefined);
      await append(store, "sess_1", [compaction(2), message("c")]);
      equal(await visibleFrom(), 2);
      await append(store, "sess_1", [message("d"), compaction(9)]);
      equal(await visibleFrom(), 6);
      await append(store, "sess_1", [message("e")]);
      equal(await visibleFrom(), 6);
      await store.deleteSession("sess_1");
      await begin(store, "sess_1");
      equal(await visibleFrom(), undefined);
    });

    it("lists a session once it has a task", async ({ store }) => {
      await commitOnce(store, { tasks: [record({ status: "queued", userId: "ann" })] });
      assertMatches(await store.sessions({ limit: 10 }), [
        { sessionId: "sess_1", userId: "ann", messages: 0 },
      ]);
    });

    it("begins the second of two tasks of a commit in a session without tasks", async ({
      store,
    }) => {
      const lease = await acquire(store);
      const appends = [{ sessionId: "sess_1", at: 0, messages: [message("early")] }];
      await store.commit({ lease, log: "task_1", appends });
      const tasks = [
        record({ taskId: "task_1", status: "completed" }),
        record({ taskId: "task_2", status: "queued" }),
      ];
      await store.commit({ lease, log: "task_2", tasks, begins: "task_2" });
      assertMatches(await store.sessions({ limit: 10 }), [{ sessionId: "sess_1", messages: 1 }]);
    });

    it("lists no session for a lease or a post", async ({ store }) => {
      await acquire(store, "sess_1");
      await store.post([{ id: "post_1", kind: "input", sessionId: "sess_2" }]);
      deepEqual(await store.sessions({ limit: 10 }), []);
    });

    it("lists the newest first, up to the limit", async ({ store, clock }) => {
      for (const i of range(0, 5)) {
        await begin(store, `sess_${i}`);
        clock.advance(10);
      }
      await append(store, "sess_0", [message("still the oldest")]);
      const listed = await store.sessions({ limit: 3 });
      deepEqual(
        listed.map((info) => info.sessionId),
        ["sess_4", "sess_3", "sess_2"],
      );
      deepEqual(await store.sessions({ limit: 0 }), []);
    });

    it("returns the same list page by page, also for sessions of one millisecond", async ({
      store,
    }) => {
      for (const i of range(0, 25)) await begin(store, `sess_${(i * 7) % 25}`);
      const whole = (await store.sessions({ limit: 100 })).map((info) => info.sessionId);
      equal(whole.length, 25);
      const pages: string[] = [];
      for (let before: string | undefined; ; ) {
        const page = await store.sessions({ limit: 4, ...(before !== undefined && { before }) });
        if (page.length === 0) break;
        pages.push(...page.map((info) => info.sessionId));
        before = pages.at(-1);
      }
      deepEqual(pages, whole);
    });

    it("continues after the cursor when newer sessions exist", async ({ store }) => {
      for (const i of range(0, 4)) await begin(store, `sess_${i}`);
      await begin(store, "sess_new");
      const listed = await store.sessions({ limit: 10, before: "sess_2" });
      deepEqual(
        listed.map((info) => info.sessionId),
        ["sess_1", "sess_0"],
      );
    });

    it("lists only the sessions of the given user", async ({ store }) => {
      await begin(store, "sess_1", "ann");
      await begin(store, "sess_2", "bob");
      await begin(store, "sess_3", "ann");
      await begin(store, "sess_4");
      const listOf = async (userId: string | null) =>
        (await store.sessions({ userId, limit: 10 })).map((info) => info.sessionId);
      deepEqual(await listOf("ann"), ["sess_3", "sess_1"]);
      deepEqual(await listOf("bob"), ["sess_2"]);
      deepEqual(await listOf("ANN"), []);
      deepEqual(await listOf(""), []);
      deepEqual(await listOf(null), ["sess_4"]);
      equal((await store.sessions({ limit: 10 })).length, 4);
    });

    it("keeps a session with the user of its first task", async ({ store }) => {
      await begin(store, "sess_1", "ann");
      await commitOnce(store, { tasks: [record({ taskId: "task_2", userId: "bob" })] });
      deepEqual(await store.sessions({ userId: "bob", limit: 10 }), []);
      equal((await store.sessions({ userId: "ann", limit: 10 })).length, 1);
    });

    it("rejects a cursor that is not in the list", async ({ store }) => {
      await begin(store, "sess_1", "ann");
      await rejects(store.sessions({ limit: 10, before: "sess_9" }), {
        code: "invalid_cursor",
      });
    });

    it("rejects another user's session as a cursor like one that does not exist", async ({
      store,
    }) => {
      await begin(store, "sess_1", "ann");
      await begin(store, "sess_2", "bob");
      const query = { userId: "ann", limit: 10 };
      const outcome = (before: string) =>
        store.sessions({ ...query, before }).catch((error) => error.code);
      deepEqual(await outcome("sess_2"), await outcome("sess_none"));
    });

    it("leaves out sessions of children", async ({ store }) => {
      await commitOnce(store, {
        tasks: [record(), childRecord()],
        appends: [
          { sessionId: "sub-1", at: 0, messages: [message("do this")] },
          { sessionId: "sess_1", at: 0, messages: [message("a")] },
        ],
      });
      const listed = await store.sessions({ limit: 10 });
      deepEqual(
        listed.map((info) => info.sessionId),
        ["sess_1"],
      );
      equal((await store.session("sub-1")).length, 1);
    });

    it("lists one session by its id, also a child's, only for its user", async ({ store }) => {
      await begin(store, "sess_2", "bob");
      await commitOnce(store, {
        tasks: [record({ userId: "ann" }), childRecord({ userId: "ann" })],
      });
      const one = async (sessionId: string, userId?: string) =>
        (await store.sessions({ sessionId, limit: 10, ...(userId && { userId }) })).map(
          (info) => info.sessionId,
        );
      for (const id of ["sess_1", "sub-1"]) {
        deepEqual(await one(id), [id]);
        deepEqual(await one(id, "ann"), [id]);
        deepEqual(await one(id, "bob"), []);
      }
      deepEqual(await one("sess_none"), []);
    });

    it("takes the title from the first user message", async ({ store }) => {
      const long = `  The ${"very ".repeat(40)}long\n\nstory`;
      await append(store, "sess_1", [
        { id: "msg_0", role: "system", content: [{ type: "text", text: "You help." }] },
        { id: "msg_1", role: "user", content: [] },
        message(long, "msg_2"),
        message("another", "msg_3"),
      ]);
      const [{ title = "" } = {}] = await store.sessions({ limit: 10 });
      match(title, /^The very very .*…$/);
      ok(title.length <= 80);
    });

    it("accepts any text as a title", async ({ store }) => {
      for (const [i, text] of awkwardTexts.entries()) {
        await append(store, `sess_${i}`, [message(text, "msg_1"), message("then", "msg_2")]);
      }
      const listed = await store.sessions({ limit: 100 });
      equal(listed.length, awkwardTexts.length);
      for (const { title } of listed) ok(title?.isWellFormed());
      equal(listed.find(({ sessionId }) => sessionId === "sess_2")?.title, "NUL inside");
    });

    it("does not split a surrogate pair in a title", async ({ store }) => {
      for (const length of range(70, 82)) {
        await append(store, `sess_${length}`, [message(`${"x".repeat(length)}${"😀".repeat(20)}`)]);
      }
      const listed = await store.sessions({ limit: 100 });
      equal(listed.length, 12);
      for (const { title } of listed) ok(title?.isWellFormed());
    });
  });
}
