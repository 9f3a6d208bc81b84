import { expect } from "vitest";
import { streamedText } from "../../../src/contract/item-content.ts";
import type { Store } from "../../../src/index.ts";
import { emptyTree, reduce } from "../../../src/protocol/reduce.ts";
import { checkStream, type LogEvent } from "../../../src/protocol.ts";
import { expectLawful, readLog } from "../../agent/support/laws.ts";

/** Checks the whole log against the rules and the laws, and returns the last child. */
export async function childOf(store: Store, rootTaskId: string) {
  const log = (await readLog(store, rootTaskId)) as readonly LogEvent[];
  expect(checkStream(log)).toEqual([]);
  await expectLawful(store, rootTaskId);
  expect(JSON.stringify(log)).not.toContain("s3cret");
  expect(JSON.stringify(await store.tasks({ rootTaskId }))).not.toContain("s3cret");
  const tasks = Object.values(reduce(emptyTree(), log).tasks);
  const child = tasks.findLast(({ agentId }) => agentId === "helper");
  if (child === undefined) throw new Error("There is no child.");
  const items = child.output.map((item) => {
    const text = item.type === "tool_call" ? `${item.name} ${item.arguments}` : streamedText(item);
    return `${item.type}: ${text}`.trimEnd();
  });
  return { log, child, items };
}
