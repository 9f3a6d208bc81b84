import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Store } from "../../src/contract/store.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { sqliteStore } from "../../src/store/sqlite.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { commitOnce, message, record } from "../../src/testing/store-contract/samples.ts";
import { createFolder, removeFolder } from "./support/folder.ts";

let folder: string;
beforeEach(() => {
  folder = createFolder();
});
afterEach(() => removeFolder(folder));

// Few and similar words, so that random queries match.
const words = [
  ...["river", "rivers", "riv", "ri", "Rivière", "42", "4", "河", "河边", "a/b", "ﬁsh", "½", "İ"],
  ...["'", '"', "AND", "NOT", "\0", "\ud83d", "x\u0301", "𞤀𞤣", "ſ", "_"],
];
const word = fc.constantFrom(...words);
const session = fc.constantFrom("sess_1", "sess_2", "sess_3");
const command = fc.oneof(
  {
    arbitrary: fc.record({
      say: fc.array(word, { minLength: 1, maxLength: 12 }).map((list) => list.join(" ")),
      session,
      user: fc.constantFrom("ann", "bob"),
    }),
    weight: 8,
  },
  fc.record({ forget: session }),
  // A search completes the index, so later commands change an index that has something.
  fc.record({ find: word }),
);
const phrase = fc.array(word, { minLength: 2, maxLength: 3 }).map((list) => list.join(" "));

async function say(store: Store, sessionId: string, text: string, userId: string) {
  const at = (await store.session(sessionId)).length;
  const tasks = [record({ taskId: `task_${sessionId}`, sessionId, userId })];
  const appends = [{ sessionId, at, messages: [message(text, `msg_${at}`)] }];
  await commitOnce(store, { log: `task_${sessionId}`, tasks, appends }, sessionId);
}

it("finds the same messages in the same order in every store", async () => {
  let round = 0;
  let found = 0;
  const property = fc.asyncProperty(
    fc.array(command, { minLength: 5, maxLength: 30 }),
    fc.array(phrase, { maxLength: 10 }),
    async (commands, phrases) => {
      const memory = memoryStore();
      const sqlite = sqliteStore(join(folder, `${round++}.db`));
      try {
        for (const one of commands) {
          for (const store of [memory, sqlite]) {
            if ("say" in one) await say(store, one.session, one.say, one.user);
            else if ("find" in one) await store.search({ text: one.find, limit: 1 });
            else await store.deleteSession(one.forget);
          }
        }
        for (const text of [...words, ...phrases]) {
          for (const scope of [{}, { userId: "ann" }]) {
            const wanted = await memory.search({ text, limit: 10, ...scope });
            expect(await sqlite.search({ text, limit: 10, ...scope })).toEqual(wanted);
            found += wanted.length;
          }
        }
      } finally {
        await sqlite.close();
      }
    },
  );
  await fc.assert(property, { numRuns: isDeep ? 2_000 : 50 });
  expect(found).toBeGreaterThan(500);
});
