import { expect, it } from "vitest";
import { HarnessAgent, memoryStore } from "../../../src/index.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import { scriptedModel } from "../../../src/testing.ts";
import { expectLawful } from "../../agent/support/laws.ts";
import { toolTexts } from "../agent/support/agent.ts";
import { workspaceWith } from "../agent/support/workspace.ts";
import { isSummary, readPage, summaryWith } from "./pages.ts";
import { blocksOf, compactions } from "./support.ts";

const iterations = isDeep ? 1_000 : 150;
const window = 10_000;

it(`stays valid and within the window over ${iterations} iterations, and finds an early fact again`, async () => {
  const store = memoryStore();
  const workspace = workspaceWith({
    "facts/code.md": `The code word is heron.\n${"filler ".repeat(300)}`,
  });
  const sizes: number[] = [];
  let turn = 0;
  let found = "";
  // The summaries say nothing about the fact: the model has to look it up in the file of the pruned result.
  const model = scriptedModel((request) => {
    if (isSummary(request)) return summaryWith("Nothing in particular.");
    sizes.push(JSON.stringify(request.prompt).length / 4);
    turn += 1;
    if (turn === 5) return { call: "read_file", input: { path: "facts/code.md" } };
    const search = Math.floor(iterations * 0.9);
    const input = { pattern: "The code word is", path: "tool-results" };
    if (turn === search) return { call: "grep_files", input };
    if (turn === search + 1) found = toolTexts(request).at(-1) ?? "";
    return turn >= iterations ? "All read." : { call: "read_page", input: { page: turn } };
  });
  const agent = new HarnessAgent({
    ...{ name: "reader", model, store, workspace, tools: [readPage], subagents: false },
    ...{ maxIters: iterations + 1, compaction: { window, triggerTokens: 6_000 } },
  });
  const { text, task } = await agent.call("Read everything.", { sessionId: "long" });
  expect(text).toBe("All read.");
  expect(found).toMatch(/^tool-results\/long\/read_file-[0-9a-f]+\.txt:\d+: .*heron/);
  expect(Math.max(...sizes)).toBeLessThan(window);
  const events = await compactions(store, task.taskId);
  expect(events.length).toBeGreaterThan(iterations / 20);
  const messages = await store.session("long");
  expect(blocksOf(messages)).toHaveLength(events.length);
  await expectLawful(store, task.taskId);
});
