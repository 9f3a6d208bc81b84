import { callback, readArgument, required } from "../base/options.ts";
import { type ContractCase, collectCases } from "./contract.ts";
import { claimCases } from "./store-contract/claim.ts";
import { closeCases } from "./store-contract/close.ts";
import { commitCases } from "./store-contract/commit.ts";
import { deleteCases } from "./store-contract/delete.ts";
import { durableCases } from "./store-contract/durable.ts";
import { expiredCases } from "./store-contract/expired.ts";
import { fileCases } from "./store-contract/files.ts";
import { type CreateStore, withStore } from "./store-contract/fixture.ts";
import { inboxCases } from "./store-contract/inbox.ts";
import { leaseCases } from "./store-contract/lease.ts";
import { logCases } from "./store-contract/log.ts";
import { lossCases } from "./store-contract/losses.ts";
import { nodeCases } from "./store-contract/nodes.ts";
import { queueCases } from "./store-contract/queue.ts";
import { retentionCases } from "./store-contract/retention.ts";
import { searchCases } from "./store-contract/search.ts";
import { sessionCases } from "./store-contract/session.ts";
import { taskCases } from "./store-contract/task.ts";
import { watchCases } from "./store-contract/watch.ts";

/**
 * The cases that every store must pass, for any test runner. `create` opens an empty store for each case.
 *
 * ```ts
 * import { test } from "node:test";
 * import { storeContract } from "rivulet/testing";
 *
 * for (const { group, name, run } of storeContract(({ clock }) => ({ store: myStore({ clock }) }))) {
 *   test(`${group}: ${name}`, async (context) => {
 *     const skipped = await run();
 *     if (skipped) context.skip(skipped);
 *   });
 * }
 * ```
 */
export function storeContract(create: CreateStore): readonly ContractCase[] {
  readArgument("create", create, required(callback));
  return collectCases(withStore(create), (suite) => {
    leaseCases(suite);
    lossCases(suite);
    expiredCases(suite);
    claimCases(suite);
    nodeCases(suite);
    commitCases(suite);
    queueCases(suite);
    logCases(suite);
    inboxCases(suite);
    retentionCases(suite);
    sessionCases(suite);
    searchCases(suite);
    deleteCases(suite);
    taskCases(suite);
    watchCases(suite);
    fileCases(suite);
    closeCases(suite);
    durableCases(suite);
  });
}
