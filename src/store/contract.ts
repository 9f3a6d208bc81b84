import { describe } from "vitest";
import { closeCases } from "./contract/close.ts";
import { commitCases } from "./contract/commit.ts";
import { deleteCases } from "./contract/delete.ts";
import { durableCases } from "./contract/durable.ts";
import { expiredCases } from "./contract/expired.ts";
import { fileCases } from "./contract/files.ts";
import { type CreateStore, contractTest } from "./contract/fixture.ts";
import { inboxCases } from "./contract/inbox.ts";
import { leaseCases } from "./contract/lease.ts";
import { logCases } from "./contract/log.ts";
import { randomCases } from "./contract/random.ts";
import { retentionCases } from "./contract/retention.ts";
import { searchCases } from "./contract/search.ts";
import { sessionCases } from "./contract/session.ts";
import { taskCases } from "./contract/task.ts";
import { watchCases } from "./contract/watch.ts";

/** The suite that every store must pass; `create` opens an empty store, once for each case. */
export function storeContract(name: string, create: CreateStore): void {
  const it = contractTest(name, create);
  describe(`${name} store`, () => {
    leaseCases(it);
    expiredCases(it);
    commitCases(it);
    logCases(it);
    inboxCases(it);
    retentionCases(it);
    sessionCases(it);
    searchCases(it);
    deleteCases(it);
    taskCases(it);
    watchCases(it);
    fileCases(it);
    closeCases(it, create);
    durableCases(it);
    randomCases(it, create);
  });
}
