import { describe, expect } from "vitest";
import type { Message } from "../../protocol/message.ts";
import type { SearchQuery, Store } from "../../protocol/store.ts";
import type { ContractTest } from "./fixture.ts";
import {
  acquire,
  awkwardTexts,
  childRecord,
  commitOnce,
  message,
  range,
  record,
} from "./samples.ts";

/** Says something in a session, which is begun for a user when it is new. */
async function say(
  store: Store,
  sessionId: string,
  said: string | Message,
  userId?: string,
): Promise<void> {
  const at = (await store.session(sessionId)).length;
  const task = record({ taskId: `task_${sessionId}`, sessionId, ...(userId && { userId }) });
  const messages = [typeof said === "string" ? message(said, `msg_${at}`) : said];
  const commit = { log: task.taskId, tasks: [task], appends: [{ sessionId, at, messages }] };
  await commitOnce(store, commit, sessionId);
}

/** Where a search finds something: `session:index`. */
async function find(
  store: Store,
  text: string,
  query: Partial<SearchQuery> = {},
): Promise<readonly string[]> {
  const matches = await store.search({ text, limit: 100, ...query });
  return matches.map(({ sessionId, index }) => `${sessionId}:${index}`);
}

/** Full-text search over transcripts. */
export function searchCases(it: ContractTest): void {
  describe("a search", () => {
    it("finds a message as soon as it is committed, and says where and what", async ({ store }) => {
      expect(await find(store, "river")).toEqual([]);
      await say(store, "sess_1", "Hello.");
      await say(store, "sess_1", "The river is wide.");
      expect(await store.search({ text: "river", limit: 10 })).toEqual([
        { sessionId: "sess_1", index: 1, role: "user", excerpt: "The river is wide." },
      ]);
    });

    it("finds nothing of a commit that was refused", async ({ store }) => {
      await say(store, "sess_1", "Hello.");
      const appends = [{ sessionId: "sess_1", at: 7, messages: [message("The river.")] }];
      await expect(commitOnce(store, { appends })).rejects.toMatchObject({ code: "conflict" });
      expect(await find(store, "river")).toEqual([]);
    });

    it("wants every word, in any order", async ({ store }) => {
      await say(store, "sess_1", "The river is wide.");
      await say(store, "sess_1", "Wide awake.");
      expect(await find(store, "wide river")).toEqual(["sess_1:0"]);
      expect(await find(store, "wide lake")).toEqual([]);
    });

    it("looks at letters and digits only, without case and accents", async ({ store }) => {
      await say(store, "sess_1", "Le CAFÉ, numéro 42!");
      for (const text of ["cafe", "Cafe\u0301", "caf\u00e9!", "NUMERO", "42", "(42)"]) {
        expect(await find(store, text), text).toEqual(["sess_1:0"]);
      }
      expect(await find(store, "4")).toEqual([]);
    });

    it("finds longer words by their first three letters, and others whole", async ({ store }) => {
      await say(store, "sess_1", "Invoices are in order.");
      expect(await find(store, "invoice")).toEqual(["sess_1:0"]);
      expect(await find(store, "inv ord")).toEqual(["sess_1:0"]);
      expect(await find(store, "or")).toEqual([]);
      expect(await find(store, "in")).toEqual(["sess_1:0"]);
      expect(await find(store, "voices")).toEqual([]);
    });

    it("keeps what is written together together", async ({ store }) => {
      await say(store, "sess_1", "See rivulet/protocol for it.");
      await say(store, "sess_1", "The protocol of a rivulet.");
      expect(await find(store, "rivulet/protocol")).toEqual(["sess_1:0"]);
      expect(await find(store, "rivulet-proto")).toEqual(["sess_1:0"]);
      expect(await find(store, "rivulet protocol")).toHaveLength(2);
    });

    it("finds what is written without spaces", async ({ store }) => {
      await say(store, "sess_1", "我们今天去河边散步。");
      expect(await find(store, "河边")).toEqual(["sess_1:0"]);
      expect(await find(store, "边河")).toEqual([]);
    });

    it("finds nothing for a text without words, and takes nothing for a command", async ({
      store,
    }) => {
      await say(store, "sess_1", "one AND two near three");
      for (const text of ["", "  ", "\"'*", "--", "\ud800", "\0"]) {
        expect(await find(store, text), JSON.stringify(text)).toEqual([]);
      }
      expect(await find(store, "one AND two")).toEqual(["sess_1:0"]);
      expect(await find(store, "one OR four")).toEqual([]);
      expect(await find(store, "NEAR( one three )")).toEqual(["sess_1:0"]);
      expect(await find(store, '"one')).toEqual(["sess_1:0"]);
      expect(await find(store, "words:one")).toEqual([]);
      for (const text of awkwardTexts) await find(store, text);
      expect(await find(store, "two ".repeat(1000))).toEqual(["sess_1:0"]);
    });

    it("looks at what was said and at results, not at thoughts and notes", async ({ store }) => {
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
        expect(await find(store, text), text).toEqual([]);
      }
      expect(await find(store, "openly")).toEqual(["sess_1:0"]);
      expect(await find(store, "outcome reminder")).toEqual(["sess_1:1"]);
    });

    it("gives the best first, then the newest", async ({ store }) => {
      await say(store, "sess_1", `The river, and ${"many other words ".repeat(50)}`);
      await say(store, "sess_2", "River to river, river by river.");
      await say(store, "sess_3", "A river.");
      await say(store, "sess_3", "A river.");
      await say(store, "sess_4", "A river.");
      const best = ["sess_2:0", "sess_4:0", "sess_3:1", "sess_3:0", "sess_1:0"];
      expect(await find(store, "river")).toEqual(best);
      expect(await find(store, "river", { limit: 2 })).toEqual(best.slice(0, 2));
      expect(await find(store, "river", { limit: 0 })).toEqual([]);
    });

    it("shows some of the text around the first word", async ({ store }) => {
      const around = `${"before 😀 ".repeat(100)}the\n\triver${" after 😀".repeat(100)}`;
      await say(store, "sess_1", around);
      const [match] = await store.search({ text: "river", limit: 1 });
      expect(match?.excerpt).toMatch(/^….*before 😀 the river after 😀.*…$/);
      expect(match?.excerpt.length).toBeLessThanOrEqual(162);
      expect(match?.excerpt.isWellFormed()).toBe(true);
    });

    it("is not stopped by a megabyte, or by hundreds of matches", async ({ store }) => {
      await say(store, "sess_1", `river ${"x".repeat(1_000_000)} lake`);
      expect(await find(store, "river")).toEqual(["sess_1:0"]);
      const messages = range(0, 500).map((i) => message(`A lake ${i}`, `msg_${i}`));
      await commitOnce(store, { appends: [{ sessionId: "sess_2", at: 0, messages }] }, "sess_2");
      expect(await find(store, "lake", { limit: 3 })).toEqual([
        "sess_2:499",
        "sess_2:498",
        "sess_2:497",
      ]);
    });

    it("shows a user only that user's", async ({ store }) => {
      await say(store, "sess_1", "The river of Ann.", "ann");
      await say(store, "sess_2", "The river of Bob.", "bob");
      await say(store, "sess_3", "The river of nobody.");
      expect(await find(store, "river", { userId: "ann" })).toEqual(["sess_1:0"]);
      expect(await find(store, "bob", { userId: "ann" })).toEqual([]);
      expect(await find(store, "river", { userId: "ANN" })).toEqual([]);
      expect(await find(store, "river", { userId: "an" })).toEqual([]);
      expect(await find(store, "river", { userId: "" })).toEqual([]);
      expect(await find(store, "river")).toEqual(["sess_3:0", "sess_2:0", "sess_1:0"]);
    });

    it("shows a user the same whatever others write", async ({ store }) => {
      await say(store, "sess_1", "The river, the lake, the lake.", "ann");
      await say(store, "sess_2", "The river, the river, the lake.", "ann");
      await say(store, "sess_3", `The river. ${"And so on. ".repeat(20)}`, "ann");
      const query = { text: "river", userId: "ann", limit: 10 };
      const before = await store.search(query);
      expect(before).toHaveLength(3);
      for (const i of range(0, 20)) {
        await say(store, `sess_bob_${i}`, `The river. ${"river ".repeat(i * 10)}`, "bob");
      }
      expect(await store.search(query)).toEqual(before);
    });

    it("knows a user whose name is anything", async ({ store }) => {
      const users = ['"', "a b", "ann OR bob", "ü", "💧", "x".repeat(128)];
      for (const [i, user] of users.entries()) await say(store, `sess_${i}`, "A river.", user);
      for (const [i, userId] of users.entries()) {
        expect(await find(store, "river", { userId }), userId).toEqual([`sess_${i}:0`]);
      }
    });

    it("goes by the user who began the session, also when that is told later", async ({
      store,
    }) => {
      const appends = [{ sessionId: "sess_1", at: 0, messages: [message("A river.")] }];
      await commitOnce(store, { appends });
      await commitOnce(store, { tasks: [record({ userId: "ann" })] });
      await commitOnce(store, { tasks: [record({ taskId: "task_2", userId: "bob" })] });
      expect(await find(store, "river", { userId: "ann" })).toEqual(["sess_1:0"]);
      expect(await find(store, "river", { userId: "bob" })).toEqual([]);
      expect(await find(store, "river")).toEqual(["sess_1:0"]);
    });

    it("leaves out the sessions of children", async ({ store }) => {
      const appends = [{ sessionId: "sub-1", at: 0, messages: [message("The river.")] }];
      await commitOnce(store, { tasks: [record({ userId: "ann" })] });
      await commitOnce(store, { appends, tasks: [childRecord({ userId: "ann" })] });
      expect(await find(store, "river")).toEqual([]);
      const early = [{ sessionId: "sub-2", at: 0, messages: [message("The river.")] }];
      await commitOnce(store, { appends: early });
      await commitOnce(store, { tasks: [childRecord({ taskId: "call_2", sessionId: "sub-2" })] });
      expect(await find(store, "river")).toEqual([]);
    });

    it("forgets a session with its deletion, and finds it when it begins anew", async ({
      store,
    }) => {
      await say(store, "sess_1", "The river.", "ann");
      await say(store, "sess_2", "The river.", "ann");
      await store.deleteSession("sess_1");
      expect(await find(store, "river")).toEqual(["sess_2:0"]);
      await say(store, "sess_1", "A lake.", "bob");
      expect(await find(store, "river")).toEqual(["sess_2:0"]);
      expect(await find(store, "lake", { userId: "bob" })).toEqual(["sess_1:0"]);
    });

    it("finds what an owner writes while it writes", async ({ store }) => {
      const lease = await acquire(store);
      for (const at of range(0, 20)) {
        const appends = [{ sessionId: "sess_1", at, messages: [message(`word${at}`)] }];
        await store.commit({ lease, log: "task_1", appends });
        expect(await find(store, `word${at}`)).toContain(`sess_1:${at}`);
      }
    });

    it("finds what another process has written, and what was written before", async ({
      store,
      second,
      reopen,
    }) => {
      await say(store, "sess_1", "The river.", "ann");
      expect(await find(second, "river", { userId: "ann" })).toEqual(["sess_1:0"]);
      const next = await reopen();
      expect(await find(next, "river", { userId: "ann" })).toEqual(["sess_1:0"]);
    });
  });
}
