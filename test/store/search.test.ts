import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Store } from "../../src/protocol/store.ts";
import { commitOnce, deep, message, record } from "../../src/store/contract/samples.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { sqliteStore } from "../../src/store/sqlite.ts";
import { createFolder, removeFolder } from "./support/folder.ts";

let folder: string;
beforeEach(() => {
  folder = createFolder();
});
afterEach(() => removeFolder(folder));

// Few words, alike and awkward, so that random queries find something.
const word = fc.constantFrom(
  ...["river", "rivers", "riv", "ri", "Rivière", "42", "4", "河", "河边", "a/b", "ﬁsh", "½", "İ"],
  ...["'", '"', "AND", "NOT", "\0", "\ud83d", "x\u0301", "𞤀𞤣", "ſ", "_"],
);
const text = fc.array(word, { maxLength: 6 }).map((words) => words.join(" "));
const session = fc.constantFrom("sess_1", "sess_2", "sess_3");
const user = fc.constantFrom("ann", "bob");
const command = fc.oneof(
  { arbitrary: fc.record({ say: text, session, user }), weight: 6 },
  fc.record({ forget: session }),
  { arbitrary: fc.record({ find: text, user: fc.option(user, { nil: undefined }) }), weight: 3 },
);

async function say(store: Store, sessionId: string, said: string, userId: string) {
  const at = (await store.session(sessionId)).length;
  const tasks = [record({ taskId: `task_${sessionId}`, sessionId, userId })];
  const appends = [{ sessionId, at, messages: [message(said, `msg_${at}`)] }];
  await commitOnce(store, { log: `task_${sessionId}`, tasks, appends }, sessionId);
}

it("every store finds the same, in the same order", async () => {
  let round = 0;
  let found = 0;
  const property = fc.asyncProperty(fc.array(command, { maxLength: 30 }), async (commands) => {
    const sqlite = sqliteStore(join(folder, `${round++}.db`));
    const stores = [memoryStore(), sqlite] as const;
    try {
      for (const one of commands) {
        if ("say" in one) {
          for (const store of stores) await say(store, one.session, one.say, one.user);
        } else if ("forget" in one) {
          for (const store of stores) await store.deleteSession(one.forget);
        } else {
          const query = { text: one.find, limit: 10, ...(one.user && { userId: one.user }) };
          const [memory, disk] = [await stores[0].search(query), await stores[1].search(query)];
          expect(disk).toEqual(memory);
          found += memory.length;
        }
      }
    } finally {
      await sqlite.close();
    }
  });
  await fc.assert(property, { numRuns: deep ? 2_000 : 60 });
  expect(found).toBeGreaterThan(20);
});
