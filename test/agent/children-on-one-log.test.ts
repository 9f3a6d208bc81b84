import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { agentTool, memoryStore, ReActAgent, type Store, sqliteStore } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import { createFolder, removeFolder } from "../store/support/folder.ts";
import { expectLawful } from "./support/laws.ts";

const children = 50;

let folder: string;
beforeAll(() => {
  folder = createFolder();
});
afterAll(() => removeFolder(folder));

/** Counts the calls of `commit` and the commits that they wrote. */
function countedStore(store: Store) {
  const counts = { calls: 0, commits: 0 };
  const counted: Store = {
    ...store,
    async commit(...commits) {
      const written = await store.commit(...commits);
      counts.calls += 1;
      counts.commits += written;
      return written;
    },
  };
  return { store: counted, counts };
}

it.each([
  ["memory", () => memoryStore()],
  ["SQLite", () => sqliteStore(join(folder, "children.db"))],
])("steps of parallel children share transactions on the %s store", async (_, open) => {
  const { store, counts } = countedStore(open());
  const worker = new ReActAgent({
    name: "worker",
    store,
    model: scriptedModel([{ text: Array(20).fill("word ") }], { by: "prompt" }),
  });
  const calls = Array.from({ length: children }, () => ({
    call: "worker",
    input: { prompt: "Go." },
  }));
  const lead = new ReActAgent({
    name: "lead",
    store,
    model: scriptedModel([calls, "Done."]),
    tools: [agentTool(worker)],
  });
  const { task } = await lead.call("Go.");
  await expectLawful(store, task.taskId);
  expect(counts.commits).toBeGreaterThan(3 * children);
  expect(counts.calls).toBeLessThan(counts.commits / 3);
  await store.close();
});
