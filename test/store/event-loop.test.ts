import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { memoryStore, ReActAgent, sqliteStore } from "../../src/index.ts";
import { acquire, deltas, range } from "../../src/testing/store-contract/samples.ts";
import { scriptedModel } from "../../src/testing.ts";
import { createFolder, removeFolder } from "./support/folder.ts";

let folder: string;
beforeAll(() => {
  folder = createFolder();
});
afterAll(() => removeFolder(folder));

/** Counts the turns of the event loop until `work` is done. */
async function turnsDuring(work: Promise<unknown>): Promise<number> {
  let turns = 0;
  let isDone = false;
  const count = () => {
    turns += 1;
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  await work;
  isDone = true;
  return turns;
}

describe("the event loop turns", () => {
  it("during runs of an instant model on the memory store", async () => {
    const agent = new ReActAgent({
      name: "echo",
      store: memoryStore(),
      model: scriptedModel(["Yes."], { by: "prompt" }),
    });
    const runs = async () => {
      for (const n of range(0, 200)) await agent.call("Hi.", { sessionId: `s-${n}` });
    };
    expect(await turnsDuring(runs())).toBeGreaterThan(10);
  });

  it("between the commits of many sessions on SQLite", async () => {
    const store = sqliteStore(join(folder, "many.db"));
    const leases = await Promise.all(range(0, 150).map((n) => acquire(store, `sess_${n}`)));
    // 30 million characters in one turn: at least seven transactions.
    const commits = leases.map((lease) =>
      store.commit({
        lease,
        log: `task_${lease.sessionId}`,
        events: deltas(10).map((event) => ({ ...event, delta: "x".repeat(20_000) })),
      }),
    );
    expect(await turnsDuring(Promise.all(commits))).toBeGreaterThan(2);
    await store.close();
  });
});
