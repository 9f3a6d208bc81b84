import { join } from "node:path";
import type { Commit, Store } from "../../../src/contract/store.ts";
import { HarnessAgent, localFilesystem } from "../../../src/index.ts";
import { scriptedModel } from "../../../src/testing.ts";
import { toolTexts } from "../agent/support/agent.ts";
import { isSummary, readPage, summaryWith } from "./pages.ts";

export const pages = 16;

/** An agent that is compacted several times; the pages that it has read are in its prompt, so any process continues. */
export function crashReader(
  folder: string,
  store: Store,
  onWrite: (kind: "file" | "commit" | "compaction") => void = () => {},
): HarnessAgent {
  const files = localFilesystem(join(folder, "workspace"));
  const isCompaction = ({ appends = [] }: Commit) =>
    JSON.stringify(appends).includes('"type":"compaction"');
  const model = scriptedModel((request) => {
    const results = toolTexts(request).join("\n");
    const read = [...results.matchAll(/page (\d+)/g)].map(([, page]) => Number(page));
    if (isSummary(request)) return summaryWith("None.");
    const next = Math.max(0, ...read) + 1;
    return next > pages ? "All read." : { call: "read_page", input: { page: next } };
  });
  return new HarnessAgent({
    ...{ name: "reader", model, tools: [readPage], subagents: false, maxIters: pages + 2 },
    compaction: { window: 10_000, triggerTokens: 2_500, keepTokens: 800 },
    filesystem: {
      ...files,
      write(...args) {
        onWrite("file");
        return files.write(...args);
      },
    },
    store: {
      ...store,
      // Leases end at once, so that another process continues without a wait.
      acquire: (id, owner) => store.acquire(id, owner, 0),
      renew: (leases) => store.renew(leases, 0),
      commit(commit) {
        onWrite(isCompaction(commit) ? "compaction" : "commit");
        return store.commit(commit);
      },
    },
  });
}
