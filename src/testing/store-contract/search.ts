import { deepEqual, equal, match, ok, rejects } from "node:assert/strict";
import type { Message, SearchQuery, Store } from "../../contract/index.ts";
import type { StoreSuite } from "./fixture.ts";
import {
  acquire,
  awkwardTexts,
  childRecord,
  commitOnce,
  message,
  range,
  record,
} from "./samples.ts";

/** Appends a user message to a session; starts the session for a user when it is new. */
async function say(
  store: Store,
  sessionId: string,
  text: string | Message,
  userId?: string,
): Promise<void> {
  const at = (await store.session(sessionId)).length;
  const task = record({ taskId: `task_${sessionId}`, sessionId, ...(userId && { userId }) });
  const messages = [typeof text === "string" ? message(text, `msg_${at}`) : text];
  const commit = { log: task.taskId, tasks: [task], appends: [{ sessionId, at, messages }] };
  await commitOnce(store, commit, sessionId);
}

/** The matches of a search as `session:index`. */
async function find(
  store: Store,
  text: string,
  query: Partial<SearchQuery> = {},
): Promise<readonly string[]> {
  const matches = await store.search({ text, limit: 100, ...query });
  return matches.map(({ sessionId, index }) => `${sessionId}:${index}`);
}

/** Full-text search over transcripts. */
export function searchCases({ describe, it }: StoreSuite): void {
  describe("search", () => {
    it("finds a committed message with its place and excerpt", async ({ store }) => {
      deepEqual(await find(store, "river"), []);
      await say(store, "sess_1", "Hello.");
      await say(store, "sess_1", "The river is wide.");
      deepEqual(await store.search({ text: "river", limit: 10 }), [
        { sessionId: "sess_1", index: 1, role: "user", excerpt: "The river is wide." },
      ]);
    });

    it("finds nothing from a rejected commit", async ({ store }) => {
      await say(store, "sess_1", "Hello.");
      const appends = [{ sessionId: "sess_1", at: 7, messages: [message("The river.")] }];
      await rejects(commitOnce(store, { appends }), { code: "conflict" });
      deepEqual(await find(store, "river"), []);
    });

    it("requires every word, in any order", async ({ store }) => {
      await say(store, "sess_1", "The river is wide.");
      await say(store, "sess_1", "Wide awake.");
      deepEqual(await find(store, "wide river"), ["sess_1:0"]);
      deepEqual(await find(store, "wide lake"), []);
    });

    it("ignores case, accents and punctuation", async ({ store }) => {
      await say(store, "sess_1", "Le CAFÉ, numéro 42!");
      for (const text of ["cafe", "Cafe\u0301", "caf\u00e9!", "NUMERO", "42", "(42)"]) {
        deepEqual(await find(store, text), ["sess_1:0"], text);
      }
      deepEqual(await find(store, "4"), []);
    });

    it("finds words by a beginning of three letters or more", async ({ store }) => {
      await say(store, "sess_1", "Invoices are in order.");
      deepEqual(await find(store, "invoice"), ["sess_1:0"]);
      deepEqual(await find(store, "inv ord"), ["sess_1:0"]);
      deepEqual(await find(store, "or"), []);
      deepEqual(await find(store, "in"), ["sess_1:0"]);
      deepEqual(await find(store, "voices"), []);
    });

    it("treats joined words as a phrase", async ({ store }) => {
      await say(store, "sess_1", "See rivulet/protocol for it.");
      await say(store, "sess_1", "The protocol of a rivulet.");
      deepEqual(await find(store, "rivulet/protocol"), ["sess_1:0"]);
      deepEqual(await find(store, "rivulet-proto"), ["sess_1:0"]);
      equal((await find(store, "rivulet protocol")).length, 2);
    });

    it("finds words in scripts without spaces", async ({ store }) => {
      await say(store, "sess_1", "我们今天去河边散步。");
      deepEqual(await find(store, "河边"), ["sess_1:0"]);
      deepEqual(await find(store, "边河"), []);
    });

    it("finds nothing for a text without words, and ignores operators", async ({ store }) => {
      await say(store, "sess_1", "one AND two near three");
      for (const text of ["", "  ", "\"'*", "--", "\ud800", "\0"]) {
        deepEqual(await find(store, text), [], JSON.stringify(text));
      }
      deepEqual(await find(store, "one AND two"), ["sess_1:0"]);
      deepEqual(await find(store, "one OR four"), []);
      deepEqual(await find(store, "NEAR( one three )"), ["sess_1:0"]);
      deepEqual(await find(store, '"one'), ["sess_1:0"]);
      deepEqual(await find(store, "words:one"), []);
      for (const text of awkwardTexts) await find(store, text);
      deepEqual(await find(store, "two ".repeat(1000)), ["sess_1:0"]);
    });

    it("searches texts and tool results, not reasoning and metadata", async ({ store }) => {
      await say(store, "sess_1", {
        id: "msg_1",
        role: "assistant",
        content: [
          { type: "thinking", text: "secretly" },
          { type: "text", text: "openly" },
          { type: "tool_use", id: "call_1", name: "look", input: { at: "argument" } },
          { type: "suspension", callId: "c", kind: "question", approvalId: "a", reason: "asking" },
          { type: "compaction", summary: "summing", keepFrom: 0 },
        ],
      });
      await say(store, "sess_1", {
        id: "msg_2",
        role: "tool",
        content: [
          {
            type: "tool_result",
            id: "call_1",
            name: "look",
            state: "success",
            output: [
              { type: "text", text: "outcome" },
              { type: "image", source: { data: "imagery", mimeType: "image/png" } },
            ],
          },
          { type: "hint", text: "reminder" },
        ],
      });
      for (const text of ["secretly", "argument", "asking", "summing", "imagery", "look"]) {
        deepEqual(await find(store, text), [], text);
      }
      deepEqual(await find(store, "openly"), ["sess_1:0"]);
      deepEqual(await find(store, "outcome reminder"), ["sess_1:1"]);
    });

    it("sorts by rank, then newest first", async ({ store }) => {
      await say(store, "sess_1", `The river, and ${"many other words ".repeat(50)}`);
      await say(store, "sess_2", "River to river, river by river.");
      await say(store, "sess_3", "A river.");
      await say(store, "sess_3", "A river.");
      await say(store, "sess_4", "A river.");
      const best = ["sess_2:0", "sess_4:0", "sess_3:1", "sess_3:0", "sess_1:0"];
      deepEqual(await find(store, "river"), best);
      deepEqual(await find(store, "river", { limit: 2 }), best.slice(0, 2));
      deepEqual(await find(store, "river", { limit: 0 }), []);
    });

    it("returns an excerpt around the first word", async ({ store }) => {
      const around = `${"before 😀 ".repeat(100)}the\n\triver${" after 😀".repeat(100)}`;
      await say(store, "sess_1", around);
      const [{ excerpt = "" } = {}] = await store.search({ text: "river", limit: 1 });
      match(excerpt, /^….*before 😀 the river after 😀.*…$/);
      ok(excerpt.length <= 162);
      ok(excerpt.isWellFormed());
    });

    it("handles a message of a megabyte and hundreds of matches", async ({ store }) => {
      await say(store, "sess_1", `river ${"x".repeat(1_000_000)} lake`);
      deepEqual(await find(store, "river"), ["sess_1:0"]);
      const messages = range(0, 500).map((i) => message(`A lake ${i}`, `msg_${i}`));
      await commitOnce(store, { appends: [{ sessionId: "sess_2", at: 0, messages }] }, "sess_2");
      deepEqual(await find(store, "lake", { limit: 3 }), [
        "sess_2:499",
        "sess_2:498",
        "sess_2:497",
      ]);
    });

    it("finds only the messages of the given user", async ({ store }) => {
      await say(store, "sess_1", "The river of Ann.", "ann");
      await say(store, "sess_2", "The river of Bob.", "bob");
      await say(store, "sess_3", "The river of nobody.");
      deepEqual(await find(store, "river", { userId: "ann" }), ["sess_1:0"]);
      deepEqual(await find(store, "bob", { userId: "ann" }), []);
      deepEqual(await find(store, "river", { userId: "ANN" }), []);
      deepEqual(await find(store, "river", { userId: "an" }), []);
      deepEqual(await find(store, "river", { userId: "" }), []);
      deepEqual(await find(store, "river", { userId: null }), ["sess_3:0"]);
      deepEqual(await find(store, "river"), ["sess_3:0", "sess_2:0", "sess_1:0"]);
    });

    it("ranks independently of other users' messages", async ({ store }) => {
      await say(store, "sess_1", "The river, the lake, the lake.", "ann");
      await say(store, "sess_2", "The river, the river, the lake.", "ann");
      await say(store, "sess_3", `The river. ${"And so on. ".repeat(20)}`, "ann");
      const query = { text: "river", userId: "ann", limit: 10 };
      const before = await store.search(query);
      equal(before.length, 3);
      for (const i of range(0, 20)) {
        await say(store, `sess_bob_${i}`, `The river. ${"river ".repeat(i * 10)}`, "bob");
      }
      deepEqual(await store.search(query), before);
    });

    it("accepts any characters in a user id", async ({ store }) => {
      const users = ['"', "a b", "ann OR bob", "ü", "💧", "x".repeat(128)];
      for (const [i, user] of users.entries()) await say(store, `sess_${i}`, "A river.", user);
      for (const [i, userId] of users.entries()) {
        deepEqual(await find(store, "river", { userId }), [`sess_${i}:0`], userId);
      }
    });

    it("assigns messages to the user of the session's first task, even if it comes later", async ({
      store,
    }) => {
      const appends = [{ sessionId: "sess_1", at: 0, messages: [message("A river.")] }];
      await commitOnce(store, { appends });
      await commitOnce(store, { tasks: [record({ userId: "ann" })] });
      await commitOnce(store, { tasks: [record({ taskId: "task_2", userId: "bob" })] });
      deepEqual(await find(store, "river", { userId: "ann" }), ["sess_1:0"]);
      deepEqual(await find(store, "river", { userId: "bob" }), []);
      deepEqual(await find(store, "river"), ["sess_1:0"]);
    });

    it("leaves out sessions of children", async ({ store }) => {
      const appends = [{ sessionId: "sub-1", at: 0, messages: [message("The river.")] }];
      await commitOnce(store, { tasks: [record({ userId: "ann" })] });
      await commitOnce(store, { appends, tasks: [childRecord({ userId: "ann" })] });
      deepEqual(await find(store, "river"), []);
      const early = [{ sessionId: "sub-2", at: 0, messages: [message("The river.")] }];
      await commitOnce(store, { appends: early });
      await commitOnce(store, { tasks: [childRecord({ taskId: "call_2", sessionId: "sub-2" })] });
      deepEqual(await find(store, "river"), []);
    });

    it("forgets a deleted session and finds it when it starts again", async ({ store }) => {
      await say(store, "sess_1", "The river.", "ann");
      await say(store, "sess_2", "The river.", "ann");
      await store.deleteSession("sess_1");
      deepEqual(await find(store, "river"), ["sess_2:0"]);
      await say(store, "sess_1", "A lake.", "bob");
      deepEqual(await find(store, "river"), ["sess_2:0"]);
      deepEqual(await find(store, "lake", { userId: "bob" }), ["sess_1:0"]);
    });

    it("finds messages of a running conversation", async ({ store }) => {
      const lease = await acquire(store);
      for (const at of range(0, 20)) {
        const appends = [{ sessionId: "sess_1", at, messages: [message(`word${at}`)] }];
        await store.commit({ lease, log: "task_1", appends });
        ok((await find(store, `word${at}`)).includes(`sess_1:${at}`));
      }
    });

    it("finds messages of another process and of earlier ones", async ({
      store,
      openSecond,
      reopen,
    }) => {
      const second = await openSecond();
      await say(store, "sess_1", "The river.", "ann");
      deepEqual(await find(second, "river", { userId: "ann" }), ["sess_1:0"]);
      const next = await reopen();
      deepEqual(await find(next, "river", { userId: "ann" }), ["sess_1:0"]);
    });
  });
}
